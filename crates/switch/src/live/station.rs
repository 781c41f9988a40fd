//! A node of a fabric: it sums what its switch or server is to sum, and hands on everything else.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use thiserror::Error;
use wiresum_plan::ways::{Site, WayError};
use wiresum_plan::{Duties, Plan};
use wiresum_protocol::quota::Budget;
use wiresum_protocol::{Association, CLOCK_MARGIN_US, Quota, Time};
use wiresum_wire::control::RefusalReason;
use wiresum_wire::{JobId, JobKey, Kind, NodeId, SubModelId};

use super::forgotten::is_sent_again;
use super::notes::{NOTE_LEN, Note};
use super::parts;
use super::plane::{DataPlane, Here, PlaneError};
use super::proofs::Proofs;
use super::remains::Unfit;
pub use report::Report;
pub(super) use report::by_name;

use crate::rmt::Misfit;
use crate::{
    Counters, Egress, Forwarding, MAX_WORKERS, Neighbour, Outcome, Packet, ParameterServer, Place,
    Serving, Values, Verdict, Workers, wire,
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
        "the plans give node {0} different policies, memories or packets: a switch has one program, whose memory is \
         allocated once; plan them alike, or start another daemon at another port"
    )]
    Programs(NodeId),
    /// A job is to be readdressed that is another one, or not here.
    #[error("job {0} has another plan here: only addresses of its links may change while it runs")]
    OtherJob(u16),
    /// The program does not fit.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// A stream does not fit, or what sums here refuses it.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// What another process has left is of other plans.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A way leads nowhere.
    #[error(transparent)]
    Way(#[from] WayError),
}

/// What a node knows of a job.
pub(super) struct Job {
    pub(super) plan: Plan,
    /// Digest of the plan, which every hello is compared with.
    pub(super) digest: u64,
    proofs: Proofs,
    incarnation: Option<u64>,
    pub(super) key: JobKey,
    /// By stream, what values carry.
    pub(super) associations: BTreeMap<SubModelId, Association>,
    /// Workers that have said hello in this incarnation.
    pub(super) known: Workers,
    /// Workers had joined before this station began: what it held then is gone.
    pub(super) has_forgotten: bool,
    /// By worker: the last attempt, and the neighbour that it came from.
    back: Vec<Option<(u32, SocketAddr)>>,
    /// By worker: neighbours that its hellos are handed on to.
    pub(super) onward: Vec<Vec<SocketAddr>>,
    /// Where its packets may come from.
    pub(super) neighbours: BTreeSet<SocketAddr>,
    pub(super) places: Vec<Place>,
    pub(super) servings: Vec<Serving>,
    /// What workers may still say to be let in.
    hellos: Budget,
    /// What they may still contribute; absent without a quota.
    budget: Option<Budget>,
    /// What the station itself has done with its packets.
    pub(super) served: Counters,
    over_quota: u64,
    /// Bytes of its packets that came to the station.
    bytes: u64,
}

/// A node of a fabric, without its socket.
pub struct Station {
    pub(super) node: NodeId,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) plane: Box<dyn DataPlane>,
    pub(super) server: ParameterServer<Values>,
    /// Requests for results that the server here has forgotten.
    pub(super) recalls: u64,
    forwarding: Forwarding,
    /// Contributions that came, by stream.
    arrived: BTreeMap<(JobId, SubModelId), u64>,
    /// Contributions that left, by stream.
    departed: BTreeMap<(JobId, SubModelId), u64>,
    /// Packets of values that came to the station.
    handled: u64,
    malformed: u64,
    foreign: u64,
    unrouted: u64,
    now: Time,
    /// No incarnation above is believed.
    latest_incarnation: u64,
    /// Why something was left undone that cannot be told its sender.
    pub(super) problem: Option<String>,
}

impl Station {
    /// The node of some plans, with memory for all of them in this process.
    ///
    /// # Errors
    /// [`StationError`].
    pub fn new(plans: &[Plan], node: NodeId) -> Result<Self, StationError> {
        Self::over(Box::new(Here::new(node)), plans, node)
    }

