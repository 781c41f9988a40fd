//! The loop of events.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_wire::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN, Kind, MAX_PACKET, NodeId, Packet, UDP_LEN};

use super::buffer::Findings;
use super::daemon::Daemon;
use super::host::{Host, News};
use crate::network::{Network, Routes, picoseconds, seconds};
use crate::queue::Queue;
use crate::record::tell;
use crate::rounds::Rounds;
use crate::scenario::{Broken, Job};
use crate::slab::Slab;
use crate::trace::Trace;
use crate::{Record, Scenario, SimulationError, Sink};

/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 18;
/// UDP port of simulated workers.
const WORKER_PORT: u16 = 4000;
const PS_PER_US: u64 = 1_000_000;

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Host(u32),
    Daemon(u32),
    /// Traffic of others, which nobody takes.
    Nobody(u32),
}

/// A datagram on its way.
pub(super) struct Flying {
    job: u32,
    source: SocketAddr,
    to: Endpoint,
    /// Sites at both ends of its way.
    origin: u32,
    target: u32,
    wire_bytes: u32,
    /// Takes time at the node that adds it, besides its turn.
    is_added: bool,
    datagram: Vec<u8>,
}

impl Default for Flying {
    fn default() -> Self {
        Self {
            job: 0,
            source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            to: Endpoint::Nobody(0),
            origin: 0,
            target: 0,
            wire_bytes: 0,
            is_added: false,
            datagram: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet is at a site.
    Arrive {
        packet: u32,
        site: u32,
    },
    /// A node has added a packet.
    Added {
        packet: u32,
    },
    /// A host, or a daemon, may have something to do.
    HostAlarm(u32),
    DaemonAlarm(u32),
    /// A host has its gradients.
    Begin(u32),
    /// Something breaks, or is back.
    Break {
        failure: u32,
        is_back: bool,
    },
    /// Others send a packet.
    Background(u32),
}

/// See the module.
pub(super) struct World<'a> {
    pub scenario: &'a Scenario,
    pub network: Network,
    queue: Queue<Event>,
    packets: Slab<Flying>,
    pub hosts: Vec<Host<'a>>,
    pub daemons: Vec<Daemon<'a>>,
    /// By job.
    endpoints: Vec<BTreeMap<SocketAddr, Endpoint>>,
    /// By site, what it does to packets that it adds.
    adders: Vec<Option<u32>>,
    /// Hosts of each job that have not joined yet.
    outside: Vec<usize>,
    rounds: Rounds,
    pub findings: Option<Arc<Findings>>,
    /// Payload of contributions that arrived, by job and daemon.
    pub ingress: BTreeMap<(usize, usize, u16), u64>,
    patience: Duration,
    now_ps: u64,
    events: u64,
    hops: u64,
    trace: Trace,
    /// How workers ended that did not get their sums.
    complaints: Vec<String>,
}

impl<'a> World<'a> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = Network::new(scenario);
        let mut adder = |(index, site): (usize, &crate::scenario::Site)| {
            site.adding_bps.map(|bps| network.links.add_inner(index, bps))
        };
        let adders = scenario.sites.iter().enumerate().map(&mut adder).collect();
        let mut world = Self {
            scenario,
            network,
            queue: Queue::default(),
            packets: Slab::default(),
            hosts: Vec::new(),
            daemons: Vec::new(),
            endpoints: Vec::new(),
            adders,
            outside: Vec::new(),
            rounds: Rounds::of_jobs(scenario),
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
        world.plan_failures();
        Ok(world)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        for host in 0..self.hosts.len() {
            let now = self.now();
            self.hosts[host].join(self.patience, now);
            self.drive(host, sink)?;
        }
        while !self.rounds.are_over() {
            let Some((at_ps, event)) = self.queue.pop() else { break };
            self.now_ps = at_ps;
            self.events += 1;
            self.handle(event, sink)?;
            if self.events.is_multiple_of(PROGRESS_EVENTS) {
                tell(sink, &self.progress())?;
            }
            if !self.complaints.is_empty() {
                break;
            }
        }
        if !self.rounds.are_over() {
            return Err(self.stuck());
        }
        self.check()?;
        self.report(sink)
    }

    fn now(&self) -> Time {
        Time(self.now_ps / PS_PER_US)
    }

