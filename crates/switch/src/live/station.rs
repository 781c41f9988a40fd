//! A node of a fabric: it sums what its switch or server is to sum, and hands on everything else.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use thiserror::Error;
use wiresum_plan::ways::WayError;
use wiresum_plan::{Duties, Plan};
use wiresum_wire::control::RefusalReason;
use wiresum_wire::{JobId, JobKey, Kind, NodeId, SubModelId};

use super::notes::Note;
use super::plane::{DataPlane, Here, PlaneError};
use crate::rmt::Misfit;
use crate::{
    Contributors, Egress, Forwarding, MAX_WORKERS, Neighbour, Outcome, Packet, ParameterServer,
    Place, Serving, Values, Verdict, wire,
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
    /// A stream does not fit, or what sums here refuses it.
    #[error(transparent)]
    Plane(#[from] PlaneError),
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
    places: Vec<Place>,
    servings: Vec<Serving>,
}

/// See the module.
pub struct Station {
    node: NodeId,
    jobs: BTreeMap<JobId, Job>,
    plane: Box<dyn DataPlane>,
    server: ParameterServer<Values>,
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
    /// Why something was left undone that cannot be told its sender.
    problem: Option<String>,
}

impl Station {
    /// The node of some plans, with memory for all of them in this process.
    ///
    /// # Errors
    /// [`StationError`].
    pub fn new(plans: &[Plan], node: NodeId) -> Result<Self, StationError> {
        Self::over(Box::new(Here::new(plans, node)?), plans, node)
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
        let mut station = Self {
            node,
            jobs: BTreeMap::new(),
            plane,
            server: ParameterServer::default(),
            forwarding: Forwarding::default(),
            arrived: BTreeMap::new(),
            departed: BTreeMap::new(),
            handled: 0,
            malformed: 0,
            foreign: 0,
            unrouted: 0,
            problem: None,
        };
        plans.iter().try_for_each(|plan| station.add(plan))?;
        Ok(station)
    }

    fn add(&mut self, plan: &Plan) -> Result<(), StationError> {
        if plan.fabric.is_none() {
            return Err(StationError::NoFabric(plan.job.id));
        }
        let id = JobId(plan.job.id);
        let Duties { places, servings, forwarding } = plan.site(self.node)?;
        self.forwarding.extend(forwarding);
        let onward = (0..MAX_WORKERS).map(|worker| plan.onward(self.node, worker)).collect();
        let job = Job {
            plan: plan.clone(),
            incarnation: None,
            key: JobKey(0),
            known: Contributors::NONE,
            back: vec![None; usize::from(MAX_WORKERS)],
            onward,
            places,
            servings,
        };
        self.jobs.insert(id, job);
        Ok(self.install(id, None)?)
    }

    /// Puts a job's streams, empty, where they are summed. It runs if it has a key.
    fn install(&mut self, id: JobId, key: Option<JobKey>) -> Result<(), PlaneError> {
        let job = &self.jobs[&id];
        self.plane.install(id, &job.places, key)?;
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
            self.hand_back(note, send);
        }
    }

    fn pass(
        &mut self,
        key: JobKey,
        mut packet: Packet<Values>,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        self.handled += 1;
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
                let next =
                    self.forwarding.up(packet.job, packet.sub_model, packet.node, packet.worker);
                self.send_on(next, &packet, key, send);
            }
            Egress::Down => {
                let copies: Vec<_> = self
                    .forwarding
                    .down(packet.job, packet.sub_model, packet.contributors)
                    .collect();
                for (next, contributors) in copies {
                    packet.contributors = contributors;
                    self.send_on(Some(next), &packet, key, send);
                }
            }
        }
    }

    /// What the server or the switch here does with a packet.
    fn sum(&mut self, packet: &mut Packet<Values>) -> Outcome {
        let is_served = |s: &Serving| (s.job, s.sub_model) == (packet.job, packet.sub_model);
        let is_up = packet.kind == Kind::Contribution;
        if is_up && self.jobs[&packet.job].servings.iter().any(is_served) {
            return self.server.handle(packet);
        }
        self.plane.handle(packet)
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
        match self.admit(note) {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => return send(source, &note.refusal(self.node, reason).emit()),
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

    /// Whether a worker takes part: `false` while the job cannot begin here, of which its sender is to hear nothing.
    fn admit(&mut self, note: &Note) -> Result<bool, RefusalReason> {
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
        Ok(job.incarnation == Some(incarnation) || self.begin(note.job, incarnation))
    }

    /// A newer incarnation begins with nothing summed.
    fn begin(&mut self, id: JobId, incarnation: u64) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let key = job.plan.job_key(incarnation);
        (job.incarnation, job.key, job.known) = (None, key, Contributors::NONE);
        job.back.fill(None);
        if let Err(error) = self.install(id, Some(key)) {
            self.problem = Some(format!("job {id} does not begin: {error}"));
            return false;
        }
        self.jobs.entry(id).and_modify(|job| job.incarnation = Some(incarnation));
        true
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
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// Packets of values that came to the station.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Bytes that its slots and entries may hold.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entries = |job: &Job| {
            let windows = job.servings.iter().map(|s| 2 * s.window.next_power_of_two() as usize);
            windows.sum::<usize>() * usize::from(job.plan.job.values_per_packet) * 4
        };
        self.plane.memory_bytes() + self.jobs.values().map(entries).sum::<usize>()
    }

    /// Packets by fate, at the switch and the server together, and those that met none.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let of_server =
            Verdict::STATION.map(|verdict| (verdict.name(), self.server.counters().get(verdict)));
        let others = [
            ("malformed", self.malformed),
            ("strangers", self.foreign),
            ("unrouted", self.unrouted),
        ];
        let mut sums = self.plane.counters();
        for (name, count) in of_server.into_iter().chain(others) {
            match sums.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += count,
                None => sums.push((name, count)),
            }
        }
        sums
    }

    /// What it could not do since it was last asked, for the log.
    pub fn take_problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    /// Contributions of each stream that came to the station, and that it sent upwards.
    #[must_use]
    pub fn streams(&self) -> Vec<(JobId, SubModelId, u64, u64)> {
        let left = |stream| self.departed.get(stream).copied().unwrap_or(0);
        self.arrived
            .iter()
            .map(|(stream, came)| (stream.0, stream.1, *came, left(stream)))
            .collect()
    }
}
