//! How much of a link the protocol fills, where nothing but links takes time: the network is virtual, and runs are repeatable.

mod star;
#[path = "../../examples/support/zipf.rs"]
mod zipf;

use star::{Load, Report, Star};

/// A worker's clicks on a tenth of Criteo's tables, on a scale of one to eight.
const LOAD: Load = Load {
    workers: 8,
    servers: 1,
    rate_bps: 100e6,
    loss: 0.0,
    lookups: 13_000,
    rows: 340_000,
    tables: 6,
    replicated: 4_000,
    summed: 30_000,
    rounds: 3,
};

#[test]
fn eight_workers_fill_the_fullest_link() {
    fills(LOAD, 0.94);
}

#[test]
fn thirty_two_workers_fill_the_fullest_link() {
    let load = Load {
        workers: 32,
        rate_bps: 20e6,
        replicated: 8_000,
        summed: 60_000,
        lookups: 6_000,
        ..LOAD
    };
    fills(load, 0.9);
}

/// Messages that a job without loss may send twice, of 40,000 and more: a probe where a queue has grown within a round
/// trip.
const FEW: u64 = 100;

/// A round takes no longer than its bytes on the fullest direction of a link do, over `share`.
fn fills(load: Load, share: f64) {
    let report = Star::new(load, SEED).run();
    let Report { seconds, needed, updates_per_second, repeated, fullest, datagrams, .. } = report;
    let part = needed / seconds;
    println!(
        "{updates_per_second:.0} updates/s, {part:.3} of {fullest:?}, {repeated} messages again, {datagrams} datagrams a round"
    );
    assert!(part >= share && repeated <= FEW, "{report:?}");
}

/// Runs whose middle one counts: a packet that is lost takes many others another way.
const RUNS: u64 = 3;
const SEED: u64 = 1;

#[test]
fn a_packet_lost_in_a_thousand_costs_little() {
    let clear = seconds(0.0);
    let (few, many) = (seconds(0.001), seconds(0.01));
    println!("{clear:.3} s a round, {few:.3} with 1 loss in 1000, {many:.3} with 1 in 100");
    assert!(few <= 1.07 * clear && many <= 1.25 * clear);
}

/// Median of a round's time where so many packets are lost on each link.
fn seconds(loss: f64) -> f64 {
    let load = Load { loss, rounds: 10, ..LOAD };
    let mut all: Vec<f64> =
        (SEED..SEED + RUNS).map(|seed| Star::new(load, seed).run().seconds).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Datagrams of a round are mostly rows: one in eight and fewer only acknowledges.
#[test]
fn few_datagrams_only_acknowledge() {
    let report = Star::new(LOAD, SEED).run();
    let Report { datagrams, acknowledgements, .. } = report;
    println!("{acknowledgements} of {datagrams} datagrams acknowledge");
    assert!(8 * acknowledgements <= datagrams, "{report:?}");
}
