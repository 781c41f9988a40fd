//! Prints how much of what the truly most popular rows get the tracked hot set gets, while popularity drifts: `cargo run
//! --release -p wiresum-sparse --example tracking [rounds] [even | logarithmic]`.
//!
//! A million rows by Zipf's law with exponent 1.05, 16 workers of 4,000 lookups a round, 10,000 hot rows. In each round a
//! share of the first 20,000 ranks gets fresh rows: each rank is as likely as another, or each rank as likely as ten times
//! that rank and its neighbours (`logarithmic`, under which the first rank changes most often). Counts decay by 0.7 in ten
//! rounds. The mean is over the rounds after the first twenty.

#![allow(clippy::disallowed_methods, reason = "a program of its own, with an argument")]

#[path = "support/zipf.rs"]
mod zipf;

use std::collections::BTreeSet;

use wiresum_netem::Rng;
use wiresum_sparse::hot::RowId;
use wiresum_sparse::popularity::{Counting, Tracker, choose};
use wiresum_sparse::table::TableId;
use zipf::{Zipf, unit};

const ROWS: usize = 1_000_000;
const EXPONENT: f64 = 1.05;
const WORKERS: usize = 16;
const LOOKUPS: usize = 4_000;
const HOT: usize = 10_000;
const DRIFTING: usize = 20_000;
const DECAY_IN_TEN: f32 = 0.7;
const REACH: f64 = 1.3;
const LEAD_IN: usize = 20;

fn main() {
    let rounds =
        std::env::args().nth(1).map_or(120, |text| text.parse().expect("a number of rounds"));
    let is_even = std::env::args().nth(2).is_none_or(|text| text == "even");
    let zipf = Zipf::new(ROWS, EXPONENT);
    println!(
        "{:<10}{:>8}{:<28}{:>10}{:>12}{:>26}",
        "replaced", "period", "  counts", "coverage", "bytes", "exchanged in 10 rounds"
    );
    for replaced in [0.0, 0.0002, 0.002] {
        for period in [10, 2] {
            for (name, counting) in [
                ("  exact", Counting::Exact),
                ("  count-min 4 x 64k", Counting::CountMin { cells: 1 << 16, rows: 2 * HOT }),
                ("  space-saving 40k", Counting::SpaceSaving(4 * HOT)),
            ] {
                let seen = track(&zipf, (replaced, is_even), period, counting, rounds);
                println!(
                    "{:<10}{period:>8}{name:<28}{:>10.3}{:>12}{:>24.1} %",
                    format!("{} %", replaced * 100.0),
                    seen.coverage,
                    seen.bytes,
                    100.0 * seen.exchanged
                );
            }
        }
        let once = track_once(&zipf, (replaced, is_even), rounds);
        println!(
            "{:<10}{:>8}{:<28}{once:>10.3}",
            format!("{} %", replaced * 100.0),
            "once",
            "  exact, after 10 rounds"
        );
    }
}

/// Which row has which rank.
struct Drift {
    rows: Vec<u32>,
    ranks: Vec<u32>,
    rng: Rng,
    owed: f64,
}

impl Drift {
    fn new() -> Self {
        let rows: Vec<u32> = (0..ROWS as u32).collect();
        Self { ranks: rows.clone(), rows, rng: Rng::new(1), owed: 0.0 }
    }

    fn step(&mut self, (replaced, is_even): (f64, bool)) {
        self.owed += replaced * DRIFTING as f64;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            let place = unit(&mut self.rng);
            let logarithmic = (place * (DRIFTING as f64).ln()).exp() as usize;
            let rank = if is_even { (place * DRIFTING as f64) as usize } else { logarithmic - 1 };
            let rank = rank.min(DRIFTING - 1);
            let fresh = DRIFTING + (unit(&mut self.rng) * (ROWS - DRIFTING) as f64) as usize;
            self.rows.swap(rank, fresh);
            self.ranks[self.rows[rank] as usize] = rank as u32;
            self.ranks[self.rows[fresh] as usize] = fresh as u32;
        }
    }

    /// How many workers touch which row.
    fn round(&mut self, zipf: &Zipf) -> Vec<(RowId, u32)> {
        let mut touched = Vec::new();
        for _ in 0..WORKERS {
            let mut ranks: Vec<usize> = (0..LOOKUPS).map(|_| zipf.draw(&mut self.rng)).collect();
            ranks.sort_unstable();
            ranks.dedup();
            touched.extend(ranks.into_iter().map(|rank| self.rows[rank]));
        }
        touched.sort_unstable();
        let row = |row: u32| RowId { table: TableId(0), key: u64::from(row) };
        touched.chunk_by(|a, b| a == b).map(|same| (row(same[0]), same.len() as u32)).collect()
    }

    fn coverage(&self, zipf: &Zipf, hot: &BTreeSet<RowId>) -> f64 {
        let share = |row: &RowId| zipf.share(self.ranks[row.key as usize] as usize);
        hot.iter().map(share).sum::<f64>() / zipf.of_first(HOT)
    }
}

struct Seen {
    coverage: f64,
    bytes: usize,
    exchanged: f64,
}

fn track(
    zipf: &Zipf,
    drifting: (f64, bool),
    period: usize,
    counting: Counting,
    rounds: usize,
) -> Seen {
    let (mut drift, mut tracker) = (Drift::new(), Tracker::new(counting));
    let (mut hot, mut exchanged, mut coverage) = (BTreeSet::new(), 0, 0.0);
    for round in 0..rounds {
        drift.step(drifting);
        if round >= LEAD_IN {
            coverage += drift.coverage(zipf, &hot);
        }
        tracker.observe(&drift.round(zipf));
        if (round + 1) % period == 0 {
            let ranking: Vec<RowId> =
                tracker.candidates(2 * HOT).into_iter().map(|(row, _)| row).collect();
            let next: BTreeSet<RowId> = choose(&hot, &ranking, HOT, REACH).into_iter().collect();
            if round >= LEAD_IN {
                exchanged += next.difference(&hot).count();
            }
            hot = next;
            tracker.decay(DECAY_IN_TEN.powf(period as f32 / 10.0));
        }
    }
    let measured = (rounds - LEAD_IN) as f64;
    let exchanged = exchanged as f64 / HOT as f64 / measured * 10.0;
    Seen { coverage: coverage / measured, bytes: tracker.bytes(), exchanged }
}

/// The paper's method: the hot rows are those of the first ten rounds, for ever.
fn track_once(zipf: &Zipf, drifting: (f64, bool), rounds: usize) -> f64 {
    let (mut drift, mut tracker) = (Drift::new(), Tracker::new(Counting::Exact));
    let (mut hot, mut coverage) = (BTreeSet::new(), 0.0);
    for round in 0..rounds {
        drift.step(drifting);
        if round < 10 {
            tracker.observe(&drift.round(zipf));
            hot = tracker.candidates(HOT).into_iter().map(|(row, _)| row).collect();
        }
        if round >= LEAD_IN {
            coverage += drift.coverage(zipf, &hot);
        }
    }
    coverage / (rounds - LEAD_IN) as f64
}
