//! Switch programs over simulated links. With values every result is compared with its sum; these tests are about the rest.

use wiresum_switch::{Payload, Values};
use wiresum_wire::Flags;

use super::content::Content;
use super::yard::Yard;
use crate::scenario::{
    Background, Broken, Direction, Failure, Fidelity, Program, ProgramStream, Way, WorkerTimes,
};
use crate::testing::{GIGABIT, Tree, constant, records, rounds, scenario, trace};
use crate::{Record, Scenario, SimulationError};

const FRAGMENTS: u32 = 2000;
const PACKET_BYTES: u32 = 1100;
const EXACT: [&str; 5] = ["pool", "hash", "exclusive", "preempt", "cache"];

/// Two switches with two workers each below one that has the server: sites n0 (server), n1 and n2 of the tree, and a switch in between.
fn program(policy: &str, slots: u32) -> Scenario {
    let mut made = scenario(&Tree::two_levels(), "pool", 4, GIGABIT);
    made.fidelity = Fidelity::Trains;
    made.jobs.clear();
    let top = made.sites.len();
    let mut switch = made.sites[0].clone();
    switch.name = "top".into();
    made.sites.push(switch);
    for site in [1, 2, top] {
        made.sites[site].forwards = true;
    }
    for link in made.links.iter_mut().filter(|link| link.target == 0) {
        link.target = top;
    }
    let mut up = made.links[0].clone();
    (up.id, up.source, up.target) = ("up".into(), top, 0);
    made.links.push(up);
    let ends_at_switch = ["pool", "cache"].contains(&policy);
    let is_addressed = policy == "exclusive";
    let way = |rank: usize| {
        let root = if ends_at_switch { top } else { 0 };
        if is_addressed { vec![3 + rank, top, root] } else { vec![3 + rank, root] }
    };
    let window = 256;
    made.programs = vec![Program {
        name: "job".into(),
        policy: policy.into(),
        streams: vec![ProgramStream {
            waypoints: (0..4).map(way).collect(),
            ways: Vec::new(),
            switches: if is_addressed { vec![(top, 0)] } else { vec![(1, 0), (2, 0), (top, 0)] },
            base: 0,
            slots,
            window,
            fragments: FRAGMENTS,
        }],
        memory_slots: slots,
        priority: 1,
        packet_bytes: PACKET_BYTES,
        timeout_s: 5e-3,
        rounds: 2,
        workers: vec![WorkerTimes { start: constant(0.0), compute: constant(0.0) }; 4],
    }];
    made
}

fn count(records: &[Record], at: &str, counter: &str) -> u64 {
    let of = |record: &Record| match record {
        Record::Counter { site, name, count, .. } if site == at && name == counter => Some(*count),
        _ => None,
    };
    records.iter().filter_map(of).sum()
}

fn packets_into_server(records: &[Record]) -> u64 {
    let of = |record: &Record| match record {
        Record::Link { target, wire_bytes, .. } if target == "n0" => Some(*wire_bytes as u64),
        _ => None,
    };
    records.iter().filter_map(of).sum::<u64>() / u64::from(PACKET_BYTES)
}

#[test]
fn every_policy_sums_exactly_whatever_links_do() {
    for policy in EXACT {
        for loss in [0.0, 0.02] {
            for train in [1, 16] {
                let mut scenario = program(policy, 1024);
                scenario.train = train;
                for link in &mut scenario.links {
                    link.forward = Direction { loss, ..link.forward };
                    link.backward = Direction { loss, ..link.backward };
                }
                let run = records(&scenario);
                let records = run.unwrap_or_else(|e| panic!("{policy}, {loss}, {train}: {e}"));
                let Some(Record::End { checked_values, .. }) = records.last() else { panic!() };
                assert_eq!(*checked_values, 2 * 4 * u64::from(FRAGMENTS), "{policy}, {loss}");
            }
        }
    }
}

#[test]
fn trains_take_as_long_as_packets() {
    for policy in ["pool", "hash"] {
        let time = |train| {
            let mut scenario = program(policy, 1024);
            scenario.train = train;
            rounds(&records(&scenario).expect("it ends"))[0]
        };
        let (packets, trains) = (time(1), time(16));
        // A train is stored whole at each of three hops, both ways.
        assert!((trains / packets - 1.0).abs() < 0.1, "{policy}: {trains} s beside {packets} s");
    }
}

#[test]
fn values_do_not_change_what_happens() {
    let with = |check| {
        let mut scenario = program("hash", 64);
        scenario.check_sums = check;
        trace(&records(&scenario).expect("it ends"))
    };
    assert_eq!(with(true), with(false));
}

