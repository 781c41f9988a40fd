//! The engine in user space: a packet's form, its rows, and their sums.

use std::time::Instant;

use half::{bf16, f16};
use wiresum_sparse::sum::RowSums;
use wiresum_wire::{RowPacket, RowValue};

use super::Shape;

/// Mean nanoseconds for a packet of rows that are not int32: every worker's, round after round.
///
/// # Panics
/// If a packet cannot be summed, which is a bug.
pub fn run(shape: &Shape, datagram: &[u8], packets: u32) -> f64 {
    let dim = usize::from(shape.dim);
    let mut sums = RowSums::new(dim);
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let mut next = 0;
    for _ in 0..packets {
        let (number, worker) = (next / u32::from(shape.workers), next % u32::from(shape.workers));
        let packet = RowPacket::parse(datagram).expect("a packet of the benchmark");
        keys.clear();
        keys.extend(packet.positions().map(|position| u64::from(position + number * shape.step())));
        values.clear();
        values.extend(packet.values().iter().map(|value| value.get()));
        let narrow = packet.narrow_values().iter().map(|bits| bits.get());
        if packet.value() == RowValue::Bfloat16 {
            values.extend(narrow.map(|bits| bf16::from_bits(bits).to_f32()));
        } else {
            values.extend(narrow.map(|bits| f16::from_bits(bits).to_f32()));
        }
        sums.add(worker, &keys, &values).expect("each row once from each worker");
        next += 1;
        if next == shape.packets() * u32::from(shape.workers) {
            next = 0;
            sums.clear();
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(packets)
}
