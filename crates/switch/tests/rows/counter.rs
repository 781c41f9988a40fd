//! `register-counter`: what comes of adding up worker numbers (InGo, Alg. 1).

use super::*;

fn bench() -> Bench {
    Bench::new(Policy::RegisterCounter)
}

#[test]
fn in_step_and_without_loss_it_sums() {
    let mut bench = bench();
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Added));
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111));
    assert_eq!(bench.send(contribution(0, 8)), absorbed(Verdict::First));
}

#[test]
fn worker_three_twice_passes_for_everyone() {
    let mut bench = bench();
    bench.send(contribution(2, 0));
    assert_eq!(bench.send(resent(2, 0)), up(Verdict::Forwarded), "3 + 3 = 1 + 2 + 3");
    assert_eq!(bench.left(), (0b111, 200), "the sum of no one else");
}

#[test]
fn fragments_that_share_a_register_are_mixed() {
    let mut bench = bench();
    bench.send(contribution(0, 0));
    bench.send(contribution(1, 8));
    assert_eq!(bench.send(contribution(2, 16)), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111), "of three fragments");
}

#[test]
fn registers_of_other_streams_are_out_of_reach() {
    let outside = Packet { slot: 8, ..contribution(0, 0) };
    assert_eq!(bench().send(outside), up(Verdict::Collision));
}
