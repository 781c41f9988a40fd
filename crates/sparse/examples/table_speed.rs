//! Prints rows a second that one core of a server applies and looks up: `cargo run --release -p wiresum-sparse --example
//! table_speed [million rows]`.
//!
//! Rows of 16 values with row-wise Adagrad, by range and by hashed ids. A round pushes 100,000 distinct rows at random.

#![allow(clippy::disallowed_methods, reason = "a program of its own, with a clock")]

use wiresum_netem::Rng;
use wiresum_sparse::optimizer::{Optimizer, RowWiseAdagrad};
use wiresum_sparse::sum::RowSums;
use wiresum_sparse::table::{Initial, RowIds, Shards, Table, TableId, TableSpec};

const DIM: usize = 16;
const PUSHED: usize = 100_000;
const ROUNDS: u32 = 40;

fn main() {
    let millions: u64 =
        std::env::args().nth(1).map_or(10, |text| text.parse().expect("millions of rows"));
    let rows = millions * 1_000_000;
    println!(
        "{:<8}{:>14}{:>14}{:>14}{:>20}",
        "ids", "sum M/s", "apply M/s", "look up M/s", "bytes / row / 68"
    );
    for (name, ids) in [("range", RowIds::Counted(rows)), ("hashed", RowIds::Hashed(rows))] {
        measure(name, ids, rows);
    }
}

fn measure(name: &str, ids: RowIds, rows: u64) {
    let spec = TableSpec {
        id: TableId(0),
        name: name.into(),
        rows: ids,
        dim: DIM as u16,
        optimizer: Optimizer::RowWiseAdagrad(RowWiseAdagrad { lr: 0.01, eps: 1e-8 }),
        initial: Initial::Normal(0.01),
        seed: 1,
        is_averaged: false,
        expire_after: None,
    };
    let part = Shards(1).part(&spec.rows, 0);
    let bytes = Table::bytes_for(&spec, &part) as f64 / rows as f64 / 68.0;
    let mut table = Table::new(spec, part).unwrap();
    let all: Vec<u64> = (0..rows).collect();
    all.chunks(PUSHED).for_each(|keys| {
        table.reserve(keys).unwrap();
        keys.iter().for_each(|key| table.step(1, *key, &[0.5; DIM]));
    });
    // The kernel counts by ticks: a mean over all rounds is right, the least of them is not.
    let (mut sum, mut apply, mut look_up) = (0.0, 0.0, 0.0);
    let mut rng = Rng::new(1);
    for round in 2..2 + ROUNDS {
        let mut keys: Vec<u64> = (0..PUSHED).map(|_| rng.below(rows)).collect();
        keys.sort_unstable();
        keys.dedup();
        // A worker sorts nothing: by hash the order is as good as none.
        keys.sort_unstable_by_key(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let values: Vec<f32> =
            (0..keys.len() * DIM).map(|_| rng.below(1000) as f32 / 1000.0).collect();
        let mut sums = RowSums::new(DIM);
        sum += seconds(|| {
            table.reserve(&keys).unwrap();
            sums.add(0, &keys, &values).unwrap();
        });
        apply += seconds(|| table.step_all(round, &sums, None));
        let mut weights = vec![0.0; keys.len() * DIM];
        look_up += seconds(|| table.read_all(&keys, round, &mut weights).unwrap());
    }
    let rate = |seconds: f64| f64::from(ROUNDS) * PUSHED as f64 / seconds / 1e6;
    println!(
        "{name:<8}{:>14.1}{:>14.1}{:>14.1}{bytes:>20.3}",
        rate(sum),
        rate(apply),
        rate(look_up)
    );
}

fn seconds(run: impl FnOnce()) -> f64 {
    let begun = on_core_ns();
    run();
    (on_core_ns() - begun) as f64 / 1e9
}

/// Nanoseconds that this thread was on a core: other programs on the machine do not count.
fn on_core_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts this");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it begins with a number")
}
