//! Datagrams in virtual time between sessions and stations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wiresum_netem::{Conditions, Network, Next, PS_PER_US, Time};
use wiresum_protocol::Plan;
use wiresum_protocol::ways::Site;
use wiresum_switch::live::Station;
use wiresum_switch::{Packet, Values, wire};
use wiresum_testkit::cluster::{Integers, Tensor};
use wiresum_wire::{FragmentId, Kind, LaneType, MAX_PACKET, NodeId, SubModelId};
use wiresum_worker::{Collective, Event, Failure, Session, Sink, Source};

const LINK: Conditions = Conditions { delay_ps: 50 * PS_PER_US, ..Conditions::PERFECT };

/// How a collective ended.
#[derive(Clone, Debug)]
pub enum Ended {
    Sum(Vec<i32>),
    Failed(Failure),
}

/// Whole numbers.
#[derive(Clone)]
struct Numbers {
    values: Arc<Mutex<Vec<i32>>>,
}

impl Source for Numbers {
    fn len(&self) -> usize {
        self.values.lock().expect("no panics").len()
    }

    fn signature(&self) -> u8 {
        5
    }

    fn width(&self) -> usize {
        4
    }

    fn exponent(&self, _: Range<usize>) -> i32 {
        0
    }

    fn encode(&self, range: Range<usize>, _: i8, lanes: &mut [u8]) -> u32 {
        lanes.fill(0);
        let values = self.values.lock().expect("no panics");
        for (lane, value) in lanes.chunks_exact_mut(4).zip(&values[range]) {
            lane.copy_from_slice(&value.to_le_bytes());
        }
        LaneType::I32Le.sum(lanes)
    }
}

impl Sink for Numbers {
    fn decode(&mut self, range: Range<usize>, _: i8, lanes: &[u8]) {
        let mut values = self.values.lock().expect("no panics");
        for (lane, value) in lanes.chunks_exact(4).zip(&mut values[range]) {
            *value = i32::from_le_bytes([lane[0], lane[1], lane[2], lane[3]]);
        }
    }
}

enum Forger {
    At(SocketAddr),
    AsSender,
}

struct Rank {
    session: Session,
    numbers: Vec<Arc<Mutex<Vec<i32>>>>,
    joined: Option<Result<(), Failure>>,
    ended: Vec<Ended>,
    /// Times that its gate has opened by itself.
    unattended: u32,
    /// When a collective ended last.
    ended_at: Time,
}

pub struct Bed {
    plan: Plan,
    ranks: Vec<Rank>,
    stations: BTreeMap<u16, Station>,
    dead: BTreeSet<u16>,
    network: Network<SocketAddr, Vec<u8>>,
    conditions: Conditions,
    sites: BTreeMap<SocketAddr, Site>,
    incarnation: u64,
    of_nodes: Plan,
    sent: u64,
    /// Who sends a forged copy of each packet of values before it.
    forger: Option<Forger>,
    /// A node that adds 1 to a lane of each result that it sends, of this stream.
    liar: Option<(u16, SubModelId)>,
}

impl Bed {
    pub fn new(plan: &Plan, loss: f64, seed: u64) -> Self {
        Self::with_workers(plan, plan, loss, seed)
    }

    /// As [`Self::new`]; the streams' first position is `first`.
    pub fn starting_at(plan: &Plan, loss: f64, seed: u64, first: FragmentId) -> Self {
        Self { ranks: ranks(plan, 1, first), ..Self::new(plan, loss, seed) }
    }

    /// Datagrams that are on their way: from where, to where, and what.
    pub fn under_way(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, Vec<u8>)> {
        self.network.flights().map(|flight| (flight.from, flight.to, flight.cargo.clone()))
    }

    /// A node as it is now.
    pub fn station(&self, node: u16) -> &Station {
        &self.stations[&node]
    }

