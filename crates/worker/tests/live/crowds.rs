//! Jobs of more than one cohort of workers: a packet names 64 of them, and their sums meet at a server.

use std::time::Duration;

use wiresum_protocol::plan::{Count, Policy, Rounds};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_worker::Failure;

use crate::bed::{Bed, Ended};
use crate::plans::{Shape, crowd};
use crate::{ALL, shapes, sum_all, values};

const LEN: usize = 3000;
const PATIENCE: Duration = Duration::from_secs(4);

#[test]
fn every_policy_sums_a_cohort_and_a_worker_exactly() {
    for policy in ALL {
        for shape in shapes(policy) {
            let mut bed = Bed::new(&crowd(policy, shape, 65), 0.01, 7);
            bed.join_all();
            sum_all(bed, &[1, LEN, 5]);
        }
    }
}

#[test]
fn two_hundred_workers_sum_exactly() {
    for policy in [Policy::Pool, Policy::Hash, Policy::Exclusive] {
        let mut bed = Bed::new(&crowd(policy, Shape::Tree, 200), 0.002, 7);
        bed.join_all();
        sum_all(bed, &[LEN, 9]);
    }
}

/// Who repeats makes the switches of `hash` let go of what is in, so the server knows whom it lacks.
#[test]
fn a_missing_worker_of_any_cohort_is_named() {
    for absent in [3, 70] {
        let mut bed = Bed::new(&crowd(Policy::Hash, Shape::Tree, 80), 0.0, 1);
        bed.join_all();
        let others: Vec<usize> = (0..bed.workers()).filter(|rank| *rank != absent).collect();
        for &rank in &others {
            bed.submit(rank, values(rank, 0, LEN), PATIENCE);
        }
        bed.run(5 * PATIENCE);
        for rank in others {
            match &bed.ended(rank)[0] {
                Ended::Failed(Failure::Missing { missing, .. }) => {
                    assert_eq!(*missing, [format!("w{absent}")], "rank {rank}");
                }
                other => panic!("rank {rank}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_round_goes_on_without_a_late_worker_of_the_second_cohort() {
    let mut plan = crowd(Policy::Hash, Shape::Star, 70);
    let counts = vec![Count { node: 3, k: 69 }];
    plan.job.codec = "block".into();
    plan.job.rounds = Some(Rounds { most_missed: 4, counts });
    plan.validate().expect("rounds under `hash`");
    let late = 66;
    let mut bed = Bed::new(&plan, 0.0, 3);
    bed.join_all();
    let others: Vec<usize> = (0..70).filter(|rank| *rank != late).collect();
    for &rank in &others {
        bed.submit(rank, values(rank, 0, LEN), PATIENCE);
    }
    bed.run(PATIENCE);
    let all: Vec<_> = others.iter().map(|rank| values(*rank, 0, LEN)).collect();
    let sum = |i| all.iter().map(|values| values[i]).sum::<i32>();
    let expected: Vec<i32> = (0..LEN).map(sum).collect();
    bed.submit(late, values(late, 0, LEN), PATIENCE);
    bed.run(PATIENCE);
    for rank in 0..70 {
        let Ended::Sum(sum) = &bed.ended(rank)[0] else { panic!("rank {rank} waits") };
        assert_eq!(*sum, expected, "rank {rank}");
    }
}

/// The server is node 3; the others are switches.
#[test]
fn a_node_that_starts_again_gets_back_the_results_of_all_cohorts() {
    let mut given_back = 0;
    for_each_seed("-p wiresum-worker all_cohorts", 0, 1, |seed| {
        for policy in [Policy::Pool, Policy::Hash] {
            let mut bed = Bed::new(&crowd(policy, Shape::Tree, 70), 0.01, seed);
            bed.join_all();
            for rank in 0..bed.workers() {
                bed.submit(rank, values(rank, 0, LEN), 15 * PATIENCE);
            }
            for node in [3, 0, 3] {
                bed.steps(2000);
                bed.restart(node);
            }
            bed.run(15 * PATIENCE);
            let all: Vec<_> = (0..70).map(|rank| values(rank, 0, LEN)).collect();
            let sum = |i| all.iter().map(|values| values[i]).sum::<i32>();
            let expected: Vec<i32> = (0..LEN).map(sum).collect();
            for rank in 0..70 {
                match bed.ended(rank) {
                    [Ended::Sum(sum)] => assert!(*sum == expected, "{policy:?}, rank {rank}"),
                    other => panic!("{policy:?}, seed {seed}, rank {rank}: {other:?}"),
                }
            }
            given_back += bed.count("results_given_back");
        }
    });
    assert!(given_back > 0, "no node lacked a result");
}
