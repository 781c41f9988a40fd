//! The tree over TCP: the same sums as over UDP, whatever happens to connections.

mod cluster;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster::relay::{Fate, relay};
use cluster::{Cluster, PATIENCE, Random, Shape, over_tcp, plan, start_nodes};
use wiresum_codec::Operation;
use wiresum_node::engine::{CollectiveError, Engine, JoinError, Options};
use wiresum_node::node::{Counters, Node};
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_protocol::{Plan, Time};
use wiresum_wire::{MAX_PACKET, NodeId};
use wiresum_worker::{Failure, Session};

const WORKERS: u32 = 4;

fn star() -> Plan {
    over_tcp(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool))
}

/// What a rank contributes.
fn values(seed: u64, rank: usize, len: usize) -> Vec<f32> {
    let mut random = Random(seed + rank as u64);
    (0..len).map(|i| random.real() * 10f32.powi((i / 256) as i32 % 30 - 15)).collect()
}

/// Bits of the sum on every rank, which have to be the same.
fn bits_of_sum(cluster: &Cluster, seed: u64, len: usize) -> Vec<u32> {
    let reduced = cluster.all_reduce(Operation::Sum, PATIENCE, |rank| values(seed, rank, len));
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let first = bits(&reduced[0].0);
    for (rank, (sum, outcome)) in reduced.iter().enumerate() {
        outcome.as_ref().unwrap_or_else(|error| panic!("seed {seed:#x}, rank {rank}: {error}"));
        assert!(bits(sum) == first, "seed {seed:#x}, rank {rank}: other bits than rank 0");
    }
    first
}

fn total(counters: &Counters, name: &str) -> u64 {
    counters.totals().find(|(known, _)| *known == name).expect("a counter of that name").1
}

fn assert_sums_as_over_udp(shape: Shape, lanes: Lanes, policy: Policy, seed: u64) {
    let planned = plan(shape, WORKERS, lanes, policy);
    let clusters = [Cluster::start(planned.clone()), Cluster::start(over_tcp(planned))];
    for len in [1, 257, 5_000, 120_001] {
        let sums = clusters.each_ref().map(|cluster| bits_of_sum(cluster, seed, len));
        assert!(sums[0] == sums[1], "seed {seed:#x}, {shape:?}, {len} elements: other bits");
    }
    for engine in &clusters[1].engines {
        assert_eq!(engine.statistics().sent.refused, 0, "{:?}", engine.statistics().sent);
    }
}

#[test]
fn a_star_sums_as_over_udp() {
    assert_sums_as_over_udp(Shape::Star, Lanes::Int32Le, Policy::Pool, 0x7c91);
    assert_sums_as_over_udp(Shape::Star, Lanes::Int16Be, Policy::Cache, 0x7c92);
}

#[test]
fn two_levels_sum_as_over_udp() {
    assert_sums_as_over_udp(Shape::TwoLevels, Lanes::Int32Le, Policy::Pool, 0x7c93);
    assert_sums_as_over_udp(Shape::TwoLevels, Lanes::Int32Be, Policy::Cache, 0x7c94);
}

/// A cluster whose workers reach node 0 through a relay.
fn start_behind_relay(
    plan: Plan,
    fate: impl Fn(u64) -> Fate + Send + 'static,
) -> (Cluster, std::sync::Arc<std::sync::atomic::AtomicU64>) {
    let (mut plan, nodes) = start_nodes(plan);
    let (address, met) = relay(plan.nodes[0].address, fate);
    plan.nodes[0].address = address;
    (Cluster::join(plan, nodes), met)
}

#[test]
fn connections_that_break_in_mid_round_cost_no_sum() {
    let seed = 0xb4ea;
    let unbroken = Cluster::start(star());
    let (cluster, broken) = start_behind_relay(star(), move |index| {
        Fate::BreaksAfter(10_000 + (Random(seed + index).next() % 600_000) as usize)
    });
    for round in 0..6 {
        let sums = [&unbroken, &cluster].map(|c| bits_of_sum(c, seed + round, 150_000));
        assert!(sums[0] == sums[1], "seed {seed:#x}, round {round}: not the sum");
    }
    let broken = broken.load(Ordering::Relaxed);
    assert!(broken >= 10, "only {broken} connections broke (seed {seed:#x})");
    let counters = cluster.stop();
    assert!(total(&counters[0], "connections_accepted") >= u64::from(WORKERS) + broken);
}

