//! A node of a fabric: it sums what its switch or server is to sum, and hands on everything else.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use thiserror::Error;
use wiresum_protocol::Plan;
use wiresum_protocol::ways::{Site, WayError};
use wiresum_wire::control::RefusalReason;
use wiresum_wire::{JobId, JobKey, Kind, NodeId, SubModelId};

use super::notes::Note;
use super::parts::{self, Room};
use crate::rmt::{Misfit, Profile};
use crate::{
    Contributors, Counters, Egress, Forwarding, MAX_WORKERS, Neighbour, Outcome, Packet,
    ParameterServer, PlaceError, Serving, Switch, Values, Verdict, wire,
};

/// Why a node cannot serve its plans.
#[derive(Debug, Error)]
pub enum StationError {
    /// A plan is for aggregation servers.
    #[error(
        "plan of job {0} has no `fabric`: its nodes are aggregation servers, which another daemon serves"
    )]
    NoFabric(u16),
    /// The plans want several programs, or memories, in one switch.
    #[error(
        "the plans give node {0} different policies, memories or packets: a switch has one program"
    )]
    Programs(NodeId),
    /// The program does not fit.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// A stream does not fit.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A way leads nowhere.
    #[error(transparent)]
    Way(#[from] WayError),
}

/// What a node knows of a job.
struct Job {
    plan: Plan,
    incarnation: Option<u64>,
    key: JobKey,
    /// Workers that have said hello in this incarnation.
    known: Contributors,
    /// By worker: the last attempt, and the neighbour that it came from.
    back: Vec<Option<(u32, SocketAddr)>>,
    /// By worker: neighbours that its hellos are handed on to.
    onward: Vec<Vec<SocketAddr>>,
    servings: Vec<Serving>,
}

/// See the module.
pub struct Station {
    node: NodeId,
    jobs: BTreeMap<JobId, Job>,
    switch: Option<Switch<Values>>,
    server: ParameterServer<Values>,
    forwarding: Forwarding,
    /// Contributions that came, by stream.
    arrived: BTreeMap<(JobId, SubModelId), u64>,
    /// Contributions that left, by stream.
    departed: BTreeMap<(JobId, SubModelId), u64>,
    malformed: u64,
    foreign: u64,
    unrouted: u64,
}

impl Station {
    /// The node of some plans, with memory for all of them.
    ///
    /// # Errors
    /// [`StationError`].
    pub fn new(plans: &[Plan], node: NodeId) -> Result<Self, StationError> {
        let mut station = Self {
            node,
            jobs: BTreeMap::new(),
            switch: switch(plans, node)?,
            server: ParameterServer::default(),
            forwarding: Forwarding::default(),
            arrived: BTreeMap::new(),
            departed: BTreeMap::new(),
            malformed: 0,
            foreign: 0,
            unrouted: 0,
        };
        plans.iter().try_for_each(|plan| station.add(plan))?;
        Ok(station)
    }

    fn add(&mut self, plan: &Plan) -> Result<(), StationError> {
        if plan.fabric.is_none() {
            return Err(StationError::NoFabric(plan.job.id));
        }
        let id = JobId(plan.job.id);
        for ways in plan.ways() {
            self.forwarding.install(Site::Node(self.node), &ways)?;
        }
        let onward = (0..MAX_WORKERS).map(|worker| onward(plan, self.node, worker)).collect();
        let job = Job {
            plan: plan.clone(),
            incarnation: None,
            key: JobKey(0),
            known: Contributors::NONE,
            back: vec![None; usize::from(MAX_WORKERS)],
            onward,
            servings: parts::servings(plan, self.node),
        };
        self.jobs.insert(id, job);
        self.install(id)
    }

    /// Puts a job's streams, empty, where they are summed.
    fn install(&mut self, id: JobId) -> Result<(), StationError> {
        let job = &self.jobs[&id];
        if let Some(switch) = &mut self.switch {
            switch.remove(id);
            for place in parts::places(&job.plan, self.node) {
                switch.install(place)?;
            }
        }
        job.servings.iter().for_each(|serving| self.server.serve(*serving));
        Ok(())
    }

