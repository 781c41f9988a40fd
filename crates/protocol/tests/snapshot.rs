//! A restored snapshot behaves as the aggregator that it was taken of.

use wiresum_protocol::aggregator::Snapshot;
use wiresum_protocol::{Aggregator, Plan, Recipients};
use wiresum_testkit::traffic::aggregator::RandomTraffic;
use wiresum_wire::{MAX_PACKET, NodeId};

fn tree() -> Plan {
    Plan::from_json(include_str!("plans/tree.json")).expect("valid")
}

/// A copy by way of the snapshot's two forms.
fn copy(original: &Aggregator, plan: &Plan, node: NodeId) -> Aggregator {
    let snapshot = original.snapshot(true);
    let json = serde_json::to_string(&snapshot).expect("JSON");
    let mut read: Snapshot = serde_json::from_str(&json).expect("a snapshot");
    assert_eq!(read.memory_len(), snapshot.memory.len());
    read.memory.clone_from(&snapshot.memory);
    assert_eq!(read, snapshot);
    let mut copy = Aggregator::new(plan, node);
    copy.restore(&read).expect("the same plan");
    copy
}

#[test]
fn a_copy_at_any_moment_answers_as_the_original() {
    let plan = tree();
    let nodes = || plan.nodes.iter().map(|node| NodeId(node.id));
    for (seed, node) in (0..20).flat_map(|seed| nodes().map(move |node| (seed, node))) {
        let mut traffic = RandomTraffic::new(&plan, node, seed);
        let joining = traffic.joining();
        let mut aggregator = Aggregator::new(&plan, node);
        let mut buffer = [0; MAX_PACKET];
        for (number, step) in joining.into_iter().chain(traffic.take(600)).enumerate() {
            if number as u64 % 37 == seed {
                aggregator = copy(&aggregator, &plan, node);
            }
            let len = step.datagram.len();
            buffer[..len].copy_from_slice(&step.datagram);
            let outcome = aggregator.handle_datagram(step.source, &mut buffer, len);
            assert_eq!(outcome, step.outcome, "seed {seed}, node {node}, packet {number}");
            if let (Recipients::One(_), Some((_, packet))) =
                (outcome.recipients, step.packets.first())
            {
                assert_eq!(
                    &buffer[..outcome.len],
                    packet,
                    "seed {seed}, node {node}, packet {number}"
                );
            }
            aggregator.poll_notice(&mut buffer);
        }
    }
}
