//! What does not go well ends in an error that names the culprit, or in the right sum.

mod cluster;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::{Cluster, PATIENCE, Random, Shape, plan, start_nodes};
use wiresum_codec::Operation;
use wiresum_node::engine::{CollectiveError, Engine, JoinError, Options};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Exponents, Lanes, Policy};
use wiresum_worker::{Failure, Participation};

/// For collectives that are meant to fail.
const SHORT: Duration = Duration::from_millis(1500);
/// For collectives that have to begin before they fail, even on a busy machine.
const LONGER: Duration = Duration::from_secs(5);
/// Enough to be cut for two threads.
const ELEMENTS: usize = 40_000;

fn star(workers: u32) -> Plan {
    plan(Shape::Star, workers, Lanes::Int32Le, Policy::Pool)
}

/// With two threads of each rank and of each node.
fn in_threads(workers: u32) -> Plan {
    let mut plan = star(workers);
    plan.job.threads = 2;
    plan
}

fn failure(outcome: Result<Participation, CollectiveError>) -> Failure {
    match outcome {
        Err(CollectiveError::Protocol { failure, .. }) => failure,
        other => panic!("expected a failure of the protocol, not {other:?}"),
    }
}

#[test]
fn a_value_that_is_not_finite_spares_every_buffer_and_the_job() {
    let cluster = Cluster::start(star(3));
    let values = |rank: usize| {
        let mut values = vec![rank as f32; 3000];
        if rank == 1 {
            values[2999] = f32::INFINITY;
        }
        values
    };
    for (rank, (after, outcome)) in
        cluster.all_reduce(Operation::Sum, PATIENCE, values).into_iter().enumerate()
    {
        assert_eq!(failure(outcome), Failure::NotFinite);
        assert_eq!(after, values(rank), "rank {rank}: touched");
    }
    for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, |_| vec![2f32; 3000]) {
        outcome.expect("the job goes on");
        assert_eq!(sum, vec![6.0; 3000]);
    }
    assert_eq!(cluster.engines[0].statistics().collectives.not_finite, 1);
}

#[test]
fn values_that_were_not_foreseen_spare_every_buffer_and_the_job() {
    let mut plan = star(3);
    plan.job.exponents = Exponents::Expected;
    let cluster = Cluster::start(plan);
    for (scale, is_foreseen) in
        [(1.0, true), (3.9, true), (500.0, false), (400.0, true), (350.0, true)]
    {
        let values = |rank: usize| vec![scale * (rank + 1) as f32; 3000];
        for (rank, (after, outcome)) in
            cluster.all_reduce(Operation::Sum, PATIENCE, values).into_iter().enumerate()
        {
            if is_foreseen {
                outcome.expect("sums");
                let error = (after[0] / (6.0 * scale) - 1.0).abs();
                assert!(error < 1e-6, "{after:?} for 6 × {scale}");
            } else {
                assert_eq!(failure(outcome), Failure::Unforeseen);
                assert_eq!(after, values(rank), "rank {rank}: touched");
            }
        }
    }
    assert_eq!(cluster.engines[0].statistics().collectives.unforeseen, 1);
}

#[test]
fn different_sizes_are_an_error_on_every_rank() {
    let cluster = Cluster::start(star(3));
    let values = |rank: usize| vec![1f32; if rank == 2 { 100_000 } else { 10 }];
    for (_, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
        match failure(outcome) {
            Failure::Mismatch { shapes, .. } => {
                let elements: Vec<_> = shapes.iter().flatten().map(|s| s.elements).collect();
                assert_eq!(elements, [10, 10, 100_000]);
            }
            other => panic!("expected a mismatch, not {other}"),
        }
    }
}

#[test]
fn a_silent_aggregator_is_named() {
    let mut cluster = Cluster::start(star(2));
    cluster.nodes.pop().expect("a node").kill();
    for (_, outcome) in cluster.all_reduce(Operation::Sum, SHORT, |_| vec![1f32; 1000]) {
        let failure = failure(outcome);
        assert!(matches!(failure, Failure::Silent { node, .. } if node.0 == 0), "{failure}");
        assert!(failure.to_string().contains(&cluster.plan.nodes[0].address.to_string()));
    }
    // Everything later fails at once, with the same reason.
    for (_, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, |_| vec![1f32; 10]) {
        assert!(matches!(failure(outcome), Failure::Silent { .. }));
    }
}

#[test]
fn an_aggregator_that_dies_in_mid_round_is_named() {
    for plan in [star(2), in_threads(2)] {
        names_an_aggregator_that_dies(Cluster::start(plan));
    }
}

