//! Exact answers: what can be computed by hand.

use super::fluid::Fluid;
use crate::scenario::{Background, Broken, Direction, Failure, Fidelity};
use crate::testing::{GIGABIT, Tree, constant, records, rounds, scenario, trace};
use crate::{Record, Scenario, SimulationError};

const BYTES: u64 = 125_000_000;

fn flows(tree: &Tree, policy: &str) -> Scenario {
    let mut made = scenario(tree, policy, BYTES, GIGABIT);
    made.fidelity = Fidelity::Flows;
    for stream in &mut made.jobs[0].streams {
        stream.wire_bytes = BYTES as f64;
    }
    made
}

fn first_round(scenario: &Scenario) -> f64 {
    rounds(&records(scenario).expect("it ends"))[0]
}

fn assert_takes(scenario: &Scenario, expected_s: f64) {
    let found_s = first_round(scenario);
    assert!((found_s - expected_s).abs() < 1e-9, "{found_s} s instead of {expected_s} s");
}

#[test]
fn a_star_takes_as_long_as_one_link() {
    for policy in ["pool", "cache"] {
        assert_takes(&flows(&Tree::star(4), policy), 1.0);
        assert_takes(&flows(&Tree::two_levels(), policy), 1.0);
    }
}

#[test]
fn a_node_that_adds_slowly_takes_all_children_together() {
    for policy in ["pool", "cache"] {
        let mut scenario = flows(&Tree::star(4), policy);
        scenario.sites[0].adding_bps = Some(1e9);
        assert_takes(&scenario, 4.0);
    }
}

#[test]
fn a_late_worker_costs_what_it_has_to() {
    let mut scenario = flows(&Tree::star(3), "cache");
    scenario.jobs[0].barrier = false;
    scenario.jobs[0].workers[1].start = constant(0.25);
    // It sends alone in the end; results flow behind it.
    assert_takes(&scenario, 1.25);
}

/// XAgg (IEEE/ACM Transactions on Networking, 2023, §II-A, Fig. 1): 1.25 GB, links of 10 Gbit/s, W2's half as fast, W3 2 s late.
fn fig1(edges: &[(usize, usize)], is_in_step: bool) -> Scenario {
    const PS: usize = 0;
    const S1: usize = 1;
    let mut made = flows(&Tree::two_levels(), "cache");
    let rate = |bps| Direction { rate_bps: Some(bps), delay_s: 0.0, ..GIGABIT };
    // Every site at one switch that only forwards.
    let mut fabric = made.sites[0].clone();
    fabric.name = "switch".into();
    fabric.forwards = true;
    let switch = made.sites.len();
    made.sites.push(fabric);
    made.links.clear();
    for site in (0..switch).filter(|site| *site != 2) {
        let bps = if site == 4 { 5e9 } else { 10e9 };
        let backward = Direction { rate_bps: Some(1e15), ..rate(1e15) };
        let (forward, backward) =
            if site == PS || site == S1 { (rate(10e9), rate(10e9)) } else { (rate(bps), backward) };
        made.links.push(crate::scenario::Link {
            id: format!("l{site}"),
            source: site,
            target: switch,
            forward,
            backward,
        });
    }
    let job = &mut made.jobs[0];
    job.rounds = 1;
    job.barrier = false;
    job.upload_only = true;
    job.workers[2].start = constant(2.0);
    job.streams[0].edges = edges.to_vec();
    job.streams[0].wire_bytes = 1.25e9;
    job.streams[0].lockstep = is_in_step;
    made
}

#[test]
fn xagg_figure_1_takes_4_and_4_and_3_seconds() {
    // Sites: PS 0, S1 1, workers from 3.
    let parameter_server = fig1(&[(3, 0), (4, 0), (5, 0), (6, 0)], false);
    assert_takes(&parameter_server, 4.0);
    let with_aggregator = [(1, 0), (6, 0), (3, 1), (4, 1), (5, 1)];
    assert_takes(&fig1(&with_aggregator, false), 3.0);
    // A switch without memory sends on what it can sum at once: all of it in step with the slowest, from the latest on.
    let mut in_step = fig1(&with_aggregator, true);
    in_step.links[1].forward.rate_bps = Some(1e15);
    in_step.links[1].backward.rate_bps = Some(1e15);
    assert_takes(&in_step, 4.0);
}

