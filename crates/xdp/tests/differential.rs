//! The XDP program against the Rust reference: verdicts, bytes and state for the same packets, through the kernel's test-run.
#![cfg(target_os = "linux")]

mod support;

use support::{Pair, bpf_is_here, setting};
use wiresum_protocol::Plan;
use wiresum_protocol::random_traffic::RandomTraffic;
use wiresum_wire::{MAX_PACKET, NodeId};

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
    for step in traffic.take(packets as usize).filter(|step| step.datagram.len() <= MAX_PACKET) {
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
