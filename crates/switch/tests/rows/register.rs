//! Rows of `register`.

use super::*;

fn bench() -> Bench {
    Bench::new(Policy::Register)
}

#[test]
fn a_register_is_free_again_when_its_sum_is_complete() {
    let mut bench = bench();
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Added));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111));
    let other = Packet { slot: 0, ..contribution(0, 5) };
    assert_eq!(bench.send(other), absorbed(Verdict::First));
}

#[test]
fn another_fragments_register_is_left_alone() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(Packet { slot: 0, ..contribution(0, 5) }), up(Verdict::Collision));
    assert_eq!(bench.send(Packet { slot: 8, ..contribution(0, 5) }), up(Verdict::Collision));
}

#[test]
fn numbers_that_add_up_are_no_sum() {
    let mut bench = bench();
    bench.send(contribution(2, 0));
    assert_eq!(bench.send(contribution(2, 0)), absorbed(Verdict::Duplicate));
}

#[test]
fn what_is_sent_again_goes_up_with_what_is_there() {
    let mut bench = bench();
    bench.contribute(2, 0);
    assert_eq!(bench.send(resent(1, 0)), up(Verdict::Released));
    assert_eq!(bench.left(), (0b011, 11));
    assert_eq!(bench.send(resent(0, 0)), up(Verdict::Bypassed));
}