    fn handle(&mut self, event: Event, sink: &mut Sink) -> Result<(), SimulationError> {
        match event {
            Event::Arrive { packet, site } => self.arrive(packet, site as usize, sink),
            Event::Added { packet } => self.deliver(packet, sink),
            Event::HostAlarm(host) => self.ring_host(host as usize, sink),
            Event::DaemonAlarm(daemon) => {
                self.ring_daemon(daemon as usize);
                Ok(())
            }
            Event::Begin(host) => self.begin(host as usize, sink),
            Event::Break { failure, is_back } => {
                self.break_down(failure as usize, is_back);
                Ok(())
            }
            Event::Background(index) => {
                self.send_background(index as usize);
                Ok(())
            }
        }
    }

    /// A packet goes on to the next site, or is where it was to go.
    fn arrive(&mut self, packet: u32, site: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let flying = self.packets.get(packet);
        self.trace.note(self.now_ps);
        self.trace.note(u64::from(packet) << 32 | site as u64);
        if flying.target as usize != site {
            self.forward(packet, site);
            return Ok(());
        }
        // Whatever does not have to be added waits behind what has: nothing overtakes.
        let adder = self.adders[site].filter(|_| matches!(flying.to, Endpoint::Daemon(_)));
        let Some(adder) = adder else { return self.deliver(packet, sink) };
        let bytes = if flying.is_added { u64::from(flying.wire_bytes) } else { 0 };
        match self.network.links.carry(adder, self.now_ps, bytes, true).at_ps {
            Some(at_ps) => self.queue.push(at_ps, Event::Added { packet }),
            None => self.packets.give_back(packet),
        }
        Ok(())
    }

    /// Puts a packet on the next link of its way.
    fn forward(&mut self, packet: u32, site: usize) {
        let flying = self.packets.get(packet);
        let (target, bytes) = (flying.target as usize, u64::from(flying.wire_bytes));
        let choice = Routes::choice(flying.origin as usize, target);
        let direction = self.network.routes.next(site, target, choice);
        let Some(direction) = direction else { return self.packets.give_back(packet) };
        let is_own = !self.scenario.sites[site].forwards;
        let carried = self.network.links.carry(direction, self.now_ps, bytes, is_own);
        self.hops += 1;
        let site = self.network.links.end(direction) as u32;
        if let Some(at_ps) = carried.again_ps {
            let copy = self.copy(packet);
            self.queue.push(at_ps, Event::Arrive { packet: copy, site });
        }
        match carried.at_ps {
            Some(at_ps) => self.queue.push(at_ps, Event::Arrive { packet, site }),
            None => self.packets.give_back(packet),
        }
    }

    fn copy(&mut self, packet: u32) -> u32 {
        let (number, _) = self.packets.take();
        let original = std::mem::take(self.packets.get_mut(packet));
        let copy = self.packets.get_mut(number);
        *copy = Flying { datagram: original.datagram.clone(), ..original };
        *self.packets.get_mut(packet) = original;
        number
    }

    fn deliver(&mut self, packet: u32, sink: &mut Sink) -> Result<(), SimulationError> {
        let flying = std::mem::take(self.packets.get_mut(packet));
        let (job, now) = (flying.job as usize, self.now());
        match flying.to {
            Endpoint::Host(host) if !self.hosts[host as usize].is_dead => {
                self.hosts[host as usize].handle(flying.source, &flying.datagram, now);
                self.drive(host as usize, sink)?;
            }
            Endpoint::Daemon(daemon) if !self.daemons[daemon as usize].is_dead => {
                self.note_ingress(job, daemon as usize, &flying);
                let mut out = Vec::new();
                self.daemons[daemon as usize].handle(
                    job,
                    flying.source,
                    &flying.datagram,
                    now,
                    &mut |job, to, bytes| out.push((job, to, bytes.to_vec())),
                );
                self.send_all(daemon as usize, out);
            }
            _ => {}
        }
        *self.packets.get_mut(packet) = flying;
        self.packets.give_back(packet);
        Ok(())
    }

    fn note_ingress(&mut self, job: usize, daemon: usize, flying: &Flying) {
        if flying.is_added
            && let Ok(packet) = Packet::parse_unchecked(&flying.datagram)
        {
            let key = (job, daemon, packet.header.sub_model.get());
            *self.ingress.entry(key).or_default() += packet.payload.len() as u64;
        }
    }

    fn send_all(&mut self, daemon: usize, out: Vec<(usize, SocketAddr, Vec<u8>)>) {
        let (site, address) = (self.daemons[daemon].site, self.daemons[daemon].address);
        for (job, to, datagram) in out {
            self.send(job, site, address, to, &datagram);
        }
        let due = self.daemons[daemon].poll_timeout();
        let alarm = &mut self.daemons[daemon].alarm;
        if let Some(at_ps) = schedule(alarm, due, self.now_ps) {
            self.queue.push(at_ps, Event::DaemonAlarm(daemon as u32));
        }
    }

