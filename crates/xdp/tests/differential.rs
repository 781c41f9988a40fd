//! The XDP program against the Rust reference: verdicts, bytes and state for the same packets, through the kernel's test-run.
#![cfg(wiresum_bpf)]

mod support;

use std::net::SocketAddr;

use serde_json::Value;
use support::{Pair, bpf_is_here, bytes, joining, list, replay_traces};
use wiresum_protocol::{Plan, Verdict};
use wiresum_testkit::seeds::{Replay, seed_or, times_soak};
use wiresum_testkit::traffic::aggregator::RandomTraffic;
use wiresum_wire::control::Absent;
use wiresum_wire::{FragmentId, NodeId, Packet};
use wiresum_xdp::Options;

/// Packets for each plan and node.
const PACKETS: u64 = 10_000;
/// Packets between two comparisons of the slots.
const SURVEY_INTERVAL: u64 = 500;
/// Positions before that of a packet from which the slots are compared.
const BEHIND: u32 = 100;

fn compare(text: &str, node: u16) {
    compare_with(&[], text, node, &Options::default());
}

/// Random traffic at one node.
fn compare_with(others: &[(Plan, NodeId)], text: &str, node: u16, options: &Options) {
    compare_without(Absent::default(), others, text, node, options);
}

/// Random traffic at one node of a job that goes on without some workers.
fn compare_without(
    absent: Absent,
    others: &[(Plan, NodeId)],
    text: &str,
    node: u16,
    options: &Options,
) {
    if !bpf_is_here() {
        return;
    }
    let plan = Plan::from_json(text).expect("a valid plan");
    let (seed, packets) = (seed_or(1), times_soak(PACKETS));
    let _replay = Replay { test: "-p wiresum-xdp --test differential", seed };
    let mut traffic = RandomTraffic::new(&plan, NodeId(node), seed).without(absent);
    let mut pair = Pair::beside(others, &plan, NodeId(node), options);
    pair.join(&joining(&mut traffic));
    let mut fed = 0;
    for step in traffic.take(packets as usize) {
        pair.feed(step.source, &step.datagram);
        fed += 1;
        if let (true, Ok(packet)) = (fed % SURVEY_INTERVAL == 0, Packet::parse(&step.datagram)) {
            pair.check_slots(FragmentId(packet.header.fragment.get()).plus(BEHIND.wrapping_neg()));
        }
    }
    pair.check_counters();
}

const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");

#[test]
fn at_a_root() {
    compare(TREE, 0);
}

#[test]
fn at_an_inner_node() {
    compare(TREE, 1);
}

/// Some of them are children of the node, others have seats there as substitutes.
#[test]
fn without_some_workers() {
    for (node, absent) in [(0, vec![0]), (0, vec![1, 2]), (1, vec![1]), (0, vec![0, 1])] {
        let absent = Absent::of(absent).expect("ranks that can be named");
        compare_without(absent, &[], TREE, node, &Options::default());
    }
    compare_without(Absent::of([3, 5, 40]).expect("ranks"), &[], &star(), 5, &Options::default());
}