    /// Deals with a datagram; what leaves is handed to `send`.
    pub fn handle(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) {
        match wire::parse(datagram) {
            Ok((key, packet)) => self.pass(key, packet, &mut send),
            Err(_) => match Note::parse(datagram) {
                Some(note) if note.kind == Kind::Hello => self.greet(source, &note, &mut send),
                Some(note) => self.hand_back(&note, &mut send),
                None => self.malformed += 1,
            },
        }
    }

    fn pass(
        &mut self,
        key: JobKey,
        mut packet: Packet<Values>,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        let job = self.jobs.get(&packet.job);
        if job.is_none_or(|job| job.incarnation.is_none() || job.key != key) {
            self.foreign += 1;
            return;
        }
        let stream = (packet.job, packet.sub_model);
        if packet.kind == Kind::Contribution {
            *self.arrived.entry(stream).or_default() += 1;
        }
        match self.sum(&mut packet).egress {
            Egress::Absorbed => {}
            Egress::Up => {
                *self.departed.entry(stream).or_default() += 1;
                let next = self.forwarding.up(&packet);
                self.send_on(next, &packet, key, send);
            }
            Egress::Down => {
                let copies: Vec<_> = self.forwarding.down(&packet).collect();
                for (next, contributors) in copies {
                    packet.contributors = contributors;
                    self.send_on(Some(next), &packet, key, send);
                }
            }
        }
    }

    /// What a switch or server does with a packet: the seam at which another data plane takes its place.
    fn sum(&mut self, packet: &mut Packet<Values>) -> Outcome {
        let is_served = |s: &Serving| (s.job, s.sub_model) == (packet.job, packet.sub_model);
        let is_up = packet.kind == Kind::Contribution;
        if is_up && self.jobs[&packet.job].servings.iter().any(is_served) {
            return self.server.handle(packet);
        }
        match &mut self.switch {
            Some(switch) => switch.handle(packet),
            None if is_up => Outcome { verdict: Verdict::Passed, egress: Egress::Up },
            None => Outcome { verdict: Verdict::Passed, egress: Egress::Down },
        }
    }

    fn send_on(
        &mut self,
        next: Option<Neighbour>,
        packet: &Packet<Values>,
        key: JobKey,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        let fabric = self.jobs[&packet.job].plan.fabric.as_ref();
        let address = next.and_then(|next| fabric?.address(next.site, next.link));
        match address {
            Some(address) => send(address, &wire::emit(packet, key)),
            None => self.unrouted += 1,
        }
    }

    /// Answers a hello, and hands it on if it is the first of its attempt.
    fn greet(&mut self, source: SocketAddr, note: &Note, send: &mut impl FnMut(SocketAddr, &[u8])) {
        if let Err(reason) = self.admit(note) {
            send(source, &note.refusal(self.node, reason).emit());
            return;
        }
        let held = self.server.held(note.job, note.sub_model, note.fragment);
        let Some(job) = self.jobs.get_mut(&note.job) else { return };
        job.known = job.known.with(Contributors::one(note.worker));
        let welcome = note.welcome(self.node, job.known, held);
        let back = &mut job.back[usize::from(note.worker)];
        if back.is_some_and(|(attempt, _)| attempt >= note.attempt) {
            return;
        }
        *back = Some((note.attempt, source));
        send(source, &welcome.emit());
        for &next in &job.onward[usize::from(note.worker)] {
            send(next, &note.emit());
        }
    }