    /// The node of some plans, over what sums there.
    ///
    /// # Errors
    /// [`StationError`].
    pub fn over(
        plane: Box<dyn DataPlane>,
        plans: &[Plan],
        node: NodeId,
    ) -> Result<Self, StationError> {
        let mut station = Self::without_jobs(plane, node);
        plans.iter().try_for_each(|plan| station.add(plan))?;
        Ok(station)
    }

    pub(super) fn without_jobs(plane: Box<dyn DataPlane>, node: NodeId) -> Self {
        Self {
            node,
            jobs: BTreeMap::new(),
            plane,
            server: ParameterServer::default(),
            recalls: 0,
            forwarding: Forwarding::default(),
            arrived: BTreeMap::new(),
            departed: BTreeMap::new(),
            handled: 0,
            malformed: 0,
            foreign: 0,
            unrouted: 0,
            now: Time(0),
            latest_incarnation: u64::MAX,
            problem: None,
        }
    }

    /// Serves one more job, which is not served yet.
    ///
    /// # Errors
    /// [`StationError`]; then it is not served.
    pub fn add(&mut self, plan: &Plan) -> Result<(), StationError> {
        let id = self.enter(plan)?;
        let admitted = self.plane.admit(plan).and_then(|()| Ok(self.install(id, None)?));
        if admitted.is_err() {
            self.remove(id)?;
        }
        admitted
    }

    /// Notes what a plan wants of this node.
    pub(super) fn enter(&mut self, plan: &Plan) -> Result<JobId, StationError> {
        require_fabric(plan)?;
        let Duties { places, servings, forwarding } = plan.site(self.node)?;
        self.forwarding.extend(forwarding);
        self.jobs.insert(plan.job_id(), Job::new(plan, self.node, places, servings));
        Ok(plan.job_id())
    }

    /// Serves a job no more.
    ///
    /// # Errors
    /// What carries packets refuses.
    pub fn remove(&mut self, id: JobId) -> Result<(), PlaneError> {
        self.plane.dismiss(id)?;
        self.server.remove(id);
        self.forwarding.remove(id);
        self.arrived.retain(|(job, _), _| *job != id);
        self.departed.retain(|(job, _), _| *job != id);
        self.jobs.remove(&id);
        Ok(())
    }

    /// Bytes that a node of some plans would take in this process, so that it need not be built to know.
    ///
    /// # Errors
    /// [`StationError`] if one node cannot serve them all.
    pub fn bytes_for(plans: &[Plan], node: NodeId) -> Result<u64, StationError> {
        let room = parts::common_room(plans, node)?.map_or(0, |room| room.bytes());
        let entries = |plan: &Plan| Ok(server_bytes(plan, &plan.site(node)?.servings) as u64);
        let entries: Result<Vec<u64>, WayError> = plans.iter().map(entries).collect();
        Ok(room as u64 + entries?.iter().sum::<u64>())
    }

    /// Bytes that one more job would take.
    ///
    /// # Errors
    /// [`StationError`] if it cannot be served here.
    pub fn memory_for(&self, plan: &Plan) -> Result<usize, StationError> {
        require_fabric(plan)?;
        let servings = plan.site(self.node)?.servings;
        Ok(self.plane.memory_for(plan)? + server_bytes(plan, &servings))
    }

    /// Bounds what a job's workers contribute together; `None` for no bound.
    ///
    /// # Errors
    /// What carries packets refuses.
    pub fn set_quota(&mut self, id: JobId, quota: Option<Quota>) -> Result<(), PlaneError> {
        self.plane.bound(id, quota)?;
        self.jobs.entry(id).and_modify(|job| job.budget = quota.map(Budget::new));
        Ok(())
    }

    /// The time at which the next datagrams count against quotas; never goes back. Nothing else here depends on it.
    pub fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Tells the time, in microseconds since 1970. Refuses incarnations that are far ahead of it from now on: as the
    /// newest wins, one of a clock that is ahead would lock the job out until that time has come.
    pub fn set_clock(&mut self, unix_us: u64) {
        self.latest_incarnation = unix_us.saturating_add(CLOCK_MARGIN_US);
    }

