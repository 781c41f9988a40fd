//! A scheduler that is asked by names, slot by slot.

mod common;

use std::collections::BTreeMap;

use common::{network, quick, star};
use wiresum_schedule::problem::Problem;
use wiresum_schedule::{Dialogue, Instance, Interval, Options, Sight, Summed, schedule};

/// Two jobs that share the only port of `u1`, one of them late, and one in a rack.
fn three_jobs() -> Instance {
    let mut instance = network(3, 1, 1);
    star(&mut instance, &[(0, 2)], 0, 1.5);
    star(&mut instance, &[(0, 1)], 1, 1.2);
    star(&mut instance, &[(2, 1)], 1, 0.8);
    instance.jobs[2].arrival_s = 1.0;
    instance
}

/// What is seen if all goes as planned.
fn told(instance: &Instance, before: &[Interval]) -> Sight {
    let bytes = |index: usize| match &instance.jobs[index].traffic {
        wiresum_schedule::Traffic::Star(star) => star.bytes,
        wiresum_schedule::Traffic::Flows(_) => unreachable!("there are none"),
    };
    let mut left: BTreeMap<u32, f64> =
        (0..instance.jobs.len()).map(|job| (instance.jobs[job].id, bytes(job))).collect();
    for interval in before {
        for rate in &interval.rates {
            let sent = rate.rate_bps * (interval.until_s - interval.from_s) / 8.0;
            left.entry(rate.job).and_modify(|left| *left = (*left - sent).max(0.0));
        }
    }
    left.values_mut().filter(|left| **left < 1.0).for_each(|left| *left = 0.0);
    let circuits = before.last().map_or(Vec::new(), |last| last.circuits.clone());
    Sight { left, circuits, ports: BTreeMap::new() }
}

#[test]
fn who_sees_what_was_planned_hears_the_timetable_of_an_online_schedule() {
    let instance = three_jobs();
    for scheduler in ["turns", "window", "fcfs"] {
        let options = Options { online: true, step_bps: 1e9, ..quick(1) };
        let wanted = schedule(&instance, scheduler, &options).expect("it can be served");
        let problem = Problem::new(&instance, true).expect("it is sound");
        let mut dialogue = Dialogue::new(&problem, scheduler, &options).expect("it is there");
        let mut heard: Vec<Interval> = Vec::new();
        while told(&instance, &heard).left.values().any(|left| *left > 0.0) {
            heard.push(dialogue.next(&told(&instance, &heard)).expect("it has an answer"));
        }
        let end = |intervals: &[Interval], job| {
            let last = intervals.iter().rfind(|i| i.rates.iter().any(|r| r.job == job));
            last.expect("it was served").until_s
        };
        for job in &instance.jobs {
            assert_eq!(end(&heard, job.id), end(&wanted.intervals, job.id), "{scheduler}");
        }
        assert!(heard.iter().flat_map(|i| &i.rates).any(|rate| rate.by == Summed::BySwitch));
    }
}

#[test]
fn a_unit_without_ports_has_no_circuits_and_one_that_is_not_there_is_named() {
    let instance = three_jobs();
    let problem = Problem::new(&instance, true).expect("it is sound");
    let mut dialogue = Dialogue::new(&problem, "fcfs", &quick(1)).expect("it is there");
    let mut sight = told(&instance, &[]);
    // Before the first slot nothing has been seen to fail.
    dialogue.next(&sight).expect("it has an answer");
    sight.ports.insert("u1".to_owned(), 0);
    assert!(dialogue.next(&sight).expect("it has an answer").circuits.is_empty());
    sight.ports.clear();
    assert!(!dialogue.next(&sight).expect("it has an answer").circuits.is_empty());
    sight.ports.insert("u9".to_owned(), 1);
    assert!(dialogue.next(&sight).unwrap_err().to_string().contains("no u9"));
}
