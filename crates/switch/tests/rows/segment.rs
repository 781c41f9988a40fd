//! Rows of `segment`.

use super::*;

fn bench() -> Bench {
    Bench::with(Policy::Segment, &[Place { parent: None, ..place() }])
}

/// A contribution to a later fragment, in the slot of fragment 0.
fn later(worker: u8) -> Packet<Values> {
    Packet { slot: 0, ..contribution(worker, 5) }
}

#[test]
fn a_complete_sum_goes_straight_back_and_frees_the_slot() {
    let mut bench = bench();
    assert_eq!(bench.contribute(2, 0), absorbed(Verdict::Added));
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(contribution(2, 0)), down(Verdict::Completed));
    assert_eq!((bench.left(), bench.packet.expected), ((0b111, 111), 3));
    assert_eq!(bench.send(later(0)), absorbed(Verdict::First));
}

#[test]
fn the_result_stays_while_the_slot_is_in_use_again() {
    let mut bench = bench();
    bench.contribute(3, 0);
    bench.send(later(0));
    assert_eq!(bench.send(contribution(1, 0)), down(Verdict::Answered));
    assert_eq!(bench.left(), (0b010, 111));
    bench.send(later(1));
    bench.send(later(2));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Stale));
    assert_eq!(bench.send(later(1)), down(Verdict::Answered));
}

#[test]
fn who_comes_before_the_slot_is_free_is_sent_back_with_a_mark() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(later(0)), down(Verdict::Refused));
    assert_eq!(bench.packet.contributors, Contributors::one(0));
    assert_eq!(bench.packet.flags, Flags::REFUSED.with(Flags::ECN));
    assert_eq!(bench.packet.kind, Kind::Result);
    assert_eq!(bench.send(contribution(2, 0)), down(Verdict::Completed));
}

#[test]
fn a_part_that_was_completed_past_the_switch_gives_way_after_a_window() {
    let mut bench = bench();
    bench.switch.bypass(JobId(1));
    assert_eq!(bench.contribute(1, 0), absorbed(Verdict::First));
    for worker in 0..3 {
        assert_eq!(bench.send(resent(worker, 0)), up(Verdict::Bypassed));
    }
    let within = Packet { fragment: FragmentId(7), slot: 0, ..contribution(0, 7) };
    assert_eq!(bench.send(within), down(Verdict::Refused));
    for worker in 0..2 {
        bench.send(contribution(worker, 8));
    }
    assert_eq!(bench.send(contribution(2, 8)), down(Verdict::Completed));
    assert_eq!((bench.left(), bench.packet.expected), ((0b111, 111), 3));
}

#[test]
fn who_lacks_the_result_before_is_early_even_if_the_slot_is_free() {
    let mut bench = bench();
    bench.contribute(3, 0);
    let early = Packet { flags: Flags::EARLY, ..later(1) };
    assert_eq!(bench.send(early), down(Verdict::Refused));
    assert_eq!(bench.send(later(1)), absorbed(Verdict::First));
}

#[test]
fn below_a_server_the_sum_goes_up_and_the_server_answers() {
    let mut bench = Bench::new(Policy::Segment);
    assert_eq!(bench.contribute(3, 0), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111));
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Reforwarded));
    assert_eq!((bench.left(), bench.packet.worker), ((0b111, 111), 1));
    assert_eq!(bench.send(result(0)), down(Verdict::Passed));
}

#[test]
fn a_slot_outside_the_segment_is_not_touched() {
    let outside = Packet { slot: 8, ..contribution(0, 0) };
    assert_eq!(bench().send(outside), up(Verdict::Collision));
}

#[test]
fn a_sum_that_is_partly_in_is_dropped() {
    let mut bench = bench();
    bench.contribute(2, 0);
    let sum = Packet { contributors: Contributors(0b110), ..contribution(1, 0) };
    assert_eq!(bench.send(sum), absorbed(Verdict::Overlap));
}