    fn send(
        &mut self,
        job: usize,
        site: usize,
        source: SocketAddr,
        to: SocketAddr,
        datagram: &[u8],
    ) {
        let Some(&endpoint) = self.endpoints[job].get(&to) else { return };
        let target = match endpoint {
            Endpoint::Host(host) => self.hosts[host as usize].site,
            Endpoint::Daemon(daemon) => self.daemons[daemon as usize].site,
            Endpoint::Nobody(site) => site as usize,
        };
        let kind = Packet::parse_unchecked(datagram).ok().map(|packet| packet.kind);
        let (number, flying) = self.packets.take();
        let ip_len = if to.is_ipv4() { IPV4_LEN } else { IPV6_LEN };
        flying.job = job as u32;
        flying.source = source;
        flying.to = endpoint;
        flying.origin = site as u32;
        flying.target = target as u32;
        flying.wire_bytes = (ETHERNET_LEN + ip_len + UDP_LEN + datagram.len()) as u32;
        flying.is_added = kind == Some(Kind::Contribution);
        flying.datagram.clear();
        flying.datagram.extend_from_slice(datagram);
        if site == target {
            self.queue.push(self.now_ps, Event::Arrive { packet: number, site: site as u32 });
        } else {
            self.forward(number, site);
        }
    }

    /// Lets a host do what is due, and sends what it has to send.
    fn drive(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let now = self.now();
        let mut buffer = [0; MAX_PACKET];
        loop {
            while let Some((to, len)) = self.hosts[host].poll_transmit(now, &mut buffer) {
                let Host { job, site, address, .. } = self.hosts[host];
                self.send(job, site, address, to, &buffer[..len]);
            }
            let Some(news) = self.hosts[host].poll_news() else { break };
            match news {
                News::Joined => self.join(host),
                News::Finished(Ok(())) => self.finish(host, sink)?,
                News::Finished(Err(failure)) => {
                    let name = self.hosts[host].name();
                    self.complaints.push(format!("{name}: {failure}"));
                }
            }
        }
        let due = self.hosts[host].poll_timeout();
        if let Some(at_ps) = schedule(&mut self.hosts[host].alarm, due, self.now_ps) {
            self.queue.push(at_ps, Event::HostAlarm(host as u32));
        }
        Ok(())
    }

    /// When the last of a job's workers has joined, all of them start.
    fn join(&mut self, host: usize) {
        let job = self.hosts[host].job;
        self.outside[job] -= 1;
        if self.outside[job] == 0 {
            for other in 0..self.hosts.len() {
                if self.hosts[other].job == job {
                    self.schedule_round(other, 0);
                }
            }
        }
    }

    fn schedule_round(&mut self, host: usize, round: u32) {
        let Host { job, rank, .. } = self.hosts[host];
        let at_ps = self.rounds.schedule(job, rank, round, self.now_ps);
        self.queue.push(at_ps, Event::Begin(host as u32));
    }

    fn begin(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        if self.hosts[host].is_dead {
            return Ok(());
        }
        let now = self.now();
        self.rounds.begin(self.hosts[host].job, self.hosts[host].round, self.now_ps);
        self.hosts[host].submit(self.findings.as_ref(), self.patience, now);
        self.drive(host, sink)
    }

    fn finish(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let Host { job, rank, round, .. } = self.hosts[host];
        let next = self.rounds.finish(job, rank, round - 1, self.now_ps, sink)?;
        if let Some(next) = next {
            self.schedule_round(host, next);
        }
        Ok(())
    }

    fn ring_host(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let now = self.now();
        if !is_due(&mut self.hosts[host].alarm, now) || self.hosts[host].is_dead {
            return Ok(());
        }
        self.hosts[host].handle_timeout(now);
        self.drive(host, sink)
    }

    fn ring_daemon(&mut self, daemon: usize) {
        let now = self.now();
        if !is_due(&mut self.daemons[daemon].alarm, now) || self.daemons[daemon].is_dead {
            return;
        }
        let mut out = Vec::new();
        self.daemons[daemon]
            .handle_timeout(now, &mut |job, to, bytes| out.push((job, to, bytes.to_vec())));
        self.send_all(daemon, out);
    }

    fn plan_failures(&mut self) {
        for (index, failure) in (0..).zip(&self.scenario.failures) {
            let broken = Event::Break { failure: index, is_back: false };
            self.queue.push(picoseconds(failure.at_s), broken);
            if let Some(until_s) = failure.until_s {
                let back = Event::Break { failure: index, is_back: true };
                self.queue.push(picoseconds(until_s), back);
            }
        }
        for (index, background) in (0..).zip(&self.scenario.background) {
            self.queue.push(picoseconds(background.from_s), Event::Background(index));
        }
    }

