//! A fabric over loopback: real sockets, real threads, every node a station of its own.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use wiresum_codec::Operation;
use wiresum_node::engine::{CollectiveError, Engine, JoinError, Options};
use wiresum_node::node::{JobReport, Node as Daemon};
use wiresum_node::station::{KernelSwitch, LoadError};
use wiresum_protocol::Plan;
use wiresum_wire::{NodeId, SubModelId};
use wiresum_worker::{Failure, Participation};
use wiresum_xdp::AttachMode;

const WORKERS: usize = 4;
/// Switches 0 and 1 with two workers each, switch 2 above them, and the server 3 at it.
const SERVER: u16 = 3;
const PATIENCE: Duration = Duration::from_secs(30);
/// Values of a packet.
const VALUES: usize = 64;

/// A stream of values: where it is summed first, of which the policy may have none, and its window.
struct Stream {
    at: Option<u16>,
    window: u32,
    share: f64,
}

/// Every test has addresses of its own, so that none meets another's packets: 127.x.y.z is this host for all x, y and z.
fn addresses() -> impl Fn(usize) -> String {
    static TESTS: AtomicU8 = AtomicU8::new(1);
    let (process, test) = (std::process::id(), TESTS.fetch_add(1, Ordering::Relaxed));
    move |index| {
        format!(
            "127.{}.{}.{}:5747",
            64 + process % 128,
            process / 128 % 256,
            16 * usize::from(test) + index
        )
    }
}

fn plan(policy: &str, slots: u32, timeout_s: f64, streams: &[Stream]) -> Plan {
    let address = addresses();
    let node = |id: usize| json!({ "at": { "node": id }, "address": address(id) });
    let worker = |rank: usize| json!({ "at": { "worker": rank }, "address": address(8 + rank) });
    let mut ends: Vec<Value> =
        (0..WORKERS).map(|rank| json!([worker(rank), node(rank / 2)])).collect();
    ends.extend([(0, 2), (1, 2), (2, 3), (0, 1)].map(|(a, b)| json!([node(a), node(b)])));
    let links: Vec<Value> = ends
        .into_iter()
        .enumerate()
        .map(|(i, ends)| json!({ "id": format!("l{i}"), "ends": ends }))
        .collect();
    let first = Stream { at: streams[0].at, window: 8, share: 0.0 };
    let all: Vec<&Stream> = std::iter::once(&first).chain(streams).collect();
    let streams: Vec<Value> = all
        .iter()
        .enumerate()
        .map(|(id, s)| {
            // Checks are summed at the server, and the values' slots stay the values'.
            let sums = match s.at {
                _ if id == 0 => vec![],
                Some(node) => vec![node],
                None => vec![0, 1, 2],
            };
            let place = |node: &u16| json!({ "node": node, "slots": slots });
            let places: Vec<Value> =
                sums.iter().map(place).chain([json!({ "node": SERVER })]).collect();
            json!({ "id": id, "name": format!("s{id}"), "role": if id == 0 { "exponents" } else { "values" },
                    "share": s.share, "policy": policy, "window": s.window, "places": places, "legs": legs(&sums) })
        })
        .collect();
    let memory: Vec<Value> = (0..3).map(|node| json!({ "node": node, "slots": slots })).collect();
    let nodes: Vec<Value> = (0..4)
        .map(|id| json!({ "id": id, "name": format!("n{id}"), "address": address(id) }))
        .collect();
    let workers: Vec<Value> =
        (0..WORKERS).map(|rank| json!({ "rank": rank, "name": format!("w{rank}") })).collect();
    let text = json!({
        "format": "wiresum-plan/2",
        "job": { "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": VALUES, "codec": "fixed:1000" },
        "nodes": nodes, "workers": workers, "streams": streams,
        "fabric": { "timeout_s": timeout_s, "links": links, "memory": memory },
    });
    Plan::from_json(&text.to_string()).expect("a valid plan")
}

