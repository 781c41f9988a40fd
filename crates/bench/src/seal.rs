//! What sealing a packet costs a rank on one core, beside encoding it.

use std::hint::black_box;
use std::time::Duration;

use wiresum_codec::{Codec, Format};
use wiresum_seal::{Counts, Fragment, SEAL_LEN, Seal};
use wiresum_wire::{LaneType, PAGE_PAYLOAD};

/// Packets that one run goes through, so that it takes much longer than reading the clock.
const PACKETS: u32 = 4096;
/// Ranks of the round; the cost does not depend on it.
const RANKS: u32 = 4;

/// The speed of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// `seal`, `open`, or what a rank does anyway: `encode`.
    pub step: &'static str,
    /// Type of the lanes.
    pub lanes: LaneType,
    /// Bytes of values in a packet.
    pub bytes: usize,
    /// Nanoseconds for each packet, by run, ascending.
    pub nanoseconds: Vec<f64>,
}

/// Measures packets with so many bytes of values, `runs` times each step, turn by turn.
///
/// `clock` tells the time since any moment.
///
/// # Panics
/// If the values are no whole number of blocks, or do not fit a packet with their seal.
#[must_use]
pub fn run(
    lanes: LaneType,
    bytes: usize,
    runs: usize,
    clock: &dyn Fn() -> Duration,
) -> Vec<Measurement> {
    assert!(bytes + SEAL_LEN <= PAGE_PAYLOAD, "{bytes} bytes of values and a seal do not fit");
    let values: Vec<f32> = (0..bytes / lanes.width()).map(|i| (i as f32).sin()).collect();
    let format = Format::new(Codec::BLOCK, lanes, RANKS).expect("few ranks fit all lanes");
    let mut seal = Seal::new([7; 16], 1, RANKS, lanes);
    let mut payload = vec![0; bytes + SEAL_LEN];
    let counts = Counts { took_part: 1, stood: 1, ..Counts::default() };
    let mut step = |step: usize, index: u32| {
        let fragment = Fragment { index, exponent: 0 };
        match step {
            0 => _ = black_box(format.encode(&values, 0, &mut payload[..bytes])),
            1 => _ = black_box(seal.seal(fragment, counts, &mut payload)),
            _ => _ = black_box(seal.open(fragment, &mut payload)),
        }
    };
    let mut nanoseconds = [const { Vec::new() }; 3];
    for _ in 0..runs {
        for (number, runs) in nanoseconds.iter_mut().enumerate() {
            let start = clock();
            (0..PACKETS).for_each(|index| step(number, index));
            runs.push((clock() - start).as_nanos() as f64 / f64::from(PACKETS));
        }
    }
    let measured = ["encode", "seal", "open"].into_iter().zip(nanoseconds);
    let sorted = |(step, mut nanoseconds): (&'static str, Vec<f64>)| {
        nanoseconds.sort_by(f64::total_cmp);
        Measurement { step, lanes, bytes, nanoseconds }
    };
    measured.map(sorted).collect()
}
