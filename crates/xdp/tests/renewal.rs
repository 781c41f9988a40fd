//! Keys are renewed by time: the kernel takes those of three renewals, as the reference does.
#![cfg(wiresum_bpf)]

mod support;

use support::{Pair, bpf_is_here, joining};
use wiresum_protocol::{Plan, Verdict};
use wiresum_testkit::seeds::{Replay, seed_or};
use wiresum_testkit::traffic::aggregator::{RandomTraffic, Step};
use wiresum_wire::NodeId;

const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");
/// Packets under each renewal's keys, before the node knows of it and after.
const PACKETS: usize = 500;
const RENEWALS: u32 = 4;

/// Feeds packets to the kernel and the reference, which agree; those whose values were summed.
fn feed(pair: &mut Pair, traffic: &mut RandomTraffic) -> Vec<Step> {
    let steps: Vec<Step> = traffic.take(PACKETS).collect();
    for step in &steps {
        assert_eq!(pair.feed(step.source, &step.datagram), step.outcome.verdict);
    }
    let summed = [Verdict::First, Verdict::Added, Verdict::Completed, Verdict::Forwarded];
    let is_summed = |step: &Step| summed.contains(&step.outcome.verdict);
    let summed: Vec<_> = steps.into_iter().filter(is_summed).collect();
    assert!(summed.len() > PACKETS / 20, "values count: {}", summed.len());
    summed
}

#[test]
fn the_kernel_takes_the_keys_of_three_renewals() {
    if !bpf_is_here() {
        return;
    }
    let seed = seed_or(1);
    let _replay = Replay { test: "-p wiresum-xdp --test renewal", seed };
    let plan = Plan::from_json(TREE).expect("a valid plan");
    for node in [NodeId(0), NodeId(1)] {
        let mut traffic = RandomTraffic::new(&plan, node, seed);
        let mut pair = Pair::new(&plan, node);
        pair.join(&joining(&mut traffic));
        let recorded = feed(&mut pair, &mut traffic);
        for renewal in 1..=RENEWALS {
            traffic.renew();
            feed(&mut pair, &mut traffic);
            pair.renew(&joining(&mut traffic));
            feed(&mut pair, &mut traffic);
            for Step { source, datagram, .. } in &recorded {
                let is_foreign = pair.feed(*source, datagram) == Verdict::Foreign;
                assert_eq!(is_foreign, renewal > 1, "a recording after {renewal} renewals");
            }
        }
        pair.check_counters();
    }
}