/// From each worker, and from each switch that sums, to the next switch that does, or to the server.
fn legs(sums: &[u16]) -> Vec<Value> {
    let leg = |child: Value, parent: u16, links: &[u16]| {
        let links: Vec<_> = links.iter().map(|link| format!("l{link}")).collect();
        json!({ "child": child, "parent": parent, "links": links })
    };
    let worker = |rank: u16| {
        let (child, leaf) = (json!({ "worker": rank }), rank / 2);
        match sums {
            [] => leg(child, SERVER, &[rank, 4 + leaf, 6]),
            [2] => leg(child, 2, &[rank, 4 + leaf]),
            [at] if *at != leaf => leg(child, *at, &[rank, 7]),
            _ => leg(child, leaf, &[rank]),
        }
    };
    let switch = |at: &u16| match at {
        2 => leg(json!({ "node": 2 }), SERVER, &[6]),
        _ if sums.contains(&2) => leg(json!({ "node": at }), 2, &[4 + at]),
        _ => leg(json!({ "node": at }), SERVER, &[4 + at, 6]),
    };
    (0..WORKERS as u16).map(worker).chain(sums.iter().map(switch)).collect()
}

/// Contributions of values that a node received and sent upwards.
type Counts = (u64, u64);

struct Node {
    stop: UnixStream,
    thread: JoinHandle<Counts>,
}

fn counts(jobs: &[JobReport]) -> Counts {
    let values = jobs.iter().flat_map(|job| &job.streams).filter(|s| s.sub_model != SubModelId(0));
    values.fold((0, 0), |(came, left), s| (came + s.arrived, left + s.departed))
}

impl Node {
    fn start(plan: &Plan, id: u16) -> Self {
        let address: SocketAddr = plan.node(NodeId(id)).expect("in the plan").address;
        let mut server =
            Daemon::bind(address, std::slice::from_ref(plan), NodeId(id)).expect("a port");
        let (stop, stopped) = UnixStream::pair().expect("descriptors");
        let thread = std::thread::spawn(move || {
            server.run(stopped, None, |_| {}).expect("a socket");
            counts(&server.plane().jobs())
        });
        Self { stop, thread }
    }

    fn end(self) -> Counts {
        drop(self.stop);
        self.thread.join().expect("no panic at a node")
    }
}

/// Waits until all have ended; their counts.
fn end(nodes: Vec<Node>) -> Vec<Counts> {
    nodes.into_iter().map(Node::end).collect()
}

fn start(plan: &Plan) -> Vec<Node> {
    (0..4).map(|id| Node::start(plan, id)).collect()
}

fn join(plan: &Plan) -> Vec<Engine> {
    std::thread::scope(|scope| {
        let join = |rank| scope.spawn(move || Engine::join(plan, rank, 1, Options::default()));
        let joining: Vec<_> = (0..WORKERS as u32).map(join).collect();
        joining.into_iter().map(|j| j.join().expect("no panic").expect("welcome")).collect()
    })
}

/// Sums whole numbers at every rank; `delays` by rank. What each has, and how it ended.
fn all_reduce(
    engines: &[Engine],
    len: usize,
    delays: [Duration; WORKERS],
    timeout: Duration,
) -> Vec<(Vec<f32>, Result<Participation, CollectiveError>)> {
    let reduce = |rank: usize, engine: &Engine| {
        std::thread::sleep(delays[rank]);
        let mut values: Vec<f32> = (0..len).map(|i| element(rank, i)).collect();
        let outcome = engine.all_reduce(&mut values, Operation::Sum, timeout);
        (values, outcome)
    };
    std::thread::scope(|scope| {
        let reduce = &reduce;
        let start = |(rank, engine)| scope.spawn(move || reduce(rank, engine));
        let running: Vec<_> = engines.iter().enumerate().map(start).collect();
        running.into_iter().map(|r| r.join().expect("no panic")).collect()
    })
}

fn element(rank: usize, index: usize) -> f32 {
    ((index * 7 + rank * 3) % 41) as f32 - 20.0
}

fn assert_summed(summed: Vec<(Vec<f32>, Result<Participation, CollectiveError>)>) {
    for (rank, (values, outcome)) in summed.into_iter().enumerate() {
        outcome.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
        for (index, value) in values.into_iter().enumerate() {
            let sum: f32 = (0..WORKERS).map(|rank| element(rank, index)).sum();
            assert_eq!(value.to_bits(), sum.to_bits(), "rank {rank}, element {index}");
        }
    }
}

const AT_ONCE: [Duration; WORKERS] = [Duration::ZERO; WORKERS];

