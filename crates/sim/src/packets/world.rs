//! The loop of events.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wiresum_protocol::plan::Child;
use wiresum_protocol::{Plan, Time};
use wiresum_wire::{MAX_PACKET, NodeId};

use super::buffer::Findings;
use super::daemon::Daemon;
use super::host::Host;
use super::peers::{Outbox, Peers};
use crate::circuits::turns::Runner;
use crate::network::{Paths, RoutedLinks};
use crate::record::tell;
use crate::rounds::Rounds;
use crate::rows::party::Party;
use crate::rows::player::Seen;
use crate::scenario::Job;
use crate::slab::Slab;
use crate::trace::Trace;
use crate::{Scenario, SimulationError, Sink};
use wiresum_netem::{PS_PER_US, Queue};

/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 18;
/// UDP port of simulated workers.
const WORKER_PORT: u16 = 4000;

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Host(u32),
    Daemon(u32),
    /// Who takes part in the sparse job.
    Party(u32),
    /// Traffic of others, which nobody takes.
    Nobody,
}

/// A datagram on its way.
pub(super) struct Flying {
    pub job: u32,
    pub source: SocketAddr,
    pub to: Endpoint,
    pub wire_bytes: u32,
    /// Takes time at the node that adds it, besides its turn.
    pub is_added: bool,
    /// The stream, and the bytes of its values.
    pub sub_model: u16,
    pub payload_bytes: u32,
    /// Bytes of the datagram; those that are not here are zeros.
    pub len: u32,
    pub datagram: Vec<u8>,
}