#[test]
fn a_link_between_nodes_that_breaks_costs_no_sum() {
    let seed = 0xb4eb;
    let planned = over_tcp(plan(Shape::TwoLevels, WORKERS, Lanes::Int32Le, Policy::Pool));
    let unbroken = Cluster::start(planned.clone());
    let (broken, nodes) = cluster::start_nodes_behind(planned, |root| {
        relay(root, move |index| {
            Fate::BreaksAfter(20_000 + (Random(seed + index).next() % 900_000) as usize)
        })
    });
    let cluster = Cluster::join(nodes.0, nodes.1);
    for round in 0..4 {
        let sums = [&unbroken, &cluster].map(|c| bits_of_sum(c, seed + round, 150_000));
        assert!(sums[0] == sums[1], "seed {seed:#x}, round {round}: not the sum");
    }
    assert!(broken.load(Ordering::Relaxed) >= 3, "hardly anything broke (seed {seed:#x})");
}

/// More than the kernel's buffers of a connection and the node's box hold together.
const PILE: usize = 6_000_000;

/// A star whose nodes hold all of [`PILE`], so that nothing but TCP slows the workers down.
fn roomy_star() -> Plan {
    let mut plan = over_tcp(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Cache));
    plan.streams[1] = plan.streams[1].clone().with_slots(1 << 15);
    plan
}

#[test]
fn a_reader_that_pauses_makes_others_wait_and_loses_nothing() {
    let pause = Duration::from_millis(300);
    let (cluster, paused) = start_behind_relay(roomy_star(), move |index| match index {
        0 => Fate::PausesAfter(1 << 20, pause),
        _ => Fate::PausesAfter(usize::MAX, pause),
    });
    for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, |_| vec![1f32; PILE]) {
        outcome.expect("a sum");
        assert!(sum.iter().all(|value| *value == 4.0));
    }
    assert_eq!(paused.load(Ordering::Relaxed), 1);
    let counters = cluster.stop();
    assert_eq!(total(&counters[0], "datagrams_refused"), 0, "{counters:?}");
}

#[test]
fn a_reader_that_stalls_is_given_up_and_gets_its_sums_later() {
    let pause = Duration::from_millis(1800);
    let (cluster, paused) = start_behind_relay(roomy_star(), move |index| match index {
        0 => Fate::PausesAfter(1 << 20, pause),
        _ => Fate::PausesAfter(usize::MAX, pause),
    });
    for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, |_| vec![1f32; PILE]) {
        outcome.expect("a sum");
        assert!(sum.iter().all(|value| *value == 4.0));
    }
    assert_eq!(paused.load(Ordering::Relaxed), 1);
}

#[test]
fn jobs_share_a_node() {
    let mut plans = [star(), star()];
    plans[1].job.id = 8;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut daemon = Node::bind(any, &plans, NodeId(0)).expect("a port");
    let address = daemon.local_address().expect("bound");
    plans.iter_mut().for_each(|plan| plan.nodes[0].address = address);
    let (stop, stopped) = UnixStream::pair().expect("descriptors");
    let node = std::thread::spawn(move || {
        daemon.run(stopped, None, |_| {}).expect("a listener");
        daemon.counters()
    });
    std::thread::scope(|scope| {
        for (job, plan) in plans.into_iter().enumerate() {
            scope.spawn(move || {
                let cluster = Cluster::join(plan, Vec::new());
                let values = |rank| vec![(job * 10 + rank) as f32; 50_000];
                for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
                    outcome.expect("a sum");
                    assert_eq!(sum, vec![(job * 40 + 6) as f32; 50_000], "job {job}");
                }
            });
        }
    });
    drop(stop);
    let counters = node.join().expect("no panic");
    assert_eq!(total(&counters, "connections_accepted"), 2 * u64::from(WORKERS));
    assert_eq!(total(&counters, "connections_garbage"), 0);
}

/// Whether the other side ends the connection; what it says before is ignored.
fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn garbage_closes_its_connection_and_harms_no_one() {
    let seed = 0x6a13;
    let cluster = Cluster::start(star());
    let node = cluster.plan.nodes[0].address;
    let mut random = Random(seed);
    for round in 0..40 {
        let mut bytes = vec![0; 40 + (random.next() % 4000) as usize];
        bytes.fill_with(|| random.next() as u8);
        if round % 2 == 0 {
            // As a packet of ours begins, with a kind that there is not.
            bytes[..6].copy_from_slice(&[0x57, 0x53, 1, 9 + (round as u8), 0, 7]);
        }
        let mut stranger = TcpStream::connect(node).expect("a connection");
        let _ = stranger.write_all(&bytes);
        let values = |rank: usize| vec![rank as f32; 5000];
        for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
            outcome.unwrap_or_else(|error| panic!("seed {seed:#x}, round {round}: {error}"));
            assert_eq!(sum, vec![6.0; 5000], "seed {seed:#x}, round {round}");
        }
        assert!(is_closed(stranger), "seed {seed:#x}, round {round}: still open");
    }
    let counters = cluster.stop();
    assert_eq!(total(&counters[0], "connections_garbage"), 40, "seed {seed:#x}");
    let malformed = counters[0].verdicts.iter().find(|(name, _)| *name == "malformed");
    assert_eq!(malformed.map(|(_, count)| *count), Some(40), "seed {seed:#x}");
}

