//! The loop of events of a sparse job.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_netem::{Queue, Time};
use wiresum_sparse::live::Host;
use wiresum_wire::{ETHERNET_LEN, IPV4_LEN, UDP_LEN};

use super::Rows;
use super::player::{Played, Player, Seen};
use crate::network::{Paths, RoutedLinks, picoseconds, seconds};
use crate::record::{tell, tell_links};
use crate::slab::Slab;
use crate::trace::Trace;
use crate::{Record, Scenario, SimulationError, Sink};

const PS_PER_US: u64 = 1_000_000;
/// Between two records of progress.
const EVENTS_OF_PROGRESS: u64 = 1 << 14;
/// Workers have addresses of their own, beyond those of all plans.
const WORKER_PORT: u16 = 1;

enum Role<'a> {
    Host(Box<Host>),
    Worker(Box<Player<'a>>),
}

/// A participant.
struct End<'a> {
    site: usize,
    address: SocketAddr,
    role: Role<'a>,
    alarm_ps: Option<u64>,
}

#[derive(Clone, Copy)]
enum Event {
    Arrive { packet: u32, way: u32 },
    Alarm { end: u32 },
}

#[derive(Default)]
struct Flying {
    from: u32,
    to: u32,
    bytes: Vec<u8>,
}

impl Flying {
    fn wire_bytes(&self) -> u64 {
        (ETHERNET_LEN + IPV4_LEN + UDP_LEN + self.bytes.len()) as u64
    }
}

/// A sparse job in virtual time: its hosts and workers, the links between them, and what happens next.
pub struct World<'a> {
    scenario: &'a Scenario,
    rows: &'a Rows,
    network: RoutedLinks,
    paths: Paths,
    queue: Queue<Event>,
    packets: Slab<Flying>,
    ends: Vec<End<'a>>,
    by_address: BTreeMap<SocketAddr, u32>,
    now_ps: u64,
    last_end_ps: u64,
    events: u64,
    hops: u64,
    played: Vec<Vec<Played>>,
    seen: Seen,
    trace: Trace,
}