#[test]
fn jobs_share_what_they_both_cross() {
    let mut scenario = flows(&Tree::star(2), "pool");
    let second = scenario.jobs[0].clone();
    scenario.jobs.push(second);
    assert_takes(&scenario, 2.0);
}

#[test]
fn others_take_their_rate_away() {
    let mut scenario = flows(&Tree::star(2), "pool");
    let (source, target) = (scenario.links[0].source, scenario.links[0].target);
    scenario.background = vec![Background {
        source,
        target,
        rate_bps: 5e8,
        packet_bytes: 1500,
        from_s: 0.0,
        until_s: 1.0,
    }];
    assert_takes(&scenario, 1.5);
}

/// Others from host 0 towards the star's middle.
fn others(scenario: &Scenario, rate_bps: f64, from_s: f64, until_s: f64) -> Background {
    let (source, target) = (scenario.links[0].source, scenario.links[0].target);
    Background { source, target, rate_bps, packet_bytes: 1500, from_s, until_s }
}

#[test]
fn others_that_overlap_give_back_what_each_took() {
    let mut scenario = flows(&Tree::star(2), "cache");
    // Together more than the link has: a thousandth is left for a second, then 0.4 of it.
    scenario.background = vec![
        others(&scenario, 6e8, 0.0, 2.0),
        others(&scenario, 6e8, 1.0, 3.0),
        others(&scenario, 0.0, 0.0, 4.0),
    ];
    // 0.4 in the first second, 0.001 in the second one, 0.4 in the third, the rest alone.
    assert_takes(&scenario, 3.0 + (1.0 - 0.4 - 0.001 - 0.4));
}

#[test]
fn a_link_that_is_back_is_still_shared_with_others() {
    let mut scenario = flows(&Tree::star(2), "cache");
    scenario.background = vec![others(&scenario, 5e8, 0.0, 10.0)];
    scenario.failures = vec![Failure { what: Broken::Link(0), at_s: 0.5, until_s: Some(1.0) }];
    assert_takes(&scenario, 2.5);
}

#[test]
fn others_that_go_do_not_mend_a_broken_link() {
    let mut scenario = flows(&Tree::star(2), "cache");
    scenario.background = vec![others(&scenario, 5e8, 0.0, 0.5)];
    scenario.failures = vec![
        Failure { what: Broken::Link(0), at_s: 0.25, until_s: Some(1.0) },
        Failure { what: Broken::Link(0), at_s: 0.5, until_s: Some(2.0) },
    ];
    // An eighth in the first quarter; both failures have to end.
    assert_takes(&scenario, 2.0 + 0.875);
}

#[test]
fn a_link_that_is_down_for_a_while_costs_that_while() {
    let mut scenario = flows(&Tree::star(2), "cache");
    scenario.failures = vec![Failure { what: Broken::Link(0), at_s: 0.5, until_s: Some(0.75) }];
    assert_takes(&scenario, 1.25);
}

#[test]
fn who_waits_at_a_broken_link_says_so() {
    let mut scenario = flows(&Tree::star(2), "cache");
    scenario.failures = vec![Failure { what: Broken::Link(0), at_s: 0.5, until_s: None }];
    match records(&scenario) {
        Err(SimulationError::Stuck { at_s, waits }) => {
            assert!(at_s >= 0.5);
            assert!(waits[0].contains("n0 has") && waits[0].contains("from w0"), "{waits:?}");
        }
        other => panic!("{other:?} instead of no progress"),
    }
}

#[test]
fn failures_of_sites_are_for_packets() {
    let mut scenario = flows(&Tree::star(2), "cache");
    scenario.failures = vec![Failure { what: Broken::Site(0), at_s: 0.5, until_s: None }];
    assert!(matches!(records(&scenario), Err(SimulationError::Unsupported(_))));
}

#[test]
fn every_byte_of_every_edge_is_counted() {
    let records = records(&flows(&Tree::two_levels(), "cache")).expect("it ends");
    for record in &records {
        if let Record::Link { wire_bytes, .. } = record {
            assert_eq!(*wire_bytes, 2.0 * BYTES as f64);
        }
    }
}

#[test]
fn the_same_scenario_gives_the_same_trace() {
    let run = || trace(&records(&flows(&Tree::two_levels(), "cache")).expect("it ends"));
    assert_eq!(run(), run());
}

