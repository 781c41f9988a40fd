//! Whole jobs under virtual time: real workers and aggregators, an emulated network, and the checks that must always hold.

mod membership;
mod node;
mod plans;
mod tensor;

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_netem::{Conditions, Flight, Network, Next, PS_PER_US, Time};
use wiresum_wire::control::Absent;
use wiresum_wire::{
    FragmentId, Header, JobKey, Kind, MAX_PACKET, NodeId, Packet, Round, SubModelId,
};
use zerocopy::IntoBytes;

use wiresum_protocol::plan::PlanStream;
use wiresum_protocol::rates::Epoch;
use wiresum_protocol::{Outcome, Plan, Recipients, Verdict};
use wiresum_worker::{Departure, SwitchOver};
use wiresum_worker::{Event, Failure, Members, Participation, Session};

pub use node::Node;
pub use plans::{CACHE, POOL, Tree, Values, plan, plan_with, with_exchanges, with_exchanges_at};
pub use tensor::{Call, Integers, Tensor};

/// First incarnation of a cluster.
pub const INCARNATION: u64 = 1;
/// A round's time unless a test says otherwise: beyond what any recovery takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// Datagrams after which a cluster counts as live-locked.
const MAX_EVENTS: u64 = 3_000_000;

/// What a test does with one worker.
pub struct Host {
    /// Where it sends from.
    pub address: SocketAddr,
    /// What runs there.
    pub session: Session,
    /// Taken from the network; nothing reaches it or leaves it.
    pub is_dead: bool,
    /// It is welcome everywhere.
    pub has_joined: bool,
    /// Tensors that it has passed, by round.
    pub tensors: Vec<Tensor>,
    /// Outcomes, in order, and when they came.
    pub finished: Vec<(Round, Result<(), Failure>, Time)>,
    /// Who took part, by outcome.
    pub participations: Vec<Participation>,
    /// Moves from parent to parent, in order.
    pub switches: Vec<SwitchOver>,
    /// What it said while nothing came, and when.
    pub held_up: Vec<(Failure, Time)>,
    /// Nodes that it said are gone, and when.
    pub gone: Vec<(Failure, Time)>,
    /// Workers that it outlives, and when it said so.
    pub lost: Vec<(Failure, Time)>,
}

/// Who acts when an alarm goes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Worker(usize),
    Node(usize),
}

/// A datagram on its way.
pub type Datagram = Flight<SocketAddr, Vec<u8>>;

/// A network that does no harm.
pub const CALM: Conditions = Conditions { delay_ps: 50 * PS_PER_US, ..Conditions::PERFECT };

/// A network that only loses.
#[must_use]
pub fn lossy(loss: f64) -> Conditions {
    Conditions { loss, ..CALM }
}

/// Sees a datagram, by who sends it, and may change it.
pub type OnTheWay = Box<dyn FnMut(SocketAddr, &mut Vec<u8>)>;

/// A job, its nodes and the network between them.
pub struct Cluster {
    /// The job.
    pub plan: Plan,
    /// Workers, by rank.
    pub hosts: Vec<Host>,
    /// Nodes, in the plan's order.
    pub nodes: Vec<Node>,
    /// What the network does.
    pub conditions: Conditions,
    /// Conditions of the links between nodes, where they differ.
    pub inner_conditions: Option<Conditions>,
    /// Someone on the way, if there is one.
    pub on_the_way: Option<OnTheWay>,
    /// What is on its way.
    pub network: Network<SocketAddr, Vec<u8>>,
    events: u64,
    first: FragmentId,
    incarnation: u64,
    /// Workers that the incarnation goes on without.
    absent: Absent,
    /// The ranks' seats in an incarnation of some of the workers.
    members: Option<Members>,
}

impl Cluster {
    /// A cluster whose workers are started and have not joined. Equal seeds give equal runs.
    pub fn new(plan: Plan, conditions: Conditions, seed: u64) -> Self {
        Self::starting_at(plan, conditions, seed, FragmentId(0))
    }

    /// As [`Self::new`]; the streams' first position is `first`.
    pub fn starting_at(plan: Plan, conditions: Conditions, seed: u64, first: FragmentId) -> Self {
        plan.validate().expect("a valid plan");
        let node = |planned| Node::new(&plan, planned, first, Epoch::default());
        let nodes = plan.nodes.iter().map(node).collect();
        let mut cluster = Self {
            hosts: Vec::new(),
            nodes,
            conditions,
            inner_conditions: None,
            on_the_way: None,
            network: Network::new(seed),
            events: 0,
            first,
            incarnation: INCARNATION,
            absent: Absent::default(),
            members: None,
            plan,
        };
        cluster.start_workers();
        cluster
    }