    /// Puts a job's streams, empty, where they are summed. It runs if it has a key.
    fn install(&mut self, id: JobId, key: Option<JobKey>) -> Result<(), PlaneError> {
        let job = &self.jobs[&id];
        self.plane.install(id, &job.places, key)?;
        for (sub_model, association) in job.associations.iter().filter(|_| key.is_some()) {
            self.plane.renew(id, *sub_model, association.keys())?;
        }
        self.serve(id);
        Ok(())
    }

    /// Its server begins with nothing of a job.
    pub(super) fn serve(&mut self, id: JobId) {
        self.server.remove(id);
        self.jobs[&id].servings.iter().for_each(|serving| self.server.serve(*serving));
    }

    /// Deals with a datagram; what leaves is handed to `send`.
    pub fn handle(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) {
        match wire::parse(datagram) {
            Ok((key, packet)) if self.is_neighbour(packet.job, source) => {
                self.pass(key, packet, datagram.len(), &mut send);
            }
            Ok(_) => self.foreign += 1,
            Err(_) => match Note::parse(datagram) {
                Some(note) => self.hear(source, &note, &mut send),
                None => self.malformed += 1,
            },
        }
    }

    /// Deals with a note. Whom the plane cannot exchange packets with gets no answer, so that nobody joins in vain.
    fn hear(&mut self, source: SocketAddr, note: &Note, send: &mut impl FnMut(SocketAddr, &[u8])) {
        if let Err(error) = self.plane.meet(source) {
            self.foreign += 1;
            self.problem = Some(format!("a hello or an answer from {source} is ignored: {error}"));
        } else if note.kind == Kind::Hello {
            self.greet(source, note, send);
        } else {
            self.hand_back(source, note, send);
        }
    }