#[test]
fn packets_and_flows_agree() {
    for (tree, policy) in [(Tree::star(4), "pool"), (Tree::two_levels(), "cache")] {
        let mut scenario = scenario(&tree, policy, 4_000_000, GIGABIT);
        scenario.check_sums = false;
        let packets = first_round(&scenario);
        scenario.fidelity = Fidelity::Flows;
        let flows = first_round(&scenario);
        // Delay, preamble and the first packet's way are not in the flows.
        assert!((1.0..1.03).contains(&(packets / flows)), "{packets} s beside {flows} s");
    }
}

/// Two workers behind a switch that only forwards, and one beside the root.
fn behind_a_switch(policy: &str, is_copied: bool) -> Scenario {
    let mut made = flows(&Tree::star(3), policy);
    let mut switch = made.sites[0].clone();
    (switch.name, switch.forwards) = ("switch".into(), true);
    let number = made.sites.len();
    made.sites.push(switch);
    let mut up = made.links[0].clone();
    (up.id, up.source) = ("up".into(), number);
    for link in &mut made.links[..2] {
        link.target = number;
    }
    made.links.push(up);
    made.jobs[0].streams[0].is_copied = is_copied;
    made.jobs[0].rounds = 1;
    made
}

#[test]
fn switches_copy_results_where_ways_part() {
    for policy in ["pool", "cache"] {
        for (is_copied, results) in [(false, 2), (true, 1)] {
            let scenario = behind_a_switch(policy, is_copied);
            let records = records(&scenario).expect("it ends");
            let of = |record: &Record| match record {
                Record::Link { link, wire_bytes, .. } if link == "up" => Some(*wire_bytes as u64),
                _ => None,
            };
            let crossed: Vec<u64> = records.iter().filter_map(of).collect();
            assert_eq!(crossed, [2 * BYTES, results * BYTES], "{policy}, {is_copied}");
            // Two contributions share the link up, whoever copies.
            assert_takes(&scenario, 2.0);
        }
    }
}

#[test]
fn copies_wait_for_the_narrowest_link_before_them() {
    let mut scenario = behind_a_switch("cache", true);
    for link in &mut scenario.links {
        link.forward.rate_bps = Some(4e9);
    }
    scenario.links[3].backward.rate_bps = Some(5e8);
    assert_takes(&scenario, 2.0);
}

/// The rule that a run broke after someone changed a current in it: when so many events are over, and how.
fn broken_rule(change: impl Fn(&mut Fluid)) -> String {
    let scenario = flows(&Tree::two_levels(), "cache");
    let mut fluid = Fluid::new(&scenario).expect("a valid scenario");
    let mut heard = |_: &Record| true;
    fluid.step(&mut heard).expect("workers begin");
    change(&mut fluid);
    match fluid.run(&mut heard) {
        Err(SimulationError::Invariant(what)) => what,
        other => panic!("{other:?} instead of a broken rule"),
    }
}

#[test]
fn bytes_from_nowhere_are_seen() {
    let what = broken_rule(|fluid| {
        let first = fluid.flowing.open[0] as usize;
        fluid.flowing.currents[first].sent_bytes = 2.0 * BYTES as f64;
    });
    assert!(what.contains("of 125000000 bytes, or more"), "{what}");
}

#[test]
fn a_link_that_was_too_fast_is_seen() {
    let what = broken_rule(|fluid| {
        for current in &mut fluid.flowing.currents {
            current.sent_bytes = 0.9 * BYTES as f64;
        }
    });
    assert!(what.contains("bytes in time for"), "{what}");
}

#[test]
fn a_result_that_is_ahead_of_its_sum_is_seen() {
    let what = broken_rule(|fluid| {
        let last = fluid.flowing.currents.len() - 1;
        fluid.flowing.currents[last].sent_bytes = BYTES as f64;
    });
    assert!(what.contains("more than its feeds"), "{what}");
}

#[test]
fn a_root_that_got_too_little_is_seen() {
    let scenario = flows(&Tree::two_levels(), "cache");
    let fluid = Fluid::new(&scenario).expect("a valid scenario");
    assert!(
        matches!(fluid.check(), Err(SimulationError::Invariant(what)) if what.contains("root got 0 bytes"))
    );
}

#[test]
fn loads_over_time_add_up_to_what_crossed() {
    let mut scenario = flows(&Tree::two_levels(), "cache");
    scenario.timeline = true;
    crate::testing::assert_slices_add_up(&records(&scenario).expect("it ends"));
}
