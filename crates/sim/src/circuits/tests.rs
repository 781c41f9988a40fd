//! Simulated is as planned; what is not as planned is late, never lost; and nothing crosses a dark circuit.

use std::collections::BTreeMap;

use wiresum_netem::Rng;
use wiresum_schedule::problem::Problem;
use wiresum_schedule::{
    Before, Circuits as Lit, Darkens, Flow, INSTANCE_FORMAT, Instance, Job, Options, SCHEDULERS,
    ScheduleError, Star, Timetable, Traffic, Unit, schedule, slots,
};

use super::pace::Pace;
use super::world::{Source, World};
use super::{Circuits, Fault, Faulty, run};
use crate::{Record, SimulationError};

/// Bytes of a circuit, or a worker's link, in a slot of a second.
const SLOT: f64 = 1e9;
/// Simulated completion over planned, less 1.
const APART: f64 = 0.01;
/// Schedules of all seeds and schedulers that darkness may make a slot late, or leave short of bytes: four of seed 21, by
/// `turns`, `fcfs`, `sincronia` and `k-core`.
const SELDOM: usize = 4;

fn instance(units: usize, ports: u32, places: u32, jobs: Vec<Job>) -> Instance {
    let unit = |index| Unit { name: format!("u{index}"), ports, switch_bps: 80.0 * SLOT, places };
    Instance {
        format: INSTANCE_FORMAT.to_owned(),
        slot_s: 1.0,
        dark_s: 0.02,
        darkens: Darkens::Added,
        port_bps: 8.0 * SLOT,
        host_bps: 2.0 * SLOT,
        server_bps: Some(80.0 * SLOT),
        units: (0..units).map(unit).collect(),
        before: Before::Even,
        jobs,
        paper: false,
        contiguous: true,
        slots: true,
        trees: false,
    }
}

fn star(id: u32, workers: &[(usize, u32)], server: usize, slots: f64) -> Job {
    let workers: BTreeMap<String, u32> =
        workers.iter().map(|(unit, count)| (format!("u{unit}"), *count)).collect();
    let (server, bytes) = (format!("u{server}"), slots * SLOT);
    let star = Star {
        workers,
        server,
        bytes,
        update_s: 0.01,
        host_bps: None,
        server_host: None,
        via: BTreeMap::new(),
    };
    Job { id, arrival_s: 0.0, weight: 1.0, traffic: Traffic::Star(star) }
}

/// Four to six units, stars in one or two of them, coflows, arrivals at any time; every other seed with trees.
fn random(seed: u64) -> Instance {
    let mut rng = Rng::new(seed);
    let mut below = |count: u64| rng.below(count);
    let units = 4 + below(3) as usize;
    let jobs = (1..=10 + below(20) as u32).map(|id| {
        let [home, server, other] = [(); 3].map(|()| below(units as u64) as usize);
        let length = 0.05 + below(100) as f64 / 200.0;
        let mut job = match below(4) {
            0 if home != other => star(id, &[(home, 2), (other, 2)], server, length),
            1 => {
                let flow = |to: usize| {
                    let [from, to] = [home, to].map(|unit| format!("u{unit}"));
                    Flow { from, to, bytes: 4.0 * length * SLOT, via: None }
                };
                let traffic = Traffic::Flows(vec![flow(server), flow((server + 1) % units)]);
                Job { traffic, ..star(id, &[], server, length) }
            }
            _ => star(id, &[(home, 2 + below(7) as u32)], server, length),
        };
        job.arrival_s = below(40) as f64 / 10.0;
        job
    });
    let jobs = jobs.collect();
    let ports = 2 + rng.below(3) as u32;
    let trees = seed.is_multiple_of(2);
    Instance {
        paper: rng.below(2) == 0,
        trees,
        ..instance(units, ports, rng.below(3) as u32, jobs)
    }
}

fn circuits(instance: &Instance, scheduler: &str, timetable: Option<&Timetable>) -> Circuits {
    Circuits {
        instance: instance.clone(),
        switch: "oxc".to_owned(),
        names: instance.jobs.iter().map(|job| format!("j{}", job.id)).collect(),
        timetable: timetable.map(|timetable| timetable.intervals.clone()),
        scheduler: scheduler.to_owned(),
        options: options(),
        faults: Vec::new(),
    }
}