#[test]
fn with_room_the_server_gets_each_fragment_once() {
    for policy in ["hash", "exclusive"] {
        let records = records(&program(policy, 4096)).expect("it ends");
        assert_eq!(packets_into_server(&records), 2 * u64::from(FRAGMENTS), "{policy}");
    }
}

#[test]
fn without_room_the_server_gets_what_switches_do_not_sum() {
    let records = records(&program("hash", 16)).expect("it ends");
    let packets = packets_into_server(&records);
    assert!(packets > 2 * u64::from(FRAGMENTS) && packets <= 8 * u64::from(FRAGMENTS), "{packets}");
    assert!(count(&records, "top", "collision") + count(&records, "n1", "collision") > 0);
}

#[test]
fn a_job_that_does_not_fit_is_refused() {
    let mut scenario = program("pool", 1024);
    scenario.programs[0].memory_slots = 512;
    match records(&scenario) {
        Err(SimulationError::Job { problem, .. }) => assert!(problem.contains("512"), "{problem}"),
        other => panic!("{other:?} instead of a refusal"),
    }
}

#[test]
fn a_severed_worker_is_named() {
    let mut scenario = program("pool", 1024);
    scenario.patience_s = 0.5;
    let severed = scenario.links.iter_mut().find(|link| link.source == 4).expect("w1's link");
    severed.forward.loss = 1.0;
    match records(&scenario) {
        Err(SimulationError::Stuck { waits, .. }) => {
            assert!(waits.iter().any(|wait| wait.contains("w0") && wait.contains("position 0")));
        }
        other => panic!("{other:?} instead of no progress"),
    }
}

/// `exclusive` at n1, off the way of the workers at n2.
fn off_the_way() -> Scenario {
    let mut scenario = program("exclusive", 1024);
    // Above what the queues at the detour take, so that nothing is sent twice.
    scenario.programs[0].timeout_s = 0.1;
    let stream = &mut scenario.programs[0].streams[0];
    stream.switches = vec![(1, 0)];
    stream.waypoints = (0..4).map(|rank| vec![3 + rank, 1, 0]).collect();
    scenario
}

#[test]
fn a_node_off_the_way_sums_for_those_who_make_a_detour() {
    let records = records(&off_the_way()).expect("it ends");
    assert_eq!(packets_into_server(&records), 2 * u64::from(FRAGMENTS));
    assert_eq!(count(&records, "n1", "forwarded"), 2 * u64::from(FRAGMENTS));
    assert_eq!(count(&records, "n1", "added"), 2 * 2 * u64::from(FRAGMENTS));
}

#[test]
fn results_leave_detours_out() {
    let scenario = off_the_way();
    let link = scenario.links.iter().find(|link| link.source == 1).expect("n1's link").id.clone();
    let of = |record: &Record| match record {
        Record::Link { link: of, wire_bytes, .. } if *of == link => Some(*wire_bytes as u64),
        _ => None,
    };
    let records = records(&scenario).expect("it ends");
    let packets: Vec<u64> =
        records.iter().filter_map(of).map(|bytes| bytes / u64::from(PACKET_BYTES)).collect();
    let once = 2 * u64::from(FRAGMENTS);
    assert_eq!(packets, [once, 3 * once], "up sums; down two contributions and one result");
}

#[test]
fn streams_of_a_job_are_summed_each_in_its_place() {
    let mut scenario = off_the_way();
    let mut second = program("exclusive", 1024).programs[0].streams[0].clone();
    second.fragments = 100;
    scenario.programs[0].streams.push(second);
    scenario.programs[0].memory_slots = 1024;
    let records = records(&scenario).expect("it ends");
    assert_eq!(packets_into_server(&records), 2 * u64::from(FRAGMENTS + 100));
    assert_eq!(count(&records, "n1", "forwarded"), 2 * u64::from(FRAGMENTS));
    assert_eq!(count(&records, "top", "forwarded"), 2 * 100);
    assert_eq!(rounds(&records).len(), 2, "a round ends when all of its streams have");
}

#[test]
fn a_way_that_someone_chose_is_taken() {
    let mut scenario = off_the_way();
    // A second link between n2 and the top, which routes would not choose for all.
    let mut other = scenario.links.iter().find(|link| link.source == 2).expect("n2's link").clone();
    other.id = "other".into();
    let number = 2 * scenario.links.len() as u32;
    scenario.links.push(other);
    let leaf = scenario.links.iter().position(|link| link.source == 5).expect("w2's link") as u32;
    let top = scenario.links.iter().position(|link| link.source == 1).expect("n1's link") as u32;
    let way = |from, leaf| Way { from, to: 1, directions: vec![2 * leaf, number, 2 * top + 1] };
    scenario.programs[0].streams[0].ways = vec![way(5, leaf), way(6, leaf + 1)];
    let records = records(&scenario).expect("it ends");
    let of = |record: &Record| match record {
        Record::Link { link, wire_bytes, .. } if link == "other" => Some(*wire_bytes as u64),
        _ => None,
    };
    let crossed: Vec<u64> = records.iter().filter_map(of).collect();
    let contributions = 2 * 2 * u64::from(FRAGMENTS * PACKET_BYTES);
    assert_eq!(crossed, [contributions, contributions / 2], "up, and one copy of each result down");
}