fn names_an_aggregator_that_dies(mut cluster: Cluster) {
    let node = cluster.nodes.pop().expect("a node");
    let engines = &cluster.engines;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let reduce = |engine| {
            let mut values = vec![1f32; 30_000_000];
            Engine::all_reduce(engine, &mut values, Operation::Sum, LONGER)
        };
        let running: Vec<_> = engines.iter().map(|e| scope.spawn(move || reduce(e))).collect();
        loop {
            let statistics = engines[0].statistics();
            assert_eq!(statistics.collectives.failed, 0, "the round began: {statistics:?}");
            if statistics.datagrams_received > 100 {
                break;
            }
            std::thread::yield_now();
        }
        node.kill();
        running.into_iter().map(|r| r.join().expect("no panic")).collect()
    });
    for outcome in outcomes {
        let failure = failure(outcome);
        assert!(matches!(failure, Failure::Silent { node, .. } if node.0 == 0), "{failure}");
    }
}

#[test]
fn a_worker_that_does_not_contribute_is_named() {
    let cluster = Cluster::start(star(3));
    let mut values = vec![1f32; 10];
    match failure(cluster.engines[0].all_reduce(&mut values, Operation::Sum, SHORT)) {
        Failure::Missing { missing, .. } => assert_eq!(missing, ["w1", "w2"]),
        other => panic!("expected the missing workers, not {other}"),
    }
}

#[test]
fn a_missing_aggregator_is_named_when_joining() {
    let mut plan = star(1);
    let unused = UdpSocket::bind("127.0.0.1:0").expect("a port");
    plan.nodes[0].address = unused.local_addr().expect("bound");
    let options = Options { timeout: Duration::from_millis(300), ..Options::default() };
    match Engine::join(&plan, 0, 1, options) {
        Err(JoinError::Protocol { failure: Failure::NotWelcomed { address, .. }, .. }) => {
            assert_eq!(address, plan.nodes[0].address);
        }
        other => panic!("expected no welcome, not {:?}", other.err()),
    }
}

#[test]
fn another_plan_is_refused() {
    let (mut plan, _nodes) = start_nodes(star(1));
    plan.job.codec = "fixed:1e8".to_owned();
    match Engine::join(&plan, 0, 1, Options::default()) {
        Err(JoinError::Protocol { failure: Failure::Refused { node, .. }, .. }) => {
            assert_eq!(node.0, 0);
        }
        other => panic!("expected a refusal, not {:?}", other.err()),
    }
}

#[test]
fn an_address_of_another_host_is_refused_before_anything_is_sent() {
    let mut plan = star(1);
    plan.workers[0].address = Some("203.0.113.9".parse().expect("an address"));
    match Engine::join(&plan, 0, 1, Options::default()) {
        Err(error @ JoinError::Bind { .. }) => assert!(error.to_string().contains("203.0.113.9")),
        other => panic!("expected a bind error, not {:?}", other.err()),
    }
}

#[test]
fn closing_fails_what_is_open_and_what_comes_later() {
    let cluster = Cluster::start(star(2));
    let engine = &cluster.engines[0];
    let (tell, told) = std::sync::mpsc::channel();
    cluster::submit(engine, vec![1f32; 10], Operation::Sum, move |_, outcome| {
        tell.send(outcome).expect("a listener");
    });
    engine.close();
    assert!(told.recv().expect("an outcome").is_err());
    let mut values = vec![1f32];
    let outcome = engine.all_reduce(&mut values, Operation::Sum, PATIENCE);
    assert!(matches!(outcome, Err(CollectiveError::Closed)));
    assert_eq!(engine.statistics().collectives.failed, 1);
}

#[test]
fn garbage_harms_no_one() {
    for plan in [star(3), in_threads(3)] {
        survives_garbage(Cluster::start(plan));
    }
}

fn survives_garbage(cluster: Cluster) {
    let seed = 0x6a12;
    let targets: Vec<_> = cluster.engines.iter().map(Engine::local_address).collect();
    let targets = [targets, vec![cluster.plan.nodes[0].address]].concat();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| throw_garbage(seed, &targets, &stop));
        for round in 0..30 {
            let values = |rank: usize| vec![(rank + round) as f32; ELEMENTS];
            for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
                outcome.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
                assert_eq!(
                    sum,
                    vec![(3 * round + 3) as f32; ELEMENTS],
                    "seed {seed}, round {round}"
                );
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let counters = cluster.stop();
    let malformed = counters[0].verdicts.iter().find(|(name, _)| *name == "malformed");
    assert!(malformed.is_some_and(|(_, count)| *count > 0), "seed {seed}: {counters:?}");
}

/// Random bytes of random length; some begin as packets of ours do, with header fields that may be anyone's.
fn throw_garbage(seed: u64, targets: &[std::net::SocketAddr], stop: &AtomicBool) {
    let mut random = Random(seed);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut bytes = vec![0; 4000];
    while !stop.load(Ordering::Relaxed) {
        bytes.fill_with(|| random.next() as u8);
        if random.next().is_multiple_of(2) {
            let kind = (random.next() % 10) as u8;
            let job = 7 + (random.next() % 2) as u8;
            bytes[..6].copy_from_slice(&[0x57, 0x53, 1, kind, 0, job]);
        }
        let len = (random.next() % 4000) as usize;
        for target in targets {
            let _ = socket.send_to(&bytes[..len], target);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
