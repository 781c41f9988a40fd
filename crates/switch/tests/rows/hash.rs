//! Rows of `hash`.

use super::*;

fn bench() -> Bench {
    Bench::new(Policy::Hash)
}

#[test]
fn a_slot_sums_and_sends_up() {
    let mut bench = bench();
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Added));
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111));
}

#[test]
fn whoever_finds_the_slot_taken_goes_up_unsummed_and_marked() {
    let mut bench = bench();
    bench.contribute(2, 0);
    let other = Packet { slot: 0, ..contribution(2, 3) };
    assert_eq!(bench.send(other.clone()), up(Verdict::Collision));
    assert_eq!(bench.packet, Packet { flags: Flags::COLLISION, ..other });
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Forwarded));
}

#[test]
fn a_slot_outside_the_streams_memory_is_taken() {
    let mut bench = bench();
    let outside = Packet { slot: 8, ..contribution(0, 0) };
    assert_eq!(bench.send(outside), up(Verdict::Collision));
}

#[test]
fn a_complete_slot_is_kept_until_the_result_passes_back() {
    let mut bench = bench();
    bench.contribute(3, 0);
    let next = Packet { slot: 0, ..contribution(0, 5) };
    assert_eq!(bench.send(next.clone()), up(Verdict::Collision));
    assert_eq!(bench.send(result(0)), down(Verdict::Freed));
    assert_eq!(bench.send(result(0)), down(Verdict::Passed));
    assert_eq!(bench.send(next), absorbed(Verdict::First));
}

#[test]
fn a_fragment_that_is_a_window_old_makes_room() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(contribution(0, 8)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Collision));
}

#[test]
fn a_packet_that_is_sent_again_forces_the_partial_sum_out() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(resent(2, 0)), up(Verdict::Released));
    assert_eq!(bench.left(), (0b111, 111));
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Bypassed));
    assert_eq!(bench.left(), (0b010, 10));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::First));
}

#[test]
fn its_own_values_are_not_added_twice_when_it_is_sent_again() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Released));
    assert_eq!(bench.left(), (0b011, 11));
}

#[test]
fn congestion_sticks_to_the_slot_and_leaves_with_the_sum() {
    let mut bench = bench();
    bench.send(Packet { flags: Flags::ECN, ..contribution(0, 0) });
    bench.send(contribution(1, 0));
    bench.send(contribution(2, 0));
    assert!(bench.packet.flags.contains(Flags::ECN));
    bench.contribute(3, 8);
    assert!(!bench.packet.flags.contains(Flags::ECN), "of the fragment before");
}

#[test]
fn a_sum_that_is_partly_in_goes_on_by_itself() {
    let mut bench = bench();
    bench.contribute(2, 0);
    let sum = Packet { contributors: Contributors(0b110), values: vec![110], ..contribution(1, 0) };
    assert_eq!(bench.send(sum.clone()), up(Verdict::Overlap));
    assert_eq!(bench.left(), (0b110, 110));
    assert_eq!(bench.send(Packet { flags: Flags::RETRANSMISSION, ..sum }), up(Verdict::Overlap));
    assert_eq!(bench.left(), (0b110, 110));
}
