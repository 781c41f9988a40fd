//! Everybody's schedules of random instances, before the judge; bounds below all of them.

mod common;

use std::collections::BTreeMap;

use common::{at_server, flows, network, quick, relay, star};
use proptest::prelude::*;
use wiresum_schedule::{
    Before, Darkens, Instance, Objective, Options, SCHEDULERS, ScheduleError, Scheduler, schedule,
};

/// Odd ports, one port, no places, all in one unit, coflows beside synchronous jobs, any arrivals.
fn instances() -> impl Strategy<Value = Instance> {
    let units = (0usize..6, 0usize..6, 0usize..6, 0usize..18);
    let job = (units, 1u32..5, 0.05f64..4.0, 0.0f64..1.5, 0u32..4, 0u8..4);
    let size = (1usize..6, 1u32..5, 0u32..3, any::<bool>(), any::<bool>(), 0u8..3, 0u8..3);
    let rules = any::<(bool, bool, bool)>();
    (size, rules, prop::collection::vec(job, 1..14)).prop_map(|(size, rules, jobs)| {
        let (units, ports, places, paper, is_even, darkens, scarce) = size;
        let mut instance = network(units, ports, places);
        (instance.slots, instance.contiguous) = (rules.0, rules.1 || rules.0);
        instance.trees = rules.2;
        instance.paper = paper;
        instance.before = if is_even { Before::Even } else { Before::None };
        instance.darkens = [Darkens::Added, Darkens::Units, Darkens::All][darkens as usize];
        if scarce == 2 {
            instance.server_bps = Some(16e9);
        }
        if scarce == 0 {
            instance.units.iter_mut().for_each(|unit| unit.switch_bps = 4e10);
        }
        for ((home, other, server, third), workers, slots, update_s, arrival, kind) in jobs {
            let [home, other, server] = [home, other, server].map(|unit| unit % units);
            if kind == 0 {
                flows(&mut instance, &[(home, server, slots)]);
            } else if kind == 1 && home != other && ports > 1 {
                star(&mut instance, &[(home, workers), (other, workers)], server, slots);
            } else {
                star(&mut instance, &[(home, workers)], server, slots);
            }
            if third % 3 == 0 {
                at_server(&mut instance, "only");
            }
            if third < units && ports > 2 {
                relay(&mut instance, third);
            }
            let job = instance.jobs.last_mut().expect("just added");
            job.arrival_s = f64::from(arrival) * 0.7;
            if let wiresum_schedule::Traffic::Star(star) = &mut job.traffic {
                star.update_s = update_s;
            }
        }
        instance
    })
}

/// Those that keep the instance's rule of slots.
fn all(instance: &Instance) -> impl Iterator<Item = &'static Scheduler> {
    SCHEDULERS.iter().filter(|scheduler| scheduler.keeps_slots() || !instance.slots)
}

/// Those that may find no way: their circuits never change, move on, or follow pairs without a look at who needs two.
fn may_fail(name: &str) -> bool {
    let fixed = ["window-fixed", "uniform", "matching"];
    fixed.contains(&name)
        || ["fullest", "round-robin", "solstice", "eclipse", "spectra"].contains(&name)
}

