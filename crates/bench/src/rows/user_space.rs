//! The engine in user space: a packet's form, its rows, and their sums.

use std::time::Instant;

use wiresum_sparse::sum::RowSums;
use wiresum_wire::RowPacket;

use super::Shape;

/// Mean nanoseconds for a packet of float32 rows: every worker's, round after round.
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
        sums.add(worker, &keys, &values).expect("each row once from each worker");
        next += 1;
        if next == shape.packets() * u32::from(shape.workers) {
            next = 0;
            sums.clear();
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(packets)
}