    fn break_down(&mut self, failure: usize, is_back: bool) {
        match self.scenario.failures[failure].what {
            Broken::Link(link) => self.network.links.set_up(link, is_back),
            Broken::Site(site) => {
                for host in self.hosts.iter_mut().filter(|host| host.site == site) {
                    host.is_dead = true;
                }
                for daemon in self.daemons.iter_mut().filter(|daemon| daemon.site == site) {
                    daemon.is_dead = !is_back;
                    daemon.restart();
                    daemon.is_dead = !is_back;
                }
            }
        }
    }

    fn send_background(&mut self, index: usize) {
        let background = self.scenario.background[index];
        let (number, flying) = self.packets.take();
        flying.to = Endpoint::Nobody(index as u32);
        flying.origin = background.source as u32;
        flying.target = background.target as u32;
        flying.wire_bytes = background.packet_bytes as u32;
        flying.is_added = false;
        flying.datagram.clear();
        self.forward(number, background.source);
        let next_s = 8.0 * background.packet_bytes as f64 / background.rate_bps;
        let next_ps = self.now_ps + picoseconds(next_s).max(1);
        if seconds(next_ps) < background.until_s {
            self.queue.push(next_ps, Event::Background(index as u32));
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
            self.daemons[daemon].serve(index, &job.plan);
            endpoints.insert(node.address, Endpoint::Daemon(daemon as u32));
        }
        for (rank, worker) in job.plan.workers.iter().enumerate() {
            let site = self.site(job, &worker.name)?;
            let ordinal = self.hosts.len() as u32;
            // Of a network of its own: no plan's addresses are there.
            let made = IpAddr::V4(Ipv4Addr::from_bits(0x0100_0000 + ordinal));
            let address = SocketAddr::new(worker.address.unwrap_or(made), WORKER_PORT);
            self.hosts.push(Host::new(index, job, rank, site, address));
            endpoints.insert(address, Endpoint::Host(ordinal));
        }
        self.outside.push(job.plan.workers.len());
        self.endpoints.push(endpoints);
        Ok(())
    }

    fn site(&self, job: &Job, name: &str) -> Result<usize, SimulationError> {
        let found = self.scenario.sites.iter().position(|site| site.name == name);
        found.ok_or_else(|| SimulationError::Job {
            job: job.name.clone(),
            problem: format!("its plan names {name}, which the topology does not have"),
        })
    }

    fn progress(&self) -> Record {
        Record::Progress {
            at_s: seconds(self.now_ps),
            events: self.events,
            rounds: self.rounds.ended(),
            of_rounds: self.rounds.total(),
        }
    }

    fn stuck(mut self) -> SimulationError {
        if self.complaints.is_empty() {
            let open = |host: &Host| format!("{} waits in round {}", host.name(), host.round);
            self.complaints = self.hosts.iter().filter(|h| !h.is_dead).map(open).collect();
        }
        SimulationError::Stuck { at_s: seconds(self.now_ps), waits: self.complaints }
    }

    fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        self.report_counters(sink)?;
        crate::record::tell_links(self.scenario, &self.network.links, sink)?;
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.rounds.last_end_ps()),
                events: self.events,
                packet_hops: self.hops,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: self.checked_values(),
            },
        )
    }

    fn report_counters(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        let mut tell = |site: usize, job: usize, name: &str, count: u64| {
            let record = Record::Counter {
                site: self.scenario.sites[site].name.clone(),
                job: self.scenario.jobs[job].name.clone(),
                name: name.to_owned(),
                count,
            };
            if count > 0 { tell(sink, &record) } else { Ok(()) }
        };
        for daemon in &self.daemons {
            for (job, name, count) in daemon.counters() {
                tell(daemon.site, job, name, count)?;
            }
        }
        for host in &self.hosts {
            for (name, count) in host.counters() {
                tell(host.site, host.job, name, count)?;
            }
        }
        Ok(())
    }
}

/// When an alarm has to be put into the queue: there is none that early yet.
fn schedule(alarm: &mut Option<Time>, due: Option<Time>, now_ps: u64) -> Option<u64> {
    let due = due?;
    if alarm.is_some_and(|at| at <= due) {
        return None;
    }
    *alarm = Some(due);
    Some((due.0.saturating_mul(PS_PER_US)).max(now_ps))
}

/// Takes an alarm that rings; one that an earlier alarm has taken the place of is ignored.
fn is_due(alarm: &mut Option<Time>, now: Time) -> bool {
    alarm.take_if(|at| *at <= now).is_some()
}
