//! What a lack of memory, and workers out of step, cost the parameter server: contributions that it receives for each fragment.

mod network;

use std::fmt::Write;

use network::{Faults, Graph, Network, Scenario, StreamPlan};
use wiresum_switch::policy::Policy;
use wiresum_wire::Flags;

const WORKERS: u8 = 8;
const WINDOW: u32 = 32;
const FRAGMENTS: u32 = 256;
/// How much later each worker begins than the one before: not at all, by a packet's way over one link, by five.
const STEPS_US: [u64; 3] = [0, 10, 50];

/// Eight workers at two switches below a third one. Addressed policies sum at that one.
fn per_fragment(policy: Policy, slots: u32, step_us: u64) -> f64 {
    let plan = StreamPlan {
        job: 1,
        sub_model: 0,
        node: policy.is_addressed().then_some(2),
        fragments: FRAGMENTS,
        rounds: 1,
        window: WINDOW,
        base: 0,
        slots,
        priority: 1,
        lanes: Flags(0),
    };
    let scenario = Scenario {
        policy,
        graph: Graph::tree(WORKERS, 2),
        has_server: true,
        streams: vec![plan],
        memory: slots,
        starts_us: (0..u64::from(WORKERS)).map(|worker| worker * step_us).collect(),
        faults: Faults::default(),
        first: 0,
        seed: 0,
    };
    Network::new(scenario).run().server_ingress() as f64 / f64::from(FRAGMENTS)
}

#[test]
fn ingress_of_the_server_by_memory_and_asynchrony() {
    let mut table =
        String::from("policy      workers start  1 slot  4 slots  16 slots  32 slots\n");
    for policy in [Policy::Hash, Policy::Preempt, Policy::Exclusive, Policy::Register] {
        for step_us in STEPS_US {
            let at = |slots| per_fragment(policy, slots, step_us);
            let _ = writeln!(
                table,
                "{:<12}{step_us:>3} µs apart{:>8.2}{:>9.2}{:>10.2}{:>10.2}",
                policy.name(),
                at(1),
                at(4),
                at(16),
                at(32)
            );
        }
    }
    assert_eq!(table, include_str!("snapshots/ingress.txt"), "\n{table}");
    assert!(
        include_str!("../../../docs/policies.md").contains(&table),
        "docs/policies.md\n{table}"
    );
}
