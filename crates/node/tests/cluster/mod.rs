//! Engines and user-space aggregators on loopback, in one process.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod relay;

use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::thread::JoinHandle;
use std::time::Duration;

use wiresum_codec::{Element, Operation};
use wiresum_node::engine::{CollectiveError, Done, Engine, Options};
use wiresum_node::node::{Counters, Node};
use wiresum_node::tensor::{sink, source};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{
    Child, Engine as NodeEngine, Exponents, FORMAT, Job, Lanes, Node as PlanNode, PlanStream,
    Policy, Role, StreamLeg, StreamPlace, Worker,
};
use wiresum_wire::NodeId;
use wiresum_worker::{Collective, Participation};

/// More than any collective here takes, on any machine; only broken ones wait for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How the nodes of a job are arranged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Node 0 sums for every worker.
    Star,
    /// Node 0 sums what nodes 1 and 2 have summed, each for half of the workers.
    TwoLevels,
}

/// A plan for loopback, whose nodes have no addresses yet.
pub fn plan(shape: Shape, workers: u32, lanes: Lanes, policy: Policy) -> Plan {
    let nodes = match shape {
        Shape::Star => 1,
        Shape::TwoLevels => 3,
    };
    let unbound = SocketAddr::from(([127, 0, 0, 1], 0));
    let plan = Plan {
        format: FORMAT.to_owned(),
        planner: "test".to_owned(),
        solution: None,
        job: Job {
            id: 7,
            secret: Some("0123456789abcdef".repeat(4)),
            values_per_packet: 256,
            lanes,
            codec: "block".to_owned(),
            exponents: Exponents::Agreed,
            rounds: None,
            sealed: false,
            proven: false,
            groups: Vec::new(),
            threads: 1,
        },
        nodes: (0..nodes)
            .map(|id| PlanNode {
                id,
                name: format!("n{id}"),
                address: unbound,
                engine: NodeEngine::Udp,
                ingress_bps: None,
                egress_bps: None,
            })
            .collect(),
        workers: (0..workers)
            .map(|rank| Worker {
                rank,
                name: format!("w{rank}"),
                address: Some(unbound.ip()),
                egress_bps: None,
            })
            .collect(),
        streams: vec![
            stream(0, Role::Exponents, Policy::Pool, shape, workers),
            stream(1, Role::Values, policy, shape, workers),
        ],
        fabric: None,
        sparse: None,
    };
    plan.validate().expect("a valid plan");
    plan
}

fn stream(id: u16, role: Role, policy: Policy, shape: Shape, workers: u32) -> PlanStream {
    let (name, share) = match role {
        Role::Exponents => ("exponents", 0.0),
        Role::Values => ("values", 1.0),
        _ => unreachable!("the cluster has no such stream"),
    };
    let (slots, window) = if role == Role::Values { (512, 192) } else { (64, 32) };
    let home = |rank| match shape {
        Shape::Star => 0,
        Shape::TwoLevels => 1 + u16::from(rank >= workers / 2),
    };
    let nodes = if shape == Shape::Star { 0..0 } else { 1..3 };
    let leg = |child, parent| StreamLeg { child, parent, links: Vec::new() };
    let above = nodes.clone().map(|node| leg(Child::Node(node), 0));
    let below = (0..workers).map(|rank| leg(Child::Worker(rank), home(rank)));
    let place = |node| StreamPlace { node, base: 0, slots: Some(slots) };
    PlanStream {
        id,
        name: name.into(),
        role,
        share,
        policy,
        window,
        priority: 0,
        places: std::iter::once(0).chain(nodes.clone()).map(place).collect(),
        legs: above.chain(below).collect(),
    }
}

/// The same plan over TCP connections.
pub fn over_tcp(mut plan: Plan) -> Plan {
    plan.nodes.iter_mut().for_each(|node| node.engine = NodeEngine::Tcp);
    plan.validate().expect("a valid plan");
    plan
}

/// A running aggregator.
pub struct RunningNode {
    stop: UnixStream,
    thread: JoinHandle<Counters>,
}

impl RunningNode {
    fn start(plan: &Plan, node: NodeId) -> (Self, SocketAddr) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_at(any, plan, node)
    }

    /// As it was before it was killed: at the same address.
    pub fn start_at(address: SocketAddr, plan: &Plan, node: NodeId) -> (Self, SocketAddr) {
        let threads = if plan.is_over_tcp() { 1 } else { usize::from(plan.job.threads) };
        Self::run(bind(address, plan, node, threads))
    }

    /// With so many threads, however many ranks have.
    pub fn start_with(threads: usize, plan: &Plan, node: NodeId) -> (Self, SocketAddr) {
        Self::run(bind(SocketAddr::from(([127, 0, 0, 1], 0)), plan, node, threads))
    }

    /// Has a node serve, and says where.
    pub fn run(mut server: Node) -> (Self, SocketAddr) {
        let address = server.local_address().expect("bound");
        let (stop, stopped) = UnixStream::pair().expect("descriptors");
        let thread = std::thread::spawn(move || {
            server.run(stopped, None, |_| {}).expect("a socket");
            server.counters()
        });
        (Self { stop, thread }, address)
    }

    /// Ends the aggregator as if it had been killed: it says nothing to anyone.
    pub fn kill(self) -> Counters {
        drop(self.stop);
        self.thread.join().expect("no panic in the aggregator")
    }
}

