//! Rows of the parameter server.

use wiresum_switch::{ParameterServer, Serving, Workers};

use super::*;

fn server() -> ParameterServer<Values> {
    let mut server = ParameterServer::default();
    let Place { job, sub_model, window, lanes, .. } = place();
    server.serve(Serving { job, sub_model, members: Workers::first(WORKERS), window, lanes });
    server
}

fn sum(contributors: u64, value: i32) -> Packet<Values> {
    Packet { contributors: Contributors(contributors), values: vec![value], ..contribution(0, 0) }
}

fn send(
    server: &mut ParameterServer<Values>,
    mut packet: Packet<Values>,
) -> (Outcome, Packet<Values>) {
    (server.handle(&mut packet), packet)
}

#[test]
fn partial_sums_are_merged_into_the_result() {
    let mut server = server();
    assert_eq!(send(&mut server, sum(0b010, 10)).0, absorbed(Verdict::First));
    assert_eq!(send(&mut server, sum(0b010, 10)).0, absorbed(Verdict::Duplicate));
    let (outcome, result) = send(&mut server, sum(0b101, 101));
    assert_eq!(outcome, down(Verdict::Completed));
    assert_eq!(
        (result.contributors.0, &result.values[..], result.expected),
        (0b111, &[111][..], 3)
    );
    assert_eq!(result.kind, Kind::Result);
}

#[test]
fn what_is_partly_in_is_dropped_unless_it_holds_everything() {
    let mut server = server();
    send(&mut server, sum(0b011, 11));
    assert_eq!(send(&mut server, sum(0b110, 110)).0, absorbed(Verdict::Overlap));
    let (outcome, result) = send(&mut server, sum(0b111, 111));
    assert_eq!((outcome, result.values[0]), (down(Verdict::Completed), 111));
}

#[test]
fn a_larger_sum_takes_the_place_of_a_smaller_one() {
    let mut server = server();
    send(&mut server, sum(0b001, 1));
    assert_eq!(send(&mut server, sum(0b011, 11)).0, absorbed(Verdict::Superseded));
    assert_eq!(send(&mut server, sum(0b100, 100)).1.values[0], 111);
}

#[test]
fn only_who_sends_again_is_answered_and_alone() {
    let mut server = server();
    send(&mut server, sum(0b111, 111));
    assert_eq!(send(&mut server, sum(0b010, 10)).0, absorbed(Verdict::Duplicate));
    let (outcome, result) = send(&mut server, resent(1, 0));
    assert_eq!((outcome, result.contributors.0), (down(Verdict::Answered), 0b010));
    assert_eq!(result.values, [111]);
}

#[test]
fn results_tell_what_befell_the_contributions() {
    let mut server = server();
    send(&mut server, Packet { flags: Flags::COLLISION, ..sum(0b001, 1) });
    send(&mut server, Packet { flags: Flags::ECN, ..sum(0b010, 10) });
    let (_, result) = send(&mut server, Packet { slot: 5, ..sum(0b100, 100) });
    assert_eq!(result.flags, Flags::COLLISION.with(Flags::ECN));
    assert_eq!(result.slot, 0, "that of the first, as all have the same");
}

#[test]
fn results_are_kept_for_a_window_and_then_make_room() {
    let mut server = server();
    send(&mut server, sum(0b111, 111));
    let at = |fragment, packet| Packet { fragment: FragmentId(fragment), ..packet };
    send(&mut server, at(8, sum(0b001, 1)));
    assert_eq!(send(&mut server, resent(2, 0)).0, down(Verdict::Answered));
    send(&mut server, at(16, sum(0b001, 1)));
    assert_eq!(send(&mut server, resent(2, 0)).0, absorbed(Verdict::Stale));
}

#[test]
fn unknown_streams_and_workers_are_dropped() {
    let mut server = server();
    let stranger = Packet { job: JobId(4), ..sum(0b111, 111) };
    assert_eq!(send(&mut server, stranger).0, absorbed(Verdict::Foreign));
    assert_eq!(send(&mut server, sum(0b1001, 1)).0, absorbed(Verdict::Foreign));
    assert_eq!(send(&mut server, sum(0, 0)).0, absorbed(Verdict::Foreign));
    server.remove(JobId(1));
    assert_eq!(send(&mut server, sum(0b111, 111)).0, absorbed(Verdict::Foreign));
    assert_eq!(server.counters().get(Verdict::Foreign), 4);
}

#[test]
fn maxima_are_kept_and_other_lanes_are_foreign() {
    let mut server = ParameterServer::default();
    let Place { job, sub_model, window, .. } = place();
    let (members, lanes) = (Workers::first(WORKERS), Flags::MAXIMUM);
    server.serve(Serving { job, sub_model, members, window, lanes });
    assert_eq!(send(&mut server, sum(0b001, 5)).0, absorbed(Verdict::Foreign));
    let maximum = |workers, value| Packet { flags: Flags::MAXIMUM, ..sum(workers, value) };
    send(&mut server, maximum(0b001, -7));
    send(&mut server, maximum(0b010, -9));
    let (outcome, result) = send(&mut server, maximum(0b100, -8));
    assert_eq!((outcome, &result.values[..]), (down(Verdict::Completed), &[-7][..]));
    assert_eq!(result.flags, Flags::MAXIMUM);
}
