//! Instances whose best schedule is known.

mod common;

use common::{flows, network, quick, star};
use wiresum_schedule::{Instance, Objective, Options, Status, Timetable, schedule};

fn turns(instance: &Instance) -> Timetable {
    schedule(instance, "turns", &quick(1)).expect("a schedule")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// P4INC-AOI, Fig. 2: three jobs of two, two and four workers in two units, servers in two others. Jobs 1 and 2 have
/// half a slot of bytes, job 3 a whole one; a circuit carries two workers.
fn figure(is_local: bool, places: u32) -> Instance {
    let mut instance = network(4, 4, places);
    instance.dark_s = 0.0;
    instance.port_bps *= 2.0;
    star(&mut instance, &[(0, 2)], 2, 0.5);
    star(&mut instance, &[(usize::from(!is_local), 2)], if is_local { 2 } else { 3 }, 0.5);
    let third: &[(usize, u32)] = if is_local { &[(1, 4)] } else { &[(0, 2), (1, 2)] };
    star(&mut instance, third, if is_local { 3 } else { 2 }, 1.0);
    instance
}

#[test]
fn figure_2_needs_four_three_two_and_no_connections() {
    for (is_local, places, connections, reconfigurations) in
        [(false, 0, 4, 3), (true, 0, 3, 2), (false, 2, 2, 1), (true, 2, 0, 0)]
    {
        let cost = turns(&figure(is_local, places)).cost;
        let counted = (cost.setups, cost.reconfigurations);
        assert_eq!(counted, (connections, reconfigurations), "{is_local} {places}");
        assert!(near(cost.completion_s, 1.0));
    }
}

#[test]
fn one_pair_takes_its_bytes_and_one_darkness() {
    let mut instance = network(2, 1, 0);
    for _ in 0..3 {
        star(&mut instance, &[(0, 1)], 1, 0.9);
    }
    // 2.7 slots of bytes and 0.1 of darkness, in one circuit that stays.
    let timetable = turns(&instance);
    assert!(near(timetable.cost.completion_s, 3.0));
    assert_eq!((timetable.cost.setups, timetable.status), (1, Status::Optimal));
    instance.before = wiresum_schedule::Before::Even;
    assert_eq!(turns(&instance).cost.setups, 0);
}

#[test]
fn one_unit_needs_no_light() {
    let mut instance = network(1, 0, 1);
    for _ in 0..4 {
        star(&mut instance, &[(0, 2)], 0, 1.0);
    }
    let cost = turns(&instance).cost;
    assert_eq!((cost.setups, near(cost.completion_s, 1.0)), (0, true));
}

#[test]
fn without_darkness_and_with_short_slots_it_is_as_fast_as_a_fluid() {
    let mut instance = network(4, 2, 0);
    instance.dark_s = 0.0;
    instance.slot_s = 0.05;
    let sizes = [(0, 1, 1.5), (1, 2, 1.25), (2, 3, 1.0), (3, 0, 0.75), (0, 2, 0.5)];
    flows(&mut instance, &sizes);
    let mut at_units = [0.0; 4];
    for (from, to, slots) in sizes {
        at_units[from] += slots;
        at_units[to] += slots;
    }
    let fluid_s = at_units.into_iter().fold(0.0, f64::max) / 2.0;
    let timetable = turns(&instance);
    assert!(timetable.cost.completion_s >= fluid_s - 1e-9);
    assert!(timetable.cost.completion_s <= fluid_s + instance.slot_s + 1e-9, "{}", fluid_s);
}

#[test]
fn in_one_slot_circuits_are_a_matching() {
    let mut instance = network(6, 1, 0);
    instance.contiguous = true;
    for (a, b) in [(0, 3), (4, 1), (2, 5)] {
        star(&mut instance, &[(a, 1)], b, 0.9);
    }
    assert!(near(turns(&instance).cost.completion_s, 1.0));
    star(&mut instance, &[(0, 1)], 1, 0.9);
    let timetable = turns(&instance);
    assert!(near(timetable.bound_s.expect("asked for"), 2.0), "ports 0 and 1 are needed twice");
    assert!(near(timetable.cost.completion_s, 2.0));
}

#[test]
fn places_are_used_in_turns() {
    let mut instance = network(2, 1, 1);
    instance.dark_s = 0.5;
    for _ in 0..4 {
        star(&mut instance, &[(0, 1)], 1, 1.0);
    }
    // The circuit carries one job in two slots, as it is dark for half a slot; the switch sums the others in turns.
    let cost = turns(&instance).cost;
    assert!(near(cost.completion_s, 3.0), "{}", cost.completion_s);
    assert!(near(cost.share_summed, 0.75));
}

#[test]
fn for_the_mean_the_short_job_goes_first() {
    let mut instance = network(2, 1, 0);
    instance.dark_s = 0.0;
    for slots in [3.0, 1.0, 2.0] {
        star(&mut instance, &[(0, 1)], 1, slots);
    }
    let options = Options { objective: Objective::Mean, ..quick(1) };
    let cost = schedule(&instance, "turns", &options).expect("a schedule").cost;
    assert!(near(cost.sojourn_s.mean, (1.0 + 3.0 + 6.0) / 3.0), "{:?}", cost.sojourn_s);
    instance.jobs[0].weight = 10.0;
    let options = Options { objective: Objective::Weighted, ..quick(1) };
    let cost = schedule(&instance, "turns", &options).expect("a schedule").cost;
    assert!(near(cost.jobs[0].end_s, 3.0), "the heavy job is first: {:?}", cost.jobs);
}

#[test]
fn nobody_starts_before_it_arrives_with_or_without_foresight() {
    let mut instance = network(3, 1, 0);
    for (number, (from, to)) in [(0, 1), (1, 2), (0, 2)].into_iter().enumerate() {
        star(&mut instance, &[(from, 1)], to, 1.5);
        instance.jobs[number].arrival_s = 2.0 * number as f64 + 0.5;
    }
    for online in [false, true] {
        let timetable = schedule(&instance, "turns", &Options { online, ..quick(1) });
        let cost = timetable.expect("a schedule").cost;
        for (job, cost) in instance.jobs.iter().zip(&cost.jobs) {
            assert!(cost.start_s >= job.arrival_s);
        }
    }
}
