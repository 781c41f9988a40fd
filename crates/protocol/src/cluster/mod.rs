//! Whole jobs under virtual time: real workers and aggregators, an emulated network, and the checks that must always hold.

mod buffer;
mod failures;
mod forecasts;
mod joining;
mod large;
mod link;
mod quorum;
mod random;
mod rates;
mod removal;
mod sums;
mod throughput;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_wire::{FragmentId, MAX_PACKET, NodeId, Packet, Round, SubModelId};

use crate::plan::{Child, SubModel};
use crate::rates::{Bounds, Epoch, Negotiator, Results};
use crate::rng::Rng;
use crate::worker::SwitchOver;
use crate::{
    Aggregator, ControlHalf, Event, Failure, Outcome, Participation, Plan, Recipients, Time,
    Transmitter, Verdict, Worker,
};
use buffer::{IntegerBuffer, Tensor};
use link::{Conditions, Link};

/// First incarnation of a cluster.
const INCARNATION: u64 = 1;
/// A round's time unless a test says otherwise: beyond what any recovery takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// Datagrams after which a cluster counts as live-locked.
const MAX_EVENTS: u64 = 3_000_000;

/// What a test does with one worker.
struct Host {
    address: SocketAddr,
    worker: Worker,
    /// Taken from the network; nothing reaches it or leaves it.
    is_dead: bool,
    has_joined: bool,
    /// Tensors that it has passed, by round.
    tensors: Vec<Tensor>,
    /// Outcomes, in order, and when they came.
    finished: Vec<(Round, Result<(), Failure>, Time)>,
    /// Who took part, by outcome.
    participations: Vec<Participation>,
    switches: Vec<SwitchOver>,
}

struct Node {
    id: NodeId,
    address: SocketAddr,
    aggregator: Aggregator,
    transmitter: Transmitter,
    negotiator: Negotiator,
    is_dead: bool,
}

/// Whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Worker(usize),
    Node(usize),
}

fn transmitter(plan: &Plan, node: NodeId, first: FragmentId) -> Transmitter {
    let mut transmitter = Transmitter::new(plan, node);
    transmitter.start_at(first);
    transmitter
}

/// A datagram on its way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    at_ns: u64,
    /// Breaks ties, so that order depends on nothing else.
    ordinal: u64,
    source: SocketAddr,
    destination: SocketAddr,
    bytes: Vec<u8>,
}

/// A job, its nodes and the network between them.
struct Cluster {
    plan: Plan,
    hosts: Vec<Host>,
    nodes: Vec<Node>,
    conditions: Conditions,
    /// Of the links between nodes, where they differ.
    inner_conditions: Option<Conditions>,
    links: BTreeMap<(SocketAddr, SocketAddr), Link>,
    flying: BinaryHeap<Reverse<Flying>>,
    rng: Rng,
    now_ns: u64,
    sent: u64,
    events: u64,
    first: FragmentId,
    incarnation: u64,
}

impl Cluster {
    fn new(plan: Plan, conditions: Conditions, seed: u64) -> Self {
        Self::starting_at(plan, conditions, seed, FragmentId(0))
    }

    fn starting_at(plan: Plan, conditions: Conditions, seed: u64, first: FragmentId) -> Self {
        plan.validate().expect("a valid plan");
        let node = |n: &crate::plan::Node| Node {
            id: NodeId(n.id),
            address: n.address,
            aggregator: Aggregator::new(&plan, NodeId(n.id)),
            transmitter: transmitter(&plan, NodeId(n.id), first),
            negotiator: negotiator(&plan, n, Epoch::default()),
            is_dead: false,
        };
        let nodes = plan.nodes.iter().map(node).collect();
        let mut cluster = Self {
            hosts: Vec::new(),
            nodes,
            conditions,
            inner_conditions: None,
            links: BTreeMap::new(),
            flying: BinaryHeap::new(),
            rng: Rng::new(seed),
            now_ns: 0,
            sent: 0,
            events: 0,
            first,
            incarnation: INCARNATION,
            plan,
        };
        cluster.start_workers();
        cluster
    }