fn options() -> Options {
    Options { rounds: 50, bound: false, ..Options::default() }
}

/// When all jobs are complete, and the counters.
fn simulated(circuits: &Circuits) -> Result<(f64, BTreeMap<String, u64>), SimulationError> {
    let (mut at, mut counters) = (0.0, BTreeMap::new());
    run(circuits, &mut |record| {
        match record {
            Record::End { at_s, .. } => at = *at_s,
            Record::Counter { name, count, .. } => drop(counters.insert(name.clone(), *count)),
            _ => {}
        }
        true
    })?;
    Ok((at, counters))
}

/// Bytes of shares at the full rate of a transfer's own links, over circuits that are all new: for as long as these are
/// dark it cannot send, and has nothing to make up for it with. A timetable counts darkness of circuits alone, so it
/// promises these bytes too early.
fn cut_short(instance: &Instance, timetable: &Timetable) -> f64 {
    let problem = Problem::new(instance, true).expect("a problem");
    let (mut before, mut cut) = (problem.before.clone(), 0.0);
    for slot in slots(&problem, &timetable.intervals) {
        for share in &slot.shares {
            let mode = problem.transfers[share.transfer].mode(share.summed);
            let is_dark = mode.crossings.iter().any(|crossing| before[crossing.pair] == 0);
            let lit_s = slot.seconds - if is_dark { instance.dark_s } else { 0.0 };
            cut += (share.bytes - mode.most * lit_s / instance.slot_s).max(0.0);
        }
        before = slot.circuits;
    }
    cut
}

