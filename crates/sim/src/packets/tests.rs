//! Jobs over simulated links. Every run compares every value with its sum and checks the links' books; these tests are about the rest.

use serde_json::{Value, json};

use super::world::World;
use crate::scenario::{Background, Broken, Direction, Distribution, Failure};
use crate::testing::{GIGABIT, Tree, constant, records, rounds, scenario, trace};
use crate::{Record, Scenario, SimulationError};

const BYTES: u64 = 200_000;
/// A packet of 256 values: its bytes on the wire.
const PACKET_BYTES: f64 = 14.0 + 20.0 + 8.0 + 38.0 + 1024.0;

fn harmful() -> Direction {
    Direction { loss: 0.02, duplication: 0.02, reordering: 0.05, jitter_s: 100e-6, ..GIGABIT }
}

fn link_bytes(records: &[Record], from: &str) -> f64 {
    let of = |record: &Record| match record {
        Record::Link { source, wire_bytes, .. } if source == from => Some(*wire_bytes),
        _ => None,
    };
    records.iter().filter_map(of).sum()
}

#[test]
fn sums_are_exact_whatever_links_do() {
    for tree in [Tree::star(3), Tree::two_levels()] {
        for policy in ["pool", "cache"] {
            for direction in [GIGABIT, harmful()] {
                let scenario = scenario(&tree, policy, BYTES, direction);
                let records = records(&scenario).expect("exact sums");
                let Some(Record::End { checked_values, .. }) = records.last() else { panic!() };
                let ranks = scenario.jobs[0].workers.len() as u64;
                assert_eq!(*checked_values, 2 * ranks * BYTES / 4);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_does_not() {
    let run = |seed| {
        let mut scenario = scenario(&Tree::two_levels(), "cache", BYTES, harmful());
        scenario.seed = seed;
        trace(&records(&scenario).expect("exact sums"))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_star_takes_as_long_as_its_links() {
    // A window of 64 packets covers the round trip, so the links never idle but at the ends.
    let records = records(&scenario(&Tree::star(4), "pool", 2_000_000, GIGABIT)).expect("sums");
    let packets = (2_000_000.0f64 / 1024.0).ceil();
    let limit_s = packets * PACKET_BYTES * 8.0 / 1e9;
    for seconds in rounds(&records) {
        assert!(seconds > limit_s && seconds < 1.03 * limit_s, "{seconds} s beside {limit_s} s");
    }
}

#[test]
fn without_loss_a_worker_sends_its_gradient_once() {
    let records = records(&scenario(&Tree::star(2), "pool", BYTES, GIGABIT)).expect("sums");
    let values = BYTES as f64 + 80.0 * (BYTES as f64 / 1024.0).ceil();
    let beside = link_bytes(&records, "w0") / 2.0 - values;
    // Hello, and a preamble: two lanes for each rank and one for each packet, of 256.
    assert!((0.0..4.0 * PACKET_BYTES).contains(&beside), "{beside} bytes beside the values");
}

#[test]
fn a_late_worker_is_waited_for() {
    let mut scenario = scenario(&Tree::star(3), "cache", BYTES, GIGABIT);
    scenario.jobs[0].workers[1].start = constant(0.5);
    let late = rounds(&records(&scenario).expect("sums"));
    assert!(late[0] > 0.5 && late[1] < 0.1, "{late:?}");
}

#[test]
fn computing_times_differ_by_worker_and_round() {
    let mut scenario = scenario(&Tree::star(2), "pool", BYTES, GIGABIT);
    for worker in &mut scenario.jobs[0].workers {
        worker.compute = Distribution::Uniform { least_s: 0.1, most_s: 0.2 };
    }
    let records = records(&scenario).expect("sums");
    let of = |record: &Record| match record {
        Record::Worker { compute_s, begin_s, .. } => Some(begin_s - compute_s),
        _ => None,
    };
    let mut times: Vec<f64> = records.iter().filter_map(of).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    assert_eq!(times.len(), 4);
    assert!(times.iter().all(|time| (0.1..=0.2).contains(time)), "{times:?}");
}

fn fail_with(scenario: &Scenario) -> String {
    match records(scenario) {
        Err(SimulationError::Stuck { waits, .. }) => waits.join("\n"),
        other => panic!("{other:?} instead of no progress"),
    }
}

#[test]
fn who_waits_for_a_dead_worker_says_so() {
    let mut scenario = scenario(&Tree::star(3), "pool", 5_000_000, GIGABIT);
    let dead = scenario.sites.iter().position(|site| site.name == "w1").expect("w1");
    scenario.failures = vec![Failure { what: Broken::Site(dead), at_s: 0.01, until_s: None }];
    let waits = fail_with(&scenario);
    assert!(waits.contains("no contribution") && waits.contains("w1"), "{waits}");
}

#[test]
fn a_link_that_is_down_for_a_while_costs_that_while() {
    let mut scenario = scenario(&Tree::star(3), "pool", 5_000_000, GIGABIT);
    let undisturbed = rounds(&records(&scenario).expect("sums"))[0];
    scenario.failures = vec![Failure { what: Broken::Link(1), at_s: 0.01, until_s: Some(0.31) }];
    let disturbed = rounds(&records(&scenario).expect("sums"))[0];
    assert!(disturbed > undisturbed + 0.25, "{disturbed} s beside {undisturbed} s");
}

#[test]
fn traffic_of_others_takes_its_part_of_a_link() {
    let mut scenario = scenario(&Tree::star(2), "pool", 5_000_000, GIGABIT);
    let alone = rounds(&records(&scenario).expect("sums"))[0];
    let (source, target) = (scenario.links[0].source, scenario.links[0].target);
    scenario.background = vec![Background {
        source,
        target,
        rate_bps: 5e8,
        packet_bytes: 1500,
        from_s: 0.0,
        until_s: 1.0,
    }];
    let shared = rounds(&records(&scenario).expect("sums"))[0];
    assert!((1.9..2.2).contains(&(shared / alone)), "{shared} s beside {alone} s alone");
}

#[test]
fn what_a_switch_has_no_room_for_is_lost_and_found_again() {
    // The root forwards, so its ports are a switch's; a window of results does not fit into the slow one.
    let mut scenario = scenario(&Tree::star(3), "pool", 2_000_000, GIGABIT);
    scenario.sites[0].forwards = true;
    let slow = &mut scenario.links[0].backward;
    *slow =
        Direction { rate_bps: Some(3e8), queue_bytes: 20_000, ecn_bytes: Some(10_000), ..GIGABIT };
    let records = records(&scenario).expect("sums");
    let dropped = records.iter().any(|record| {
        matches!(record, Record::Link { source, target, dropped_bytes, marked_packets, .. }
            if source == "n0" && target == "w0" && *dropped_bytes > 0 && *marked_packets > 0)
    });
    assert!(dropped, "{records:?}");
}

#[test]
fn adding_takes_time() {
    let mut scenario = scenario(&Tree::star(4), "pool", 2_000_000, GIGABIT);
    let alone = rounds(&records(&scenario).expect("sums"))[0];
    scenario.sites[0].adding_bps = Some(2e9);
    let bound = rounds(&records(&scenario).expect("sums"))[0];
    assert!((1.9..2.2).contains(&(bound / alone)), "{bound} s beside {alone} s");
}

#[test]
fn a_caller_can_stop_a_run() {
    let scenario = scenario(&Tree::star(2), "pool", BYTES, GIGABIT);
    let stopped = crate::simulate(&scenario, &mut |_| false);
    assert_eq!(stopped, Err(SimulationError::Stopped));
}

/// The rule that a run broke after someone changed something in it.
fn broken_rule(change: impl Fn(&mut World)) -> String {
    let scenario = scenario(&Tree::two_levels(), "pool", BYTES, GIGABIT);
    let mut world = World::new(&scenario).expect("a valid scenario");
    change(&mut world);
    match world.run(&mut |_| true) {
        Err(SimulationError::Invariant(what)) => what,
        other => panic!("{other:?} instead of a broken rule"),
    }
}

#[test]
fn a_wrong_sum_is_seen() {
    // A worker that sends another one's values.
    let what = broken_rule(|world| world.hosts[1].rank = 0);
    assert!(what.contains("of them wrong") && !what.contains(" 0 of them"), "{what}");
}

#[test]
fn a_byte_that_nobody_sent_is_seen() {
    let what = broken_rule(|world| world.network.links.arrive(0, 1));
    assert!(what.contains("direction 0:") && what.contains("bytes arrived of"), "{what}");
}

#[test]
fn a_root_that_got_too_little_is_seen() {
    let mut scenario = scenario(&Tree::two_levels(), "pool", BYTES, GIGABIT);
    scenario.check_sums = false;
    let world = World::new(&scenario).expect("a valid scenario");
    let found = world.check();
    assert!(
        matches!(&found, Err(SimulationError::Invariant(what)) if what.contains("got 0 bytes")),
        "{found:?}"
    );
}

#[test]
fn loads_over_time_add_up_to_what_crossed() {
    let mut scenario = scenario(&Tree::two_levels(), "pool", BYTES, GIGABIT);
    scenario.timeline = true;
    crate::testing::assert_slices_add_up(&records(&scenario).expect("sums"));
}

/// Two switches in a row, the first with the workers, the second with the server, and the plan that has both sum where
/// the policy lets them.
fn switched(policy: &str, workers: u32, direction: Direction) -> Scenario {
    let mut scenario = scenario(&Tree::star(workers), "pool", BYTES, direction);
    let site = |name: &str| json!({ "name": name, "forwards": true, "adding_bps": null });
    scenario
        .sites
        .extend(["n1", "n2"].map(|name| serde_json::from_value(site(name)).expect("a site")));
    let (middle, server) = (scenario.sites.len() - 2, scenario.sites.len() - 1);
    for (id, source, target) in [("up", 0, middle), ("down", server, middle)] {
        let link =
            crate::scenario::Link { id: id.into(), source, target, ..scenario.links[0].clone() };
        scenario.links.push(link);
    }
    let plan = fabric(policy, workers);
    scenario.jobs[0].plan = serde_json::from_value(plan).expect("a plan");
    scenario
}

/// Every link has addresses of its own at its ends.
fn fabric(policy: &str, workers: u32) -> Value {
    let worker =
        |rank: u32| json!({ "at": { "worker": rank }, "address": format!("10.1.{rank}.1:4000") });
    let node = |id: u32, link: u32| json!({ "at": { "node": id }, "address": format!("10.1.{link}.2:5747") });
    let mut links: Vec<Value> = (0..workers)
        .map(|rank| json!({ "id": format!("l{rank}"), "ends": [worker(rank), node(0, rank)] }))
        .collect();
    links.push(json!({ "id": "up", "ends": [node(0, 100), node(1, 101)] }));
    links.push(json!({ "id": "down", "ends": [node(2, 102), node(1, 103)] }));
    let stream = |id: u32, role: &str, share: f64| {
        let (base, slots) = (1024 * id, 1024);
        let places = [json!({ "node": 0, "base": base, "slots": slots }), json!({ "node": 2 })];
        let mut legs: Vec<Value> = (0..workers)
            .map(|rank| json!({ "child": { "worker": rank }, "parent": 0, "links": [format!("l{rank}")] }))
            .collect();
        legs.push(json!({ "child": { "node": 0 }, "parent": 2, "links": ["up", "down"] }));
        json!({ "id": id, "name": role, "role": role, "share": share, "policy": policy, "window": 64,
            "priority": id, "places": places, "legs": legs })
    };
    let nodes: Vec<Value> = (0..3)
        .map(|id| json!({ "id": id, "name": format!("n{id}"), "address": format!("10.2.0.{id}:5747") }))
        .collect();
    let workers: Vec<Value> =
        (0..workers).map(|rank| json!({ "rank": rank, "name": format!("w{rank}") })).collect();
    json!({
        "format": "wiresum-plan/2",
        "job": { "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": 256, "codec": "fixed:1" },
        "nodes": nodes, "workers": workers,
        "streams": [stream(0, "exponents", 0.0), stream(1, "values", 1.0)],
        "fabric": { "timeout_s": 0.01, "links": links, "memory": [{ "node": 0, "slots": 2048 }] },
    })
}

#[test]
fn switches_sum_exactly_over_their_links() {
    for policy in ["hash", "preempt", "exclusive", "register", "cache", "pool"] {
        for direction in [GIGABIT, harmful()] {
            let records = records(&switched(policy, 3, direction));
            let records = records.unwrap_or_else(|error| panic!("{policy}: {error}"));
            let Some(Record::End { checked_values, .. }) = records.last() else { panic!() };
            assert_eq!(*checked_values, 2 * 3 * BYTES / 4, "{policy}");
            let summed = records.iter().any(|record| {
                matches!(record, Record::Counter { site, name, .. } if site == "n0" && name == "added")
            });
            assert!(summed, "{policy}: the switch has added nothing");
        }
    }
}

#[test]
fn a_switch_that_dies_for_a_while_costs_that_while() {
    let mut scenario = switched("hash", 3, GIGABIT);
    scenario.jobs[0].bytes = 5_000_000;
    let calm = records(&scenario).expect("sums");
    let begin_s = calm.iter().find_map(|record| match record {
        Record::Round { begin_s, .. } => Some(*begin_s),
        _ => None,
    });
    let at_s = begin_s.expect("a round") + 0.01;
    let (what, until_s) = (Broken::Site(0), Some(at_s + 0.3));
    scenario.failures = vec![Failure { what, at_s, until_s }];
    let (undisturbed, disturbed) =
        (rounds(&calm)[0], rounds(&records(&scenario).expect("sums"))[0]);
    assert!(disturbed > undisturbed + 0.25, "{disturbed} s beside {undisturbed} s");
}

#[test]
fn the_link_that_a_plan_names_carries_its_packets_and_no_other() {
    let mut scenario = switched("hash", 3, GIGABIT);
    // Shorter than by n1: what goes where the network would route crosses it.
    let short = crate::scenario::Link {
        id: "short".into(),
        source: 0,
        target: scenario.sites.len() - 1,
        ..scenario.links[0].clone()
    };
    scenario.links.push(short);
    let records = records(&scenario).expect("sums");
    let bytes = |id: &str| {
        let of = |record: &Record| match record {
            Record::Link { link, wire_bytes, .. } if link == id => Some(*wire_bytes),
            _ => None,
        };
        records.iter().filter_map(of).sum::<f64>()
    };
    assert!(bytes("up") > BYTES as f64 && bytes("short") == 0.0);
}
