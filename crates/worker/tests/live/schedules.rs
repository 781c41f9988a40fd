//! Random schedules of loss, duplication and reordering, over both kinds of streams, with every kind of collective, in
//! place or not: what a rank takes is decoded exactly once, and nothing else is touched, sums are exact, and nothing is
//! sent before the result that its window waits for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_protocol::plan::Policy;
use wiresum_protocol::rng::Rng;
use wiresum_protocol::{Aggregator, Plan, Recipients, Time};
use wiresum_switch::live::Station;
use wiresum_testkit::cluster::{
    CACHE, Call, Integers, POOL, Tensor, Tree, plan as plan_of_servers,
};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{FragmentId, Kind, MAX_PACKET, NodeId, Packet, SubModelId};
use wiresum_worker::{Event, Session};

use crate::plans::{Shape, plan as plan_of_switches};

/// Lengths of the collectives of each run: one fragment, several windows, nothing, and a fragment that is not full.
const LENGTHS: [usize; 4] = [64, 64 * 70, 0, 77];
const SEEDS: u64 = 12;
/// Datagrams and timeouts of a run, at most.
const MAX_EVENTS: u32 = 400_000;

/// What sums.
enum Node {
    Server(Box<Aggregator>),
    Switch(Box<Station>),
}

impl Node {
    /// Deals with a datagram; what leaves is handed to `send`.
    fn handle(&mut self, from: SocketAddr, bytes: &[u8], mut send: impl FnMut(SocketAddr, &[u8])) {
        let server = match self {
            Self::Switch(station) => return station.handle(from, bytes, send),
            Self::Server(aggregator) => aggregator,
        };
        let mut buffer = [0; MAX_PACKET];
        buffer[..bytes.len()].copy_from_slice(bytes);
        let outcome = server.handle_datagram(from, &mut buffer, bytes.len());
        let packet = &mut buffer[..outcome.len];
        match outcome.recipients {
            Recipients::One(to) => send(to, packet),
            Recipients::Children => {
                for child in 0..server.child_count() {
                    let to = server.address_to_child(child, packet);
                    to.into_iter().for_each(|to| send(to, packet));
                }
            }
            Recipients::None | Recipients::ControlHalf => {}
        }
    }
}

struct Rank {
    address: SocketAddr,
    session: Session,
    tensors: Vec<Tensor>,
    finished: usize,
}

/// Workers, nodes and what is under way between them, in no order.
struct Net {
    plan: Plan,
    ranks: Vec<Rank>,
    nodes: BTreeMap<SocketAddr, Node>,
    under_way: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// By stream: how far apart two positions are at least of which one waits for the other's result.
    spans: BTreeMap<SubModelId, u32>,
    now: Time,
    rng: Rng,
    /// Nodes start again with nothing in memory, if this says how.
    again: Option<Box<dyn Fn(SocketAddr) -> Node>>,
}

/// How often something that happens is a node's start.
const RESTARTS: f64 = 0.0005;

impl Net {
    fn of_servers(plan: &Plan, seed: u64) -> Self {
        let node = &plan.nodes[0];
        let server = Node::Server(Box::new(Aggregator::new(plan, NodeId(node.id))));
        let address = |rank: u32| SocketAddr::from(([10, 1, 0, rank as u8], 4000));
        let spans = plan.streams.iter().map(|s| (s.id(), s.slots())).collect();
        Self::new(plan, address, BTreeMap::from([(node.address, server)]), spans, seed)
    }

    fn of_switches(plan: &Plan, seed: u64) -> Self {
        let station = |id| Station::new(std::slice::from_ref(plan), NodeId(id)).expect("it fits");
        let node =
            |n: &wiresum_protocol::plan::Node| (n.address, Node::Switch(Box::new(station(n.id))));
        let address = |rank: u32| SocketAddr::from(([10, 0, 0, rank as u8], 5748));
        let nodes = plan.nodes.iter().map(node).collect();
        let spans = plan.streams.iter().map(|s| (s.id(), s.window)).collect();
        Self::new(plan, address, nodes, spans, seed)
    }

    fn new(
        plan: &Plan,
        address: impl Fn(u32) -> SocketAddr,
        nodes: BTreeMap<SocketAddr, Node>,
        spans: BTreeMap<SubModelId, u32>,
        seed: u64,
    ) -> Self {
        let rank = |rank| Rank {
            address: address(rank),
            session: Session::new(plan, rank, 1),
            tensors: Vec::new(),
            finished: 0,
        };
        let ranks = (0..plan.workers.len() as u32).map(rank).collect();
        let (plan, now, rng) = (plan.clone(), Time(0), Rng::new(seed));
        Self { plan, ranks, nodes, under_way: Vec::new(), spans, now, rng, again: None }
    }

    /// Switches start again now and then, and so does their server.
    fn of_forgetful_switches(plan: &Plan, seed: u64) -> Self {
        let mut net = Self::of_switches(plan, seed);
        let plan = plan.clone();
        net.again = Some(Box::new(move |address| {
            let node = plan.nodes.iter().find(|node| node.address == address).expect("a node");
            let station = Station::new(std::slice::from_ref(&plan), NodeId(node.id));
            Node::Switch(Box::new(station.expect("it fits")))
        }));
        net
    }

