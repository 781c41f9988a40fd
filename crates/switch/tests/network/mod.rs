//! A small network in virtual time: workers, switches and a parameter server, with every misfortune that a seed brings.

#![allow(dead_code, reason = "each test file uses its part")]

mod graph;

use std::collections::BTreeMap;
use std::time::Duration;

use wiresum_netem::{Cargo, Conditions, Network as Links, Next, PS_PER_US, Rng, Time};
use wiresum_plan::first_slot;
use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{
    ANY_NODE, Cohort, Contributors, Egress, Packet, ParameterServer, Place, Received, Sending,
    Serving, Switch, Values, Verdict, Worker, Workers,
};
use wiresum_wire::{Flags, FragmentId, JobId, NodeId, SubModelId};

pub use graph::{Graph, Site};

/// What links do to packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    /// Most that a packet takes longer than others.
    pub jitter_us: u64,
    /// Chance that a link marks a contribution as having met congestion.
    pub marking: f64,
}

impl Faults {
    fn conditions(self) -> Conditions {
        let jitter_ps = self.jitter_us * PS_PER_US;
        Conditions {
            loss: self.loss,
            duplication: self.duplication,
            // A second copy may come long after: when its fragment is done everywhere.
            late_ps: 20 * jitter_ps,
            reordering: if jitter_ps > 0 { 1.0 } else { 0.0 },
            jitter_ps,
            marking: self.marking,
            ..LINK
        }
    }
}

/// A stream of a job, and where it is summed.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    pub job: u16,
    pub sub_model: u16,
    /// The switch that workers address; `None` for every one on the way.
    pub node: Option<u16>,
    pub fragments: u32,
    pub rounds: u32,
    pub window: u32,
    pub base: u32,
    pub slots: u32,
    pub priority: u8,
    /// How its lanes are merged: see [`Place::lanes`].
    pub lanes: Flags,
}

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub policy: Policy,
    pub graph: Graph,
    /// Whether a parameter server completes the sums; otherwise the topmost switch has them.
    pub has_server: bool,
    pub streams: Vec<StreamPlan>,
    /// Slots of each switch.
    pub memory: u32,
    /// When each worker begins.
    pub starts_us: Vec<u64>,
    pub faults: Faults,
    /// The position that all streams begin with.
    pub first: u32,
    pub seed: u64,
}

/// Lanes of a fragment: enough to see which values were summed.
const LANES: u32 = 3;
/// A link takes 10 µs, and a packet a microsecond.
const LINK: Conditions =
    Conditions { rate_bps: Some(8e6), delay_ps: 10 * PS_PER_US, ..Conditions::PERFECT };
/// Virtual time after which a run counts as hung.
const DEADLINE_US: u64 = 600_000_000;

/// A packet on a link.
#[derive(Clone)]
struct Flying(Packet<Values>);

impl Cargo for Flying {
    fn wire_bytes(&self) -> u64 {
        1
    }

    fn mark(&mut self) {
        self.0.mark(Flags::ECN);
    }

    fn damage(&mut self, _: &mut Rng) {
        unreachable!("no scenario asks for damage: packets have no check here");
    }
}

pub struct Network {
    scenario: Scenario,
    links: Links<Site, Flying>,
    conditions: Conditions,
    pub workers: Vec<Vec<Worker>>,
    pub switches: Vec<Switch<Values>>,
    pub server: ParameterServer<Values>,
    begun: Vec<bool>,
    /// Contributions that each link took.
    pub upward: BTreeMap<(Site, Site), u64>,
    into_server: BTreeMap<u16, u64>,
    /// Results that were wrong: stream, position, worker.
    pub wrong: Vec<(usize, u32, u8)>,
}

/// What a worker contributes.
pub fn value(stream: usize, worker: u8, position: u32, lane: u32) -> i32 {
    let seed = (stream as u64) << 56 | u64::from(worker) << 48 | u64::from(position) << 8;
    Rng::new(seed | u64::from(lane)).next() as i32
}

fn values(stream: usize, worker: u8, position: u32, lanes: Flags) -> Values {
    let is_narrow = lanes.contains(Flags::LANES16);
    let cut = |value: i32| if is_narrow { i32::from(value as i16) } else { value };
    (0..LANES).map(|lane| cut(value(stream, worker, position, lane))).collect()
}

