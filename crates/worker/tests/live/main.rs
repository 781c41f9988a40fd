//! A plan's fabric in virtual time: sessions and stations, datagrams over links that lose, and nodes that are gone.

mod agreement;
mod bed;
mod crowds;
mod failures;
mod gates;
mod plans;
mod renewal;
mod restarts;
mod schedules;
mod seals;
mod seam;
mod strangers;

use std::time::Duration;

use bed::{Bed, Ended};
use plans::{Shape, plan};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::Policy;
use wiresum_worker::Failure;

const ALL: [Policy; 7] = [
    Policy::Pool,
    Policy::Hash,
    Policy::Preempt,
    Policy::Exclusive,
    Policy::Register,
    Policy::Segment,
    Policy::Cache,
];

fn shapes(policy: Policy) -> Vec<Shape> {
    let is_layered = policy != Policy::Segment;
    if is_layered {
        vec![Shape::Star, Shape::Tree, Shape::Triangle]
    } else {
        vec![Shape::Star, Shape::Tree]
    }
}

fn values(rank: usize, collective: usize, len: usize) -> Vec<i32> {
    let value = |i: usize| (rank * 1_000 + collective * 100_000 + i * 7) as i32 - 3;
    (0..len).map(value).collect()
}

/// Submits collectives of these lengths at every rank, and checks every sum.
fn sum_all(mut bed: Bed, lengths: &[usize]) -> Bed {
    let ranks = bed.workers();
    for (collective, &len) in lengths.iter().enumerate() {
        for rank in 0..ranks {
            bed.submit(rank, values(rank, collective, len), Duration::from_secs(60));
        }
    }
    bed.run(Duration::from_secs(120));
    assert_sums(&bed, lengths);
    bed
}

/// Collectives of these lengths have ended at every rank, in the sums of all `values`.
fn assert_sums(bed: &Bed, lengths: &[usize]) {
    let ranks = bed.workers();
    for (collective, &len) in lengths.iter().enumerate() {
        let all: Vec<_> = (0..ranks).map(|rank| values(rank, collective, len)).collect();
        let sum = |i| all.iter().map(|values| values[i]).sum::<i32>();
        let expected: Vec<i32> = (0..len).map(sum).collect();
        for rank in 0..ranks {
            match &bed.ended(rank)[collective] {
                Ended::Sum(sum) => {
                    assert_eq!(*sum, expected, "rank {rank}, collective {collective}")
                }
                Ended::Failed(failure) => panic!("rank {rank}: {failure}"),
            }
        }
    }
}

#[test]
fn every_policy_sums_exactly_on_every_shape() {
    for policy in ALL {
        for shape in shapes(policy) {
            for loss in [0.0, 0.03] {
                let mut bed = Bed::new(&plan(policy, shape), loss, 7);
                bed.join_all();
                sum_all(bed, &[1, 1000, 64 * 40, 5]);
            }
        }
    }
}

#[test]
fn a_second_incarnation_begins_anew() {
    let plan = plan(Policy::Exclusive, Shape::Triangle);
    let mut bed = Bed::new(&plan, 0.0, 3);
    bed.join_all();
    let mut bed = sum_all(bed, &[1000]);
    bed.restart_workers();
    bed.join_all();
    sum_all(bed, &[2000, 10]);
}

#[test]
fn a_dead_node_is_named_by_those_who_need_it() {
    // Node 0 sums w0 and w1, node 1 the others; node 3 is the server.
    for (dead, needed_by) in [(0, vec![0, 1]), (3, vec![0, 1, 2, 3])] {
        let mut bed = Bed::new(&plan(Policy::Hash, Shape::Tree), 0.0, 1);
        bed.join_all();
        bed.kill(dead);
        for rank in 0..bed.workers() {
            bed.submit(rank, values(rank, 0, 500), Duration::from_secs(4));
        }
        bed.run(Duration::from_secs(20));
        for rank in 0..bed.workers() {
            match &bed.ended(rank)[0] {
                Ended::Failed(Failure::Silent { node, .. }) => assert_eq!(node.0, dead),
                Ended::Failed(Failure::Missing { missing, .. }) if !needed_by.contains(&rank) => {
                    assert_eq!(missing, &["w0", "w1"]);
                }
                other => panic!("node {dead} is dead, rank {rank} says {other:?}"),
            }
        }
    }
}

#[test]
fn joining_without_a_node_names_it_and_without_a_worker_too() {
    let mut bed = Bed::new(&plan(Policy::Exclusive, Shape::Triangle), 0.0, 1);
    bed.kill(2);
    bed.join(0, Duration::from_secs(3));
    bed.run(Duration::from_secs(5));
    let failure = bed.join_failure(0).expect("a node is dead");
    assert!(matches!(failure, Failure::NotWelcomed { node, .. } if node.0 == 2), "{failure:?}");

    let mut bed = Bed::new(&plan(Policy::Exclusive, Shape::Triangle), 0.0, 1);
    (0..3).for_each(|rank| bed.join(rank, Duration::from_secs(3)));
    bed.run(Duration::from_secs(5));
    match bed.join_failure(1).expect("a worker is missing") {
        Failure::Missing { missing, .. } => assert_eq!(missing, &["w3"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_plan_or_secret_is_refused() {
    let right = plan(Policy::Exclusive, Shape::Star);
    let change = |with: &dyn Fn(&mut Plan)| {
        let mut plan = right.clone();
        with(&mut plan);
        plan
    };
    for (other, word) in [
        (change(&|plan| plan.job.secret = Some("f".repeat(64))), "gets no answer"),
        (change(&|plan| plan.streams[1].window = 3), "another plan"),
        (change(&|plan| plan.job.id = 9), "did not answer"),
    ] {
        let mut bed = Bed::with_workers(&right, &other, 0.0, 1);
        bed.join(0, Duration::from_secs(3));
        bed.run(Duration::from_secs(5));
        let failure = bed.join_failure(0).expect("refused").to_string();
        assert!(failure.contains(word), "{failure}");
    }
}
