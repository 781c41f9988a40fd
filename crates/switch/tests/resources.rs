//! The resource model: what breaks its rules fails, and what a policy takes is what its layout says.

use wiresum_switch::policy::{self, Policy};
use wiresum_switch::rmt::{
    ArrayDeclaration, ArrayId, BankDeclaration, BankId, Layout, Memory, Misfit, Profile, Violation,
};
use wiresum_switch::{Cohort, Contributors, Place, PlaceError, Switch};
use wiresum_wire::{Flags, JobId, NodeId, SubModelId};

fn layout() -> Layout {
    let array = |name, stage, width_bits| ArrayDeclaration { name, stage, width_bits, length: 4 };
    Layout {
        program: "test",
        values_per_packet: 4,
        arrays: vec![array("early", 0, 8), array("late", 1, 64)],
        banks: vec![BankDeclaration { name: "values", first_stage: 2, length: 4 }],
        recirculations: 1,
        is_multicast: false,
    }
}

const EARLY: ArrayId = ArrayId(0);
const LATE: ArrayId = ArrayId(1);
const VALUES: BankId = BankId(0);

#[test]
fn a_cell_keeps_what_a_pass_leaves_there() {
    let mut memory = Memory::<Vec<i32>>::new(&layout());
    memory.pass().access(EARLY, 3, |cell| *cell = 7);
    memory.pass().access_values(VALUES, 1, |values| values.push(5));
    assert_eq!(memory.pass().access(EARLY, 3, |cell| *cell), 7);
    assert_eq!(memory.pass().access_values(VALUES, 1, |values| values.clone()), [5]);
}

#[test]
fn a_second_access_in_one_pass_fails() {
    let mut memory = Memory::<()>::new(&layout());
    let mut pass = memory.pass();
    pass.access(EARLY, 0, |_| ());
    let violation = pass.try_access(EARLY, 1, |_| ()).expect_err("a second access");
    assert_eq!(violation, Violation::SecondAccess { program: "test", array: "early", stage: 0 });
    assert!(violation.to_string().contains("test: array early in stage 0"));
    pass.access_values(VALUES, 0, |()| ());
    let violation = pass.try_access_values(VALUES, 0, |()| ()).expect_err("a second access");
    assert!(matches!(violation, Violation::SecondAccess { array: "values", stage: 2, .. }));
}

#[test]
fn no_way_leads_back_to_an_earlier_stage() {
    let mut memory = Memory::<()>::new(&layout());
    let mut pass = memory.pass();
    pass.access(LATE, 0, |_| ());
    let violation = pass.try_access(EARLY, 0, |_| ()).expect_err("an earlier stage");
    let expected = Violation::Backwards { program: "test", array: "early", stage: 0, reached: 1 };
    assert_eq!(violation, expected);
}

#[test]
fn recirculation_gives_one_more_pass_and_not_two() {
    let mut memory = Memory::<()>::new(&layout());
    let mut pass = memory.pass();
    pass.access(LATE, 0, |_| ());
    pass.recirculate();
    pass.access(EARLY, 0, |_| ());
    let violation = pass.try_recirculate().expect_err("a second recirculation");
    assert_eq!(violation, Violation::Recirculation { program: "test", declared: 1 });
}

#[test]
fn indices_and_values_have_to_fit() {
    let mut memory = Memory::<()>::new(&layout());
    let beyond = memory.pass().try_access(LATE, 4, |_| ()).expect_err("an index beyond the end");
    assert!(matches!(beyond, Violation::OutOfRange { array: "late", index: 4, length: 4, .. }));
    let wide = memory.pass().try_access(EARLY, 0, |cell| *cell = 256).expect_err("9 bits in 8");
    assert!(matches!(wide, Violation::Overwide { array: "early", value: 256, .. }));
}

#[test]
#[should_panic(expected = "test: array early in stage 0 is accessed twice in one pass")]
fn a_program_that_breaks_a_rule_stops() {
    let mut memory = Memory::<()>::new(&layout());
    let mut pass = memory.pass();
    pass.access(EARLY, 0, |_| ());
    pass.access(EARLY, 0, |_| ());
}