fn bind(address: SocketAddr, plan: &Plan, node: NodeId, threads: usize) -> Node {
    let plans = plan.clone().with_groups_at(node).expect("jobs of the plan");
    if threads > 1 {
        return Node::bind_threads(address, &plans, node, threads).expect("a shared port");
    }
    Node::bind(address, &plans, node).expect("a port")
}

/// A job: every node runs, every worker has joined.
pub struct Cluster {
    pub plan: Plan,
    pub nodes: Vec<RunningNode>,
    pub engines: Vec<Engine>,
}

impl Cluster {
    pub fn start(plan: Plan) -> Self {
        let (plan, nodes) = start_nodes(plan);
        Self::join(plan, nodes)
    }

    /// Workers of a plan whose nodes run already.
    pub fn join(plan: Plan, nodes: Vec<RunningNode>) -> Self {
        let engines = std::thread::scope(|scope| {
            let join = |rank| {
                let plan = &plan;
                scope.spawn(move || Engine::join(plan, rank, 1, Options::default()))
            };
            let joining: Vec<_> = (0..plan.workers.len() as u32).map(join).collect();
            let joined = joining.into_iter().map(|j| j.join().expect("no panic"));
            joined.map(|engine| engine.expect("welcome")).collect()
        });
        Self { plan, nodes, engines }
    }

    /// Sums on every rank at once; `values(rank)` are what it contributes. Returns the buffers and outcomes by rank.
    pub fn all_reduce<T: Element>(
        &self,
        operation: Operation,
        timeout: Duration,
        values: impl Fn(usize) -> Vec<T> + Sync,
    ) -> Vec<(Vec<T>, Result<Participation, CollectiveError>)> {
        let reduce = |rank: usize, engine: &Engine| {
            let mut values = values(rank);
            let outcome = engine.all_reduce(&mut values, operation, timeout);
            (values, outcome)
        };
        std::thread::scope(|scope| {
            let reduce = &reduce;
            let ranks = self.engines.iter().enumerate();
            let running: Vec<_> =
                ranks.map(|(rank, engine)| scope.spawn(move || reduce(rank, engine))).collect();
            running.into_iter().map(|r| r.join().expect("no panic")).collect()
        })
    }

    /// Waits until every engine has ended; the aggregators' counters by node.
    pub fn stop(self) -> Vec<Counters> {
        drop(self.engines);
        self.nodes.into_iter().map(RunningNode::kill).collect()
    }
}

/// Starts the aggregators from the root down, so that each knows its parent's address.
pub fn start_nodes(mut plan: Plan) -> (Plan, Vec<RunningNode>) {
    let mut nodes = Vec::new();
    for index in 0..plan.nodes.len() {
        let (node, address) = RunningNode::start(&plan, NodeId(plan.nodes[index].id));
        plan.nodes[index].address = address;
        nodes.push(node);
    }
    (plan, nodes)
}

/// As [`start_nodes`], with something between the root and everyone else, which `between` makes from the root's address.
pub fn start_nodes_behind<T>(
    mut plan: Plan,
    between: impl FnOnce(SocketAddr) -> (SocketAddr, T),
) -> (T, (Plan, Vec<RunningNode>)) {
    let (root, address) = RunningNode::start(&plan, NodeId(0));
    let (address, kept) = between(address);
    plan.nodes[0].address = address;
    let mut nodes = vec![root];
    for index in 1..plan.nodes.len() {
        let (node, address) = RunningNode::start(&plan, NodeId(plan.nodes[index].id));
        plan.nodes[index].address = address;
        nodes.push(node);
    }
    (kept, (plan, nodes))
}

/// `values` as source, and this part of them as sink; both must be gone before the values are touched again.
pub fn in_place<T: Element>(
    engine: &Engine,
    values: &mut [T],
    part: Range<usize>,
    operation: Operation,
) -> Collective {
    let data = NonNull::from(&mut *values).cast::<T>();
    let encoding = engine.encoding(T::TYPE, operation);
    // SAFETY: the part is among the values, and the tests wait for the outcome before they look at them.
    let (source, sink) = unsafe {
        let first = data.add(part.start).cast();
        (source(data.cast(), values.len(), encoding), sink(first, part.len(), encoding))
    };
    Collective::all_reduce(source, sink)
}

/// Source and sink in memory of their own; both must be gone before that is touched again.
pub fn apart<T: Element>(
    engine: &Engine,
    values: &mut [T],
    results: &mut [T],
    operation: Operation,
) -> Collective {
    let of_source = in_place(engine, values, 0..0, operation);
    let of_sink = in_place(engine, results, 0..results.len(), operation);
    Collective::all_reduce(of_source.source, of_sink.sink)
}

/// Submits without waiting: the values and the outcome come back through the channel.
pub fn submit<T: Element>(
    engine: &Engine,
    mut values: Vec<T>,
    operation: Operation,
    tell: impl FnOnce(Vec<T>, Result<Participation, CollectiveError>) + Send + 'static,
) {
    let all = 0..values.len();
    let collective = in_place(engine, &mut values, all, operation);
    let done: Done = Box::new(move |outcome| tell(values, outcome));
    engine.submit(collective, PATIENCE, done).expect("an open engine");
}

/// SplitMix64: numbers that a seed repeats.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Uniform in −1..1.
    pub fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
