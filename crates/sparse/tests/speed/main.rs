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

/// Messages that a job without loss may send twice, of about 20,000: queues of the first round are longer than the first
/// timeout now and then.
const FEW: u64 = 10;

/// A round takes no longer than its bytes on the fullest direction of a link do, over `share`.
fn fills(load: Load, share: f64) {
    let report = Star::new(load, 1).run();
    let Report { seconds, needed, updates_per_second, repeated, fullest } = report;
    let part = needed / seconds;
    println!(
        "{updates_per_second:.0} updates/s, {part:.3} of {fullest:?}, {repeated} messages again"
    );
    assert!(part >= share && repeated <= FEW, "{report:?}");
}