    /// Workers may hold another plan than nodes.
    pub fn with_workers(plan: &Plan, of_workers: &Plan, loss: f64, seed: u64) -> Self {
        let station =
            |id: u16| Station::new(std::slice::from_ref(plan), NodeId(id)).expect("it fits");
        let fabric = plan.fabric.as_ref().expect("a fabric");
        let ends = fabric.links.iter().flat_map(|link| &link.ends);
        let sites = ends.map(|end| (end.address, wiresum_protocol::plan::fabric::site(end.at)));
        Self {
            ranks: ranks(of_workers, 1, FragmentId(0)),
            stations: plan.nodes.iter().map(|node| (node.id, station(node.id))).collect(),
            dead: BTreeSet::new(),
            network: Network::new(seed),
            conditions: Conditions { loss, ..LINK },
            sites: sites.collect(),
            incarnation: 1,
            of_nodes: plan.clone(),
            forger: None,
            liar: None,
            plan: of_workers.clone(),
            sent: 0,
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn workers(&self) -> usize {
        self.ranks.len()
    }

    /// A datagram is on its way, from wherever.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        self.send(from, to, datagram.to_vec());
    }

    /// From now on, someone who sees all packets of values sends each with other values and a right check to where it
    /// goes, so that the copy comes first.
    pub fn forge_from(&mut self, forger: SocketAddr) {
        self.forger = Some(Forger::At(forger));
    }

    /// As [`Self::forge_from`], by someone who can send with the address of whoever has sent the packet.
    pub fn forge_as_sender(&mut self) {
        self.forger = Some(Forger::AsSender);
    }

    /// From now on a node adds 1 to the first lane of each result of a stream that it sends.
    pub fn lie_at(&mut self, node: u16, stream: SubModelId) {
        self.liar = Some((node, stream));
    }

    fn is_lie(&self, from: SocketAddr, packet: &Packet<Values>) -> bool {
        let sender = |node: u16| self.sites.get(&from) == Some(&Site::Node(NodeId(node)));
        let is_liar = |&(node, stream)| sender(node) && packet.sub_model == stream;
        packet.kind == Kind::Result && self.liar.as_ref().is_some_and(is_liar)
    }

    pub fn restart_workers(&mut self) {
        self.restart_workers_as(self.incarnation + 1);
    }

    pub fn restart_workers_as(&mut self, incarnation: u64) {
        self.incarnation = incarnation;
        self.ranks = ranks(&self.plan, incarnation, FragmentId(0));
    }

    /// What clocks of nodes show, in microseconds since 1970.
    pub fn set_clocks(&mut self, unix_us: u64) {
        self.stations.values_mut().for_each(|station| station.set_clock(unix_us));
    }

    pub fn kill(&mut self, node: u16) {
        self.dead.insert(node);
    }

    /// A node starts again, with the same plan and no memory.
    pub fn restart(&mut self, node: u16) {
        let plans = std::slice::from_ref(&self.of_nodes);
        let station = Station::new(plans, NodeId(node)).expect("it fits");
        self.stations.insert(node, station);
    }

    /// What a session counts under this name, all ranks together.
    pub fn count(&self, name: &str) -> u64 {
        let counters = self.ranks.iter().flat_map(|rank| rank.session.counters());
        counters.filter(|(of, _)| *of == name).map(|(_, count)| count).sum()
    }

    pub fn join(&mut self, rank: usize, timeout: Duration) {
        let now = self.network.now();
        self.ranks[rank].session.join(now.plus(timeout), now);
        self.drain(rank);
    }

    pub fn join_all(&mut self) {
        (0..self.workers()).for_each(|rank| self.join(rank, Duration::from_secs(30)));
        self.run(Duration::from_secs(31));
        for (rank, state) in self.ranks.iter().enumerate() {
            assert!(matches!(state.joined, Some(Ok(()))), "rank {rank}: {:?}", state.joined);
        }
    }

    /// Shuts a rank's gate for so long.
    pub fn shut(&mut self, rank: usize, period: Duration) {
        let now = self.network.now();
        self.ranks[rank].session.shut(now.plus(period), now);
        self.drain(rank);
    }

    pub fn open(&mut self, rank: usize, rate_bps: Option<u64>) {
        self.ranks[rank].session.open(rate_bps, self.network.now());
        self.drain(rank);
    }

    /// Ends the job at a rank.
    pub fn stop(&mut self, rank: usize, why: &str, elsewhere: bool) {
        self.ranks[rank].session.stop(why.to_owned(), elsewhere);
        self.drain(rank);
    }

    /// Times that a rank's gate has opened by itself.
    pub fn unattended(&self, rank: usize) -> u32 {
        self.ranks[rank].unattended
    }

    pub fn has_joined(&self, rank: usize) -> bool {
        matches!(self.ranks[rank].joined, Some(Ok(())))
    }

    /// Datagrams that have left so far, whoever has sent them.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// When the last collective ended.
    pub fn ended_at(&self) -> Time {
        self.ranks.iter().map(|rank| rank.ended_at).max().expect("a rank")
    }

    pub fn now(&self) -> Time {
        self.network.now()
    }

    pub fn leave(&mut self, rank: usize) {
        self.ranks[rank].session.leave(self.network.now());
        self.drain(rank);
    }

    pub fn join_failure(&self, rank: usize) -> Option<&Failure> {
        self.ranks[rank].joined.as_ref()?.as_ref().err()
    }

    pub fn submit(&mut self, rank: usize, values: Vec<i32>, timeout: Duration) {
        let values = Arc::new(Mutex::new(values));
        self.ranks[rank].numbers.push(Arc::clone(&values));
        let numbers = Numbers { values };
        let collective = Collective::all_reduce(Box::new(numbers.clone()), Box::new(numbers));
        self.pass(rank, collective, timeout);
    }

    /// Passes a tensor that keeps its own sums; [`Self::ended`] says no more than that there are some.
    pub fn submit_tensor(&mut self, rank: usize, tensor: Tensor, timeout: Duration) {
        self.ranks[rank].numbers.push(Arc::default());
        self.pass(rank, Integers::new(&self.plan, tensor).collective(), timeout);
    }

    fn pass(&mut self, rank: usize, collective: Collective, timeout: Duration) {
        let now = self.network.now();
        self.ranks[rank].session.submit(collective, now.plus(timeout), now);
        self.drain(rank);
    }

    /// When a rank's last collective ended.
    pub fn rank_ended_at(&self, rank: usize) -> Time {
        self.ranks[rank].ended_at
    }

    /// Whether a rank still has something to do at some time.
    pub fn rank_has_timer(&self, rank: usize) -> bool {
        self.ranks[rank].session.poll_timeout().is_some()
    }

    pub fn ended(&self, rank: usize) -> &[Ended] {
        &self.ranks[rank].ended
    }

    /// What is in the memory of a rank's collective.
    pub fn numbers(&self, rank: usize, index: usize) -> Vec<i32> {
        self.ranks[rank].numbers[index].lock().expect("no panics").clone()
    }

    /// Runs until nothing is left to happen, at most for so long.
    pub fn run(&mut self, limit: Duration) {
        let end = self.network.now().plus(limit);
        while self.network.next_at(self.next_timer()).is_some_and(|next| next < end) {
            self.step();
        }
    }

    /// Lets so many things happen, or all.
    pub fn steps(&mut self, count: u64) {
        (0..count).for_each(|_| {
            self.step();
        });
    }

    /// Lets the next thing happen; `false` if there is none.
    pub fn step(&mut self) -> bool {
        match self.network.advance(self.next_timer()) {
            Some(Next::Arrival(flight)) => self.deliver(flight.from, flight.to, &flight.cargo),
            Some(Next::Timers) => (0..self.ranks.len()).for_each(|rank| {
                self.ranks[rank].session.handle_timeout(self.network.now());
                self.drain(rank);
            }),
            None => return false,
        }
        true
    }

    fn next_timer(&self) -> Option<Time> {
        self.ranks.iter().filter_map(|rank| rank.session.poll_timeout()).min()
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        match self.sites.get(&to) {
            Some(&Site::Worker(rank)) => {
                let rank = usize::from(rank);
                self.ranks[rank].session.handle_datagram(from, datagram, self.network.now());
                self.drain(rank);
            }
            Some(Site::Node(node)) if !self.dead.contains(&node.0) => {
                let mut sent = Vec::new();
                let station = self.stations.get_mut(&node.0).expect("a node of the plan");
                station.set_time(self.network.now());
                station.handle(from, datagram, |next, bytes| sent.push((next, bytes.to_vec())));
                sent.into_iter().for_each(|(next, bytes)| self.send(to, next, bytes));
            }
            _ => {}
        }
    }

    fn drain(&mut self, rank: usize) {
        let own = self.sites.iter().find(|(_, site)| **site == Site::Worker(rank as u8));
        let own = *own.expect("a worker has a link").0;
        let mut buffer = vec![0; MAX_PACKET];
        while let Some(sent) =
            self.ranks[rank].session.poll_transmit(self.network.now(), &mut buffer)
        {
            self.send(own, sent.destination, buffer[..sent.len].to_vec());
        }
        let state = &mut self.ranks[rank];
        while let Some(event) = state.session.poll_event() {
            match event {
                Event::Joined => state.joined = Some(Ok(())),
                Event::Finished { outcome: Err(failure), .. } if state.joined.is_none() => {
                    state.joined = Some(Err(failure));
                }
                Event::Finished { outcome, .. } => {
                    state.ended_at = self.network.now();
                    let numbers = &state.numbers[state.ended.len()];
                    let sum = || Ended::Sum(numbers.lock().expect("no panics").clone());
                    state.ended.push(outcome.map_or_else(Ended::Failed, |()| sum()));
                }
                Event::Unattended => state.unattended += 1,
                Event::HeldUp(_) | Event::NodeGone(_) | Event::WorkerLost(_) => {}
                Event::Moved(_) => panic!("nobody moves among switches"),
            }
        }
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, mut datagram: Vec<u8>) {
        self.sent += 1;
        if let Ok((key, mut packet)) = wire::parse(&datagram)
            && self.is_lie(from, &packet)
            && let Some(value) = packet.values.first_mut()
        {
            *value = value.wrapping_add(1);
            datagram = wire::emit(&packet, key);
        }
        if let Some(forger) = &self.forger
            && let Ok((key, mut packet)) = wire::parse(&datagram)
        {
            packet.values.iter_mut().for_each(|value| *value ^= 0x55);
            let source = match forger {
                Forger::At(address) => *address,
                Forger::AsSender => from,
            };
            self.network.send(&self.conditions, source, to, wire::emit(&packet, key));
        }
        self.network.send(&self.conditions, from, to, datagram);
    }
}

fn ranks(plan: &Plan, incarnation: u64, first: FragmentId) -> Vec<Rank> {
    let rank = |rank| Rank {
        session: Session::starting_at(plan, rank, incarnation, first),
        numbers: Vec::new(),
        joined: None,
        ended: Vec::new(),
        unattended: 0,
        ended_at: Time(0),
    };
    (0..plan.workers.len() as u32).map(rank).collect()
}
