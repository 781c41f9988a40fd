//! Packets of strangers through the kernel's test-run: none is believed, each is counted, and sums go on as if none had come.
#![cfg(wiresum_bpf)]

mod support;

use support::{Pair, bpf_is_here, joining};
use wiresum_protocol::{Plan, Verdict};
use wiresum_testkit::seeds::{Replay, seed_or, times_soak};
use wiresum_testkit::traffic::aggregator::RandomTraffic;
use wiresum_wire::NodeId;
use wiresum_xdp::Options;

const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");
/// Forged packets at each node, a hundred times as many for `make soak`: 10⁷ in all.
const FORGED: u64 = 50_000;
/// Packets of the job before and after, and forged ones between two of them.
const SOUND: usize = 2_000;

fn attack(node: u16) {
    if !bpf_is_here() {
        return;
    }
    let seed = seed_or(1);
    let _replay = Replay { test: "-p wiresum-xdp --test forged", seed };
    let (plan, node) = (Plan::from_json(TREE).expect("a valid plan"), NodeId(node));
    let mut traffic = RandomTraffic::new(&plan, node, seed);
    let mut forger = RandomTraffic::new(&plan, node, seed + 1);
    let mut pair = Pair::beside(&[], &plan, node, &Options::default());
    pair.join(&joining(&mut traffic));
    let forged_between = times_soak(FORGED) / SOUND as u64;
    let mut refused = [0; 3];
    for step in traffic.take(SOUND) {
        for _ in 0..forged_between {
            let (source, datagram) = forger.forged();
            // Counted under the same verdict by both, and not answered.
            match pair.feed(source, &datagram) {
                Verdict::Foreign => refused[0] += 1,
                Verdict::Malformed => refused[1] += 1,
                Verdict::BadContributor => refused[2] += 1,
                other => panic!("{other:?} to a forged packet from {source}"),
            }
        }
        // The reference of the traffic has met no forger.
        assert_eq!(pair.feed(step.source, &step.datagram), step.outcome.verdict);
    }
    pair.check_counters();
    assert!(refused.iter().all(|count| *count > forged_between), "{refused:?}");
}

#[test]
fn a_root_believes_no_stranger() {
    attack(0);
}

#[test]
fn an_inner_node_believes_no_stranger() {
    attack(1);
}