    /// (Re)starts every worker, in the cluster's incarnation and at the same addresses.
    fn start_workers(&mut self) {
        let (plan, first, incarnation) = (&self.plan, self.first, self.incarnation);
        let host = |rank: u32| Host {
            address: SocketAddr::from(([10, 1, 0, rank as u8], 4000)),
            worker: Worker::starting_at(plan, rank, incarnation, first),
            is_dead: false,
            has_joined: false,
            tensors: Vec::new(),
            finished: Vec::new(),
            participations: Vec::new(),
            switches: Vec::new(),
        };
        self.hosts = (0..self.plan.workers.len() as u32).map(host).collect();
    }

    fn restart(&mut self) {
        self.incarnation += 1;
        self.start_workers();
    }

    fn now(&self) -> Time {
        Time(self.now_ns / 1000)
    }

    fn join(&mut self, rank: usize) {
        let now = self.now();
        self.hosts[rank].worker.join(now.plus(PATIENCE), now);
        self.drive(rank);
    }

    fn join_all(&mut self) {
        (0..self.hosts.len()).for_each(|rank| self.join(rank));
    }

    fn submit(&mut self, rank: usize, tensor: Tensor) {
        self.submit_within(rank, tensor, PATIENCE);
    }

    fn submit_within(&mut self, rank: usize, tensor: Tensor, patience: Duration) {
        let now = self.now();
        let host = &mut self.hosts[rank];
        host.tensors.push(tensor.clone());
        let buffer = IntegerBuffer::new(&self.plan, tensor);
        host.worker.submit(Box::new(buffer), now.plus(patience), now);
        self.drive(rank);
    }

    /// Passes the same sizes on every rank, all at once, each with values of its own.
    fn submit_all(&mut self, sizes: &[usize]) {
        for rank in 0..self.hosts.len() {
            for size in sizes {
                let round = self.hosts[rank].tensors.len();
                let tensor = Tensor::of(&self.plan, rank, round, *size);
                self.submit(rank, tensor);
            }
        }
    }

    /// Runs until every living worker has an outcome for every tensor it passed.
    fn run(&mut self) {
        while !self.is_finished() {
            assert!(self.step(), "nothing is under way, yet {}", self.describe());
        }
    }

    /// Runs until this time.
    fn run_until(&mut self, until: Time) {
        while self.next_event_ns().is_some_and(|at| at <= until.0 * 1000) {
            self.step();
        }
        self.now_ns = self.now_ns.max(until.0 * 1000);
    }

    fn is_finished(&self) -> bool {
        let is_done = |host: &Host| host.finished.len() == host.tensors.len() && host.has_joined;
        self.hosts.iter().all(|host| host.is_dead || is_done(host))
    }

    fn describe(&self) -> String {
        let progress = |host: &Host| (host.has_joined, host.finished.len(), host.tensors.len());
        format!("{:?} at {:?}", self.hosts.iter().map(progress).collect::<Vec<_>>(), self.now())
    }