#[test]
fn who_does_not_stop_saying_hello_where_it_is_refused_is_cut_off() {
    let cluster = Cluster::start(star());
    let node = cluster.plan.nodes[0].address;
    let mut other = cluster.plan.clone();
    other.job.secret = Some("f".repeat(64));
    let mut session = Session::new(&other, 0, 1);
    session.join(Time(1_000_000), Time(0));
    let mut hello = [0; MAX_PACKET];
    let len = session.poll_transmit(Time(0), &mut hello).expect("a hello").len;
    let mut stranger = TcpStream::connect(node).expect("a connection");
    let sent = (0..1000).take_while(|_| stranger.write_all(&hello[..len]).is_ok()).count();
    assert!(is_closed(stranger), "{sent} hellos, and it is still open");
    assert_eq!(bits_of_sum(&cluster, 1, 1000).len(), 1000, "the job goes on");
}

#[test]
fn connections_are_bounded() {
    let cluster = Cluster::start(star());
    let node = cluster.plan.nodes[0].address;
    let strangers: Vec<_> = (0..100).map(|_| TcpStream::connect(node).expect("a call")).collect();
    let values = |rank: usize| vec![rank as f32; 5000];
    for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
        outcome.expect("a sum");
        assert_eq!(sum, vec![6.0; 5000]);
    }
    // The last ones were beyond the bound; the others are closed as no hello comes from them.
    assert!(strangers.into_iter().all(is_closed));
    let counters = cluster.stop();
    let closed =
        ["connections_refused", "connections_unwelcome"].map(|name| total(&counters[0], name));
    assert!(closed[0] > 0 && closed[1] > 0, "{counters:?}");
    assert_eq!(closed[0] + closed[1], 100, "{counters:?}");
}

fn join_error(plan: &Plan, timeout: Duration) -> JoinError {
    let options = Options { timeout, ..Options::default() };
    Engine::join(plan, 0, 1, options).err().expect("no way to join")
}

#[test]
fn a_node_that_is_not_there_is_named_with_what_the_kernel_says() {
    let mut plan = star();
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    plan.nodes[0].address = unused;
    let error = join_error(&plan, Duration::from_millis(300));
    let is_named = matches!(
        &error,
        JoinError::Protocol { failure: Failure::NotWelcomed { address, .. }, .. } if *address == unused
    );
    assert!(is_named && error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_node_that_starts_late_is_joined() {
    let mut plan = star();
    plan.workers.truncate(1);
    plan.streams.iter_mut().for_each(|s| s.legs.truncate(1));
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    plan.nodes[0].address = port.local_addr().expect("bound");
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| Engine::join(&plan, 0, 1, Options::default()));
        // The port is bound and nobody listens at first; then the daemon does.
        drop(port);
        let (node, _) = cluster::RunningNode::start_at(plan.nodes[0].address, &plan, NodeId(0));
        joining.join().expect("no panic").expect("a welcome");
        node.kill();
    });
}

#[test]
fn another_plan_is_refused() {
    let (mut plan, _nodes) = start_nodes(star());
    plan.job.codec = "fixed:1e8".to_owned();
    let error = join_error(&plan, PATIENCE);
    assert!(
        matches!(error, JoinError::Protocol { failure: Failure::Refused { .. }, .. }),
        "{error}"
    );
}

#[test]
fn an_address_of_another_host_is_named() {
    let mut plan = star();
    plan.workers[0].address = Some("203.0.113.9".parse().expect("an address"));
    assert!(matches!(join_error(&plan, PATIENCE), JoinError::Bind { .. }));
}

#[test]
fn a_dead_aggregator_is_named() {
    let mut cluster = Cluster::start(star());
    cluster.nodes.pop().expect("a node").kill();
    let short = Duration::from_millis(1500);
    for (_, outcome) in cluster.all_reduce(Operation::Sum, short, |_| vec![1f32; 1000]) {
        let Err(CollectiveError::Protocol { failure, remark }) = outcome else {
            panic!("a dead node summed: {outcome:?}");
        };
        assert!(matches!(failure, Failure::Silent { .. }), "{failure}");
        assert!(remark.contains("were not sent"), "{remark}");
    }
}
