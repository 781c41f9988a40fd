//! The XDP program against the Rust reference: verdicts, bytes and state for the same packets, through the kernel's test-run.
#![cfg(target_os = "linux")]

mod support;

use support::{Pair, bpf_is_here, setting};
use wiresum_protocol::Plan;
use wiresum_protocol::random_traffic::RandomTraffic;
use wiresum_wire::NodeId;

/// Packets for each plan and node; WIRESUM_PACKETS asks for another number.
const PACKETS: u64 = 10_000;

/// Random traffic at one node. The seed is that of WIRESUM_SEED, or 1.
fn compare(text: &str, node: u16) {
    if !bpf_is_here() {
        return;
    }
    let plan = Plan::from_json(text).expect("a valid plan");
    let (seed, packets) = (setting("WIRESUM_SEED", 1), setting("WIRESUM_PACKETS", PACKETS));
    println!(
        "replay: WIRESUM_SEED={seed} WIRESUM_PACKETS={packets} cargo test -p wiresum-xdp --test differential"
    );
    let mut traffic = RandomTraffic::new(&plan, NodeId(node), seed);
    let mut pair = Pair::new(&plan, NodeId(node));
    pair.join(&traffic.joining());
    for step in traffic.take(packets as usize) {
        pair.feed(step.source, &step.datagram);
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