    fn next_alarm(&self) -> Option<(Time, Alarm)> {
        let hosts = self.hosts.iter().enumerate().filter(|(_, host)| !host.is_dead);
        let workers =
            hosts.filter_map(|(rank, h)| Some((h.worker.poll_timeout()?, Alarm::Worker(rank))));
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead);
        let nodes =
            nodes.filter_map(|(i, n)| Some((n.transmitter.poll_timeout()?, Alarm::Node(i))));
        let daemons = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead);
        let daemons =
            daemons.filter_map(|(i, n)| Some((n.negotiator.poll_timeout()?, Alarm::Node(i))));
        workers.chain(nodes).chain(daemons).min()
    }

    fn next_event_ns(&self) -> Option<u64> {
        let flying = self.flying.peek().map(|Reverse(next)| next.at_ns);
        let alarm = self.next_alarm().map(|(at, _)| at.0 * 1000);
        flying.into_iter().chain(alarm).min().map(|at| at.max(self.now_ns))
    }

    /// One datagram or one timeout. False if nothing is under way.
    fn step(&mut self) -> bool {
        self.events += 1;
        assert!(self.events < MAX_EVENTS, "live-lock: {}", self.describe());
        let flying = self.flying.peek().map(|Reverse(next)| next.at_ns);
        match self.next_alarm() {
            Some((at, alarm)) if flying.is_none_or(|flying| at.0 * 1000 <= flying) => {
                self.now_ns = self.now_ns.max(at.0 * 1000);
                let now = self.now();
                let next = self.ring(alarm);
                assert!(next.is_none_or(|next| next > now), "{alarm:?} is due again at once");
            }
            _ => {
                let Some(Reverse(datagram)) = self.flying.pop() else { return false };
                self.now_ns = self.now_ns.max(datagram.at_ns);
                self.deliver(datagram);
            }
        }
        true
    }

    /// Lets the owner of an alarm act. When it wants to act next.
    fn ring(&mut self, alarm: Alarm) -> Option<Time> {
        match alarm {
            Alarm::Worker(rank) => {
                let now = self.now();
                self.hosts[rank].worker.handle_timeout(now);
                self.drive(rank);
                self.hosts[rank].worker.poll_timeout()
            }
            Alarm::Node(index) => {
                let now = self.now();
                self.nodes[index].negotiator.handle_timeout(now);
                self.drive_node(index);
                let node = &self.nodes[index];
                let due = [node.transmitter.poll_timeout(), node.negotiator.poll_timeout()];
                due.into_iter().flatten().min()
            }
        }
    }

    fn deliver(&mut self, datagram: Flying) {
        let to = datagram.destination;
        if let Some(index) = self.nodes.iter().position(|n| n.address == to && !n.is_dead) {
            self.deliver_to_node(index, &datagram);
        } else if let Some(rank) = self.hosts.iter().position(|h| h.address == to && !h.is_dead) {
            let now = self.now();
            self.hosts[rank].worker.handle_datagram(datagram.source, &datagram.bytes, now);
            self.drive(rank);
        }
    }

    fn deliver_to_node(&mut self, index: usize, datagram: &Flying) {
        let mut buffer = [0; MAX_PACKET];
        let len = datagram.bytes.len().min(MAX_PACKET);
        buffer[..len].copy_from_slice(&datagram.bytes[..len]);
        let node = &mut self.nodes[index];
        let outcome = node.aggregator.handle_datagram(datagram.source, &mut buffer, len);
        let (address, id) = (node.address, node.id);
        self.check_invariant(id, outcome, &datagram.bytes);
        self.tell_negotiator(index, outcome, datagram);
        let packet = &mut buffer[..outcome.len];
        match outcome.recipients {
            Recipients::None => {}
            Recipients::One(to) => self.send(address, to, packet),
            Recipients::ControlHalf => {
                let now = self.now();
                let node = &mut self.nodes[index];
                node.transmitter.handle_status(packet, &mut node.aggregator, now);
            }
            Recipients::Children => {
                for child in 0..self.nodes[index].aggregator.child_count() {
                    let to = self.nodes[index].aggregator.address_to_child(child, packet);
                    to.into_iter().for_each(|to| self.send(address, to, packet));
                }
            }
        }
        while let Some((to, len)) = self.nodes[index].aggregator.poll_notice(&mut buffer) {
            self.send(address, to, &buffer[..len]);
        }
        self.drive_node(index);
    }

    /// Lets a node's transmitter and negotiator do what is due.
    fn drive_node(&mut self, index: usize) {
        let mut buffer = [0; MAX_PACKET];
        let now = self.now();
        let Node { aggregator, transmitter, address, .. } = &mut self.nodes[index];
        transmitter.follow(aggregator.running_key());
        transmitter.advance(aggregator, now);
        let mut packets = Vec::new();
        while let Some(transmit) = transmitter.poll_transmit(aggregator, now, &mut buffer) {
            packets.push((transmit.destination, buffer[..transmit.len].to_vec()));
        }
        let address = *address;
        while let Some(transmit) = self.nodes[index].negotiator.poll_transmit(now, &mut buffer) {
            packets.push((transmit.destination, buffer[..transmit.len].to_vec()));
        }
        let Node { aggregator, transmitter, .. } = &mut self.nodes[index];
        while let Some(sub_model) = transmitter.next_orphan() {
            let outcome = aggregator.lose_parent(sub_model, &mut buffer);
            for child in 0..aggregator.child_count() {
                let packet = &mut buffer[..outcome.len];
                let to = aggregator.address_to_child(child, packet);
                packets.extend(to.map(|to| (to, packet.to_vec())));
            }
        }
        packets.into_iter().for_each(|(to, packet)| self.send(address, to, &packet));
    }

    /// Gives a node's negotiator what concerns it, as the daemon does.
    fn tell_negotiator(&mut self, index: usize, outcome: Outcome, datagram: &Flying) {
        let now = self.now();
        let Node { aggregator, negotiator, .. } = &mut self.nodes[index];
        if outcome.recipients == Recipients::ControlHalf {
            let packet = Packet::parse(&datagram.bytes).expect("it has passed the gate");
            negotiator.handle_packet(datagram.source, &packet, now);
        } else if outcome.verdict == Verdict::Control {
            negotiator.handle_membership(self.plan.job_id(), &aggregator.membership(), now);
        }
    }

    /// The invariant: when a position takes an entry, no one needs the one that was there.
    fn check_invariant(&self, node: NodeId, outcome: Outcome, datagram: &[u8]) {
        let Ok(packet) = Packet::parse_unchecked(datagram) else { return };
        let takes =
            matches!(outcome.verdict, Verdict::First | Verdict::Completed | Verdict::Forwarded);
        if !takes {
            return;
        }
        let sub_model = SubModelId(packet.header.sub_model.get());
        let slots = self.sub_model(sub_model).slots;
        let before = FragmentId(packet.header.fragment.get()).plus((2 * slots).wrapping_neg());
        if before.since(self.first) < 0 {
            return;
        }
        for (rank, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.has_joined) {
            let needs = host.worker.needs(sub_model, before);
            assert!(!needs, "worker {rank} needs position {before}, which node {node} replaced");
        }
    }

    fn sub_model(&self, id: SubModelId) -> &SubModel {
        self.plan.sub_models.iter().find(|s| s.id() == id).expect("a sub-model of the plan")
    }

    /// Takes everything out of a worker that it has to give.
    fn drive(&mut self, rank: usize) {
        let mut buffer = [0; MAX_PACKET];
        let now = self.now();
        while let Some(transmit) = self.hosts[rank].worker.poll_transmit(now, &mut buffer) {
            let source = self.hosts[rank].address;
            self.send(source, transmit.destination, &buffer[..transmit.len]);
        }
        let host = &mut self.hosts[rank];
        while let Some(event) = host.worker.poll_event() {
            match event {
                Event::Joined => host.has_joined = true,
                Event::Moved(switch) => host.switches.push(switch),
                Event::Finished { round, outcome, participation, .. } => {
                    host.finished.push((round, outcome, now));
                    host.participations.push(participation);
                }
            }
        }
    }

    /// Gives a datagram to the network, which does to it what the conditions say.
    fn send(&mut self, source: SocketAddr, destination: SocketAddr, bytes: &[u8]) {
        let link = self.links.entry((source, destination)).or_default();
        let is_node = |address| self.nodes.iter().any(|node| node.address == address);
        let inner = self.inner_conditions.filter(|_| is_node(source) && is_node(destination));
        let conditions = inner.unwrap_or(self.conditions);
        let arrivals = link.carry(&conditions, self.now_ns, bytes, &mut self.rng);
        for (at_ns, bytes) in arrivals {
            self.sent += 1;
            let ordinal = self.sent;
            self.flying.push(Reverse(Flying { at_ns, ordinal, source, destination, bytes }));
        }
    }

    /// Every worker got every sum, to the bit.
    fn assert_sums(&self) {
        for (rank, host) in self.hosts.iter().enumerate().filter(|(_, host)| !host.is_dead) {
            for (index, (round, outcome, _)) in host.finished.iter().enumerate() {
                assert_eq!(outcome, &Ok(()), "worker {rank}, round {round}");
                assert_eq!(round.0 as usize, index, "rounds finish in order");
                let expected = self.expected_sum(index);
                assert_eq!(host.tensors[index].values(), expected, "worker {rank}, round {round}");
            }
        }
    }

    fn expected_sum(&self, round: usize) -> Vec<i32> {
        let tensors: Vec<&Tensor> = self.hosts.iter().map(|host| &host.tensors[round]).collect();
        Tensor::sum(&self.plan, &tensors)
    }

    /// Contributions with this verdict at all nodes.
    fn count(&self, verdict: Verdict) -> u64 {
        let counters = self.nodes.iter().flat_map(|node| node.aggregator.counters());
        counters.filter(|(v, _)| *v == verdict).map(|(_, count)| count).sum()
    }

    fn worker_count(&self, rank: usize, name: &str) -> u64 {
        let counters = self.hosts[rank].worker.counters();
        counters.into_iter().find(|(n, _)| *n == name).expect("a counter").1
    }
}