    /// Runs every collective to its end.
    fn run(&mut self) {
        let deadline = Time(u64::MAX / 2);
        let ranks = self.ranks.len();
        let calls = LENGTHS.map(|size| Call::random(&mut self.rng, ranks, size));
        for rank in 0..self.ranks.len() {
            self.ranks[rank].session.join(deadline, self.now);
            for (round, call) in calls.iter().enumerate() {
                let tensor = self.tensor(rank, round, *call);
                self.ranks[rank].tensors.push(tensor.clone());
                let collective = Integers::new(&self.plan, tensor).collective();
                self.ranks[rank].session.submit(collective, deadline, self.now);
            }
            self.drain(rank);
        }
        let mut events = 0;
        while self.ranks.iter().any(|rank| rank.finished < LENGTHS.len()) {
            self.step();
            events += 1;
            assert!(events < MAX_EVENTS, "no end in sight");
        }
        self.check_sums();
    }

    /// Delivers a random datagram, perhaps twice or not at all, or lets time pass.
    fn step(&mut self) {
        if let Some(again) = &self.again
            && self.rng.chance(RESTARTS)
        {
            let which = self.rng.below(self.nodes.len() as u64) as usize;
            let (address, node) = self.nodes.iter_mut().nth(which).expect("below their number");
            return *node = again(*address);
        }
        if self.under_way.is_empty() || self.rng.chance(0.01) {
            return self.pass_time();
        }
        let index = self.rng.below(self.under_way.len() as u64) as usize;
        // As a rule one of the first, so that few are overtaken by all others.
        let index = if self.rng.chance(0.8) { index.min(3) } else { index };
        let (from, to, bytes) = self.under_way[index].clone();
        if !self.rng.chance(0.05) {
            self.under_way.remove(index);
        }
        if self.rng.chance(0.05) {
            return;
        }
        if let Some(rank) = self.ranks.iter().position(|rank| rank.address == to) {
            self.ranks[rank].session.handle_datagram(from, &bytes, self.now);
            self.drain(rank);
        } else {
            let node = self.nodes.get_mut(&to).expect("nobody sends elsewhere");
            let under_way = &mut self.under_way;
            node.handle(from, &bytes, |next, out| under_way.push((to, next, out.to_vec())));
        }
    }

    fn pass_time(&mut self) {
        let next = self.ranks.iter().filter_map(|rank| rank.session.poll_timeout()).min();
        self.now = self.now.max(next.expect("something is due")).plus(Duration::from_micros(1));
        for rank in 0..self.ranks.len() {
            self.ranks[rank].session.handle_timeout(self.now);
            self.drain(rank);
        }
    }

    fn drain(&mut self, index: usize) {
        let mut buffer = [0; MAX_PACKET];
        let rank = &mut self.ranks[index];
        while let Some(transmit) = rank.session.poll_transmit(self.now, &mut buffer) {
            let datagram = &buffer[..transmit.len];
            check_window(&self.spans, &rank.session, datagram);
            self.under_way.push((rank.address, transmit.destination, datagram.to_vec()));
        }
        while let Some(event) = rank.session.poll_event() {
            if let Event::Finished { round, outcome, .. } = event {
                assert_eq!((round.0 as usize, outcome), (rank.finished, Ok(())), "rank {index}");
                rank.finished += 1;
            }
        }
    }

    fn tensor(&self, rank: usize, round: usize, call: Call) -> Tensor {
        let tensor = Tensor::of(&self.plan, rank, round, call.size).of_kind(call.kind, call.root);
        let is_fixed = self.plan.job.codec.starts_with("fixed:");
        let tensor = if is_fixed { tensor.with_fixed_exponents() } else { tensor };
        if rank.is_multiple_of(2) { tensor.out_of_place() } else { tensor }
    }

    fn check_sums(&self) {
        for round in 0..LENGTHS.len() {
            let tensors: Vec<&Tensor> =
                self.ranks.iter().map(|rank| &rank.tensors[round]).collect();
            let sum = Tensor::sum(&tensors);
            for (rank, tensor) in tensors.iter().enumerate() {
                let expected = tensor.expected(&sum);
                assert!(tensor.memory() == expected, "rank {rank}, round {round}");
            }
        }
    }
}

/// A contribution may be sent once the position that its window waits for has its result.
fn check_window(spans: &BTreeMap<SubModelId, u32>, session: &Session, datagram: &[u8]) {
    let header = match wiresum_wire::SwitchPacket::parse(datagram) {
        Ok(packet) => packet.header,
        Err(_) => Packet::parse(datagram).expect("a packet of ours").header,
    };
    if header.kind != Kind::Contribution as u8 {
        return;
    }
    let (stream, position) = (SubModelId(header.sub_model.get()), header.fragment.get());
    if let Some(before) = position.checked_sub(spans[&stream]) {
        assert!(
            !session.needs(stream, FragmentId(before)),
            "{position} of {stream:?} before {before}"
        );
    }
}

#[test]
fn every_position_completes_once_at_servers() {
    for_each_seed("-p wiresum-worker at_servers", 0, SEEDS, |seed| {
        for values in [POOL, CACHE] {
            Net::of_servers(&plan_of_servers(&Tree::star(3), &[values]), seed).run();
        }
    });
}

#[test]
fn every_position_completes_once_at_switches() {
    for_each_seed("-p wiresum-worker at_switches", 0, SEEDS, |seed| {
        for policy in crate::ALL {
            let is_flat = seed % 2 == 0 || policy == Policy::Segment;
            let shape = if is_flat { Shape::Star } else { Shape::Tree };
            Net::of_switches(&plan_of_switches(policy, shape), seed).run();
        }
    });
}

#[test]
fn every_position_completes_once_at_switches_that_start_again() {
    for_each_seed("-p wiresum-worker start_again", 0, SEEDS, |seed| {
        for policy in crate::ALL {
            let is_flat = seed % 2 == 0 || policy == Policy::Segment;
            let shape = if is_flat { Shape::Star } else { Shape::Tree };
            Net::of_forgetful_switches(&plan_of_switches(policy, shape), seed).run();
        }
    });
}
