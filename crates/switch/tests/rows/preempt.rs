//! Rows of `preempt` that differ from those of `hash`.

use super::*;

fn urgent(priority: u8, packet: Packet<Values>) -> Packet<Values> {
    Packet { priority, ..packet }
}

/// A contribution to another fragment, for the slot of fragment 0.
fn rival(worker: u8) -> Packet<Values> {
    Packet { slot: 0, round: Round(7), exponent: 5, ..contribution(worker, 5) }
}

fn bench() -> Bench {
    Bench::new(Policy::Preempt)
}

#[test]
fn without_rivals_a_slot_sums_and_waits_for_the_result() {
    let mut bench = bench();
    assert_eq!(bench.contribute(2, 0), absorbed(Verdict::Added));
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111));
    assert_eq!(bench.send(result(0)), down(Verdict::Freed));
    assert_eq!(bench.send(rival(0)), absorbed(Verdict::First));
}

#[test]
fn the_more_urgent_has_the_slot_and_the_partial_sum_leaves() {
    let mut bench = bench();
    bench.send(Packet { flags: Flags::ECN, ..urgent(4, contribution(0, 0)) });
    bench.send(urgent(4, contribution(1, 0)));
    assert_eq!(bench.send(urgent(5, rival(2))), up(Verdict::Evicted));
    assert_eq!(bench.left(), (0b011, 11));
    assert_eq!((bench.packet.fragment, bench.packet.round), (FragmentId(0), Round(0)));
    assert_eq!(bench.packet.exponent, -3);
    assert_eq!((bench.packet.priority, bench.packet.flags), (4, Flags::ECN));
    assert_eq!(bench.send(urgent(5, rival(0))), absorbed(Verdict::Added));
    assert_eq!(bench.send(urgent(5, rival(1))), up(Verdict::Forwarded));
    assert_eq!((bench.left(), bench.packet.round), ((0b111, 111), Round(7)));
}

#[test]
fn an_evicted_sum_of_another_job_has_that_jobs_names() {
    let other = Place { job: JobId(2), sub_model: SubModelId(6), ..place() };
    let mut bench = Bench::with(Policy::Preempt, &[other, place()]);
    let theirs = Packet { job: JobId(2), sub_model: SubModelId(6), ..contribution(1, 0) };
    bench.send(theirs.clone());
    assert_eq!(bench.send(urgent(1, contribution(0, 8))), up(Verdict::Evicted));
    assert_eq!(bench.packet, Packet { expected: 0, ..theirs });
}

#[test]
fn every_attempt_halves_the_urgency_of_the_holder() {
    let mut bench = bench();
    bench.send(urgent(8, contribution(0, 0)));
    for _ in 0..3 {
        assert_eq!(bench.send(urgent(1, rival(0))), up(Verdict::Collision));
        assert!(bench.packet.flags.contains(Flags::COLLISION));
    }
    assert_eq!(bench.send(urgent(1, rival(0))), up(Verdict::Collision), "1 against 1");
    assert_eq!(bench.send(urgent(1, rival(0))), up(Verdict::Evicted), "1 against 0");
}

#[test]
fn what_is_sent_again_goes_up_with_what_is_there() {
    let mut bench = bench();
    bench.send(urgent(8, contribution(0, 0)));
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Released));
    assert_eq!(bench.left(), (0b011, 11));
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Bypassed));
}

#[test]
fn what_is_evicted_leaves_with_its_own_lanes() {
    let other = Place { job: JobId(2), sub_model: SubModelId(6), lanes: Flags::LANES16, ..place() };
    let maxima = Place { lanes: Flags::MAXIMUM, ..place() };
    let mut bench = Bench::with(Policy::Preempt, &[maxima, other]);
    bench.send(Packet { flags: Flags::MAXIMUM, ..urgent(1, contribution(0, 0)) });
    let flags = Flags::LANES16.with(Flags::LITTLE_ENDIAN);
    let theirs = urgent(2, contribution(1, 0));
    let theirs = Packet { job: JobId(2), sub_model: SubModelId(6), flags, ..theirs };
    assert_eq!(bench.send(theirs), up(Verdict::Evicted));
    assert_eq!((bench.packet.job, bench.left()), (JobId(1), (0b001, 1)));
    // The byte order is the packet's, as the values are written anew.
    assert_eq!(bench.packet.flags, Flags::MAXIMUM.with(Flags::LITTLE_ENDIAN));
}
