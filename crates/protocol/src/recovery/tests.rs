//! Results that come before their turn, and questions about what others give or take.

use wiresum_wire::control::{set_word, status};

use super::*;
use crate::Plan;
use crate::plan::Policy;

const FIRST: FragmentId = FragmentId(u32::MAX - 1);
const SLOTS: u32 = 256;
const NOW: Time = Time(1);

fn at(index: u32) -> FragmentId {
    FIRST.plus(index)
}

fn recovery() -> Recovery {
    let plan = Plan::from_json(include_str!("../../tests/plans/tree.json")).expect("valid");
    Recovery::new(&plan.streams[1].clone().with_slots(SLOTS), FIRST)
}

#[test]
fn what_came_before_its_turn_is_done_when_it_comes() {
    let mut recovery = recovery();
    for index in [1, 2, 4] {
        assert!(recovery.may_come_ahead(at(index)));
        recovery.complete_ahead(at(index), NOW);
        assert!(!recovery.may_come_ahead(at(index)), "it has come");
    }
    recovery.note_due(at(0), NOW);
    assert_eq!((recovery.oldest(), recovery.next(), recovery.due()), (at(0), at(3), 1));
    assert!(!recovery.is_pending(at(2)) && !recovery.may_come_ahead(at(2)));
    recovery.note_sent(at(3), NOW);
    recovery.complete(at(0), NOW);
    assert_eq!((recovery.oldest(), recovery.next()), (at(3), at(5)));
    recovery.complete(at(3), NOW);
    assert!(!recovery.is_busy());
}

#[test]
fn others_business_is_done_when_its_turn_comes() {
    let mut recovery = recovery();
    recovery.note_passed();
    assert_eq!((recovery.oldest(), recovery.next(), recovery.is_busy()), (at(1), at(1), false));
    recovery.note_sent(at(1), NOW);
    recovery.complete_ahead(at(3), NOW);
    recovery.note_passed();
    assert_eq!((recovery.oldest(), recovery.next()), (at(1), at(4)), "3 has come before");
    assert!(!recovery.is_pending(at(2)));
    recovery.complete(at(1), NOW);
    assert_eq!((recovery.oldest(), recovery.is_busy()), (at(4), false));
}

#[test]
fn an_idle_sender_goes_on_behind_what_has_come() {
    let mut recovery = recovery();
    recovery.complete_ahead(at(1), NOW);
    recovery.complete_ahead(at(0), NOW);
    assert_eq!((recovery.oldest(), recovery.next(), recovery.is_busy()), (at(2), at(2), false));
}

#[test]
fn nothing_comes_from_beyond_the_slots() {
    let mut recovery = recovery();
    recovery.note_due(at(0), NOW);
    assert!(recovery.may_come_ahead(at(SLOTS - 1)));
    assert!(!recovery.may_come_ahead(at(SLOTS)), "its record is that of the first");
}

/// The same of a stream whose positions others give or take, with questions about 32 of them.
fn exchange() -> Recovery {
    let plan = Plan::from_json(include_str!("../../tests/plans/tree.json")).expect("valid");
    Recovery::new(&plan.streams[2].clone().with_slots(SLOTS), FIRST)
}

/// A recovery that has asked about position 0, which it only takes, after it has given those of a range.
fn asked_about_a_taken_one(given: std::ops::Range<u32>) -> (Recovery, Probe) {
    let mut recovery = exchange();
    recovery.note_due(at(0), NOW);
    given.for_each(|index| recovery.note_given(at(index), NOW));
    let alarm = recovery.alarm().expect("it watches");
    recovery.handle_timeout(alarm);
    let probe = recovery.next_probe(false, alarm).expect("nothing was heard");
    assert_eq!(probe.first, at(0));
    (recovery, probe)
}

#[test]
fn the_next_question_begins_where_the_one_about_a_taken_position_ends() {
    let (mut recovery, _) = asked_about_a_taken_one(40..80);
    let next = recovery.next_probe(false, NOW).map(|probe| probe.first);
    assert_eq!(next, Some(at(32)), "results tell nothing of what is given from there on");
}

#[test]
fn what_is_only_given_is_asked_about_once_nothing_more_can_be_sent() {
    let (mut recovery, probe) = asked_about_a_taken_one(40..41);
    let mut payload = [0; 4 * status::WORDS];
    set_word(&mut payload, status::ECHO_WORD, probe.echo);
    assert_eq!(recovery.next_probe(true, NOW), None, "the question is under way");
    assert!(recovery.handle_status(at(0), &payload, NOW));
    assert_eq!(recovery.next_probe(true, NOW), None, "more will be sent");
    let last = recovery.next_probe(false, NOW).map(|probe| probe.first);
    assert_eq!(last, Some(at(40)), "nobody else tells that the node has it");
}

/// A status that says of all its positions that the node holds them.
fn held(probe: &Probe) -> Vec<u8> {
    let mut payload = vec![0; 4 * status::WORDS];
    set_word(&mut payload, status::ECHO_WORD, probe.echo);
    (0..32).for_each(|index| set_word(&mut payload, status::HELD_WORD + index, u32::MAX));
    payload
}

/// A question is about a window of positions. What is given beyond it is not lost, and nothing else tells that it is held.
#[test]
fn what_the_last_question_did_not_cover_is_asked_about_at_once() {
    let plan = Plan::from_json(include_str!("../../tests/plans/tree.json")).expect("valid");
    let stream = PlanStream { policy: Policy::Cache, window: 8, ..plan.streams[1].clone() };
    let mut recovery = Recovery::new(&stream.with_slots(SLOTS), FIRST);
    (0..13).for_each(|index| recovery.note_given(at(index), NOW));
    for first in [0, 8] {
        let probe = recovery.next_probe(false, NOW).expect("a question");
        assert_eq!(probe.first, at(first));
        assert_eq!(recovery.next_probe(false, NOW), None, "it is under way");
        assert!(recovery.handle_status(probe.first, &held(&probe), NOW));
    }
    assert!(!recovery.is_busy());
    assert_eq!(recovery.next_probe(false, NOW), None);
}