#[test]
fn every_resource_can_be_the_one_that_lacks() {
    let small = Profile {
        name: "small",
        stages: 4,
        arrays_per_stage: 1,
        sram_bytes_per_stage: 64,
        cell_bits: 64,
        values_per_packet: 4,
        recirculations: 1,
    };
    assert_eq!(layout().fit(&small).map(|r| (r.stage_count(), r.array_count())), Ok((4, 4)));
    let misfit = |profile: Profile| layout().fit(&profile).expect_err("too small a switch");
    let stages = misfit(Profile { stages: 3, ..small });
    assert!(matches!(stages, Misfit::Stages { array: "values", stage: 3, stages: 3, .. }));
    let sram = misfit(Profile { sram_bytes_per_stage: 31, ..small });
    assert!(matches!(sram, Misfit::Stage { array: "late", stage: 1, bytes: 32, .. }));
    let width = misfit(Profile { cell_bits: 32, ..small });
    assert!(matches!(width, Misfit::Width { array: "late", width_bits: 64, .. }));
    let values = misfit(Profile { values_per_packet: 3, ..small });
    assert!(matches!(values, Misfit::Values { values: 4, most: 3, .. }));
    let recirculations = misfit(Profile { recirculations: 0, ..small });
    assert!(matches!(recirculations, Misfit::Recirculations { times: 1, most: 0, .. }));
    assert!(recirculations.to_string().contains("test on small"));
}

#[test]
fn a_bank_is_spread_over_stages_and_a_second_one_follows_it() {
    let mut layout = layout();
    layout.banks.push(BankDeclaration { name: "shadow", first_stage: 3, length: 4 });
    let tofino = Profile { arrays_per_stage: 1, ..Profile::TOFINO_1 };
    let report = layout.fit(&tofino).expect("twelve stages for six arrays");
    assert_eq!((report.stage_count(), report.array_count()), (6, 6));
    assert_eq!(report.sram_bytes(), 4 + 4 * 8 + 2 * 2 * 4 * 8);
}

#[test]
fn what_each_policy_takes_is_as_documented() {
    let reports = Policy::ALL.map(|policy| {
        let layout = policy::program::<()>(policy).layout(8192, 32);
        layout.fit(&Profile::TOFINO_1).map_or_else(|e| e.to_string(), |report| report.to_string())
    });
    let table = [wiresum_switch::rmt::Report::HEADING.to_owned()].into_iter().chain(reports);
    let table = table.collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(table, include_str!("snapshots/resources.txt"), "\n{table}");
    assert!(
        include_str!("../../../docs/policies.md").contains(&table),
        "docs/policies.md\n{table}"
    );
}

#[test]
fn a_table_says_why_it_does_not_take_a_stream() {
    let mut switch: Switch<()> =
        Switch::new(NodeId(0), Policy::Pool, 8, 32, &Profile::TOFINO_1).expect("room");
    let place = Place {
        job: JobId(1),
        sub_model: SubModelId(2),
        cohort: Cohort(0),
        members: Contributors::first(2),
        parent: None,
        base: 4,
        slots: 4,
        window: 4,
        lanes: Flags(0),
    };
    let refused = |switch: &mut Switch<()>, place| switch.install(place).expect_err("a bad place");
    let beyond = refused(&mut switch, Place { base: 5, ..place });
    assert!(matches!(beyond, PlaceError::Memory { end: 9, have: 8, .. }));
    for bad in [
        Place { members: Contributors::NONE, ..place },
        Place { slots: 0, ..place },
        Place { slots: 3, ..place },
        Place { window: 0, ..place },
        Place { window: 5, ..place },
    ] {
        assert!(matches!(refused(&mut switch, bad), PlaceError::Unsuited { .. }));
    }
    switch.install(place).expect("a place that fits");
    let taken = refused(&mut switch, place);
    assert!(taken.to_string().contains("job 1, sub-model 2 is summed here already"));
}