impl Network {
    pub fn new(scenario: Scenario) -> Self {
        let workers = (0..scenario.graph.workers).map(|w| senders(&scenario, w)).collect();
        let switches = (0..scenario.graph.switches).map(|s| switch(&scenario, s)).collect();
        let mut server = ParameterServer::default();
        for stream in &scenario.streams {
            server.serve(Serving {
                job: JobId(stream.job),
                sub_model: SubModelId(stream.sub_model),
                members: Workers::first(scenario.graph.workers),
                window: stream.window,
                lanes: stream.lanes,
            });
        }
        Self {
            links: Links::new(scenario.seed),
            conditions: scenario.faults.conditions(),
            begun: vec![false; usize::from(scenario.graph.workers)],
            scenario,
            workers,
            switches,
            server,
            upward: BTreeMap::new(),
            into_server: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    /// Runs until every worker has every result, and all of them are right.
    pub fn run(self) -> Self {
        let run = self.run_for(DEADLINE_US);
        assert!(run.is_done(), "hangs: {}", run.complaint());
        assert!(run.wrong.is_empty(), "wrong sums {:?} in {:?}", run.wrong, run.scenario);
        run
    }

    /// Runs for so long at most, whatever comes of it.
    pub fn run_for(mut self, limit_us: u64) -> Self {
        let limit = Time(limit_us);
        while self.links.next_at(self.next_timer()).is_some_and(|next| next < limit) {
            match self.links.advance(self.next_timer()).expect("something happens") {
                Next::Timers => {
                    self.start_workers();
                    self.expire();
                }
                Next::Arrival(flight) => self.deliver(flight.to, flight.cargo.0),
            }
            if self.is_done() {
                break;
            }
        }
        self.links.check().expect("the links' books are right");
        self
    }

    /// Whether every worker has every result.
    pub fn is_done(&self) -> bool {
        self.begun.iter().all(|&begun| begun) && self.workers.iter().flatten().all(Worker::is_done)
    }

    /// Contributions that the server received.
    pub fn server_ingress(&self) -> u64 {
        let into = self.upward.iter().filter(|((_, to), _)| *to == Site::Server);
        into.map(|(_, count)| count).sum()
    }

    /// … by job.
    pub fn server_ingress_by_job(&self) -> BTreeMap<u16, u64> {
        self.into_server.clone()
    }

    /// Contributions that a switch sent.
    pub fn switch_output(&self, switch: u16) -> u64 {
        let out = self.upward.iter().filter(|((from, _), _)| *from == Site::Switch(switch));
        out.map(|(_, count)| count).sum()
    }

    fn complaint(&self) -> String {
        let oldest: Vec<_> = self.workers.iter().flatten().map(Worker::oldest).collect();
        format!("at {:?} workers wait for {oldest:?} in {:?}", self.now(), self.scenario)
    }

    fn now(&self) -> Time {
        self.links.now()
    }

    /// When a worker is due, or begins.
    fn next_timer(&self) -> Option<Time> {
        let alarms = self.workers.iter().flatten().filter_map(Worker::poll_timeout);
        let waiting = self.scenario.starts_us.iter().zip(&self.begun).filter(|(_, begun)| !**begun);
        alarms.chain(waiting.map(|(&start, _)| Time(start))).min()
    }

    fn start_workers(&mut self) {
        for worker in 0..self.scenario.graph.workers {
            let index = usize::from(worker);
            if !self.begun[index] && self.scenario.starts_us[index] <= self.now().0 {
                self.begun[index] = true;
                for (sender, stream) in self.workers[index].iter_mut().zip(&self.scenario.streams) {
                    (0..stream.rounds).for_each(|_| sender.begin(stream.fragments));
                }
                self.transmit(worker);
            }
        }
    }

    fn transmit(&mut self, worker: u8) {
        for stream in 0..self.scenario.streams.len() {
            let now = self.now();
            while let Some(packet) = self.workers[usize::from(worker)][stream].poll_transmit(now) {
                let position = packet.fragment.0;
                let lanes = self.scenario.streams[stream].lanes;
                let mut packet = packet.carrying(values(stream, worker, position, lanes));
                packet.mark(lanes);
                self.send_up(Site::Worker(worker), packet);
            }
        }
    }

    fn expire(&mut self) {
        for worker in 0..self.scenario.graph.workers {
            let now = self.now();
            for sender in &mut self.workers[usize::from(worker)] {
                sender.handle_timeout(now);
            }
            self.transmit(worker);
        }
    }

    fn deliver(&mut self, at: Site, mut packet: Packet<Values>) {
        match at {
            Site::Worker(worker) => self.receive(worker, &packet),
            Site::Switch(index) => {
                let outcome = self.switches[usize::from(index)].handle(&mut packet);
                self.act(at, outcome.egress, packet);
            }
            Site::Server => {
                let outcome = self.server.handle(&mut packet);
                let is_new = outcome.verdict == Verdict::Completed;
                let others = if is_new { self.server.other_results(&packet) } else { Vec::new() };
                for packet in std::iter::once(packet).chain(others) {
                    self.act(at, outcome.egress, packet);
                }
            }
        }
    }

    fn receive(&mut self, worker: u8, packet: &Packet<Values>) {
        let is_its = |s: &StreamPlan| (s.job, s.sub_model) == (packet.job.0, packet.sub_model.0);
        let stream = self.scenario.streams.iter().position(is_its).expect("a known stream");
        let now = self.now();
        let received = self.workers[usize::from(worker)][stream].handle(packet, now);
        if received == Received::Fresh {
            self.check(stream, worker, packet);
        }
        self.transmit(worker);
    }

    fn check(&mut self, stream: usize, worker: u8, packet: &Packet<Values>) {
        let position = packet.fragment.0;
        let lanes = self.scenario.streams[stream].lanes;
        let of = |other| values(stream, other, position, lanes);
        let all = (0..self.scenario.graph.workers).map(of);
        let merged = all.reduce(|one, other| {
            one.iter().zip(other).map(|(a, b)| merged(*a, b, lanes)).collect()
        });
        if Some(&packet.values) != merged.as_ref() {
            self.wrong.push((stream, position, worker));
        }
    }

    fn act(&mut self, at: Site, egress: Egress, packet: Packet<Values>) {
        match egress {
            Egress::Absorbed => {}
            Egress::Up => self.send_up(at, packet),
            Egress::Down => self.send_down(at, packet),
        }
    }

    fn send_up(&mut self, at: Site, packet: Packet<Values>) {
        let target = match packet.node {
            ANY_NODE => self.scenario.graph.root(self.scenario.has_server),
            node => self.scenario.graph.site(node),
        };
        let next = self.scenario.graph.next_hop(at, target);
        *self.upward.entry((at, next)).or_default() += 1;
        if next == Site::Server {
            *self.into_server.entry(packet.job.0).or_default() += 1;
        }
        self.carry(at, next, packet);
    }

    fn send_down(&mut self, at: Site, packet: Packet<Values>) {
        let mut copies: BTreeMap<Site, Contributors> = BTreeMap::new();
        for index in packet.contributors.iter() {
            let worker = packet.cohort().worker(index);
            let next = self.scenario.graph.next_hop(at, Site::Worker(worker));
            let copy = copies.entry(next).or_default();
            *copy = copy.with(Contributors::one(worker));
        }
        for (next, contributors) in copies {
            self.carry(at, next, Packet { contributors, ..packet.clone() });
        }
    }

    fn carry(&mut self, from: Site, to: Site, packet: Packet<Values>) {
        self.links.send(&self.conditions, from, to, Flying(packet));
    }
}

/// What two workers' lanes come to, in one line of arithmetic each, as the tests have it.
fn merged(a: i32, b: i32, lanes: Flags) -> i32 {
    match (lanes.contains(Flags::MAXIMUM), lanes.contains(Flags::LANES16)) {
        (true, _) => a.max(b),
        (false, true) => i32::from((a as i16).wrapping_add(b as i16)),
        (false, false) => a.wrapping_add(b),
    }
}

fn senders(scenario: &Scenario, worker: u8) -> Vec<Worker> {
    let sender = |stream: &StreamPlan| {
        let sending = Sending {
            policy: scenario.policy,
            job: JobId(stream.job),
            sub_model: SubModelId(stream.sub_model),
            worker,
            workers: scenario.graph.workers,
            node: stream.node.map_or(ANY_NODE, NodeId),
            window: stream.window,
            initial_window: stream.window,
            base: scenario.first_slot(stream, scenario.first_switch(stream, worker), worker),
            slots: stream.slots,
            priority: stream.priority,
            timeout: Duration::from_millis(1),
        };
        Worker::starting_at(sending, FragmentId(scenario.first))
    };
    scenario.streams.iter().map(sender).collect()
}

impl Scenario {
    /// Workers whose values of a stream a switch sums.
    fn members(&self, stream: &StreamPlan, switch: u16) -> Workers {
        // A segment is only at the workers' own switch: one layer, as in the paper.
        let is_beyond = self.policy == Policy::Segment && !self.graph.is_leaf(switch);
        match stream.node {
            _ if is_beyond => Workers::NONE,
            Some(node) if node == switch => Workers::first(self.graph.workers),
            Some(_) => Workers::NONE,
            None => self.graph.below(switch, self.has_server),
        }
    }

    /// The switch that sums a worker's values of a stream first.
    fn first_switch(&self, stream: &StreamPlan, worker: u8) -> u16 {
        let root = self.graph.root(true);
        let own = self.graph.next_hop(Site::Worker(worker), root);
        let Site::Switch(own) = own else { panic!("workers are linked to switches") };
        stream.node.unwrap_or(own)
    }

    fn first_slot(&self, stream: &StreamPlan, switch: u16, worker: u8) -> u32 {
        let region = (stream.base, stream.slots);
        first_slot(self.policy, region, self.members(stream, switch), Cohort::of(worker))
    }
}

fn switch(scenario: &Scenario, index: u16) -> Switch<Values> {
    let node = NodeId(index);
    let profile = Profile::UNLIMITED;
    let mut switch = Switch::new(node, scenario.policy, scenario.memory, LANES, &profile)
        .expect("an unlimited switch has room");
    let graph = &scenario.graph;
    for stream in &scenario.streams {
        let is_root = graph.root(scenario.has_server) == Site::Switch(index);
        for (cohort, members) in scenario.members(stream, index).cohorts() {
            let place = Place {
                job: JobId(stream.job),
                sub_model: SubModelId(stream.sub_model),
                cohort,
                members,
                parent: (!is_root).then_some(graph.server_node()),
                base: scenario.first_slot(stream, index, cohort.worker(0)),
                slots: stream.slots,
                window: stream.window,
                lanes: stream.lanes,
            };
            switch.install(place).expect("the scenario's streams fit");
        }
    }
    switch
}