    /// Whether the plan of a job has a link to whoever sends from an address.
    fn is_neighbour(&self, job: JobId, source: SocketAddr) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.neighbours.contains(&source))
    }

    fn pass(
        &mut self,
        key: JobKey,
        mut packet: Packet<Values>,
        len: usize,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        self.handled += 1;
        let job = self.jobs.get_mut(&packet.job);
        let position = (packet.sub_model, packet.fragment);
        let Some(job) = job.filter(|j| j.incarnation.is_some() && j.takes(position, key)) else {
            self.foreign += 1;
            return;
        };
        if !job.affords(packet.kind, len, self.now) {
            return;
        }
        let everyone = job.plan.everyone();
        let stream = (packet.job, packet.sub_model);
        if packet.kind == Kind::Contribution {
            *self.arrived.entry(stream).or_default() += 1;
        }
        let outcome = self.sum(&mut packet);
        match outcome.egress {
            Egress::Absorbed => {
                if is_sent_again(&packet) {
                    let position = (packet.job, packet.sub_model, packet.fragment);
                    self.recall(position, everyone, send);
                }
            }
            Egress::Up => {
                *self.departed.entry(stream).or_default() += 1;
                let next = self.next_up(&mut packet);
                self.send_on(next, &packet, send);
            }
            Egress::Down => {
                let is_new = outcome.verdict == Verdict::Completed;
                let others = if is_new { self.server.other_results(&packet) } else { Vec::new() };
                for result in std::iter::once(packet).chain(others) {
                    self.send_down(result, send);
                }
            }
        }
    }

    /// Where a contribution goes next. What a switch lets pass although it is addressed to it goes on as its sums do.
    fn next_up(&self, packet: &mut Packet<Values>) -> Option<Neighbour> {
        let next = |node| self.forwarding.up(packet.job, packet.sub_model, node, packet.worker);
        let is_here = packet.node == self.node;
        let parent = || self.jobs.get(&packet.job)?.parent(packet.sub_model);
        let onward = next(packet.node).map(|next| (packet.node, next)).or_else(|| {
            let parent = is_here.then(parent)??;
            Some((parent, next(parent)?))
        });
        let (node, next) = onward?;
        packet.node = node;
        Some(next)
    }

    /// Sends a result to all that it is for.
    pub(super) fn send_down(
        &mut self,
        mut packet: Packet<Values>,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        let Packet { job, sub_model, contributors, .. } = packet;
        let copies = self.forwarding.down(job, sub_model, packet.cohort(), contributors);
        let copies: Vec<_> = copies.collect();
        for (next, contributors) in copies {
            packet.contributors = contributors;
            self.send_on(Some(next), &packet, send);
        }
    }

    /// What the server or the switch here does with a packet.
    fn sum(&mut self, packet: &mut Packet<Values>) -> Outcome {
        let Some(job) = self.jobs.get_mut(&packet.job) else { return self.plane.handle(packet) };
        if !job.serves(packet) {
            return self.plane.handle(packet);
        }
        let outcome = self.server.handle(packet);
        job.served.count(outcome.verdict);
        outcome
    }

    fn send_on(
        &mut self,
        next: Option<Neighbour>,
        packet: &Packet<Values>,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        let job = &self.jobs[&packet.job];
        let fabric = job.plan.fabric.as_ref();
        let address = next.and_then(|next| fabric?.address(next.site, next.link));
        let key = job.key_of((packet.sub_model, packet.fragment));
        match address {
            Some(address) => send(address, &wire::emit(packet, key)),
            None => self.unrouted += 1,
        }
    }

    /// Answers a hello, and hands it on if it is the first of its attempt.
    fn greet(&mut self, source: SocketAddr, note: &Note, send: &mut impl FnMut(SocketAddr, &[u8])) {
        let job = self.jobs.get_mut(&note.job);
        let Some((key, job)) = job.and_then(|job| Some((job.proofs.answering(note)?, job))) else {
            self.foreign += 1;
            return;
        };
        if !job.hellos.take(self.now, NOTE_LEN) {
            job.over_quota += 1;
            return;
        }
        match self.admit(source, note) {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => {
                return send(source, &note.refusal(self.node, reason).proven(&key).emit());
            }
        }
        self.renew(note);
        self.note_member(note);
        let held = self.server.held(note.job, note.sub_model, note.fragment);
        let asker = Workers::one(note.worker);
        let Some(job) = self.jobs.get_mut(&note.job) else { return };
        job.known = job.known.with(asker);
        let known = job.known;
        let back = &mut job.back[usize::from(note.worker)];
        if back.is_some_and(|(attempt, _)| attempt >= note.attempt) {
            return;
        }
        *back = Some((note.attempt, source));
        for (cohort, _) in job.plan.everyone().cohorts() {
            send(source, &note.welcome(self.node, cohort, known, held).proven(&key).emit());
        }
        for &next in &job.onward[usize::from(note.worker)] {
            send(next, &note.emit());
        }
        let others = job.plan.everyone().without(asker);
        if note.is_member {
            self.recall((note.job, note.sub_model, note.fragment), others, send);
        }
    }

    /// Whether a worker takes part: `false` while the job cannot begin here, of which its sender is to hear nothing.
    fn admit(&mut self, source: SocketAddr, note: &Note) -> Result<bool, RefusalReason> {
        let job = self.jobs.get_mut(&note.job).ok_or(RefusalReason::NotExpected)?;
        if note.digest() != job.digest {
            return Err(RefusalReason::OtherPlan);
        }
        if !job.neighbours.contains(&source) {
            return Err(RefusalReason::NotExpected);
        }
        let incarnation = note.incarnation();
        if job.incarnation.is_some_and(|current| current > incarnation) {
            return Err(RefusalReason::Superseded);
        }
        if incarnation > self.latest_incarnation {
            return Err(RefusalReason::AheadOfClock);
        }
        Ok(job.incarnation == Some(incarnation) || self.begin(note.job, incarnation))
    }

    /// A newer incarnation begins with nothing summed.
    fn begin(&mut self, id: JobId, incarnation: u64) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let key = job.plan.job_key(incarnation);
        (job.incarnation, job.key, job.known) = (None, key, Workers::NONE);
        let association = Association::new(&job.plan, incarnation);
        job.associations = job.plan.streams.iter().map(|s| (s.id(), association)).collect();
        job.has_forgotten = false;
        job.back.fill(None);
        if let Err(error) = self.install(id, Some(key)) {
            self.problem = Some(format!("job {id} does not begin: {error}"));
            return false;
        }
        self.jobs.entry(id).and_modify(|job| job.incarnation = Some(incarnation));
        true
    }

    /// An answer on its way to a worker goes where that one's last hello came from, if it comes from where that one's
    /// hellos go and is about the incarnation that runs. Whoever else could send a refusal would end the job.
    fn hand_back(
        &mut self,
        source: SocketAddr,
        note: &Note,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        let job = self.jobs.get(&note.job).filter(|job| job.awaits(source, note));
        match job.and_then(|job| job.back[usize::from(note.worker)]) {
            Some((_, address)) => send(address, &note.emit()),
            None => self.foreign += 1,
        }
    }

    /// What sums here.
    #[must_use]
    pub fn plane(&self) -> &dyn DataPlane {
        &*self.plane
    }

    /// The plans of the jobs.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.jobs.values().map(|job| &job.plan)
    }

    /// What tells a job's values from others: its number, and the keys of the incarnation that runs.
    pub fn known(&self) -> impl Iterator<Item = (JobId, Vec<JobKey>)> {
        let known = |(id, job): (&JobId, &Job)| {
            let keys = job.associations.values().flat_map(Association::keys).flatten();
            (*id, keys.filter(|_| job.incarnation.is_some()).collect())
        };
        self.jobs.iter().map(known)
    }

    /// Who sends packets of a job to this node, by its plan.
    ///
    /// # Panics
    /// If the job is none of those in [`Self::known`].
    #[must_use]
    pub fn neighbours(&self, job: JobId) -> &BTreeSet<SocketAddr> {
        &self.jobs[&job].neighbours
    }

    /// Packets of values that came to the station.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Datagrams that no job here wants.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.malformed + self.foreign
    }

    /// Bytes that its slots and entries may hold.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entries = |job: &Job| server_bytes(&job.plan, &job.servings);
        self.plane.memory_bytes() + self.jobs.values().map(entries).sum::<usize>()
    }

    /// What it could not do since it was last asked, for the log.
    pub fn take_problem(&mut self) -> Option<String> {
        self.problem.take()
    }
}