/// What is wrong with the ways of a scenario.
fn problem_of(scenario: &Scenario) -> String {
    match records(scenario) {
        Err(SimulationError::Job { problem, .. }) => problem,
        other => panic!("{other:?} instead of a refusal"),
    }
}

#[test]
fn ways_that_live_tables_cannot_have_are_refused() {
    let mut scenario = program("hash", 1024);
    // Over n1 to the server, unaddressed: at the top, nothing tells whether a packet was there already.
    let stream = &mut scenario.programs[0].streams[0];
    stream.waypoints = (0..4).map(|rank| vec![3 + rank, 1, 0]).collect();
    assert!(problem_of(&scenario).contains("round in circles"));
    let link = |source| scenario.links.iter().position(|l| l.source == source).expect("it") as u32;
    let (n1, n2, up) = (link(1), link(2), link(scenario.links[link(1) as usize].target));
    let detour = |from| vec![2 * link(from), 2 * n2, 2 * n1 + 1];
    let way = |from, to, directions| Way { from, to, directions };
    let ways = [way(1, 0, vec![2 * n1, 2 * up]), way(5, 1, detour(5)), way(6, 1, detour(6))];
    scenario.programs[0].streams[0].ways = ways.into();
    let problem = problem_of(&scenario);
    assert!(problem.contains("worker 2 passes a node twice"), "{problem}");
}

#[test]
fn windows_follow_a_queue_that_has_no_room_for_them() {
    let mut scenario = off_the_way();
    let stream = &mut scenario.programs[0].streams[0];
    // Nobody sums on the way: the server's link takes all, and its queue an eighth of four windows.
    stream.switches.clear();
    stream.waypoints = (0..4).map(|rank| vec![3 + rank, 0]).collect();
    stream.fragments = 4 * FRAGMENTS;
    scenario.train = 1;
    for link in &mut scenario.links {
        link.forward.queue_bytes = 128 * u64::from(PACKET_BYTES);
        link.backward.queue_bytes = link.forward.queue_bytes;
    }
    let took_s = rounds(&records(&scenario).expect("it ends"))[1];
    let least_s = f64::from(4 * 4 * FRAGMENTS * PACKET_BYTES * 8) / 1e9;
    assert!(took_s < least_s / 0.92, "{took_s} s, of which links need {least_s} s");
}

#[test]
fn more_workers_than_a_packet_names_are_refused() {
    let mut scenario = program("pool", 1024);
    let times = scenario.programs[0].workers[0];
    scenario.programs[0].workers = vec![times; 256];
    match records(&scenario) {
        Err(SimulationError::Job { problem, .. }) => {
            assert!(problem.contains("256 workers") && problem.contains("255"), "{problem}");
        }
        other => panic!("{other:?} instead of a refusal"),
    }
}

#[test]
fn a_switch_with_two_parents_is_refused() {
    let mut scenario = off_the_way();
    let top = scenario.sites.len() - 1;
    scenario.programs[0].streams[0].waypoints[0] = vec![3, 1, top, 0];
    match records(&scenario) {
        Err(SimulationError::Job { problem, .. }) => {
            assert!(problem.contains("one parent"), "{problem}");
        }
        other => panic!("{other:?} instead of a refusal"),
    }
}

#[test]
fn traffic_of_others_takes_its_part_of_a_link() {
    for train in [1, 16] {
        let mut scenario = program("hash", 1024);
        scenario.train = train;
        let alone = rounds(&records(&scenario).expect("it ends"))[0];
        let link = scenario.links.iter().find(|link| link.source == 3).expect("w0's link");
        scenario.background = vec![Background {
            source: link.source,
            target: link.target,
            rate_bps: 5e8,
            packet_bytes: 1500,
            from_s: 0.0,
            until_s: 10.0,
        }];
        let shared = rounds(&records(&scenario).expect("it ends"))[0];
        // The first window of the job's packets is ahead of the others.
        assert!((1.6..2.1).contains(&(shared / alone)), "{shared} s beside {alone} s alone");
    }
}

