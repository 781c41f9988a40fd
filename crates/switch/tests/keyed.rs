//! The program that sums pairs: every row of the table of `spec/keyed.md`, its passes, and what it takes of a switch.

use std::collections::BTreeMap;

use wiresum_switch::keyed::{
    Arrangement, Body, Handled, HotTable, KeyedSpec, KeyedSwitch, Packet, Pair,
};
use wiresum_switch::rmt::{Misfit, Profile};
use wiresum_wire::{JobId, Verdict};

const JOB: JobId = JobId(7);
const ROUND: u32 = 5;
const MAP: u32 = 3;

fn spec() -> KeyedSpec {
    KeyedSpec { registers: 4, pairs: 8, recirculations: 1 }
}

/// Two workers, and keys 100 to 109: key 100 + p is at position p.
fn switch() -> KeyedSwitch {
    let hot =
        |table| HotTable { job: JOB, table, workers: 2, packets: 40, keys: (100..110).collect() };
    let arrangement = Arrangement::of(spec(), &[hot(0), hot(1)]).expect("room");
    let mut switch = KeyedSwitch::new(arrangement, &Profile::TOFINO_1).expect("a fit");
    switch.open(0, ROUND, MAP);
    switch
}

fn packet(worker: u8, number: u32, body: Body) -> Packet {
    Packet { table: 0, worker, round: ROUND, number, map_version: MAP, body }
}

fn pushed(worker: u8, number: u32, pairs: &[(u64, i32)]) -> Packet {
    let pairs = pairs.iter().map(|&(key, value)| Pair { key, value }).collect();
    packet(worker, number, Body::Pairs(pairs))
}

fn end(worker: u8, packets: u32) -> Packet {
    packet(worker, Packet::END, Body::End { packets })
}

fn added(recirculations: u32, is_complete: bool) -> Handled {
    Handled { verdict: Verdict::Added, recirculations, is_complete }
}

#[test]
fn an_iteration_is_complete_when_all_that_was_announced_is_in() {
    let mut switch = switch();
    assert_eq!(switch.handle(JOB, &pushed(0, 0, &[(100, 7), (101, -2)])), added(0, false));
    assert_eq!(switch.handle(JOB, &end(0, 2)), added(0, false), "one is missing");
    assert_eq!(switch.handle(JOB, &end(1, 0)), added(0, false), "nothing hot");
    assert_eq!(switch.handle(JOB, &pushed(0, 1, &[(100, i32::MAX)])), added(0, true));
    let sums = BTreeMap::from([(100, i32::MAX.wrapping_add(7)), (101, -2)]);
    assert_eq!(switch.sums(0), sums);
    switch.open(0, ROUND + 1, MAP);
    assert!(switch.sums(0).is_empty());
    let next = |worker| Packet { round: ROUND + 1, ..end(worker, 0) };
    assert_eq!(switch.handle(JOB, &next(1)), added(0, false));
    assert_eq!(switch.handle(JOB, &next(0)), added(0, true), "not even an end was left over");
}

#[test]
fn what_comes_again_is_acknowledged_and_changes_nothing() {
    let mut switch = switch();
    let (first, last) = (pushed(0, 3, &[(109, 1)]), end(0, 1));
    switch.handle(JOB, &first);
    switch.handle(JOB, &last);
    let before: Vec<_> = switch.memory().arrays().map(|(_, cells)| cells.to_vec()).collect();
    for again in [&first, &last] {
        let handled = switch.handle(JOB, again);
        assert_eq!((handled.verdict, handled.is_acknowledged()), (Verdict::Duplicate, true));
        let older = switch.handle(JOB, &Packet { round: ROUND - 1, ..again.clone() });
        assert_eq!((older.verdict, older.is_acknowledged()), (Verdict::Stale, true));
        let next = switch.handle(JOB, &Packet { round: ROUND + 1, ..again.clone() });
        assert_eq!((next.verdict, next.is_acknowledged()), (Verdict::Early, false));
    }
    let after: Vec<_> = switch.memory().arrays().map(|(_, cells)| cells.to_vec()).collect();
    assert_eq!(before, after);
}