impl Default for Flying {
    fn default() -> Self {
        Self {
            job: 0,
            source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            to: Endpoint::Nobody,
            wire_bytes: 0,
            is_added: false,
            sub_model: 0,
            payload_bytes: 0,
            len: 0,
            datagram: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet has made one more step of its way.
    Arrive {
        packet: u32,
        way: u32,
        bytes: u32,
    },
    /// A packet is where it was sent.
    Stay {
        packet: u32,
    },
    /// A node has added a packet.
    Added {
        packet: u32,
        direction: u32,
    },
    /// A host, a daemon, or a participant of the sparse job may have something to do.
    HostAlarm(u32),
    DaemonAlarm(u32),
    PartyAlarm(u32),
    /// A host's own link, which was full, has room again.
    Drained(u32),
    /// A host has computed.
    GoOn(u32),
    /// Something breaks, or is back.
    Break {
        failure: u32,
        is_back: bool,
    },
    /// Others send a packet.
    Background(u32),
    /// Circuits or gates change.
    Turn,
}

pub(super) struct World<'a> {
    pub scenario: &'a Scenario,
    pub network: RoutedLinks,
    pub queue: Queue<Event>,
    pub packets: Slab<Flying>,
    pub paths: Paths,
    /// By host, by daemon and by participant of the sparse job: whom they send to.
    pub host_peers: Vec<Peers>,
    pub daemon_peers: Vec<Peers>,
    pub party_peers: Vec<Peers>,
    pub outbox: Outbox,
    /// The datagram that is being delivered.
    pub scratch: Vec<u8>,
    /// Room for the datagram that a host sends: clearing some at each would cost a tenth of all instructions.
    pub buffer: Vec<u8>,
    /// By background traffic: its way.
    pub ways: Vec<u32>,
    pub hosts: Vec<Host<'a>>,
    pub daemons: Vec<Daemon<'a>>,
    /// Who takes part in the sparse job, if there is one: its nodes, then its workers.
    pub parties: Vec<Party<'a>>,
    /// Weights that they have pulled.
    pub seen: Seen,
    /// By job; the sparse one is the last.
    pub endpoints: Vec<BTreeMap<SocketAddr, Endpoint>>,
    /// By site, what it does to packets that it adds.
    pub adders: Vec<Option<u32>>,
    /// Hosts of each job that have not joined yet.
    pub outside: Vec<usize>,
    pub rounds: Rounds,
    /// Where circuits change, and jobs send in their turn.
    pub turns: Option<Runner<'a>>,
    pub findings: Option<Arc<Findings>>,
    /// Payload of contributions that arrived, by job and daemon.
    pub ingress: BTreeMap<(usize, usize, u16), u64>,
    pub patience: Duration,
    pub now_ps: u64,
    pub events: u64,
    pub hops: u64,
    pub trace: Trace,
    /// How workers ended that did not get their sums.
    pub complaints: Vec<String>,
}

impl<'a> World<'a> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = RoutedLinks::new(scenario);
        let mut adder = |(index, site): (usize, &crate::scenario::Site)| {
            site.adding_bps.map(|bps| network.links.add_inner(index, bps))
        };
        let adders = scenario.sites.iter().enumerate().map(&mut adder).collect();
        let mut world = Self {
            scenario,
            network,
            queue: Queue::default(),
            packets: Slab::default(),
            paths: Paths::default(),
            host_peers: Vec::new(),
            daemon_peers: Vec::new(),
            party_peers: Vec::new(),
            outbox: Outbox::default(),
            scratch: Vec::new(),
            buffer: vec![0; MAX_PACKET],
            ways: Vec::new(),
            hosts: Vec::new(),
            daemons: Vec::new(),
            parties: Vec::new(),
            seen: Seen::new(),
            endpoints: Vec::new(),
            adders,
            outside: Vec::new(),
            rounds: Rounds::of_jobs(scenario),
            turns: scenario.turns.as_ref().map(|turns| Runner::new(turns, scenario.links.len())),
            findings: scenario.check_sums.then(Arc::default),
            ingress: BTreeMap::new(),
            patience: Duration::from_secs_f64(scenario.patience_s),
            now_ps: 0,
            events: 0,
            hops: 0,
            trace: Trace::default(),
            complaints: Vec::new(),
        };
        for (index, job) in scenario.jobs.iter().enumerate() {
            world.place(index, job)?;
        }
        scenario.rows.iter().try_for_each(|rows| world.place_rows(rows))?;
        world.host_peers.resize_with(world.hosts.len(), Peers::default);
        world.daemon_peers.resize_with(world.daemons.len(), Peers::default);
        world.party_peers.resize_with(world.parties.len(), Peers::default);
        world.plan_failures()?;
        Ok(world)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        match &self.turns {
            None => (0..self.hosts.len()).try_for_each(|host| self.enter(host, sink))?,
            Some(turns) => {
                turns.dark_links().for_each(|link| self.network.links.fail(link, false));
                turns.next_ps().into_iter().for_each(|at_ps| self.queue.push(at_ps, Event::Turn));
            }
        }
        self.play_all(sink)?;
        let stop_ps = self.turns.as_ref().and_then(Runner::stop_ps);
        while stop_ps.is_some() || !self.rounds.are_over() {
            let Some((at_ps, event)) = self.queue.pop() else { break };
            if stop_ps.is_some_and(|stop_ps| at_ps >= stop_ps) {
                break;
            }
            self.now_ps = at_ps;
            self.events += 1;
            self.handle(event, sink)?;
            if self.events.is_multiple_of(PROGRESS_EVENTS) {
                self.network.links.check().map_err(SimulationError::Invariant)?;
                tell(sink, &self.progress())?;
            }
            if !self.complaints.is_empty() || self.have_rows_stopped() {
                break;
            }
        }
        if stop_ps.is_some() && self.complaints.is_empty() {
            return self.look(sink);
        }
        if !self.rounds.are_over() {
            return Err(self.stuck());
        }
        self.drain();
        let end_ps = self.now_ps;
        self.turns.as_mut().map_or(Ok(()), |turns| turns.end(end_ps))?;
        self.check()?;
        self.report(sink)
    }

    pub fn now(&self) -> Time {
        Time(self.now_ps / PS_PER_US)
    }

    /// Says what is seen at the end of a slot.
    fn look(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        let results = self.results();
        let Some(turns) = &mut self.turns else { return Ok(()) };
        turns.look(results, |job| self.rounds.is_over(job), sink)
    }

    /// Packets of sums that all hosts of each job have, at least.
    fn results(&self) -> Vec<u64> {
        let mut least = vec![u64::MAX; self.scenario.jobs.len()];
        for host in &self.hosts {
            least[host.job] = least[host.job].min(host.results());
        }
        least
    }

    fn handle(&mut self, event: Event, sink: &mut Sink) -> Result<(), SimulationError> {
        match event {
            Event::Arrive { packet, way, bytes } => self.arrive(packet, way, bytes, sink),
            Event::Stay { packet } => self.deliver(packet, sink),
            Event::Added { packet, direction } => {
                self.note_added(packet, direction);
                self.deliver(packet, sink)
            }
            Event::HostAlarm(host) => self.ring_host(host as usize, sink),
            Event::DaemonAlarm(daemon) => {
                self.ring_daemon(daemon as usize);
                Ok(())
            }
            Event::PartyAlarm(party) => self.ring_party(party as usize, sink),
            Event::Drained(host) => self.let_out(host as usize, sink),
            Event::GoOn(host) => self.wake(host as usize, sink),
            Event::Break { failure, is_back } => {
                self.break_down(failure as usize, is_back);
                Ok(())
            }
            Event::Background(index) => {
                self.send_background(index as usize);
                Ok(())
            }
            Event::Turn => self.turn(sink),
        }
    }

    fn place(&mut self, index: usize, job: &'a Job) -> Result<(), SimulationError> {
        let mut endpoints = BTreeMap::new();
        for node in &job.plan.nodes {
            let site = self.site(job, &node.name)?;
            let id = NodeId(node.id);
            let known =
                self.daemons.iter().position(|d| d.site == site && d.address == node.address);
            let daemon = known.unwrap_or_else(|| {
                self.daemons.push(Daemon::new(site, node.address, id));
                self.daemons.len() - 1
            });
            let served = self.daemons[daemon].serve(index, &job.plan);
            served.map_err(|error| refused(job, error.to_string()))?;
            let addresses = addresses(&job.plan, Child::Node(node.id)).chain([node.address]);
            endpoints.extend(addresses.map(|address| (address, Endpoint::Daemon(daemon as u32))));
        }
        for (rank, worker) in job.plan.workers.iter().enumerate() {
            let site = self.site(job, &worker.name)?;
            let ordinal = self.hosts.len() as u32;
            // Workers without an address get one from a network of its own, where no plan's addresses are.
            let made = IpAddr::V4(Ipv4Addr::from_bits(0x0100_0000 + ordinal));
            let address = SocketAddr::new(worker.address.unwrap_or(made), WORKER_PORT);
            self.hosts.push(Host::new(index, job, rank, site, address)?);
            let addresses = addresses(&job.plan, Child::Worker(rank as u32)).chain([address]);
            endpoints.extend(addresses.map(|address| (address, Endpoint::Host(ordinal))));
        }
        self.outside.push(job.plan.workers.len());
        self.endpoints.push(endpoints);
        Ok(())
    }

    fn site(&self, job: &Job, name: &str) -> Result<usize, SimulationError> {
        let found = self.scenario.sites.iter().position(|site| site.name == name);
        let problem = || format!("its plan names {name}, which the topology does not have");
        found.ok_or_else(|| refused(job, problem()))
    }
}

fn refused(job: &Job, problem: String) -> SimulationError {
    SimulationError::Job { job: job.name.clone(), problem }
}

/// Where neighbours send to a site of a network of switches.
fn addresses(plan: &Plan, site: Child) -> impl Iterator<Item = SocketAddr> {
    let links = plan.fabric.iter().flat_map(|fabric| &fabric.links);
    links.flat_map(|link| &link.ends).filter(move |end| end.at == site).map(|end| end.address)
}

/// When an alarm has to be put into the queue: there is none that early yet.
pub(super) fn schedule(alarm: &mut Option<Time>, due: Option<Time>, now_ps: u64) -> Option<u64> {
    let due = due?;
    if alarm.is_some_and(|at| at <= due) {
        return None;
    }
    *alarm = Some(due);
    Some((due.0.saturating_mul(PS_PER_US)).max(now_ps))
}

/// Takes an alarm that rings; one that an earlier alarm has taken the place of is ignored.
pub(super) fn is_due(alarm: &mut Option<Time>, now: Time) -> bool {
    alarm.take_if(|at| *at <= now).is_some()
}