fn streams(at: &[Option<u16>], window: u32) -> Vec<Stream> {
    let share = 1.0 / at.len() as f64;
    at.iter().map(|&at| Stream { at, window, share }).collect()
}

#[test]
fn sums_are_exact_where_every_switch_sums_and_where_one_does() {
    for (policy, at) in
        [("hash", vec![None]), ("exclusive", vec![Some(0), Some(2)]), ("register", vec![Some(1)])]
    {
        for codec in ["fixed:1000", "block"] {
            let mut plan = plan(policy, 64, 0.1, &streams(&at, 64));
            plan.job.codec = codec.into();
            let nodes = start(&plan);
            let engines = join(&plan);
            for len in [1, 63, 65, 20_000] {
                assert_summed(all_reduce(&engines, len, AT_ONCE, PATIENCE));
            }
            drop(engines);
            end(nodes);
        }
    }
}

/// How much later the second worker of each rack is: A1 B1 C1 before A2 B2 C2 (GOAT, Fig. 2b), by more than a busy machine's threads.
const LATER: Duration = Duration::from_secs(1);
/// Nothing may be sent twice while they wait.
const UNDISTURBED_S: f64 = 10.0;

/// Contributions of three fragments at the server, and those that the switches sent.
fn figure_2(plan: &Plan) -> (u64, u64) {
    let nodes = start(plan);
    let engines = join(plan);
    let delays = [Duration::ZERO, LATER, Duration::ZERO, LATER];
    assert_summed(all_reduce(&engines, 3 * VALUES, delays, PATIENCE));
    drop(engines);
    let counts = end(nodes);
    (counts[usize::from(SERVER)].0, counts[..3].iter().map(|(_, left)| left).sum())
}

#[test]
fn goat_figure_2_atp_sends_seven_fragments_to_the_server_and_seventeen_in_all() {
    assert_eq!(figure_2(&plan("hash", 1, UNDISTURBED_S, &streams(&[None], 3))), (7, 17));
}

#[test]
fn goat_figure_2_collaborating_switches_send_three_and_thirteen() {
    let at = [Some(0), Some(1), Some(2)];
    assert_eq!(figure_2(&plan("exclusive", 1, UNDISTURBED_S, &streams(&at, 1))), (3, 13));
}

#[test]
fn a_switch_that_dies_is_named_before_the_deadline_is_long_past() {
    let plan = plan("hash", 64, 0.1, &streams(&[None], 64));
    let mut nodes = start(&plan);
    let engines = join(&plan);
    nodes.remove(2).end();
    let ended = all_reduce(&engines, 5000, AT_ONCE, Duration::from_secs(3));
    for (rank, (_, outcome)) in ended.into_iter().enumerate() {
        match outcome {
            Err(CollectiveError::Protocol { failure: Failure::Silent { node, .. }, .. }) => {
                assert_eq!(node, NodeId(2))
            }
            other => panic!("rank {rank}: {other:?}"),
        }
    }
    drop(engines);
    end(nodes);
}

#[test]
fn a_server_that_never_was_is_named_when_workers_join() {
    let plan = plan("hash", 64, 0.1, &streams(&[None], 64));
    let nodes: Vec<Node> = (0..3).map(|id| Node::start(&plan, id)).collect();
    let options = Options { timeout: Duration::from_secs(1), ..Options::default() };
    match Engine::join(&plan, 0, 1, options) {
        Err(JoinError::Protocol { failure: Failure::NotWelcomed { node, .. }, .. }) => {
            assert_eq!(node, NodeId(SERVER))
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("joined without a server"),
    }
    end(nodes);
}

/// Whatever this machine can do, this is refused before the kernel is asked.
#[test]
fn a_switch_in_the_kernel_listens_where_its_links_end() {
    let plan = plan("hash", 64, 0.1, &streams(&[None], 64));
    let address: SocketAddr = "[::]:5747".parse().expect("an address");
    let plans = std::slice::from_ref(&plan);
    let refused = KernelSwitch::load(plans, NodeId(2), address, &[], AttachMode::Native);
    match refused.map(|_| ()) {
        Err(error @ LoadError::Family { .. }) => {
            assert!(error.to_string().contains("give both IPv4 addresses"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
