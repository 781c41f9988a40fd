//! Rows of `exclusive`.

use super::*;

fn bench() -> Bench {
    Bench::new(Policy::Exclusive)
}

#[test]
fn each_fragment_has_a_slot_of_its_own() {
    let mut bench = bench();
    for fragment in 0..8 {
        assert_eq!(bench.contribute(2, fragment), absorbed(Verdict::Added));
    }
    for fragment in 0..8 {
        assert_eq!(bench.send(contribution(2, fragment)), up(Verdict::Forwarded));
        assert_eq!(bench.left(), (0b111, 111));
    }
}

#[test]
fn a_repetition_is_added_once_and_brings_a_complete_sum_up_again() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(resent(1, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(resent(2, 0)), up(Verdict::Forwarded));
    assert_eq!(bench.send(contribution(2, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(resent(0, 0)), up(Verdict::Reforwarded));
    assert_eq!((bench.left(), bench.packet.worker), ((0b111, 111), 0));
}

#[test]
fn the_next_round_takes_the_slot_and_what_is_older_goes_to_the_server() {
    let mut bench = bench();
    bench.contribute(3, 0);
    assert_eq!(bench.send(contribution(0, 8)), absorbed(Verdict::First));
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Bypassed));
    assert_eq!(bench.left(), (0b010, 10));
}

#[test]
fn what_the_plan_gave_no_memory_goes_up_unsummed_and_is_marked() {
    let mut bench = Bench::with(Policy::Exclusive, &[Place { slots: 6, ..place() }]);
    assert_eq!(bench.send(contribution(0, 5)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(0, 6)), up(Verdict::Collision));
    assert!(bench.packet.flags.contains(Flags::COLLISION));
}

#[test]
fn streams_that_were_planned_into_the_same_slot_do_not_mix() {
    let second = Place { sub_model: SubModelId(1), ..place() };
    let mut bench = Bench::with(Policy::Exclusive, &[place(), second]);
    bench.contribute(2, 0);
    let other = Packet { sub_model: SubModelId(1), ..contribution(0, 0) };
    assert_eq!(bench.send(other), up(Verdict::Collision));
}

#[test]
fn a_sum_that_is_partly_in_goes_on_by_itself() {
    let mut bench = bench();
    bench.contribute(2, 0);
    let sum = Packet { contributors: Contributors(0b110), values: vec![110], ..contribution(1, 0) };
    assert_eq!(bench.send(sum), up(Verdict::Overlap));
    assert_eq!(bench.left(), (0b110, 110));
}