    /// Whether a worker takes part. A newer incarnation begins with nothing summed.
    fn admit(&mut self, note: &Note) -> Result<(), RefusalReason> {
        let job = self.jobs.get_mut(&note.job).ok_or(RefusalReason::UnknownJob)?;
        if note.secret() != job.plan.secret() {
            return Err(RefusalReason::WrongSecret);
        }
        if note.digest() != job.plan.digest() {
            return Err(RefusalReason::OtherPlan);
        }
        if usize::from(note.worker) >= job.plan.workers.len() {
            return Err(RefusalReason::NotExpected);
        }
        let incarnation = note.incarnation();
        if job.incarnation.is_some_and(|current| current > incarnation) {
            return Err(RefusalReason::Superseded);
        }
        if job.incarnation != Some(incarnation) {
            job.incarnation = Some(incarnation);
            job.key = job.plan.job_key(incarnation);
            job.known = Contributors::NONE;
            job.back.fill(None);
            // It fitted before.
            let _ = self.install(note.job);
        }
        Ok(())
    }

    /// An answer on its way to a worker goes where that one's last hello came from.
    fn hand_back(&mut self, note: &Note, send: &mut impl FnMut(SocketAddr, &[u8])) {
        let job = self.jobs.get(&note.job);
        match job.and_then(|job| job.back[usize::from(note.worker)]) {
            Some((_, address)) => send(address, &note.emit()),
            None => self.foreign += 1,
        }
    }

    /// Jobs served.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Bytes of values that its slots and entries may hold.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let room = self.jobs.values().find_map(|job| parts::room(&job.plan, self.node));
        let slots = room.map_or(0, |room| room.slots as usize * room.values as usize * 4);
        let entries = |job: &Job| {
            let windows = job.servings.iter().map(|s| 2 * s.window.next_power_of_two() as usize);
            windows.sum::<usize>() * usize::from(job.plan.job.values_per_packet) * 4
        };
        slots + self.jobs.values().map(entries).sum::<usize>()
    }

    /// Datagrams by fate, at the switch and the server together, and those that met none.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let of_switch = self.switch.as_ref().map(|switch| *switch.counters());
        let of_switch = of_switch.unwrap_or_default();
        let of = |counters: &Counters, verdict| counters.get(verdict);
        let verdicts = Verdict::ALL.map(|verdict| {
            (verdict.name(), of(&of_switch, verdict) + of(self.server.counters(), verdict))
        });
        let others = [
            ("malformed", self.malformed),
            ("strangers", self.foreign),
            ("unrouted", self.unrouted),
        ];
        verdicts.into_iter().chain(others).collect()
    }

    /// Contributions of each stream that came, and that left upwards.
    #[must_use]
    pub fn streams(&self) -> Vec<(JobId, SubModelId, u64, u64)> {
        let left = |stream| self.departed.get(stream).copied().unwrap_or(0);
        self.arrived
            .iter()
            .map(|(stream, came)| (stream.0, stream.1, *came, left(stream)))
            .collect()
    }
}

/// One program for all jobs of a switch.
fn switch(plans: &[Plan], node: NodeId) -> Result<Option<Switch<Values>>, StationError> {
    let rooms: Vec<Room> = plans.iter().filter_map(|plan| parts::room(plan, node)).collect();
    let Some(&first) = rooms.first() else { return Ok(None) };
    if rooms.iter().any(|room| *room != first) {
        return Err(StationError::Programs(node));
    }
    let Room { policy, slots, values } = first;
    Ok(Some(Switch::new(node, policy, slots, values, &Profile::UNLIMITED)?))
}

/// Neighbours of a node on a worker's ways, away from the worker.
fn onward(plan: &Plan, node: NodeId, worker: u8) -> Vec<SocketAddr> {
    let Some(fabric) = &plan.fabric else { return Vec::new() };
    let ways = plan.ways();
    let of_worker = ways.iter().flat_map(|ways| ways.of.iter().filter(|way| way.worker == worker));
    let hops = of_worker.flat_map(|way| way.legs.iter().flat_map(|leg| &leg.hops));
    let here = hops.filter(|hop| hop.from == Site::Node(node));
    let mut next: Vec<_> = here.filter_map(|hop| fabric.address(hop.to, hop.link)).collect();
    next.sort_unstable();
    next.dedup();
    next
}
