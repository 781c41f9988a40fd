//! How many pairs a second each way of packing puts into packets for a switch with registers, and what its packets cost there.
//!
//! *Method.* Pushes of distinct hot rows, drawn by popularity: row r is touched with a probability in proportion to 1/(r + 1),
//! as under Zipf's law. Registers have rows by heat, or at random. A run packs all pushes; a figure is that of one core.

use std::collections::BTreeSet;
use std::time::Instant;

use wiresum_protocol::rng::Rng;
use wiresum_sparse::layout::{Layout, LayoutError, PACKAGINGS, Packaging};

/// Rows of the hot map.
const ROWS: u32 = 30_000;
/// Distinct rows of a push.
const PUSHED: usize = 1_500;
/// Registers of the switch.
const REGISTERS: u32 = 4_096;
/// Pairs of a full packet.
const PAIRS: u32 = 32;
/// Pushes that a run packs.
const PUSHES: usize = 200;

/// What was measured of one way of packing.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// `heat` or `random`.
    pub layout: &'static str,
    /// The way.
    pub packaging: Packaging,
    /// Pairs a second, by run.
    pub pairs_per_second: Vec<f64>,
    /// Recirculations of a mean packet, where a pass takes one pair of each register.
    pub recirculations: f64,
    /// Packets over the fewest that hold all pairs.
    pub packets: f64,
}

/// Packs the same pushes in every way, run by run.
///
/// # Panics
/// If no layout has these sizes, which is a bug.
#[must_use]
pub fn measure(runs: usize) -> Vec<Measurement> {
    let pushes = pushes();
    let layouts: Result<Vec<(&str, Layout)>, LayoutError> = [
        Layout::at_random(REGISTERS, ROWS, 1).map(|layout| ("random", layout)),
        Layout::by_heat(REGISTERS).map(|layout| ("heat", layout)),
    ]
    .into_iter()
    .collect();
    let layouts = layouts.expect("there are registers");
    let every = layouts.iter().flat_map(|named| PACKAGINGS.map(|packaging| (named, packaging)));
    every
        .map(|((name, layout), packaging)| of_way(name, layout, packaging, &pushes, runs))
        .collect()
}

fn of_way(
    name: &'static str,
    layout: &Layout,
    packaging: Packaging,
    pushes: &[Vec<u32>],
    runs: usize,
) -> Measurement {
    let pack = |push: &Vec<u32>| packaging.pack(push, layout, PAIRS).expect("pairs fit a packet");
    let pairs: usize = pushes.iter().map(Vec::len).sum();
    let timed = |_| {
        let start = Instant::now();
        pushes.iter().for_each(|push| drop(std::hint::black_box(pack(push))));
        pairs as f64 / start.elapsed().as_secs_f64()
    };
    let packed: Vec<_> = pushes.iter().map(pack).collect();
    let packets: usize = packed.iter().map(wiresum_sparse::layout::Packets::len).sum();
    let passed: u32 = packed.iter().flat_map(|push| push.recirculations(layout)).sum();
    let fewest: usize = pushes.iter().map(|push| push.len().div_ceil(PAIRS as usize)).sum();
    Measurement {
        layout: name,
        packaging,
        pairs_per_second: (0..runs).map(timed).collect(),
        recirculations: f64::from(passed) / packets as f64,
        packets: packets as f64 / fewest as f64,
    }
}

/// Rows of each push, in the order in which they were drawn.
fn pushes() -> Vec<Vec<u32>> {
    let mut rng = Rng::new(1);
    let draw = |rng: &mut Rng| {
        // The inverse of the distribution of 1/(r + 1), within a rank.
        let uniform = rng.below(1 << 32) as f64 / 2f64.powi(32);
        (f64::from(ROWS).powf(uniform) as u32 - 1).min(ROWS - 1)
    };
    let push = |_| {
        let (mut seen, mut rows) = (BTreeSet::new(), Vec::new());
        while rows.len() < PUSHED {
            let row = draw(&mut rng);
            if seen.insert(row) {
                rows.push(row);
            }
        }
        rows
    };
    (0..PUSHES).map(push).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealing_takes_no_second_pass_and_the_fewest_packets() {
        let measured = measure(1);
        assert_eq!(measured.len(), 2 * PACKAGINGS.len());
        for one in measured.iter().filter(|one| one.packaging == Packaging::Dealing) {
            assert_eq!(one.recirculations, 0.0, "{}", one.layout);
            assert!(one.packets <= 1.05, "{}: {}", one.layout, one.packets);
        }
        let arrival = measured.iter().find(|one| one.packaging == Packaging::Arrival);
        assert!(arrival.expect("all ways").recirculations > 0.05);
    }
}
