//! Prints what each layout and packaging costs, and pairs a second on one core: `cargo run --release -p wiresum-sparse
//! --example packaging_speed [registers] [pairs] [exponent]`.
//!
//! Pushes are of distinct positions, drawn from 30,000 with the popularity of Zipf's law.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, with a clock"
)]

#[path = "support/zipf.rs"]
mod zipf;

use std::hint::black_box;
use std::time::Instant;

use wiresum_netem::Rng;
use wiresum_sparse::layout::{Layout, PACKAGINGS, Pushes, compare};
use zipf::Zipf;

const ROWS: u32 = 30_000;
const PUSHES: usize = 20;
const DRAWS: usize = 10_000;
const RUNS: usize = 9;

fn main() {
    let registers = argument(1, 64.0) as u32;
    let pairs = argument(2, 8.0) as u32;
    let exponent = argument(3, 1.0);
    let (mut rng, zipf) = (Rng::new(1), Zipf::new(ROWS as usize, exponent));
    let pushes: Vec<Vec<u32>> = (0..PUSHES).map(|_| push(&mut rng, &zipf)).collect();
    let pushed: usize = pushes.iter().map(Vec::len).sum();
    println!("{PUSHES} pushes of {} positions on average", pushed / PUSHES);
    println!(
        "{:<8}{:<13}{:>10}{:>10}{:>10}{:>6}{:>12}",
        "layout", "packaging", "packets", "one pair", "registers", "most", "M pairs/s"
    );
    let all = Pushes { rows: ROWS, positions: &pushes };
    for (number, row) in compare(all, registers, pairs, 1).unwrap().into_iter().enumerate() {
        let layout = match row.layout {
            "heat" => Layout::by_heat(registers),
            _ => Layout::at_random(registers, ROWS, 1),
        };
        let packaging = PACKAGINGS[number % PACKAGINGS.len()];
        let seconds = fastest(|| {
            for push in &pushes {
                black_box(packaging.pack(push, layout.as_ref().unwrap(), pairs).unwrap());
            }
        });
        println!(
            "{:<8}{:<13}{:>10.3}{:>10.3}{:>10.3}{:>6}{:>12.1}",
            row.layout,
            row.packaging,
            row.packets as f64 / row.full_packets as f64,
            row.one_pair_a_pass,
            row.multiplicity,
            row.most,
            pushed as f64 / seconds / 1e6
        );
    }
    println!(
        "packets: as many times ⌈n/P⌉; recirculations a packet, by one pair and by one pair of each register a pass"
    );
}

fn argument(number: usize, usual: f64) -> f64 {
    std::env::args().nth(number).map_or(usual, |text| text.parse().expect("a number"))
}

/// The distinct positions among some draws, in the order in which they come.
fn push(rng: &mut Rng, zipf: &Zipf) -> Vec<u32> {
    let mut seen = vec![false; ROWS as usize];
    let drawn = (0..DRAWS).map(|_| zipf.draw(rng));
    let fresh = drawn.filter(|rank| !std::mem::replace(&mut seen[*rank], true));
    fresh.map(|rank| rank as u32).collect()
}

/// Seconds of the fastest of some runs: other programs can only make them slower.
fn fastest(mut run: impl FnMut()) -> f64 {
    let measure = |_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    };
    (0..RUNS).map(measure).fold(f64::INFINITY, f64::min)
}
