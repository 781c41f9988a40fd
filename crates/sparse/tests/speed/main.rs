//! How much of a link the protocol fills, where nothing but links takes time.

mod star;
#[path = "../../examples/support/zipf.rs"]
mod zipf;

use star::{Load, Star};

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
    println!("{:?}", Star::new(LOAD, 1).run());
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
    println!("{:?}", Star::new(load, 1).run());
}