#[test]
fn what_is_planned_is_what_is_simulated_for_everybody() {
    let mut late = 0;
    for seed in 0..40 {
        let mut instance = random(seed);
        for scheduler in SCHEDULERS {
            instance.slots = scheduler.keeps_slots();
            let timetable = match schedule(&instance, scheduler.name, &options()) {
                Ok(timetable) => timetable,
                Err(ScheduleError::Infeasible { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let followed = circuits(&instance, scheduler.name, Some(&timetable));
            let (at_s, counters) = match simulated(&followed) {
                // What darkness took from a transfer at the full rate of its own links is carried no more.
                Err(SimulationError::Stuck { .. }) => {
                    late += 1;
                    continue;
                }
                end => end.expect("it ends"),
            };
            let planned_s = timetable.cost.completion_s;
            let apart = (at_s / planned_s - 1.0).abs();
            let name = scheduler.name;
            // Who waits for that goes on in the next slot that it gets, which may be one after the last.
            let is_a_slot_late = counters["late_bytes"] > 0
                && at_s - planned_s < instance.slot_s + 5.0 * instance.dark_s;
            if apart >= APART {
                late += 1;
                let (cut, late_bytes) = (cut_short(&instance, &timetable), counters["late_bytes"]);
                assert!(late_bytes as f64 <= 1.1 * cut, "seed {seed}, {name}: {late_bytes}, {cut}");
            }
            let is_close = apart < APART || is_a_slot_late;
            assert!(is_close, "seed {seed}, {name}: {at_s} s, planned {planned_s} s");
            // `events` may answer with a timetable in slots; others of its say when each circuit has light.
            let ends = timetable.intervals.iter().map(|interval| interval.until_s);
            if ends.into_iter().any(|until_s| (until_s - until_s.round()).abs() > 1e-9) {
                let is_exact = apart < 1e-6 && counters["late_bytes"] == 0;
                assert!(is_exact, "seed {seed}, {name}: {at_s} s, planned {planned_s} s");
            }
            let planned = u64::from(timetable.cost.setups);
            let is_as_planned = counters["late_bytes"] > 0 || counters["setups"] == planned;
            assert!(is_as_planned, "seed {seed}, {name}: {counters:?}, planned {planned}");
        }
    }
    assert!(late <= SELDOM, "{late} of 40 times {} schedules", SCHEDULERS.len());
}

#[test]
fn a_scheduler_in_the_loop_does_what_it_plans_online() {
    for seed in 0..20 {
        let mut instance = random(seed);
        for scheduler in SCHEDULERS {
            instance.slots = scheduler.keeps_slots();
            let online = Options { online: true, ..options() };
            let Ok(timetable) = schedule(&instance, scheduler.name, &online) else { continue };
            let (at_s, _) = simulated(&circuits(&instance, scheduler.name, None)).expect("it ends");
            let planned_s = timetable.cost.completion_s;
            // It is told of shares that darkness cut short, so it may take a slot more for them.
            let most_s = planned_s * (1.0 + APART) + instance.slot_s;
            assert!(at_s < most_s, "seed {seed}, {}: {at_s} s, {planned_s} s", scheduler.name);
        }
    }
}

/// Two workers of a quarter circuit each: a slot's darkness of 0.02 s is made up for at once.
#[test]
fn a_new_circuit_is_dark_first_and_then_carries_all() {
    let mut instance = instance(2, 1, 0, vec![star(1, &[(0, 2)], 1, 0.2)]);
    instance.before = Before::None;
    let (at_s, counters) = simulated(&circuits(&instance, "fcfs", None)).expect("it ends");
    assert!((at_s - 1.01).abs() < 1e-6, "a slot, and the update: {at_s}");
    assert_eq!((counters["setups"], counters["orders"], counters["late_bytes"]), (1, 1, 0));
}

/// One of two circuits fails: whoever decides, the other one serves both jobs in turn.
#[test]
fn a_stuck_port_delays_and_loses_nothing() {
    let jobs = vec![star(1, &[(0, 4)], 1, 0.5), star(2, &[(0, 4)], 2, 0.5)];
    let mut instance = instance(3, 2, 0, jobs);
    let given = |unit: usize| Lit { between: ["u0".to_owned(), format!("u{unit}")], circuits: 1 };
    instance.before = Before::Given(vec![given(1), given(2)]);
    let timetable = schedule(&instance, "fcfs", &options()).expect("a schedule");
    for followed in [Some(&timetable), None] {
        let plain = circuits(&instance, "fcfs", followed);
        let faults = vec![Fault { what: Faulty::Port(0), at_s: 0.2, until_s: None }];
        let (at_s, counters) = simulated(&Circuits { faults, ..plain.clone() }).expect("it ends");
        assert!(at_s > simulated(&plain).expect("it ends").0, "{at_s} s");
        assert!(counters["late_bytes"] > 0 && counters["setups"] > 0, "{counters:?}");
    }
}

#[test]
fn who_waits_for_ever_is_named() {
    let instance = instance(2, 1, 0, vec![star(1, &[(0, 2)], 1, 0.2)]);
    let timetable = schedule(&instance, "fcfs", &options()).expect("a schedule");
    let faults = vec![Fault { what: Faulty::Port(1), at_s: 0.0, until_s: None }];
    let error = simulated(&Circuits { faults, ..circuits(&instance, "", Some(&timetable)) });
    let error = error.expect_err("there is no light").to_string();
    assert!(error.contains("job j1 has 200000000 of 200000000 bytes to send"), "{error}");
}

#[test]
fn a_byte_on_a_dark_circuit_is_seen() {
    let mut instance = instance(2, 1, 0, vec![star(1, &[(0, 2)], 1, 0.2)]);
    instance.before = Before::None;
    let scenario = circuits(&instance, "fcfs", None);
    let problem = Problem::new(&instance, true).expect("a problem");
    let mut world = World::new(&scenario, &problem, Source::Timetable(Vec::new().into_iter()));
    let due = super::pace::Due {
        transfer: 0,
        summed: wiresum_schedule::Summed::ByServer,
        bytes: 1.0,
        late_bytes: 0.0,
    };
    world.dues = vec![due];
    world.light.order(&[1]);
    let pace = [Pace { share: 1.0, late: 0.0 }];
    let dark = world.check_paces(&pace).expect_err("the circuit is dark").to_string();
    assert!(dark.contains("bytes/s cross u0-u1, whose circuits carry 0"), "{dark}");
    world.light.shine_until(instance.dark_s);
    world.check_paces(&pace).expect("it has light");
    world.carried[0] = 1.0;
    world.check().expect_err("there was no time with light");
}