impl<'a> World<'a> {
    pub fn new(scenario: &'a Scenario, rows: &'a Rows) -> Result<Self, SimulationError> {
        let job = Arc::new(rows.job.clone());
        let wrong = |problem: String| SimulationError::Job { job: rows.name.clone(), problem };
        let mut ends = Vec::new();
        for (node, site) in (0..).zip(&rows.hosts) {
            let host = Host::new(&job, node, 1).map_err(|error| wrong(error.to_string()))?;
            let address = job.address(node).ok_or_else(|| wrong("a node has no address".into()))?;
            ends.push(End {
                site: *site,
                address,
                role: Role::Host(Box::new(host)),
                alarm_ps: None,
            });
        }
        for (rank, (site, touched)) in (0..).zip(rows.workers.iter().zip(&rows.touched)) {
            let address = SocketAddr::from(([127, 255, 0, rank as u8], WORKER_PORT));
            let role = Role::Worker(Box::new(Player::new(&job, rank, touched)));
            ends.push(End { site: *site, address, role, alarm_ps: None });
        }
        let by_address: BTreeMap<_, _> =
            (0..).zip(&ends).map(|(n, end)| (end.address, n)).collect();
        if by_address.len() < ends.len() {
            return Err(wrong("two participants have one address".into()));
        }
        Ok(Self {
            scenario,
            rows,
            network: RoutedLinks::new(scenario),
            paths: Paths::default(),
            queue: Queue::default(),
            packets: Slab::default(),
            ends,
            by_address,
            now_ps: 0,
            last_end_ps: 0,
            events: 0,
            hops: 0,
            played: vec![Vec::new(); rows.rounds() as usize],
            seen: Seen::new(),
            trace: Trace::default(),
        })
    }

    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        for end in 0..self.ends.len() {
            self.drive(end, sink)?;
        }
        let patience_ps = picoseconds(self.scenario.patience_s);
        while !self.is_over() {
            let Some((at_ps, event)) = self.queue.pop() else { return Err(self.stuck()) };
            self.now_ps = at_ps;
            self.events += 1;
            if at_ps - self.last_end_ps > patience_ps {
                return Err(self.stuck());
            }
            match event {
                Event::Arrive { packet, way } => self.arrive(packet, way, sink)?,
                Event::Alarm { end } => self.ring(end as usize, sink)?,
            }
            if self.events.is_multiple_of(EVENTS_OF_PROGRESS) {
                tell(sink, &self.progress())?;
            }
        }
        self.report(sink)
    }

    fn is_over(&self) -> bool {
        self.ends.iter().all(|end| match &end.role {
            Role::Worker(player) => player.is_over(),
            Role::Host(_) => true,
        })
    }

    fn ring(&mut self, end: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        // An alarm that an earlier one has taken the place of is ignored.
        if self.ends[end].alarm_ps.take_if(|at| *at <= self.now_ps).is_some() {
            self.drive(end, sink)?;
        }
        Ok(())
    }

    /// A packet has made one more step of its way.
    fn arrive(&mut self, packet: u32, way: u32, sink: &mut Sink) -> Result<(), SimulationError> {
        let flying = self.packets.get(packet);
        let (from, to) = (flying.from as usize, flying.to as usize);
        self.trace.note(self.now_ps);
        self.trace.note(u64::from(packet) << 32 | u64::from(way));
        if let Some(direction) = self.paths.step(way) {
            self.network.links.arrive(direction, flying.wire_bytes());
            if self.paths.step(way + 1).is_some() {
                self.forward(packet, way + 1);
                return Ok(());
            }
        }
        let source = self.ends[from].address;
        let now = Time(self.now_ps / PS_PER_US);
        let bytes = std::mem::take(&mut self.packets.get_mut(packet).bytes);
        match &mut self.ends[to].role {
            Role::Host(host) => host.handle(source, &bytes, now),
            Role::Worker(player) => player.member.handle(source, &bytes, now),
        }
        self.packets.get_mut(packet).bytes = bytes;
        self.packets.give_back(packet);
        self.drive(to, sink)
    }

    /// Puts a packet on the next link of its way; at its end already, it arrives at once.
    fn forward(&mut self, packet: u32, way: u32) {
        let Some(direction) = self.paths.step(way) else {
            self.queue.push(self.now_ps, Event::Arrive { packet, way });
            return;
        };
        let bytes = self.packets.get(packet).wire_bytes();
        let carried = self.network.links.carry(direction, self.now_ps, bytes);
        self.hops += 1;
        if let Some(at_ps) = carried.again_ps {
            let original = self.packets.get(packet);
            let copy = Flying { bytes: original.bytes.clone(), ..*original };
            let (number, place) = self.packets.take();
            *place = copy;
            self.queue.push(at_ps, Event::Arrive { packet: number, way });
        }
        match carried.at_ps {
            Some(at_ps) => self.queue.push(at_ps, Event::Arrive { packet, way }),
            None => self.packets.give_back(packet),
        }
    }

    /// Lets a participant go on, and sends what it has to send.
    fn drive(&mut self, end: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        self.advance(end, sink)?;
        let now = Time(self.now_ps / PS_PER_US);
        let mut sent: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        let send = |to: SocketAddr, bytes: &[u8]| sent.push((to, bytes.to_vec()));
        let due = match &mut self.ends[end].role {
            Role::Host(host) => {
                host.poll(now, send);
                host.poll_timeout()
            }
            Role::Worker(player) => {
                player.member.poll(now, send);
                player.member.poll_timeout()
            }
        };
        for (to, bytes) in sent {
            self.send(end, to, bytes)?;
        }
        // A deadline that has passed within this microsecond is heard in the next one.
        if let Some(at_ps) = due.map(|Time(us)| (us * PS_PER_US).max(self.now_ps + PS_PER_US)) {
            let alarm = &mut self.ends[end].alarm_ps;
            if alarm.is_none_or(|at| at_ps < at) {
                *alarm = Some(at_ps);
                self.queue.push(at_ps, Event::Alarm { end: end as u32 });
            }
        }
        Ok(())
    }

    fn advance(&mut self, end: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let Role::Worker(player) = &mut self.ends[end].role else { return Ok(()) };
        let job = self.rows.name.clone();
        if let Some(error) = player.member.error() {
            return Err(SimulationError::Job { job, problem: error.to_string() });
        }
        let seen = self.scenario.check_sums.then_some(&mut self.seen);
        let played = player.advance(self.now_ps, seen).map_err(|row| {
            let problem = format!("rank {} has other bits of row {row:?} than others", end);
            SimulationError::Invariant(problem)
        })?;
        let Some(played) = played else { return Ok(()) };
        self.last_end_ps = self.now_ps;
        let begin_s = seconds(played.begin_ps);
        let rank = end - self.rows.hosts.len();
        let (round, end_s) = (played.round, seconds(played.end_ps));
        tell(sink, &Record::Worker { job, rank, round, compute_s: begin_s, begin_s, end_s })?;
        self.played[round as usize].push(played);
        let of_round = &self.played[round as usize];
        if of_round.len() < self.rows.workers.len() {
            return Ok(());
        }
        let begins = || of_round.iter().map(|one| one.begin_ps);
        tell(
            sink,
            &Record::Round {
                job: self.rows.name.clone(),
                round,
                begin_s: seconds(begins().min().unwrap_or(0)),
                last_begin_s: seconds(begins().max().unwrap_or(0)),
                end_s,
            },
        )
    }

    fn send(&mut self, from: usize, to: SocketAddr, bytes: Vec<u8>) -> Result<(), SimulationError> {
        let Some(&number) = self.by_address.get(&to) else { return Ok(()) };
        let (source, target) = (self.ends[from].site, self.ends[number as usize].site);
        let Some(way) = self.paths.way(&mut self.network, source, target) else {
            return Err(self.network.routes.unreachable(source, target));
        };
        let (packet, flying) = self.packets.take();
        *flying = Flying { from: from as u32, to: number, bytes };
        self.forward(packet, way);
        Ok(())
    }

    fn progress(&self) -> Record {
        let ended = |of: &&Vec<Played>| of.len() == self.rows.workers.len();
        Record::Progress {
            at_s: seconds(self.now_ps),
            events: self.events,
            rounds: self.played.iter().filter(ended).count() as u64,
            of_rounds: self.played.len() as u64,
        }
    }

    fn stuck(&self) -> SimulationError {
        let waits = self.ends.iter().filter_map(|end| match &end.role {
            Role::Worker(player) if !player.is_over() => {
                let name = &self.scenario.sites[end.site].name;
                Some(format!("{name} waits in round {}", player.member.worker().version() + 1))
            }
            _ => None,
        });
        SimulationError::Stuck { at_s: seconds(self.last_end_ps), waits: waits.collect() }
    }

    fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        for end in &self.ends {
            let (name, count) = match &end.role {
                Role::Worker(player) => ("messages_repeated", player.member.worker().repeated()),
                Role::Host(host) => ("packets_taken", host.counters().taken),
            };
            let site = self.scenario.sites[end.site].name.clone();
            let job = self.rows.name.clone();
            if count > 0 {
                tell(sink, &Record::Counter { site, job, name: name.to_owned(), count })?;
            }
        }
        tell_links(self.scenario, &self.network.links, sink)?;
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.last_end_ps),
                events: self.events,
                packet_hops: self.hops,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: self.seen.values().map(|weights| weights.len() as u64).sum(),
            },
        )
    }
}