/// Shares what the plan says of a node's links.
fn negotiator(plan: &Plan, node: &crate::plan::Node, epoch: Epoch) -> Negotiator {
    let bounds = Bounds {
        ingress_bps: node.ingress_bps,
        egress_bps: node.egress_bps,
        results: Results::Here,
    };
    let mut negotiator = Negotiator::new(NodeId(node.id), bounds).begun_at(epoch);
    negotiator.handle_job(plan);
    negotiator
}

/// A tree for plans: nodes with their children.
struct Tree(Vec<(u16, Option<u16>, Vec<Child>)>);

impl Tree {
    fn star(workers: u32) -> Self {
        Self(vec![(0, None, (0..workers).map(Child::Worker).collect())])
    }

    /// The root sums worker 0 and two nodes; below one of these is a third level.
    fn three_levels() -> Self {
        use Child::{Node, Worker};
        Self(vec![
            (0, None, vec![Worker(0), Node(1), Node(2)]),
            (1, Some(0), vec![Worker(1), Node(3)]),
            (2, Some(0), vec![Worker(2), Worker(3)]),
            (3, Some(1), vec![Worker(4), Worker(5)]),
        ])
    }
}

/// One stream of values of a plan.
struct Values {
    share: f64,
    policy: &'static str,
    slots: u32,
    window: u32,
}

