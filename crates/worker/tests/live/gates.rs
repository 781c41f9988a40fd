//! Gates: who may send when, and how fast.

use std::time::Duration;

use wiresum_protocol::plan::Policy;
use wiresum_worker::Failure;

use super::bed::{Bed, Ended};
use super::plans::{Shape, plan};
use super::{assert_sums, shapes, sum_all};

const LONG: Duration = Duration::from_secs(1000);
/// Longer than anything is on its way in these networks.
const DRAINED: Duration = Duration::from_millis(1);
const LEN: usize = 64 * 100;

#[test]
fn a_worker_that_begins_with_a_shut_gate_says_nothing_and_joins_when_it_opens() {
    let mut bed = Bed::new(&plan(Policy::Segment, Shape::Star), 0.0, 1);
    for rank in 0..bed.workers() {
        bed.shut(rank, LONG);
        bed.join(rank, Duration::from_secs(1));
    }
    bed.run(Duration::from_secs(100));
    assert_eq!(bed.sent(), 0);
    (0..bed.workers()).for_each(|rank| bed.open(rank, None));
    bed.run(Duration::from_secs(2));
    // The time to join in has not run meanwhile.
    assert!((0..bed.workers()).all(|rank| bed.has_joined(rank)));
    sum_all(bed, &[1000]);
}

#[test]
fn gates_that_shut_anywhere_lose_nothing_and_leave_sums_exact() {
    // Others lose packets to collisions at any time.
    for policy in [Policy::Pool, Policy::Segment] {
        for shape in shapes(policy) {
            for steps in [1, 50, 300] {
                let mut bed = Bed::new(&plan(policy, shape), 0.0, steps);
                bed.join_all();
                let sum = |rank| super::values(rank, 0, LEN);
                (0..bed.workers()).for_each(|rank| bed.submit(rank, sum(rank), LONG));
                bed.steps(steps);
                // Not at once, as orders come one by one.
                for rank in 0..bed.workers() {
                    bed.shut(rank, LONG);
                    bed.steps(3);
                }
                bed.run(DRAINED);
                let drained = bed.sent();
                bed.run(Duration::from_secs(20));
                assert_eq!(bed.sent(), drained, "{policy:?}: a shut gate has let something out");
                (0..bed.workers()).for_each(|rank| bed.open(rank, None));
                bed.run(Duration::from_secs(60));
                assert_eq!(bed.count("timeouts"), 0, "{policy:?}, {shape:?}, {steps}");
                assert_sums(&bed, &[LEN]);
            }
        }
    }
}

#[test]
fn a_gate_that_nobody_opens_opens_by_itself_and_says_so() {
    let mut bed = Bed::new(&plan(Policy::Segment, Shape::Tree), 0.0, 3);
    bed.join_all();
    (0..bed.workers()).for_each(|rank| bed.shut(rank, Duration::from_secs(5)));
    let bed = sum_all(bed, &[1000]);
    assert!((0..bed.workers()).all(|rank| bed.unattended(rank) == 1));
}

#[test]
fn a_gate_that_is_shut_again_and_again_stays_shut() {
    let mut bed = Bed::new(&plan(Policy::Segment, Shape::Star), 0.0, 4);
    bed.join_all();
    let before = bed.sent();
    for _ in 0..10 {
        (0..bed.workers()).for_each(|rank| bed.shut(rank, Duration::from_secs(5)));
        (0..bed.workers()).for_each(|rank| bed.submit(rank, vec![1; 100], LONG));
        bed.run(Duration::from_secs(4));
    }
    assert_eq!((bed.sent(), bed.unattended(0)), (before, 0));
}

#[test]
fn a_job_that_is_stopped_fails_with_the_reason_and_leaves_all_untouched_where_nothing_was_sent() {
    for (begins, elsewhere) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut bed = Bed::new(&plan(Policy::Segment, Shape::Star), 0.0, 6);
        for rank in 0..bed.workers() {
            bed.shut(rank, LONG);
            bed.join(rank, Duration::from_secs(1));
            bed.submit(rank, super::values(rank, 0, LEN), LONG);
        }
        if begins {
            (0..bed.workers()).for_each(|rank| bed.open(rank, None));
            bed.steps(50);
        }
        let before = bed.sent();
        (0..bed.workers()).for_each(|rank| bed.stop(rank, "no light", elsewhere));
        (0..bed.workers()).for_each(|rank| bed.submit(rank, vec![1; 10], LONG));
        bed.run(Duration::from_secs(20));
        assert!(begins || bed.sent() == before, "who has been stopped says nothing");
        let why = "no light".to_owned();
        let failure = if elsewhere { Failure::NotServed { why } } else { Failure::Ended { why } };
        for rank in 0..bed.workers() {
            let ended = bed.ended(rank).iter().map(|ended| match ended {
                Ended::Failed(failure) => failure,
                Ended::Sum(_) => panic!("a job that was stopped has a sum"),
            });
            let failures: Vec<_> = bed.join_failure(rank).into_iter().chain(ended).collect();
            assert_eq!(failures, [&failure, &failure]);
            assert!(begins || bed.numbers(rank, 0) == super::values(rank, 0, LEN));
        }
    }
}

#[test]
fn a_gate_keeps_a_rate() {
    let seconds = |rate_bps| {
        let mut bed = Bed::new(&plan(Policy::Segment, Shape::Star), 0.0, 5);
        bed.join_all();
        for rank in 0..bed.workers() {
            bed.shut(rank, LONG);
            bed.open(rank, Some(rate_bps));
        }
        let began = bed.now();
        sum_all(bed, &[10 * LEN]).ended_at().since(began).as_secs_f64()
    };
    let payload_s = (10 * LEN * 4 * 8) as f64 / 10e6;
    assert!(seconds(10_000_000) > payload_s);
    let ratio = seconds(5_000_000) / seconds(10_000_000);
    assert!((1.9..2.1).contains(&ratio), "half of the rate takes {ratio} times as long");
}