impl Job {
    fn new(plan: &Plan, node: NodeId, places: Vec<Place>, servings: Vec<Serving>) -> Self {
        Self {
            plan: plan.clone(),
            digest: plan.digest(),
            proofs: Proofs::of(plan, node),
            incarnation: None,
            key: JobKey(0),
            associations: BTreeMap::new(),
            known: Workers::NONE,
            has_forgotten: false,
            back: vec![None; usize::from(MAX_WORKERS)],
            onward: plan.onward(node),
            neighbours: fabric_neighbours(plan, node),
            places,
            servings,
            hellos: Budget::new(Quota::control()),
            budget: None,
            served: Counters::default(),
            over_quota: 0,
            bytes: 0,
        }
    }

    /// Whether an answer may come from an address: one that this worker's hellos are handed on to, or another of the
    /// same neighbour, about the incarnation and the plan that it said hello with.
    fn awaits(&self, source: SocketAddr, note: &Note) -> bool {
        !self.onward[usize::from(note.worker)].is_empty()
            && self.neighbours.contains(&source)
            && self.incarnation == Some(note.incarnation())
            && (note.kind == Kind::Welcome || self.digest == note.digest())
    }

    /// Whether a packet of values is within the quota.
    fn affords(&mut self, kind: Kind, len: usize, now: Time) -> bool {
        self.bytes += len as u64;
        let is_bounded = kind == Kind::Contribution;
        let fits = self.budget.as_mut().is_none_or(|b| !is_bounded || b.take(now, len));
        self.over_quota += u64::from(!fits);
        fits
    }
}

fn require_fabric(plan: &Plan) -> Result<(), StationError> {
    if plan.fabric.is_some() { Ok(()) } else { Err(StationError::NoFabric(plan.job.id)) }
}

pub(super) fn fabric_neighbours(plan: &Plan, node: NodeId) -> BTreeSet<SocketAddr> {
    let fabric = plan.fabric.iter();
    fabric.flat_map(|fabric| fabric.neighbours(Site::Node(node))).collect()
}

/// Bytes that the entries of a server may hold.
fn server_bytes(plan: &Plan, servings: &[Serving]) -> usize {
    let windows = servings.iter().map(|s| 2 * s.window.next_power_of_two() as usize);
    windows.sum::<usize>() * usize::from(plan.job.values_per_packet) * 4
}