const POOL: Values = Values { share: 1.0, policy: "pool", slots: 16, window: 8 };
const CACHE: Values = Values { share: 1.0, policy: "cache", slots: 256, window: 32 };

/// A plan over one tree, with small packets.
fn plan(tree: &Tree, streams: &[Values]) -> Plan {
    plan_with(tree, streams, 64, "int32-le")
}

fn plan_with(tree: &Tree, streams: &[Values], values_per_packet: u16, lanes: &str) -> Plan {
    let places: Vec<_> = tree.0.iter().map(|(node, parent, children)| {
        serde_json::json!({ "node": node, "parent": parent, "children": children })
    }).collect();
    let exponents = Values { share: 0.0, policy: "pool", slots: 8, window: 4 };
    let sub_models: Vec<_> = std::iter::once(&exponents).chain(streams).enumerate().map(|(id, s)| {
        let role = if id == 0 { "exponents" } else { "values" };
        serde_json::json!({ "id": id, "name": format!("stream{id}"), "role": role, "share": s.share, "policy": s.policy,
            "slots": s.slots, "window": s.window, "tree": places })
    }).collect();
    let nodes: Vec<_> = tree.0.iter().map(|(id, ..)| {
        serde_json::json!({ "id": id, "name": format!("n{id}"), "address": format!("10.0.0.{id}:5747") })
    }).collect();
    let of_workers =
        |children: &Vec<Child>| children.iter().filter(|c| matches!(c, Child::Worker(_))).count();
    let count: usize = tree.0.iter().map(|(.., children)| of_workers(children)).sum();
    let workers: Vec<_> =
        (0..count).map(|r| serde_json::json!({ "rank": r, "name": format!("w{r}") })).collect();
    let text = serde_json::json!({
        "format": "wiresum-plan/1",
        "job": { "id": 1, "secret": "0123456789abcdef", "values_per_packet": values_per_packet, "lanes": lanes },
        "nodes": nodes, "workers": workers, "sub_models": sub_models,
    });
    Plan::from_json(&text.to_string()).expect("a valid plan")
}
