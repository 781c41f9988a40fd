//! Whole jobs whose workers send at negotiated rates.

use super::*;

const INGRESS_BPS: u64 = 200_000_000;

/// Every node's link carries 200 Mbit/s each way.
fn bounded(tree: &Tree, streams: &[Values]) -> Plan {
    let mut plan = plan(tree, streams);
    for node in &mut plan.nodes {
        (node.ingress_bps, node.egress_bps) = (Some(INGRESS_BPS), Some(INGRESS_BPS));
    }
    plan
}

fn run(plan: Plan, conditions: Conditions, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(plan, conditions, seed);
    cluster.join_all();
    cluster.submit_all(&[40_000, 300, 60_000]);
    cluster.run();
    cluster.assert_sums();
    cluster
}

#[test]
fn workers_send_at_what_they_are_granted() {
    let plan = bounded(&Tree::star(4), &[CACHE]);
    let cluster = run(plan, Conditions::PERFECT, 1);
    // Packets of 64 values are 356 bytes on the cable; four flows share the link.
    let bits = 8.0 * 356.0 * (100_000.0 / 64.0);
    let seconds = bits / (INGRESS_BPS as f64 / 4.0);
    // A bucket of 2 ms goes out at once.
    let took = cluster.now().0 as f64 / 1e6;
    assert!((0.97 * seconds..1.5 * seconds).contains(&took), "{took} s instead of {seconds} s");
    for rank in 0..4 {
        assert!(cluster.worker_count(rank, "rates_received") > 0);
        assert_eq!(cluster.worker_count(rank, "rates_unanswered"), 0);
        assert_eq!(cluster.worker_count(rank, "repetitions"), 0);
    }
}

#[test]
fn sums_are_exact_at_negotiated_rates_whatever_the_network_does() {
    for seed in 0..20 {
        let values = if seed % 2 == 0 { POOL } else { CACHE };
        println!("replay: seed {seed}");
        let conditions = Conditions { loss: 0.03, duplication: 0.02, ..Conditions::PERFECT };
        run(bounded(&Tree::three_levels(), &[values]), conditions, seed);
    }
}

/// Nodes without bandwidths in their plan answer no one, so workers that expect rates go ahead without.
#[test]
fn a_node_that_does_not_negotiate_costs_a_bounded_wait() {
    let mut cluster = Cluster::new(bounded(&Tree::star(2), &[CACHE]), Conditions::PERFECT, 1);
    let silent = cluster.nodes[0].id;
    cluster.nodes[0].negotiator = Negotiator::new(silent, Bounds::default());
    cluster.join_all();
    cluster.submit_all(&[40_000]);
    cluster.run();
    cluster.assert_sums();
    assert_eq!(cluster.worker_count(0, "rates_unanswered"), 1);
    assert_eq!(cluster.worker_count(0, "rate_bps"), 0, "no limit");
}