#[test]
fn a_link_that_is_down_for_a_while_costs_that_while() {
    for policy in EXACT {
        let mut scenario = program(policy, 1024);
        let undisturbed = rounds(&records(&scenario).expect("it ends"))[0];
        let link = scenario.links.iter().position(|link| link.source == 3).expect("w0's link");
        let failure = Failure { what: Broken::Link(link), at_s: 0.005, until_s: Some(0.055) };
        scenario.failures = vec![failure];
        let disturbed = rounds(&records(&scenario).expect("exact sums"))[0];
        assert!(disturbed > undisturbed + 0.045, "{policy}: {disturbed} s beside {undisturbed} s");
    }
}

#[test]
fn a_switch_that_forgets_everything_leaves_its_sums_to_the_server() {
    for policy in ["hash", "preempt", "exclusive"] {
        let mut scenario = program(policy, 1024);
        let top = scenario.sites.len() - 1;
        scenario.failures = [1, top]
            .map(|site| Failure { what: Broken::Site(site), at_s: 0.004, until_s: Some(0.008) })
            .to_vec();
        let records = records(&scenario).unwrap_or_else(|e| panic!("{policy}: {e}"));
        let Some(Record::End { checked_values, .. }) = records.last() else { panic!() };
        assert_eq!(*checked_values, 2 * 4 * u64::from(FRAGMENTS), "{policy}");
    }
}

#[test]
fn who_waits_for_a_dead_worker_says_so() {
    let mut scenario = program("hash", 1024);
    scenario.patience_s = 0.5;
    scenario.failures = vec![Failure { what: Broken::Site(4), at_s: 0.004, until_s: Some(0.008) }];
    match records(&scenario) {
        Err(SimulationError::Stuck { waits, .. }) => {
            assert!(waits.iter().any(|wait| wait.contains("w1")), "{waits:?}");
        }
        other => panic!("{other:?} instead of no progress"),
    }
}

#[test]
fn adding_takes_time() {
    let mut scenario = program("hash", 4096);
    let alone = rounds(&records(&scenario).expect("it ends"))[0];
    // Two sums of two workers each, of 1 Gbit/s, come to the topmost switch.
    scenario.sites.last_mut().expect("the switch").adding_bps = Some(1e9);
    let bound = rounds(&records(&scenario).expect("it ends"))[0];
    assert!((1.9..2.2).contains(&(bound / alone)), "{bound} s beside {alone} s");
    scenario.sites.last_mut().expect("the switch").adding_bps = Some(4e9);
    let fast = rounds(&records(&scenario).expect("it ends"))[0];
    assert!((fast - alone).abs() < 1e-9, "{fast} s beside {alone} s");
}

#[test]
fn loads_and_slots_over_time_are_told() {
    let mut scenario = program("hash", 1024);
    scenario.timeline = true;
    let records = records(&scenario).expect("it ends");
    crate::testing::assert_slices_add_up(&records);
    let held = records.iter().filter_map(|record| match record {
        Record::Slots { held, .. } => Some(*held),
        _ => None,
    });
    let most = held.max().expect("samples");
    assert!((1..=1024).contains(&most), "{most} slots");
}

/// Values of which an addition now and then is forgotten.
#[derive(Clone, Default)]
struct Forgetful(Values);

impl Payload for Forgetful {
    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn merge(&mut self, other: &Self, lanes: Flags) {
        if self.0[0] % 64 != 0 {
            self.0.merge(&other.0, lanes);
        }
    }
}

impl Content for Forgetful {
    const IS_CHECKED: bool = true;

    fn of(stream: (usize, usize), worker: u8, position: u32) -> Self {
        Self(Values::of(stream, worker, position))
    }

    fn is_sum(&self, stream: (usize, usize), workers: u8, position: u32) -> bool {
        self.0.is_sum(stream, workers, position)
    }
}

/// The rule that a run broke after someone changed something in it.
fn broken_rule<V: Content>(change: impl Fn(&mut Yard<V>)) -> String {
    let scenario = program("hash", 1024);
    let mut yard = Yard::<V>::new(&scenario).expect("a valid scenario");
    change(&mut yard);
    match yard.run(&mut |_| true) {
        Err(SimulationError::Invariant(what)) => what,
        other => panic!("{other:?} instead of a broken rule"),
    }
}

#[test]
fn a_wrong_sum_is_seen() {
    let what = broken_rule::<Forgetful>(|_| {});
    assert!(what.contains("sums were wrong"), "{what}");
}

#[test]
fn a_byte_that_nobody_sent_is_seen() {
    let what = broken_rule::<()>(|yard| yard.network.links.arrive(0, 1));
    assert!(what.contains("direction 0:") && what.contains("bytes arrived of"), "{what}");
}

#[test]
fn a_root_that_got_too_little_is_seen() {
    let scenario = program("hash", 1024);
    let found = Yard::<()>::new(&scenario).expect("a valid scenario").check();
    assert!(
        matches!(&found, Err(SimulationError::Invariant(what)) if what.contains("got 0 fragments")),
        "{found:?}"
    );
}
