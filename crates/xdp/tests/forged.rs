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
/// Forged packets of each attacker at each of two nodes, a hundred times as many for `make soak`: 10⁸ in all.
const FORGED: u64 = 250_000;
/// What a forged packet can be.
const VERDICTS: [Verdict; 4] =
    [Verdict::Foreign, Verdict::Malformed, Verdict::BadContributor, Verdict::Forged];
/// Packets of the job before and after, and forged ones between two of them.
const SOUND: usize = 2_000;

/// The job of the tree, with proofs behind values.
fn proven() -> String {
    TREE.replacen(r#""secret""#, r#""proven": true, "secret""#, 1)
}

/// What each verdict has refused, in the order of `VERDICTS`.
fn attack(text: &str, node: u16) -> Option<[u64; 4]> {
    if !bpf_is_here() {
        return None;
    }
    let seed = seed_or(1);
    let _replay = Replay { test: "-p wiresum-xdp --test forged", seed };
    let (plan, node) = (Plan::from_json(text).expect("a valid plan"), NodeId(node));
    let mut traffic = RandomTraffic::new(&plan, node, seed);
    let mut forger = RandomTraffic::new(&plan, node, seed + 1);
    let mut pair = Pair::beside(&[], &plan, node, &Options::default());
    pair.join(&joining(&mut traffic));
    let forged_between = times_soak(FORGED) / SOUND as u64;
    let mut refused = [0; VERDICTS.len()];
    for step in traffic.take(SOUND) {
        for _ in 0..forged_between {
            let (source, datagram) = forger.forged();
            let verdict = pair.feed_refused(source, &datagram);
            let index = VERDICTS.iter().position(|refusal| *refusal == verdict);
            refused[index.unwrap_or_else(|| panic!("{verdict:?} to a forgery of {source}"))] += 1;
        }
        // Each was counted under its verdict by both. The reference of the traffic has met no forger.
        pair.check_counters();
        assert_eq!(pair.feed(step.source, &step.datagram), step.outcome.verdict);
    }
    pair.check_counters();
    Some(refused)
}

/// A stranger who has overheard nothing.
fn attack_by_a_stranger(node: u16) {
    let refused = attack(TREE, node).unwrap_or([u64::MAX, u64::MAX, u64::MAX, 0]);
    assert!(refused[..3].iter().all(|count| *count > SOUND as u64), "{refused:?}");
    assert_eq!(refused[3], 0, "without proofs nothing is told by them");
}

/// A listener who has overheard all, and sends from the right address with the right key.
fn attack_by_a_listener(node: u16) {
    let refused = attack(&proven(), node).unwrap_or([0, 0, 0, u64::MAX]);
    assert!(refused[3] > times_soak(FORGED) / 2, "{refused:?}");
}

#[test]
fn a_root_believes_no_stranger() {
    attack_by_a_stranger(0);
}

#[test]
fn an_inner_node_believes_no_stranger() {
    attack_by_a_stranger(1);
}

#[test]
fn a_root_believes_no_listener_where_values_are_proven() {
    attack_by_a_listener(0);
}

#[test]
fn an_inner_node_believes_no_listener_where_values_are_proven() {
    attack_by_a_listener(1);
}
