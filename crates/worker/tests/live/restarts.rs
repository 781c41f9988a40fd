//! Nodes that start again in mid-job with nothing in memory: no step is lost (`spec/switch.md`, "Nodes that forget").

use std::time::Duration;

use wiresum_protocol::plan::Policy;
use wiresum_protocol::rng::Rng;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_worker::Failure;

use crate::bed::{Bed, Ended};
use crate::plans::{Shape, plan};
use crate::{ALL, shapes, values};

/// Lengths of the collectives: the second one takes several windows.
const LENGTHS: [usize; 3] = [70, 64 * 2 * 30, 1];
/// Longer than all collectives take in virtual time, were every node gone for a while.
const DEADLINE: Duration = Duration::from_secs(60);
const NODES: u64 = 4;
const SERVER: u16 = 3;

/// A job that has joined, and has submitted all collectives.
fn running(policy: Policy, shape: Shape, loss: f64, seed: u64) -> Bed {
    let mut bed = Bed::new(&plan(policy, shape), loss, seed);
    bed.join_all();
    for (collective, len) in LENGTHS.into_iter().enumerate() {
        for rank in 0..bed.workers() {
            bed.submit(rank, values(rank, collective, len), DEADLINE);
        }
    }
    bed
}

/// Every rank has every sum; how many results were given back on the way.
fn assert_summed(mut bed: Bed, what: &str) -> u64 {
    bed.run(2 * DEADLINE);
    for (collective, len) in LENGTHS.into_iter().enumerate() {
        let all: Vec<_> = (0..bed.workers()).map(|rank| values(rank, collective, len)).collect();
        let sum = |i| all.iter().map(|values| values[i]).sum::<i32>();
        let expected: Vec<i32> = (0..len).map(sum).collect();
        for rank in 0..bed.workers() {
            let what = format!("{what}: rank {rank}, collective {collective}");
            match bed.ended(rank).get(collective) {
                Some(Ended::Sum(sums)) => assert!(*sums == expected, "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    bed.count("results_given_back")
}

/// Things that happen until all sums are there.
fn events(policy: Policy, shape: Shape) -> u64 {
    let mut bed = running(policy, shape, 0.0, 1);
    let is_open = |bed: &Bed| (0..bed.workers()).any(|rank| bed.ended(rank).len() < LENGTHS.len());
    let mut events = 0;
    while is_open(&bed) && bed.step() {
        events += 1;
    }
    events
}

/// Every node in turn, at points that lie close together.
#[test]
fn a_node_may_start_again_at_any_point() {
    for policy in ALL {
        for shape in shapes(policy) {
            let events = events(policy, shape);
            for (index, after) in (0..events).step_by(events as usize / POINTS).enumerate() {
                let node = (index as u64 % NODES) as u16;
                let mut bed = running(policy, shape, 0.0, 1);
                bed.steps(after);
                bed.restart(node);
                assert_summed(bed, &format!("{policy:?}, {shape:?}, node {node} after {after}"));
            }
        }
    }
}

/// Points of a job at which a node starts again: a few in each of its windows.
const POINTS: usize = 60;
/// Restarts of a random run.
const RESTARTS: u64 = 5;

#[test]
fn nodes_may_start_again_and_again_while_packets_are_lost() {
    let mut given_back = 0;
    for_each_seed("-p wiresum-worker while_packets_are_lost", 0, 10, |seed| {
        for policy in ALL {
            for shape in shapes(policy) {
                let mut rng = Rng::new(seed);
                let mut bed = running(policy, shape, 0.02, seed);
                for _ in 0..RESTARTS {
                    bed.steps(rng.below(2000));
                    bed.restart(rng.below(NODES) as u16);
                }
                let what = format!("{policy:?}, {shape:?}, seed {seed}");
                given_back += assert_summed(bed, &what);
            }
        }
    });
    assert!(given_back > 0, "no node lacked a result");
}

/// What only workers have that are gone is lost: the others name whom they wait for.
#[test]
fn a_result_that_left_with_its_workers_fails_the_round_by_name() {
    let mut named = 0;
    for_each_seed("-p wiresum-worker left_with_its_workers", 0, 20, |seed| {
        let mut bed = running(Policy::Hash, Shape::Tree, 0.2, seed);
        while bed.ended(0).len() < LENGTHS.len() && bed.step() {}
        let (done, others): (Vec<_>, Vec<_>) =
            (0..bed.workers()).partition(|rank| bed.ended(*rank).len() == LENGTHS.len());
        done.iter().for_each(|rank| bed.leave(*rank));
        bed.restart(SERVER);
        bed.run(2 * DEADLINE);
        for ended in others.iter().flat_map(|rank| bed.ended(*rank)) {
            match ended {
                Ended::Sum(_) => {}
                Ended::Failed(Failure::Missing { missing, .. }) => {
                    assert!(missing.contains(&"w0".to_owned()), "seed {seed}: {missing:?}");
                    named += 1;
                }
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    });
    assert!(named > 0, "nobody lacked what the first worker had");
}