    /// (Re)starts every worker, in the cluster's incarnation and at the same addresses.
    fn start_workers(&mut self) {
        let (plan, first, incarnation) = (&self.plan, self.first, self.incarnation);
        let (absent, members) = (self.absent, self.members);
        let session = |rank| Session::starting_at(plan, rank, incarnation, first);
        let host = |rank: u32| Host {
            address: SocketAddr::from(([10, 1, 0, rank as u8], 4000)),
            session: match members {
                _ if absent.holds(rank) => session(rank),
                Some(members) => session(rank).of_members(members),
                None => session(rank).without(absent),
            },
            is_dead: absent.holds(rank),
            has_joined: false,
            tensors: Vec::new(),
            finished: Vec::new(),
            participations: Vec::new(),
            switches: Vec::new(),
            held_up: Vec::new(),
            gone: Vec::new(),
            lost: Vec::new(),
        };
        self.hosts = (0..self.plan.workers.len() as u32).map(host).collect();
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// Has a worker join.
    pub fn join(&mut self, rank: usize) {
        let now = self.now();
        self.hosts[rank].session.join(now.plus(PATIENCE), now);
        self.drive(rank);
    }

    /// Has every worker join.
    pub fn join_all(&mut self) {
        self.present().for_each(|rank| self.join(rank));
    }

    /// Has every worker send heartbeats: it is taken for lost after this time without one.
    pub fn keep_alive(&mut self, dead_after: Duration) {
        let now = self.now();
        for rank in 0..self.hosts.len() {
            self.hosts[rank].session.keep_alive(dead_after, now);
            self.drive(rank);
        }
    }

    /// Runs until every living worker has an outcome for every tensor it passed.
    pub fn run(&mut self) {
        while !self.is_finished() {
            assert!(self.step(), "nothing is under way, yet {}", self.describe());
        }
        self.network.check().expect("the network's books are right");
    }

    /// Runs until this time.
    pub fn run_until(&mut self, until: Time) {
        while self.network.next_at(self.next_timer()).is_some_and(|at| at <= until) {
            self.step();
        }
        self.network.wait_until(until);
    }

    /// Whether every living worker has an outcome for every tensor it passed.
    pub fn is_finished(&self) -> bool {
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
            hosts.filter_map(|(rank, h)| Some((h.session.poll_timeout()?, Alarm::Worker(rank))));
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead);
        let nodes =
            nodes.filter_map(|(i, n)| Some((n.transmitter.poll_timeout()?, Alarm::Node(i))));
        let daemons = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead);
        let daemons = daemons.filter_map(|(i, n)| Some((n.next_control()?, Alarm::Node(i))));
        workers.chain(nodes).chain(daemons).min()
    }

    fn next_timer(&self) -> Option<Time> {
        self.next_alarm().map(|(at, _)| at)
    }

    /// One datagram or one timeout. False if nothing is under way.
    pub fn step(&mut self) -> bool {
        self.events += 1;
        assert!(self.events < MAX_EVENTS, "live-lock: {}", self.describe());
        let alarm = self.next_alarm();
        match self.network.advance(alarm.map(|(at, _)| at)) {
            None => return false,
            Some(Next::Arrival(datagram)) => self.deliver(datagram),
            Some(Next::Timers) => {
                let (_, alarm) = alarm.expect("a timer has come");
                let now = self.now();
                let next = self.ring(alarm);
                assert!(next.is_none_or(|next| next > now), "{alarm:?} is due again at once");
            }
        }
        true
    }

    /// Lets the owner of an alarm act. When it wants to act next.
    fn ring(&mut self, alarm: Alarm) -> Option<Time> {
        match alarm {
            Alarm::Worker(rank) => {
                let now = self.now();
                self.hosts[rank].session.handle_timeout(now);
                self.drive(rank);
                self.hosts[rank].session.poll_timeout()
            }
            Alarm::Node(index) => {
                let now = self.now();
                self.nodes[index].handle_timeouts(now);
                self.drive_node(index);
                let node = &self.nodes[index];
                let due = [node.transmitter.poll_timeout(), node.next_control()];
                due.into_iter().flatten().min()
            }
        }
    }

    fn deliver(&mut self, datagram: Datagram) {
        let to = datagram.to;
        if let Some(index) = self.nodes.iter().position(|n| n.address == to && !n.is_dead) {
            self.deliver_to_node(index, &datagram);
        } else if let Some(rank) = self.hosts.iter().position(|h| h.address == to && !h.is_dead) {
            let now = self.now();
            self.hosts[rank].session.handle_datagram(datagram.from, &datagram.cargo, now);
            self.drive(rank);
        }
    }

    fn deliver_to_node(&mut self, index: usize, datagram: &Datagram) {
        let mut buffer = [0; MAX_PACKET];
        let len = datagram.cargo.len().min(MAX_PACKET);
        buffer[..len].copy_from_slice(&datagram.cargo[..len]);
        let now = self.now();
        let node = &mut self.nodes[index];
        node.aggregator.set_clock(now.0);
        let outcome = node.aggregator.handle_datagram(datagram.from, &mut buffer, len);
        let (address, id) = (node.address, node.id);
        self.check_invariant(id, outcome, &datagram.cargo);
        self.tell_control(index, outcome, datagram);
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
        transmitter.follow(aggregator);
        transmitter.advance(aggregator, now);
        let mut packets = Vec::new();
        while let Some(transmit) = transmitter.poll_transmit(aggregator, now, &mut buffer) {
            packets.push((transmit.destination, buffer[..transmit.len].to_vec()));
        }
        let address = *address;
        for half in self.nodes[index].halves() {
            while let Some(transmit) = half.poll_transmit(now, &mut buffer) {
                packets.push((transmit.destination, buffer[..transmit.len].to_vec()));
            }
        }
        let Node { aggregator, transmitter, .. } = &mut self.nodes[index];
        let mut is_orphan = false;
        while let Some(sub_model) = transmitter.next_orphan() {
            is_orphan = true;
            let outcome = aggregator.lose_parent(sub_model, &mut buffer);
            for child in 0..aggregator.child_count() {
                let packet = &mut buffer[..outcome.len];
                let to = aggregator.address_to_child(child, packet);
                packets.extend(to.map(|to| (to, packet.to_vec())));
            }
        }
        if is_orphan {
            self.tell_membership(index);
        }
        packets.into_iter().for_each(|(to, packet)| self.send(address, to, &packet));
    }

    /// Gives a node's control halves what concerns them, as the daemon does.
    fn tell_control(&mut self, index: usize, outcome: Outcome, datagram: &Datagram) {
        let now = self.now();
        if outcome.recipients == Recipients::ControlHalf {
            let packet = Packet::parse(&datagram.cargo).expect("it has passed the gate");
            let halves = self.nodes[index].halves();
            halves.into_iter().for_each(|half| half.handle_packet(datagram.from, &packet, now));
        } else if outcome.verdict == Verdict::Control {
            self.tell_membership(index);
        }
    }

    /// Tells a node's control halves who takes part, as the daemon does.
    fn tell_membership(&mut self, index: usize) {
        let (now, job) = (self.now(), self.plan.job_id());
        let membership = self.nodes[index].aggregator.membership();
        let halves = self.nodes[index].halves();
        halves.into_iter().for_each(|half| half.handle_membership(job, &membership, now));
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
        let slots = self.sub_model(sub_model).slots();
        let before = FragmentId(packet.header.fragment.get()).plus((2 * slots).wrapping_neg());
        if before.since(self.first) < 0 {
            return;
        }
        for (rank, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.has_joined) {
            let needs = host.session.needs(sub_model, before);
            assert!(
                !needs || !self.is_current(node),
                "worker {rank} needs position {before}, which node {node} replaced"
            );
        }
    }

    /// Whether a node has heard of the workers' incarnation. Before that it takes what was on its way from the last one.
    fn is_current(&self, node: NodeId) -> bool {
        let at = self.nodes.iter().find(|one| one.id == node).expect("a node of the plan");
        at.aggregator.membership().key == Some(self.plan.job_key(self.incarnation))
    }

    fn sub_model(&self, id: SubModelId) -> &PlanStream {
        self.plan.streams.iter().find(|s| s.id() == id).expect("a sub-model of the plan")
    }

    /// Takes everything out of a worker that it has to give.
    pub fn drive(&mut self, rank: usize) {
        let mut buffer = [0; MAX_PACKET];
        let now = self.now();
        while let Some(transmit) = self.hosts[rank].session.poll_transmit(now, &mut buffer) {
            let source = self.hosts[rank].address;
            self.send(source, transmit.destination, &buffer[..transmit.len]);
        }
        let host = &mut self.hosts[rank];
        while let Some(event) = host.session.poll_event() {
            match event {
                Event::Joined => host.has_joined = true,
                Event::Moved(switch) => host.switches.push(switch),
                Event::HeldUp(why) => host.held_up.push((why, now)),
                Event::NodeGone(why) => host.gone.push((why, now)),
                Event::WorkerLost(why) => host.lost.push((why, now)),
                Event::Unattended => panic!("no gate is shut in a cluster"),
                Event::Finished { round, outcome, participation, .. } => {
                    host.finished.push((round, outcome, now));
                    host.participations.push(participation);
                }
            }
        }
    }

    /// Gives a datagram to the network, which does to it what the conditions say.
    pub fn send(&mut self, source: SocketAddr, destination: SocketAddr, bytes: &[u8]) {
        let is_node = |address| self.nodes.iter().any(|node| node.address == address);
        let inner = self.inner_conditions.filter(|_| is_node(source) && is_node(destination));
        let conditions = inner.unwrap_or(self.conditions);
        let mut bytes = bytes.to_vec();
        self.on_the_way.iter_mut().for_each(|change| change(source, &mut bytes));
        self.network.send(&conditions, source, destination, bytes);
    }

    /// A cluster all of whose workers have joined.
    pub fn joined(tree: &Tree, stream: Values, conditions: Conditions, seed: u64) -> Self {
        let mut cluster = Self::new(plan(tree, &[stream]), conditions, seed);
        cluster.join_all();
        while !cluster.hosts.iter().all(|host| host.has_joined) {
            assert!(cluster.step());
        }
        cluster
    }

    /// Takes a node from the network.
    pub fn kill(&mut self, node: u16) {
        self.nodes[usize::from(node)].is_dead = true;
    }

    /// A process that knows nothing takes the node's place.
    pub fn revive(&mut self, node: u16) {
        let epoch = Epoch::at(Duration::from_micros(self.now().0));
        let planned = self.plan.node(NodeId(node)).expect("a node of the plan");
        self.nodes[usize::from(node)] = Node::new(&self.plan, planned, self.first, epoch);
    }

    /// A worker leaves a node that lives.
    pub fn take_for_dead(&mut self, rank: usize, node: u16) {
        self.say_unreachable(rank, node, self.plan.job_key(self.incarnation));
    }

    /// A worker is told that nothing listens at a node, by whoever knows this key.
    pub fn say_unreachable(&mut self, rank: usize, node: u16, key: JobKey) {
        let (address, now) = (self.nodes[usize::from(node)].address, self.now());
        let quote = Header { job_key: key.0.into(), ..Header::new(Kind::Contribution) };
        self.hosts[rank].session.handle_unreachable(address, quote.as_bytes(), now);
        self.drive(rank);
    }

    /// Why a worker left its parents, in order; `None` where it came home.
    pub fn reasons(&self, rank: usize) -> Vec<Option<Departure>> {
        self.hosts[rank].switches.iter().map(|switch| switch.reason).collect()
    }

    /// Rounds of the same sizes, one after the other, until all workers are at home, or too many.
    pub fn run_until_home(&mut self, ranks: &[usize]) -> usize {
        for round in 0..200 {
            let is_home = |rank: &usize| self.reasons(*rank).last() == Some(&None);
            if ranks.iter().all(is_home) {
                return round;
            }
            self.submit_all(&[640]);
            self.run();
            self.run_until(self.now().plus(Duration::from_millis(30)));
        }
        panic!(
            "they never came home: {:?}",
            ranks.iter().map(|r| self.reasons(*r)).collect::<Vec<_>>()
        );
    }

    /// Every worker got every sum, to the bit.
    pub fn assert_sums(&self) {
        for (rank, host) in self.hosts.iter().enumerate().filter(|(_, host)| !host.is_dead) {
            let is_share = |round: &Round| host.tensors[round.0 as usize].kind.is_share();
            let rounds = host.finished.iter().map(|(round, ..)| *round);
            assert!(rounds.filter(|r| !is_share(r)).is_sorted(), "rounds finish in order");
            for (round, outcome, _) in &host.finished {
                assert_eq!(outcome, &Ok(()), "worker {rank}, round {round}");
                let tensor = &host.tensors[round.0 as usize];
                let expected = self.expected(tensor, round.0 as usize);
                assert_eq!(tensor.memory(), expected, "worker {rank}, round {round}");
            }
        }
    }

    /// What a worker ends a round with.
    fn expected(&self, tensor: &Tensor, round: usize) -> (Vec<i32>, Option<Vec<Option<i32>>>) {
        if !tensor.kind.is_copy() {
            return tensor.expected(&self.expected_sum(round));
        }
        let seat = |rank| self.members.map_or(rank, |members| members.seat_of(rank));
        let tensors: Vec<Option<&Tensor>> =
            (0..tensor.ranks()).map(|rank| self.hosts[seat(rank)].tensors.get(round)).collect();
        tensor.expected_copies(&tensors)
    }

    /// What a round sums to.
    pub fn expected_sum(&self, round: usize) -> Vec<i32> {
        let tensors: Vec<&Tensor> =
            self.present().map(|rank| &self.hosts[rank].tensors[round]).collect();
        Tensor::sum(&tensors)
    }

    /// Contributions with this verdict at all nodes.
    pub fn count(&self, verdict: Verdict) -> u64 {
        let counters = self.nodes.iter().flat_map(|node| node.aggregator.counters());
        counters.filter(|(v, _)| *v == verdict).map(|(_, count)| count).sum()
    }

    /// One of a worker's counters.
    pub fn worker_count(&self, rank: usize, name: &str) -> u64 {
        let counters = self.hosts[rank].session.counters();
        counters.into_iter().find(|(n, _)| *n == name).expect("a counter").1
    }
}