#[test]
fn what_cannot_be_taken_is_wrong_and_leaves_nothing() {
    let mut switch = switch();
    let before: Vec<_> = switch.memory().arrays().map(|(_, cells)| cells.to_vec()).collect();
    let nine: Vec<_> = (0..9).map(|pair| (100 + pair, 1)).collect();
    let wrong = [
        pushed(0, 0, &[(100, 1), (99, 1)]), // a key that is not hot
        pushed(0, 0, &[(100, 1), (104, 1), (108, 1)]), // three passes
        pushed(0, 0, &nine),
        pushed(0, 40, &[(100, 1)]),
        end(0, 41),
        Packet { map_version: MAP - 1, ..end(0, 0) },
        packet(0, 0, Body::Acknowledgement),
    ];
    for one in &wrong {
        let handled = switch.handle(JOB, one);
        assert_eq!(
            (handled.verdict, handled.is_acknowledged()),
            (Verdict::Wrong, false),
            "{one:?}"
        );
    }
    let tags_apart = |cells: &[u64]| cells.iter().map(|cell| *cell as u32).collect::<Vec<_>>();
    for ((_, cells), before) in switch.memory().arrays().zip(&before) {
        assert_eq!(tags_apart(cells), tags_apart(before));
    }
    assert_eq!(
        switch.handle(JOB, &pushed(0, 0, &[(100, 1)])),
        added(0, false),
        "it may still come"
    );
}

#[test]
fn strangers_are_told_apart() {
    let mut switch = switch();
    let of = |switch: &mut KeyedSwitch, job, packet: &Packet| switch.handle(job, packet).verdict;
    assert_eq!(of(&mut switch, JobId(8), &end(0, 0)), Verdict::Foreign);
    assert_eq!(of(&mut switch, JOB, &Packet { table: 2, ..end(0, 0) }), Verdict::Foreign);
    let unopened = Packet { table: 1, ..end(0, 0) };
    assert_eq!(of(&mut switch, JOB, &unopened), Verdict::Foreign, "no iteration is open");
    assert_eq!(of(&mut switch, JOB, &end(2, 0)), Verdict::BadContributor);
    let later = Packet { map_version: MAP + 1, ..end(0, 0) };
    assert_eq!(of(&mut switch, JOB, &later), Verdict::Early);
}

#[test]
fn a_second_key_of_a_register_costs_a_recirculation() {
    let mut switch = switch();
    assert_eq!(switch.handle(JOB, &pushed(0, 0, &[(100, 1), (104, 2), (105, 3)])), added(1, false));
    assert_eq!(switch.handle(JOB, &pushed(1, 0, &[(103, 1), (102, 2), (101, 3)])), added(0, false));
    assert_eq!(switch.handle(JOB, &pushed(1, 1, &[(107, 1), (107, 2)])), added(1, false));
    let sums =
        BTreeMap::from([(100, 1), (101, 3), (102, 2), (103, 1), (104, 2), (105, 3), (107, 3)]);
    assert_eq!(switch.sums(0), sums);
}

/// 30,000 hot keys of 32 workers, as Zebra has them (§V), in packets of 192 bytes: 10 pairs.
fn zebra(registers: u32) -> Arrangement {
    let spec = KeyedSpec { registers, pairs: 10, recirculations: 1 };
    let keys = (0..30_000).collect();
    let hot = HotTable { job: JOB, table: 0, workers: 32, packets: 3_000, keys };
    Arrangement::of(spec, &[hot]).expect("room")
}

#[test]
fn the_report_of_the_papers_setting() {
    let report = |registers| {
        let switch = KeyedSwitch::new(zebra(registers), &Profile::TOFINO_1).expect("a fit");
        (switch.report().stage_count(), switch.report().array_count(), switch.report().sram_bytes())
    };
    // 30,000 cells of 8 bytes, of whole registers; 94 cells a worker for numbers; 32 and 1 for who is done.
    let other_bytes = 8 * (32 * 94 + 32 + 1);
    assert_eq!(report(24), (9, 27, 8 * 30_000 + other_bytes));
    assert_eq!(report(32), (11, 35, 8 * 32 * 938 + other_bytes));
    let beyond = KeyedSwitch::new(zebra(37), &Profile::TOFINO_1).map(|_| ());
    assert!(matches!(beyond, Err(Misfit::Stages { array: "done", stage: 12, .. })));
    let often = KeyedSpec { recirculations: 9, ..zebra(32).spec };
    let often = Arrangement { spec: often, ..zebra(32) };
    let often = KeyedSwitch::new(often, &Profile::TOFINO_1).map(|_| ());
    assert!(matches!(often, Err(Misfit::Recirculations { times: 9, most: 1, .. })));
}
