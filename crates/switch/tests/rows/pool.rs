//! Rows of `pool`: root and inner switch.

use super::*;

fn root() -> Bench {
    Bench::with(Policy::Pool, &[Place { parent: None, ..place() }])
}

#[test]
fn the_last_contribution_at_the_root_is_the_result() {
    let mut bench = root();
    assert_eq!(bench.send(contribution(0, 0)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Added));
    assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Duplicate));
    assert_eq!(bench.send(contribution(2, 0)), down(Verdict::Completed));
    assert_eq!(bench.left(), (0b111, 111));
    assert_eq!((bench.packet.kind, bench.packet.expected), (Kind::Result, 3));
}

#[test]
fn whoever_repeats_a_finished_fragment_gets_its_result_alone() {
    let mut bench = root();
    bench.contribute(3, 0);
    assert_eq!(bench.send(contribution(1, 0)), down(Verdict::Answered));
    assert_eq!(bench.left(), (0b010, 111));
}

#[test]
fn the_other_version_keeps_the_result_until_two_windows_on() {
    let mut bench = root();
    bench.contribute(3, 0);
    assert_eq!(bench.send(contribution(0, 8)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(2, 0)), down(Verdict::Answered));
    assert_eq!(bench.send(contribution(0, 16)), absorbed(Verdict::First));
    assert_eq!(bench.send(contribution(2, 0)), absorbed(Verdict::Stale));
}

#[test]
fn an_inner_switch_sends_its_sum_up_again_until_it_has_the_result() {
    let mut bench = Bench::new(Policy::Pool);
    assert_eq!(bench.contribute(3, 0), up(Verdict::Forwarded));
    assert_eq!(bench.left(), (0b111, 111));
    assert_eq!(bench.send(contribution(1, 0)), up(Verdict::Reforwarded));
    assert_eq!((bench.left(), bench.packet.worker), ((0b111, 111), 1));
    let sum = Packet { values: vec![5000], ..result(0) };
    assert_eq!(bench.send(sum.clone()), down(Verdict::Stored));
    assert_eq!(bench.send(sum), down(Verdict::Passed));
    assert_eq!(bench.send(contribution(2, 0)), down(Verdict::Answered));
    assert_eq!(bench.left(), (0b100, 5000));
}

#[test]
fn a_result_without_its_sum_here_passes() {
    let mut bench = Bench::new(Policy::Pool);
    assert_eq!(bench.send(result(0)), down(Verdict::Passed));
    bench.contribute(2, 0);
    assert_eq!(bench.send(result(0)), down(Verdict::Passed));
    assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Forwarded));
}

#[test]
fn a_sum_that_is_partly_in_is_dropped() {
    let mut bench = root();
    bench.contribute(1, 0);
    let both = Packet { contributors: Contributors(0b011), ..contribution(1, 0) };
    assert_eq!(bench.send(both), absorbed(Verdict::Overlap));
    bench.send(contribution(1, 0));
    bench.send(contribution(2, 0));
    assert_eq!(bench.left(), (0b111, 111));
}