/// The same tree in which every address is one of IPv6.
fn ipv6(text: &str) -> String {
    let workers = (0..4).fold(text.to_owned(), |text, rank| {
        let name = format!(r#""name": "w{rank}""#);
        text.replace(&name, &format!(r#"{name}, "address": "fd00::1:{rank}""#))
    });
    workers.replace("10.0.0.1:", "[fd00::1]:").replace("10.0.0.2:", "[fd00::2]:")
}

#[test]
fn at_a_root_over_ipv6() {
    compare(&ipv6(TREE), 0);
}

#[test]
fn at_an_inner_node_over_ipv6() {
    compare(&ipv6(TREE), 1);
}

/// The same job with proofs behind values.
fn proven(text: &str) -> String {
    text.replacen(r#""secret""#, r#""proven": true, "secret""#, 1)
}

#[test]
fn at_a_root_that_tests_proofs() {
    compare(&proven(TREE), 0);
}

#[test]
fn at_an_inner_node_that_tests_proofs() {
    compare(&proven(TREE), 1);
}

#[test]
fn at_an_inner_node_that_tests_proofs_over_ipv6() {
    compare(&proven(&ipv6(TREE)), 1);
}

#[test]
fn with_64_children_and_the_largest_packets_and_their_proofs() {
    compare(&proven(&star()), 5);
}

/// A star of the most children that a node may have, with the largest packets and a cache.
fn star() -> String {
    let list = |item: fn(u32) -> String| (0..64).map(item).collect::<Vec<_>>().join(",");
    let workers = list(|rank| format!(r#"{{ "rank": {rank}, "name": "w{rank}" }}"#));
    let legs = list(|rank| format!(r#"{{ "child": {{ "worker": {} }}, "parent": 5 }}"#, 63 - rank));
    let stream = |id: u16, role: &str, policy: &str, slots: u32| {
        format!(
            r#"{{ "id": {id}, "name": "{role}", "role": "{role}", "share": {id}, "policy": "{policy}",
            "window": 8, "places": [{{ "node": 5, "slots": {slots} }}], "legs": [{legs}] }}"#
        )
    };
    format!(
        r#"{{ "format": "wiresum-plan/2", "job": {{ "id": 65535, "secret": "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210", "values_per_packet": 736 }},
        "nodes": [{{ "id": 5, "name": "switch", "address": "0.0.0.0:5747" }}], "workers": [{workers}],
        "streams": [{}, {}] }}"#,
        stream(0, "exponents", "pool", 8),
        stream(1, "values", "cache", 1024)
    )
}

#[test]
fn with_64_children_and_the_largest_packets() {
    compare(&star(), 5);
}

#[test]
fn without_locks() {
    let options = Options { lock_entries: false, ..Options::default() };
    compare_with(&[], TREE, 1, &options);
}

/// Another job, with larger packets and the same port, comes first in every map.
#[test]
fn beside_another_job() {
    let other = Plan::from_json(&star()).expect("a valid plan");
    compare_with(&[(other, NodeId(5))], TREE, 1, &Options::default());
}

/// Each with the key of its own hash.
#[test]
fn beside_another_job_with_proofs() {
    let other = Plan::from_json(&proven(&star())).expect("a valid plan");
    compare_with(&[(other.clone(), NodeId(5))], &proven(TREE), 1, &Options::default());
    compare_with(&[(other, NodeId(5))], TREE, 1, &Options::default());
}

/// A third of the way the job's quota is used up, and both drop what is too long for the rest.
#[test]
fn within_a_quota() {
    if !bpf_is_here() {
        return;
    }
    let plan = Plan::from_json(TREE).expect("a valid plan");
    let seed = seed_or(1);
    let _replay = Replay { test: "-p wiresum-xdp --test differential", seed };
    let mut traffic = RandomTraffic::new(&plan, NodeId(1), seed);
    let mut pair = Pair::new(&plan, NodeId(1));
    pair.join(&joining(&mut traffic));
    pair.limit(100_000);
    let verdicts: Vec<_> =
        traffic.take(1_000).map(|step| pair.feed(step.source, &step.datagram)).collect();
    let dropped = verdicts.iter().filter(|verdict| **verdict == Verdict::OverQuota).count();
    assert!((200..900).contains(&dropped), "{dropped} of 1000 were over the quota");
    pair.check_counters();
}

/// The golden traces that every data plane replays.
#[test]
fn in_the_golden_traces() {
    if !bpf_is_here() {
        return;
    }
    replay_traces("traces", replay);
}

fn replay(trace: &Value, name: &str) {
    let plan = Plan::from_json(&trace["plan"].to_string()).expect("a valid plan");
    let node = NodeId(trace["node"].as_u64().expect("a node") as u16);
    let mut pair = Pair::new(&plan, node);
    let (joining, traffic): (Vec<_>, Vec<_>) =
        list(&trace["steps"]).iter().map(packet).partition(|(_, datagram, _)| is_joining(datagram));
    let joining: Vec<_> =
        joining.into_iter().map(|(source, datagram, _)| (source, datagram)).collect();
    pair.join(&joining);
    for (index, (source, datagram, verdict)) in traffic.into_iter().enumerate() {
        assert_eq!(pair.feed(source, &datagram).name(), verdict, "{name}: packet {index}");
    }
}

/// Source, bytes and verdict of a trace's step.
fn packet(step: &Value) -> (SocketAddr, Vec<u8>, String) {
    let text = |field: &str| step[field].as_str().expect("a string");
    (
        text("source").parse().expect("an address"),
        bytes(&step["datagram"]),
        text("verdict").to_owned(),
    )
}

fn is_joining(datagram: &[u8]) -> bool {
    Packet::parse(datagram).is_ok_and(|packet| packet.kind.is_joining())
}

/// Any change to a frame may change what it is, but never does harm: the program survives it, leaves alone what is not for the node,
/// and sums as before.
#[test]
fn mutated_frames_do_no_harm() {
    if !bpf_is_here() {
        return;
    }
    let plan = Plan::from_json(TREE).expect("a valid plan");
    let (seed, packets) = (seed_or(1), times_soak(PACKETS));
    let _replay = Replay { test: "-p wiresum-xdp --test differential", seed };
    let mut traffic = RandomTraffic::new(&plan, NodeId(1), seed);
    let mut pair = Pair::new(&plan, NodeId(1));
    pair.join(&joining(&mut traffic));
    let mut chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for step in traffic.take(packets as usize) {
        pair.feed_mutated(step.source, &step.datagram, &mut || {
            // xorshift64: enough to choose which bytes to change.
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            chance as usize
        });
        pair.feed(step.source, &step.datagram);
    }
}
