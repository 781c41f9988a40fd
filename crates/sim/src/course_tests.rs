//! Rounds of several actions: the same at both fidelities that have them.

use crate::scenario::{Action, Fidelity};
use crate::testing::{GIGABIT, Tree, constant, records, rounds, scenario};
use crate::{Record, SimulationError};

const BYTES: u64 = 2_000_000;
/// Delay and round trips, which flows leave out.
const TOLERANCE: f64 = 0.03;
const FIDELITIES: [Fidelity; 2] = [Fidelity::Packets, Fidelity::Flows];

/// Seconds of the second round of three workers that compute for so long in it.
fn seconds(fidelity: Fidelity, compute_s: f64, actions: &[Action]) -> f64 {
    let mut made = scenario(&Tree::star(3), "pool", BYTES, GIGABIT);
    made.fidelity = fidelity;
    made.check_sums = fidelity == Fidelity::Packets;
    made.jobs[0].actions = actions.to_vec();
    made.jobs[0].workers.iter_mut().for_each(|worker| worker.compute = constant(compute_s));
    rounds(&records(&made).expect("it ends"))[1]
}

#[test]
fn computing_hides_what_it_runs_beside_and_nothing_else() {
    let sum = Action::Begin(0);
    for fidelity in FIDELITIES {
        let alone_s = seconds(fidelity, 0.0, &[sum]);
        for compute_s in [0.3 * alone_s, 3.0 * alone_s] {
            let beside = [sum, Action::Compute(1.0), Action::Wait(1)];
            let after = [sum, Action::Wait(1), Action::Compute(1.0)];
            let parts = [sum, Action::Compute(0.5), Action::Wait(1), Action::Compute(0.5)];
            let cases: [(&[Action], f64); 3] = [
                (&beside, alone_s.max(compute_s)),
                (&after, alone_s + compute_s),
                (&parts, alone_s.max(compute_s / 2.0) + compute_s / 2.0),
            ];
            for (actions, expected_s) in cases {
                let found_s = seconds(fidelity, compute_s, actions);
                let off = found_s / expected_s - 1.0;
                assert!(off.abs() < TOLERANCE, "{fidelity:?} {actions:?}: {found_s}, {expected_s}");
            }
        }
    }
}

#[test]
fn collectives_one_after_another_take_as_long_as_all_of_them() {
    let (sum, wait) = (Action::Begin(0), Action::Wait);
    for fidelity in FIDELITIES {
        let alone_s = seconds(fidelity, 0.0, &[sum]);
        for three in [&[sum, wait(1), sum, wait(2), sum][..], &[sum, sum, sum]] {
            let found_s = seconds(fidelity, 0.0, three);
            assert!((found_s / (3.0 * alone_s) - 1.0).abs() < TOLERANCE, "{fidelity:?}: {found_s}");
        }
    }
}

#[test]
fn each_round_has_one_record_of_each_worker_from_its_first_collective_to_its_last() {
    let compute_s = 0.5;
    for fidelity in FIDELITIES {
        let mut made = scenario(&Tree::star(3), "pool", BYTES, GIGABIT);
        (made.fidelity, made.check_sums) = (fidelity, false);
        made.jobs[0].actions = vec![Action::Begin(0), Action::Wait(1), Action::Compute(1.0)];
        made.jobs[0].workers[1].compute = constant(compute_s);
        let records = records(&made).expect("it ends");
        let of = |record: &Record| match record {
            Record::Worker { rank, compute_s, begin_s, end_s, .. } => {
                assert_eq!(compute_s, begin_s, "nothing is computed before");
                Some((*rank, end_s - begin_s))
            }
            _ => None,
        };
        let spans: Vec<_> = records.iter().filter_map(of).collect();
        assert_eq!(spans.len(), 2 * 3);
        let late = spans.iter().filter(|(rank, seconds)| *rank == 1 && *seconds > compute_s);
        assert_eq!(late.count(), 2, "{fidelity:?}: {spans:?}");
    }
}

#[test]
fn a_course_that_cannot_be_run_is_refused_with_the_name_of_its_job() {
    for fidelity in FIDELITIES {
        let mut made = scenario(&Tree::star(3), "pool", BYTES, GIGABIT);
        (made.fidelity, made.check_sums) = (fidelity, false);
        made.jobs[0].actions = vec![Action::Wait(1), Action::Begin(0)];
        let refused = records(&made).expect_err("a refusal");
        assert!(matches!(refused, SimulationError::Job { ref job, .. } if job == "job"));
    }
}