/// Coflows of many flows, some far larger than a slot carries, so that rounding has room to add up.
fn coflows() -> impl Strategy<Value = Instance> {
    let flow = (0usize..6, 0usize..6, -3i32..7, 1.0f64..10.0);
    let coflow = prop::collection::vec(flow, 1..12);
    let size = (2usize..7, 1u32..6, any::<(bool, bool)>(), 0.0f64..0.85, 0u8..3);
    (size, prop::collection::vec((coflow, 0u32..3), 1..8)).prop_map(|(size, jobs)| {
        let (units, ports, (is_even, slots), dark_s, darkens) = size;
        let mut instance = network(units, ports, 0);
        instance.slots = slots;
        instance.before = if is_even { Before::Even } else { Before::None };
        instance.darkens = [Darkens::Added, Darkens::Units, Darkens::All][darkens as usize];
        instance.dark_s = dark_s;
        for (coflow, arrival) in jobs {
            let mut sizes = BTreeMap::new();
            for (from, to, power, factor) in coflow {
                sizes.insert((from % units, to % units), factor * 2f64.powi(power));
            }
            let sizes = sizes.into_iter().map(|((from, to), slots)| (from, to, slots));
            flows(&mut instance, &sizes.collect::<Vec<_>>());
            instance.jobs.last_mut().expect("just added").arrival_s = f64::from(arrival) * 1.3;
        }
        instance
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nobody_lights_more_circuits_than_there_are_ports(instance in coflows(), online: bool) {
        for scheduler in all(&instance) {
            let options = Options { online, bound: false, ..quick(5) };
            match schedule(&instance, scheduler.name, &options) {
                Ok(_) => {}
                Err(ScheduleError::Infeasible { .. })
                    if ["window-fixed", "uniform"].contains(&scheduler.name) => {}
                Err(error) => prop_assert!(false, "{}: {error}", scheduler.name),
            }
        }
    }

    #[test]
    fn every_schedule_keeps_the_rules_and_none_ends_before_the_bound(instance in instances()) {
        for sums in [true, false] {
            for scheduler in all(&instance) {
                let options = Options { sums, ..quick(7) };
                match schedule(&instance, scheduler.name, &options) {
                    Ok(timetable) => {
                        let bound_s = timetable.bound_s.expect("asked for");
                        let ends_s = timetable.cost.completion_s;
                        prop_assert!(bound_s <= ends_s + 1e-6, "{}: {bound_s} {ends_s}", scheduler.name);
                        prop_assert!(sums || timetable.cost.share_summed == 0.0);
                    }
                    Err(ScheduleError::Infeasible { .. }) if may_fail(scheduler.name) => {}
                    Err(error) => prop_assert!(false, "{}: {error}", scheduler.name),
                }
            }
        }
    }

    /// Whoever decides slot by slot may be lucky where the search is not.
    #[test]
    fn turns_is_complete_before_its_rivals(one in instances(), other in coflows()) {
        let options = Options { bound: false, ..quick(2) };
        for instance in [one, other] {
            let ends_s = |name: &str| {
                schedule(&instance, name, &options).map(|timetable| timetable.cost.completion_s)
            };
            let ours_s = ends_s("turns").expect("a schedule");
            for name in ["window", "fcfs", "varys", "fullest"] {
                // Who changes circuits refuses jobs that must not pause.
                let Ok(theirs_s) = ends_s(name) else { continue };
                prop_assert!(ours_s <= theirs_s * (1.0 + 1e-9), "{name}: {theirs_s} s, turns: {ours_s} s");
            }
        }
    }

    /// While a pair waits, one of its units has no free port: who works all the time takes twice the least time, and
    /// a slot for each end that is not the end of a slot.
    #[test]
    fn fullest_ends_a_batch_of_flows_in_twice_the_least_time(mut instance in coflows()) {
        instance.dark_s = 0.0;
        instance.jobs.iter_mut().for_each(|job| job.arrival_s = 0.0);
        let timetable = schedule(&instance, "fullest", &quick(1)).expect("a schedule");
        let pairs = instance.units.len() as f64;
        let bound_s = timetable.bound_s.expect("asked for");
        let ends_s = timetable.cost.completion_s;
        prop_assert!(ends_s <= 2.0 * bound_s + pairs * instance.slot_s, "{ends_s} s, bound {bound_s} s");
    }

    /// What an objective makes small is smallest, of those who serve one job after another, where it is asked for.
    #[test]
    fn objectives_are_obeyed(instance in instances()) {
        let cost = |name: &str, objective| {
            let options = Options { bound: false, objective, ..quick(2) };
            schedule(&instance, name, &options).expect("a schedule").cost
        };
        for name in ["varys", "sincronia", "sunflow", "k-core"] {
            let theirs = cost(name, Objective::Mean);
            let mean = cost("turns", Objective::Mean).sojourn_s.mean;
            prop_assert!(mean <= theirs.sojourn_s.mean * (1.0 + 1e-9), "{name}");
            let weighted = cost("turns", Objective::Weighted).weighted_s;
            prop_assert!(weighted <= theirs.weighted_s * (1.0 + 1e-9), "{name}");
            let slowdown = cost("turns", Objective::Fair).slowdown;
            prop_assert!(slowdown <= theirs.slowdown * (1.0 + 1e-9), "{name}");
        }
    }

    #[test]
    fn options_change_no_rule(instance in instances(), blocking: bool, keep_circuits: bool, online: bool) {
        let options = Options { blocking, keep_circuits, online, bound: false, ..quick(3) };
        let names = ["fcfs", "turns", "events"];
        for name in names.into_iter().filter(|name| *name != "events" || !instance.slots) {
            let timetable = schedule(&instance, name, &options);
            prop_assert!(timetable.is_ok(), "{name}: {:?}", timetable.err());
        }
    }

    #[test]
    fn equal_seeds_give_equal_schedules(instance in instances(), seed: u64) {
        for name in ["turns", "events"] {
            let timetable = || schedule(&instance, name, &quick(seed)).map_err(|e| e.to_string());
            prop_assert_eq!(timetable(), timetable());
        }
    }
}

proptest! {
    // Each asks `turns` four times, and several orders beside it.
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// A schedule without sums of several units is one with them.
    #[test]
    fn trees_delay_nobody(mut instance in instances()) {
        for name in ["turns", "events"] {
            instance.slots = name == "turns";
            let mut ends_s = |trees| {
                instance.trees = trees;
                let options = Options { bound: false, ..quick(2) };
                schedule(&instance, name, &options).expect("a schedule").cost.completion_s
            };
            let (plain_s, trees_s) = (ends_s(false), ends_s(true));
            prop_assert!(trees_s <= plain_s * (1.0 + 1e-9), "{name}: {plain_s} s, with trees {trees_s} s");
        }
    }

    /// A schedule in slots is one without, so nobody who needs slots is first.
    #[test]
    fn without_slots_nothing_is_complete_later(one in instances(), other in coflows()) {
        for mut instance in [one, other] {
            instance.slots = false;
            let options = Options { bound: false, ..quick(2) };
            let ends_s = |name: &str| schedule(&instance, name, &options).expect(name).cost.completion_s;
            let (ours_s, theirs_s) = (ends_s("events"), ends_s("turns"));
            prop_assert!(ours_s <= theirs_s * (1.0 + 1e-9), "turns: {theirs_s} s, events: {ours_s} s");
        }
    }
}

/// Two disjoint pairs have equal demands, so one matching is enough; a third one needs a second.
/// Three jobs in a unit with two places, all in the only slot: servers hear from one of them.
#[test]
fn turns_gives_free_places_to_jobs_that_need_no_circuit() {
    let mut instance = network(2, 1, 2);
    (0..3).for_each(|_| star(&mut instance, &[(0, 2)], 0, 0.5));
    let cost = schedule(&instance, "turns", &quick(1)).expect("a timetable").cost;
    assert!((cost.completion_s - 1.0).abs() < 1e-9);
    assert!((cost.share_summed - 2.0 / 3.0).abs() < 1e-9, "{}", cost.share_summed);
}

#[test]
fn demands_are_split_into_matchings_that_stay_as_long_as_they_must() {
    for name in ["solstice", "eclipse", "spectra"] {
        let mut instance = network(4, 1, 0);
        flows(&mut instance, &[(0, 1, 4.9), (3, 2, 4.9)]);
        let cost = schedule(&instance, name, &quick(1)).expect("a schedule").cost;
        assert_eq!((cost.completion_s, cost.setups), (5.0, 2), "{name}");
        flows(&mut instance, &[(0, 2, 1.9)]);
        let cost = schedule(&instance, name, &quick(1)).expect("a schedule").cost;
        assert!((7.0..=8.0).contains(&cost.completion_s), "{name}: {}", cost.completion_s);
    }
}

/// A unit's ports share the only demand that there is.
#[test]
fn spectra_splits_long_matchings_between_ports() {
    let mut instance = network(2, 2, 0);
    flows(&mut instance, &[(0, 1, 9.8)]);
    let cost = schedule(&instance, "spectra", &quick(1)).expect("a schedule").cost;
    assert!(cost.completion_s <= 6.0, "{}", cost.completion_s);
}

#[test]
fn a_rotation_serves_coflows() {
    let mut instance = network(5, 2, 0);
    flows(&mut instance, &[(0, 1, 2.0), (1, 2, 1.0), (3, 4, 0.5), (4, 0, 1.5)]);
    let timetable = schedule(&instance, "round-robin", &quick(1)).expect("a schedule");
    assert!(timetable.cost.completion_s >= timetable.bound_s.expect("asked for"));
}

/// Sunflow, §4: a coflow on one switch is not preempted, so it has one set-up for each flow, and at most twice the
/// time of its busiest port.
#[test]
fn sunflow_sets_up_one_circuit_for_each_flow_and_ends_in_twice_the_ports_time() {
    for seed in 0..20 {
        let mut rng = wiresum_netem::Rng::new(seed);
        let mut instance = network(6, 1, 0);
        instance.slot_s = 0.02;
        instance.dark_s = 0.01;
        let mut sizes = Vec::new();
        for from in 0..6 {
            for to in from + 1..6 {
                if rng.below(2) == 0 {
                    sizes.push((from, to, 0.2 + rng.below(100) as f64 / 50.0));
                }
            }
        }
        let mut ports = [0.0f64; 6];
        for (from, to, seconds) in &sizes {
            // A flow's last slot may be part empty, and the next one's circuit is dark first.
            for unit in [from, to] {
                ports[*unit] += seconds + 2.0 * instance.slot_s;
            }
        }
        flows(&mut instance, &sizes);
        let cost = schedule(&instance, "sunflow", &quick(1)).expect("a schedule").cost;
        assert_eq!(cost.setups as usize, sizes.len(), "seed {seed}");
        let least = ports.into_iter().fold(0.0, f64::max);
        assert!(
            cost.completion_s <= 2.0 * least,
            "seed {seed}: {} s, {least} s",
            cost.completion_s
        );
    }
}

/// Two coflows on the same ports: the short one first is best on average, unless the long one weighs more.
#[test]
fn k_core_serves_the_shortest_for_its_weight_first() {
    let mut instance = network(2, 1, 0);
    flows(&mut instance, &[(0, 1, 3.0)]);
    flows(&mut instance, &[(0, 1, 1.0)]);
    instance.before = Before::Even;
    for (weight, ends) in [(1.0, [4.0, 1.0]), (10.0, [3.0, 4.0])] {
        instance.jobs[0].weight = weight;
        let cost = schedule(&instance, "k-core", &quick(1)).expect("a schedule").cost;
        assert_eq!(cost.jobs.iter().map(|job| job.end_s).collect::<Vec<_>>(), ends, "{weight}");
    }
}

#[test]
fn uniform_circuits_are_set_up_once_and_serve_any_pair() {
    let mut instance = network(4, 3, 0);
    flows(&mut instance, &[(0, 1, 2.5), (2, 3, 0.5), (1, 3, 1.5)]);
    let cost = schedule(&instance, "uniform", &quick(1)).expect("a schedule").cost;
    assert_eq!(
        (cost.setups, cost.completion_s),
        (3, 3.0),
        "2.5 slots of bytes and 0.1 of darkness"
    );
}
