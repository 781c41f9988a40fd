//! Results that come before their turn.

use super::*;
use crate::Plan;

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
