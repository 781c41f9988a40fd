//! Keys of values are renewed every 2³⁰ positions and from time to time: no round is lost, and every node on the ways
//! learns which keys count.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_protocol::association::{GENERATION_SHIFT, RENEWAL_INTERVAL};
use wiresum_protocol::plan::Policy;
use wiresum_protocol::rng::Rng;
use wiresum_protocol::{Association, Time};
use wiresum_switch::wire;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{FragmentId, JobKey};

use crate::bed::Bed;
use crate::plans::{Shape, plan};
use crate::{ALL, assert_sums, shapes, sum_all, values};

/// Positions after which something changes: a generation begins, or its second half, in which the one before is over.
const HALF: u64 = 1 << (GENERATION_SHIFT - 1);
/// Positions of a job that come before the change, one for each collective at least, and after it.
const BEFORE: usize = 20;
const LENGTHS: [usize; 2 * BEFORE] = [64 * 4; 2 * BEFORE];
const NODES: u16 = 4;

fn starting_before(change: u64, policy: Policy, shape: Shape, loss: f64, seed: u64) -> Bed {
    let first = FragmentId((change - BEFORE as u64) as u32);
    let mut bed = Bed::starting_at(&plan(policy, shape), loss, seed, first);
    bed.join_all();
    bed
}

/// The keys that nodes take at the end of a job that began before a change.
fn keys_after(bed: &Bed, change: u64) -> BTreeSet<JobKey> {
    let mut association = Association::starting_at(bed.plan(), 1, FragmentId((change - 1) as u32));
    association.reach(bed.plan(), FragmentId((change + BEFORE as u64 - 1) as u32));
    association.keys().into_iter().flatten().collect()
}

fn assert_told(bed: &Bed, change: u64) {
    let known = |node: u16| bed.station(node).known().flat_map(|(_, keys)| keys);
    // Some shapes have nodes that are on no worker's way.
    let serving: Vec<u16> = (0..NODES).filter(|node| known(*node).next().is_some()).collect();
    assert!(!serving.is_empty());
    for node in serving {
        let keys: BTreeSet<JobKey> = known(node).collect();
        assert_eq!(keys, keys_after(bed, change), "node {node} at {change}");
    }
}

#[test]
fn no_round_is_lost_where_keys_change() {
    for policy in ALL {
        for shape in shapes(policy) {
            for change in (1..=8).map(|half| half * HALF) {
                let bed = starting_before(change, policy, shape, 0.03, change);
                let mut bed = sum_all(bed, &LENGTHS);
                bed.run(Duration::from_secs(1));
                assert_told(&bed, change);
            }
        }
    }
}

/// Values that are sent in a job from a position on.
fn recorded(policy: Policy, first: FragmentId) -> BTreeSet<(SocketAddr, SocketAddr, Vec<u8>)> {
    let mut bed = Bed::starting_at(&plan(policy, Shape::Tree), 0.0, 1, first);
    bed.join_all();
    for (collective, len) in LENGTHS.into_iter().enumerate() {
        for rank in 0..bed.workers() {
            bed.submit(rank, values(rank, collective, len), Duration::from_secs(60));
        }
    }
    let mut frames = BTreeSet::new();
    let is_open = |bed: &Bed| (0..bed.workers()).any(|rank| bed.ended(rank).len() < LENGTHS.len());
    while is_open(&bed) {
        assert!(bed.step());
        frames.extend(bed.under_way().filter(|(_, _, frame)| wire::read(frame).is_ok()));
    }
    frames
}

#[test]
fn values_of_positions_long_past_change_no_sum() {
    // Longer than any slot, so that none is empty when the recording comes, whose values are others.
    let lengths = [vec![64 * 200], LENGTHS.iter().map(|len| len - 1).collect()].concat();
    for policy in ALL {
        let frames = recorded(policy, FragmentId(0));
        // To slots, what is 2³¹ positions old is new, and remains so for 2³¹ more.
        for lag in [1 << 30, (1 << 31) + 1, 3 << 30] {
            let first = FragmentId(lag).plus(200u32.wrapping_neg());
            let mut bed = Bed::starting_at(&plan(policy, Shape::Tree), 0.0, 1, first);
            bed.join_all();
            for (collective, &len) in lengths.iter().enumerate() {
                for (from, to, frame) in &frames {
                    bed.inject(*from, *to, frame);
                }
                for rank in 0..bed.workers() {
                    bed.submit(rank, values(rank, collective, len), Duration::from_secs(60));
                }
                bed.run(Duration::from_secs(10));
            }
            assert_sums(&bed, &lengths);
        }
    }
}

/// What stations know of keys.
fn known_keys(bed: &Bed) -> BTreeSet<Vec<JobKey>> {
    let known = (0..NODES).flat_map(|node| bed.station(node).known());
    known.map(|(_, keys)| keys).filter(|keys| !keys.is_empty()).collect()
}

#[test]
fn no_round_is_lost_where_keys_are_renewed_by_time() {
    for policy in ALL {
        for shape in shapes(policy) {
            let mut bed = Bed::starting_at(&plan(policy, shape), 0.03, 1, FragmentId(0));
            bed.join_all();
            let (mut sums, mut past) = (Vec::new(), BTreeSet::new());
            for renewal in 1..=3 {
                // Rounds are under way when the time comes; at the second one a node begins again.
                let due = Time(0).plus(RENEWAL_INTERVAL * renewal);
                bed.run(due.since(bed.now()) - Duration::from_millis(2));
                for len in LENGTHS {
                    for rank in 0..bed.workers() {
                        bed.submit(rank, values(rank, sums.len(), len), Duration::from_secs(60));
                    }
                    sums.push(len);
                }
                if renewal == 2 {
                    bed.steps(500);
                    bed.restart(1);
                }
                bed.run(RENEWAL_INTERVAL / 2);
                assert_sums(&bed, &sums);
                let known = known_keys(&bed);
                // Who has begun again learns of a stream when results of it are missing.
                assert!(known.len() == 1 || renewal == 2, "all nodes know the same");
                assert!(past.is_disjoint(&known), "which is new");
                past.extend(known);
            }
        }
    }
}

#[test]
fn nodes_that_start_again_learn_the_keys() {
    for_each_seed("-p wiresum-worker start_again_learn_the_keys", 0, 10, |seed| {
        for policy in ALL {
            for shape in shapes(policy) {
                let mut rng = Rng::new(seed);
                let change = (1 + rng.below(8)) * HALF;
                let mut bed = starting_before(change, policy, shape, 0.01, seed);
                for (collective, len) in LENGTHS.into_iter().enumerate() {
                    for rank in 0..bed.workers() {
                        bed.submit(rank, values(rank, collective, len), Duration::from_secs(60));
                    }
                }
                for _ in 0..3 {
                    bed.steps(rng.below(1000));
                    bed.restart(rng.below(NODES.into()) as u16);
                }
                bed.run(Duration::from_secs(120));
                assert_sums(&bed, &LENGTHS);
            }
        }
    });
}
