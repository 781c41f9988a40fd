//! Collectives other than all-reduces.

use wiresum_testkit::cluster::with_exchanges;
use wiresum_worker::Kind;

use crate::scenario::{Action, Direction};
use crate::testing::{GIGABIT, Tree, records, rounds, scenario};
use crate::{Record, Scenario};

/// Divides into equal shares.
const BYTES: u64 = 200_000;
/// So many that barriers and round trips hardly count.
const MANY_BYTES: u64 = 4_000_000;
/// About as many as windows have on their way.
const FEW_BYTES: u64 = 1_560_000;

fn harmful() -> Direction {
    Direction { loss: 0.02, duplication: 0.02, reordering: 0.05, jitter_s: 100e-6, ..GIGABIT }
}

/// A star whose plan has streams for sums that one worker takes, and for copies.
fn star(bytes: u64, collectives: &[Kind], direction: Direction) -> Scenario {
    let mut made = scenario(&Tree::star(4), "pool", bytes, direction);
    let plan = &mut made.jobs[0].plan;
    *plan = with_exchanges(plan.clone(), 128, 64);
    made.jobs[0].collectives = collectives.to_vec();
    made
}

#[test]
fn every_collective_brings_what_it_promises_whatever_links_do() {
    // Elements that come to all ranks, by round: values of sums, and bytes of the others' shares.
    let (values, bytes) = (BYTES / 4, BYTES);
    let cases: [(&[Kind], u64); 7] = [
        (&[Kind::ReduceScatter], values),
        (&[Kind::AllGather], 3 * bytes),
        (&[Kind::ReduceScatter, Kind::AllGather], values + 3 * bytes),
        (&[Kind::Broadcast], 3 * bytes),
        (&[Kind::Reduce], values),
        (&[Kind::Gather], 3 * bytes / 4),
        (&[Kind::Scatter], 3 * bytes / 4),
    ];
    for direction in [GIGABIT, harmful()] {
        for (collectives, coming) in cases {
            let records = records(&star(BYTES, collectives, direction)).expect("exact sums");
            let Some(Record::End { checked_values, .. }) = records.last() else { panic!() };
            assert_eq!(*checked_values, 2 * coming, "{collectives:?}");
            assert_eq!(rounds(&records).len(), 2, "{collectives:?}");
        }
    }
}

#[test]
fn collectives_of_a_course_bring_what_they_promise_whatever_links_do() {
    let [gather, scatter] = [Action::Begin(0), Action::Begin(1)];
    let course = [gather, Action::Wait(1), gather, scatter, Action::Wait(2), gather, scatter];
    for direction in [GIGABIT, harmful()] {
        let mut scenario = star(BYTES, &[Kind::AllGather, Kind::ReduceScatter], direction);
        scenario.jobs[0].actions = course.to_vec();
        let records = records(&scenario).expect("exact sums");
        let Some(Record::End { checked_values, .. }) = records.last() else { panic!() };
        assert_eq!(*checked_values, 2 * (3 * 3 * BYTES + 2 * BYTES / 4));
    }
}

#[test]
fn a_reduce_scatter_beside_an_all_gather_takes_little_longer_than_either() {
    let seconds = |collectives: &[Kind]| {
        let scenario = star(MANY_BYTES, collectives, GIGABIT);
        rounds(&records(&scenario).expect("exact sums"))[1]
    };
    let alone = seconds(&[Kind::ReduceScatter]).max(seconds(&[Kind::AllGather]));
    let both = seconds(&[Kind::ReduceScatter, Kind::AllGather]);
    assert!(
        both < 1.5 * alone,
        "{both} s beside {alone} s: sums load the way up, copies the way down"
    );
}

#[test]
fn a_collective_that_comes_second_waits_for_no_window() {
    let slow = Direction { rate_bps: Some(250e6), ..GIGABIT };
    let seconds = |collectives: &[Kind]| {
        let mut made = scenario(&Tree::star(4), "pool", FEW_BYTES, slow);
        let plan = &mut made.jobs[0].plan;
        plan.job.values_per_packet = 736;
        plan.streams[1].window = 192;
        *plan = with_exchanges(plan.clone(), 256, 192);
        made.jobs[0].collectives = collectives.to_vec();
        rounds(&records(&made).expect("exact sums"))[1]
    };
    // An all-reduce moves as many bytes over each link, with nobody beside it.
    let (both, as_many) =
        (seconds(&[Kind::ReduceScatter, Kind::AllGather]), seconds(&[Kind::AllReduce]));
    assert!(both < 1.12 * as_many, "{both} s where {as_many} s would do");
}
