//! How many rows a second one core of a server of tables sums, changes and looks up.
//!
//! *Method.* A table of 16 values a row with row-wise Adagrad, all rows of which have been changed before: by range, and by hashed
//! ids. Each round pushes distinct rows at random, in no order, so nearly every row is a miss of every cache. A step is timed by
//! the time that the thread was on a core.

use std::fs;

use wiresum_protocol::rng::Rng;
use wiresum_sparse::optimizer::{Optimizer, RowWiseAdagrad};
use wiresum_sparse::sum::RowSums;
use wiresum_sparse::table::{Initial, RowIds, Shards, Table, TableId, TableSpec, ValueType};

/// Values of a row.
pub const DIM: usize = 16;
/// Bytes of a row and its state, with nothing to find it by.
const ROW_LEN: usize = 4 * (DIM + 1);
/// Rows that are changed at once while the table is filled.
const FILLED: usize = 100_000;
/// Odd, so that a product with it is an order that has nothing of the keys'.
const SHUFFLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Rows of the table.
    pub rows: u64,
    /// Rows of a round, or some fewer, as they are distinct.
    pub pushed: usize,
    /// Rounds of a run.
    pub rounds: u32,
    /// Runs; their spread is the noise.
    pub runs: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { rows: 10_000_000, pushed: 100_000, rounds: 8, runs: 5 }
    }
}

/// What a server does with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes room for rows, and adds a worker's gradients to their sums.
    Sum,
    /// Changes rows by their sums.
    Apply,
    /// Reads weights.
    LookUp,
}

impl Step {
    /// Every step, in the order of a round.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Apply, Self::LookUp];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Apply => "apply",
            Self::LookUp => "look up",
        }
    }
}

/// What was measured of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// "range" or "hashed".
    pub ids: &'static str,
    /// The step.
    pub step: Step,
    /// Bytes of the table, over those of its rows and their state.
    pub memory: f64,
    /// Rows a second, by run.
    pub rows_per_second: Vec<f64>,
}

/// Measures both kinds of tables.
///
/// # Panics
/// If there is not enough memory, or the kernel does not say how long a thread ran.
#[must_use]
pub fn measure(parameters: &Parameters) -> Vec<Measurement> {
    let rows = parameters.rows;
    let kinds = [("range", RowIds::Counted(rows)), ("hashed", RowIds::Hashed(rows))];
    kinds.into_iter().flat_map(|(name, ids)| measure_ids(parameters, name, ids)).collect()
}

fn measure_ids(parameters: &Parameters, ids: &'static str, rows: RowIds) -> Vec<Measurement> {
    let (mut table, memory) = filled(rows, parameters.rows);
    let nothing = |step| Measurement { ids, step, memory, rows_per_second: Vec::new() };
    let mut measurements = Step::ALL.map(nothing);
    let (mut rng, mut round) = (Rng::new(1), 1);
    for _ in 0..parameters.runs {
        let (mut seconds, mut count) = ([0.0; 3], 0);
        for _ in 0..parameters.rounds {
            round += 1;
            let keys = draw(&mut rng, parameters);
            count += keys.len();
            let taken = one_round(&mut table, round, &keys, &mut rng);
            seconds.iter_mut().zip(taken).for_each(|(sum, seconds)| *sum += seconds);
        }
        for (measurement, seconds) in measurements.iter_mut().zip(seconds) {
            measurement.rows_per_second.push(count as f64 / seconds);
        }
    }
    measurements.into()
}

/// A table of which every row has been changed, and its memory over that of the rows.
fn filled(rows: RowIds, count: u64) -> (Table, f64) {
    let spec = TableSpec {
        id: TableId(0),
        name: "benchmark".to_owned(),
        rows,
        dim: DIM as u16,
        value: ValueType::default(),
        optimizer: Optimizer::RowWiseAdagrad(RowWiseAdagrad { lr: 0.01, eps: 1e-8 }),
        initial: Initial::Normal(0.01),
        seed: 1,
        is_averaged: false,
        steps_before: 0,
        expire_after: None,
    };
    let part = Shards(1).part(&spec.rows, 0);
    let memory = Table::bytes_for(&spec, &part) as f64 / (count as f64 * ROW_LEN as f64);
    let mut table = Table::new(spec, part).expect("a sound table");
    let all: Vec<u64> = (0..count).collect();
    for keys in all.chunks(FILLED) {
        table.reserve(keys).expect("room for every row");
        keys.iter().for_each(|key| table.step(1, *key, &[0.5; DIM]));
    }
    (table, memory)
}

/// Distinct rows in no order: a worker sorts nothing.
fn draw(rng: &mut Rng, parameters: &Parameters) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..parameters.pushed).map(|_| rng.below(parameters.rows)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.sort_unstable_by_key(|key| key.wrapping_mul(SHUFFLE));
    keys
}

/// Seconds of each step.
fn one_round(table: &mut Table, round: u32, keys: &[u64], rng: &mut Rng) -> [f64; 3] {
    let values: Vec<f32> = (0..keys.len() * DIM).map(|_| rng.below(1000) as f32 / 1000.0).collect();
    let mut sums = RowSums::new(DIM);
    let mut weights = vec![0.0; values.len()];
    [
        seconds(|| {
            table.reserve(keys).expect("room for every row");
            sums.add(0, keys, &values).expect("each row once");
        }),
        seconds(|| table.step_all(round, &sums, None)),
        seconds(|| table.read_all(keys, round, &mut weights).expect("rows of the table")),
    ]
}

fn seconds(run: impl FnOnce()) -> f64 {
    let begun = on_core_ns();
    run();
    (on_core_ns() - begun) as f64 / 1e9
}

/// Nanoseconds that this thread was on a core: other programs on the machine do not count.
fn on_core_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts this");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it begins with a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_both_kinds_is_measured() {
        let parameters = Parameters { rows: 1000, pushed: 100, rounds: 2, runs: 3 };
        let measured = measure(&parameters);
        assert_eq!(measured.len(), 6);
        for m in &measured {
            assert_eq!(m.rows_per_second.len(), 3);
            assert!(m.rows_per_second.iter().all(|rate| *rate > 0.0), "{m:?}");
            assert!((1.0..1.5).contains(&m.memory), "{m:?}");
        }
    }
}
