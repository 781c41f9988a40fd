//! Whole jobs in virtual time: loss, repetition, reordering, delay, late workers, maps that change in every period, servers
//! that are killed. A row after r rounds has the bits that one process with exact sums gives it, for any tiers and shards.

#[path = "../support/mod.rs"]
mod support;
mod world;

use wiresum_testkit::seeds::for_each_seed;
use world::{Faults, World};

const SEEDS: u64 = 300;

fn run(faults: Faults, first: u64) -> world::Seen {
    let mut seen = world::Seen::default();
    for_each_seed("-p wiresum-sparse --test cluster", first, SEEDS, |seed| {
        let mut world = World::new(seed, faults);
        world.run();
        seen.add(&world.seen);
    });
    seen
}

#[test]
fn rows_depend_on_the_gradients_alone() {
    let seen = run(Faults { loss: 0.0, kills: 0.0 }, 0);
    assert!(
        !seen.is_whole_run(SEEDS)
            || seen.changes > SEEDS && seen.pulled > 10 * SEEDS && seen.put > 2 * SEEDS,
        "{seen:?}"
    );
}

#[test]
fn rows_depend_on_the_gradients_alone_under_loss_repetition_and_reordering() {
    let seen = run(Faults { loss: 0.05, kills: 0.0 }, 10_000);
    assert!(!seen.is_whole_run(SEEDS) || seen.changes > SEEDS, "{seen:?}");
}

#[test]
fn rows_depend_on_the_gradients_alone_where_servers_are_killed() {
    let seen = run(Faults { loss: 0.02, kills: 0.002 }, 20_000);
    let enough = seen.kills > SEEDS && seen.restores > SEEDS / 4;
    assert!(!seen.is_whole_run(SEEDS) || enough, "{seen:?}");
}
