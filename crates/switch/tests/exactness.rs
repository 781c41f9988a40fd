//! Random networks, memories and misfortunes: every sum and maximum is exact, of 32 and of 16 bits, and no one waits for ever.

mod network;

use network::{Faults, Graph, Network, Scenario, StreamPlan};
use wiresum_protocol::rng::Rng;
use wiresum_switch::policy::Policy;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::Flags;

/// Random scenarios for each policy.
const SEEDS: u64 = 150;
/// Random scenarios for each policy and number of workers beyond a cohort.
const CROWD_SEEDS: u64 = 2;

fn scenario(policy: Policy, seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let workers = 1 + rng.below(6) as u8;
    let has_server = policy.needs_server() || policy == Policy::Segment && rng.below(2) == 0;
    let is_single = policy == Policy::Segment && !has_server;
    let graph = match rng.below(2) {
        _ if is_single => Graph::star(workers),
        0 => Graph::star(workers),
        _ => Graph::tree(workers, 1 + rng.below(2).min(u64::from(workers) - 1) as u16),
    };
    let streams = 1 + rng.below(3) as u16;
    let memory = 1 << rng.below(5);
    let streams = (0..streams).map(|i| stream(policy, &graph, memory, i, &mut rng));
    let streams: Vec<_> = streams.collect();
    let memory = streams.iter().map(|s| s.base + s.slots).max().unwrap_or(1);
    let level = [0.0, 0.01, 0.1, 0.3][rng.below(4) as usize];
    let faults = Faults {
        loss: level,
        duplication: level,
        jitter_us: if rng.below(2) == 0 { 0 } else { 200 },
        marking: level,
    };
    // A third of the streams pass the end of the numbers.
    let first = if rng.below(3) == 0 { u32::MAX - rng.below(60) as u32 } else { 0 };
    let starts_us = (0..workers).map(|_| rng.below(3) * rng.below(5000)).collect();
    Scenario { policy, graph, has_server, streams, memory, starts_us, faults, first, seed }
}

fn stream(policy: Policy, graph: &Graph, memory: u32, index: u16, rng: &mut Rng) -> StreamPlan {
    let window = match policy {
        Policy::Pool | Policy::Cache => 1 + rng.below(u64::from(memory)) as u32,
        _ => 1 + rng.below(24) as u32,
    };
    let is_addressed = policy.is_addressed();
    StreamPlan {
        job: 1 + index % 2,
        sub_model: index,
        node: is_addressed.then(|| rng.below(u64::from(graph.switches)) as u16),
        fragments: 1 + rng.below(30) as u32,
        rounds: 1 + rng.below(3) as u32,
        window,
        // Memory that only `hash` and `preempt` share between streams.
        base: if policy.shares_slots() { 0 } else { u32::from(index) * memory },
        slots: memory,
        priority: rng.below(256) as u8,
        lanes: [Flags(0), Flags::MAXIMUM, Flags::LANES16, Flags::LANES][rng.below(4) as usize],
    }
}

fn check(policy: Policy) {
    let test = format!("-p wiresum-switch --test exactness {}", policy.name());
    for_each_seed(&test, 0, SEEDS, |seed| {
        let scenario = scenario(policy, seed);
        let fragments: u32 = scenario.streams.iter().map(|s| s.fragments * s.rounds).sum();
        let ingress = Network::new(scenario.clone()).run().server_ingress();
        // Conservation: the server cannot know a sum of which nothing came.
        assert!(!scenario.has_server || ingress >= u64::from(fragments), "{ingress} came in");
    });
}

/// Jobs of several cohorts, at a switch or two levels of them, which end at a server.
fn crowd(policy: Policy, workers: u8, seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ u64::from(workers) << 8);
    let graph = if rng.below(2) == 0 { Graph::star(workers) } else { Graph::tree(workers, 3) };
    let memory = 1 << rng.below(4);
    let streams: Vec<_> =
        (0..2).map(|i| crowd_stream(policy, &graph, memory, i, &mut rng)).collect();
    let level = [0.0, 0.02, 0.1][rng.below(3) as usize];
    let faults = Faults { loss: level, duplication: level, jitter_us: 200, marking: level };
    Scenario {
        policy,
        has_server: true,
        memory: streams.iter().map(|s| s.base + COHORTS * s.slots).max().unwrap_or(1),
        streams,
        starts_us: (0..workers).map(|_| rng.below(3000)).collect(),
        graph,
        faults,
        first: 0,
        seed,
    }
}

fn crowd_stream(
    policy: Policy,
    graph: &Graph,
    memory: u32,
    index: u16,
    rng: &mut Rng,
) -> StreamPlan {
    let made = stream(policy, graph, memory, index, rng);
    StreamPlan { fragments: 1 + made.fragments % 6, rounds: 2, base: COHORTS * made.base, ..made }
}

/// Most cohorts of the jobs here: of 200 workers.
const COHORTS: u32 = 4;

fn check_crowds(policy: Policy) {
    let test = format!("-p wiresum-switch --test exactness {}", policy.name());
    for workers in [65, 128, 200] {
        for_each_seed(&test, 0, CROWD_SEEDS, |seed| {
            let scenario = crowd(policy, workers, seed);
            let fragments: u32 = scenario.streams.iter().map(|s| s.fragments * s.rounds).sum();
            let ingress = Network::new(scenario).run().server_ingress();
            // A sum of each cohort at least, as none holds the values of two.
            let cohorts = u64::from(workers.div_ceil(64));
            assert!(ingress >= cohorts * u64::from(fragments), "{ingress} came in");
        });
    }
}

/// A test for each exact policy, by the name of its file; `oracles` shows how the others are wrong.
macro_rules! check_each {
    ($(
        $(#[$doc:meta])* $variant:ident $name:literal $module:ident, $kernel:literal: {
            server: $server:ident, addressed: $addressed:literal, shared: $shared:literal, exact: $exact:tt, $($rest:tt)*
        };
    )+) => {
        $(check_if!($exact, $module, $variant);)+
    };
}

macro_rules! check_if {
    (true, $module:ident, $variant:ident) => {
        mod $module {
            use super::*;

            #[test]
            fn one_cohort() {
                check(Policy::$variant);
            }

            #[test]
            fn several_cohorts() {
                check_crowds(Policy::$variant);
            }
        }
    };
    (false, $module:ident, $variant:ident) => {};
}

wiresum_wire::policies!(check_each);
