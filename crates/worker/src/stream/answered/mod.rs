//! A worker's half of a fabric: collectives to datagrams and back.
//!
//! Commands, inputs and outputs are those of [`crate::Worker`], and polled in the same order. There are no exponents to agree
//! on, so values flow at once; the exponents' stream carries one *check* of each collective, a fragment whose sum says whether all ranks
//! passed the same and whether it can be summed. Results that come before it wait, so a collective with Inf or NaN leaves every buffer as it
//! was.

mod silence;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use wiresum_protocol::plan::fabric::Fabric;
use wiresum_protocol::plan::{Role, SubModel};
use wiresum_protocol::ways::Site;
use wiresum_protocol::{Plan, Time, Transmit};
use wiresum_wire::control::RefusalReason;
use wiresum_wire::{FragmentId, JobKey, Kind, LaneType, NodeId, Round, SubModelId};

use wiresum_switch::live::notes::{NOTE_LEN, Note};
use wiresum_switch::live::parts;
use wiresum_switch::{
    Contributors, Forwarding, Packet, Received, Sending, Worker, WorkerCounters, wire,
};

use crate::Buffer;
use crate::session::collective::{self, Collective};
use crate::session::{Event, Failure, Participation};
use silence::Hearing;

/// Silence after which a worker asks who is there.
const PATIENCE: Duration = Duration::from_secs(1);
/// It asks after this part of a collective's time at the latest.
const PATIENCE_SHARE: u32 = 4;

/// Positions of a stream that belong to a collective.
struct Part {
    round: Round,
    begin: FragmentId,
    fragments: Range<u32>,
}

struct Stream {
    worker: Worker,
    sub_model: SubModelId,
    role: Role,
    /// The neighbour that its packets go to.
    next: SocketAddr,
    parts: VecDeque<Part>,
    end: FragmentId,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Outside,
    Joining { since: Time, deadline: Time },
    Joined,
}

/// See the module.
pub struct Session {
    plan: Plan,
    rank: u8,
    key: JobKey,
    hello: Note,
    root: NodeId,
    stage: Stage,
    hearing: Hearing,
    streams: Vec<Stream>,
    shares: Vec<f64>,
    /// Which stream sends next.
    turn: usize,
    lanes: LaneType,
    open: VecDeque<Collective>,
    next_round: Round,
    /// When a result came last, or a collective began.
    progress: Time,
    notes: VecDeque<(SocketAddr, [u8; NOTE_LEN])>,
    events: VecDeque<Event>,
    failed: Option<Failure>,
    strangers: u64,
    malformed: u64,
}

impl Session {
    /// A worker that has not joined yet.
    ///
    /// # Panics
    /// If the plan has no fabric, or no such rank.
    #[must_use]
    pub fn new(plan: &Plan, rank: u32, incarnation: u64) -> Self {
        let fabric = plan.fabric.as_ref().expect("a plan with a fabric");
        assert!((rank as usize) < plan.workers.len(), "rank {rank} is not in the plan");
        let rank = rank as u8;
        let all = plan.ways();
        let own = all.iter().map(|ways| &ways.of[usize::from(rank)]);
        let Some(Site::Node(root)) = own.clone().find_map(|way| way.root()) else {
            panic!("ways end at a node")
        };
        Self {
            rank,
            key: plan.job_key(incarnation),
            hello: Note::hello(plan, rank, incarnation),
            root,
            stage: Stage::Outside,
            hearing: Hearing::new(own),
            streams: streams(plan, fabric, rank),
            shares: values(plan).map(|s| s.share).collect(),
            turn: 0,
            lanes: plan.job.lanes.into(),
            open: VecDeque::new(),
            next_round: Round(0),
            progress: Time(0),
            notes: VecDeque::new(),
            events: VecDeque::new(),
            failed: None,
            strangers: 0,
            malformed: 0,
            plan: plan.clone(),
        }
    }

    /// Says hello; [`Event::Joined`], or a failed round 0 with an empty buffer, follows by `deadline`.
    pub fn join(&mut self, deadline: Time, now: Time) {
        self.stage = Stage::Joining { since: now, deadline };
        self.hearing.begin(now);
        self.say_hello(now);
    }

    /// Queues a collective. Every rank must submit the same ones.
    pub fn submit(&mut self, buffer: Box<dyn Buffer>, deadline: Time, now: Time) -> Round {
        let round = self.next_round;
        self.next_round = Round(round.0.wrapping_add(1));
        if let Some(failure) = &self.failed {
            let outcome = Err(failure.clone());
            let participation = self.everyone();
            self.events.push_back(Event::Finished { round, buffer, outcome, participation });
            return round;
        }
        if self.open.is_empty() {
            self.progress = now;
        }
        let per_fragment = usize::from(self.plan.job.values_per_packet);
        let open = Collective::new(round, buffer, per_fragment, self.lanes, (now, deadline));
        let mut parts = open.split(&self.shares).into_iter();
        for stream in &mut self.streams {
            let check = stream.role == Role::Exponents;
            let fragments = if check { 0..1 } else { parts.next().unwrap_or(0..0) };
            stream.begin(round, fragments);
        }
        self.open.push_back(open);
        round
    }

    /// Ends: open rounds fail with [`Failure::Left`].
    pub fn leave(&mut self, _now: Time) {
        if self.failed.is_none() && (self.stage != Stage::Joined || !self.open.is_empty()) {
            self.fail(Failure::Left);
        }
        self.failed.get_or_insert(Failure::Left);
    }

    /// To be called when the time given by [`Self::poll_timeout`] has come; harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.failed.is_some() {
            return;
        }
        self.say_hello(now);
        if let Stage::Joining { deadline, .. } = self.stage
            && deadline <= now
        {
            return self.fail(self.absence(now));
        }
        if self.open.iter().any(|open| open.deadline <= now) {
            return self.fail(self.blame(now));
        }
        if self.asking_begins().is_some_and(|begin| begin <= now) {
            self.hearing.begin(now);
            self.say_hello(now);
        }
        self.streams.iter_mut().for_each(|stream| stream.worker.handle_timeout(now));
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.failed.is_some() {
            return None;
        }
        let joining = match self.stage {
            Stage::Joining { deadline, .. } => Some(deadline),
            _ => None,
        };
        let deadline = self.open.iter().map(|open| open.deadline).min();
        let alarms = self.streams.iter().filter_map(|stream| stream.worker.poll_timeout());
        let asking = self.asking_begins().filter(|_| self.hearing.next.is_none());
        let others = [joining, deadline, self.hearing.next, asking];
        alarms.chain(others.into_iter().flatten()).min()
    }

    /// The next thing to tell the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Counters by name, for people and metrics.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: fn(&WorkerCounters) -> u64| {
            self.streams.iter().map(|stream| of(stream.worker.counters())).sum()
        };
        vec![
            ("hellos", self.hearing.attempt.into()),
            ("contributions", sum(|c| c.sent - c.resent)),
            ("repetitions", sum(|c| c.resent)),
            ("results", sum(|c| c.results)),
            ("marked", sum(|c| c.marked)),
            ("rehashed", sum(|c| c.rehashed)),
            ("timeouts", sum(|c| c.timeouts)),
            ("foreign", self.strangers),
            ("malformed", self.malformed),
        ]
    }

    /// Writes the next datagram into `buffer`; `None` if there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some((destination, note)) = self.notes.pop_front() {
            buffer[..NOTE_LEN].copy_from_slice(&note);
            return Some(Transmit { destination, len: NOTE_LEN });
        }
        if self.failed.is_some() || self.stage != Stage::Joined {
            return None;
        }
        for _ in 0..self.streams.len() {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.streams.len();
            if let Some(packet) = self.streams[index].worker.poll_transmit(now) {
                return Some(self.write(index, packet, buffer));
            }
        }
        None
    }

    fn write(&mut self, index: usize, mut packet: Packet<()>, buffer: &mut [u8]) -> Transmit {
        let stream = &self.streams[index];
        let (round, fragment) = stream.locate(packet.fragment).expect("what is sent is open");
        packet.round = round;
        packet.flags = packet.flags.with(self.lanes.flags());
        let is_check = stream.role == Role::Exponents;
        let (rank, ranks) = (usize::from(self.rank), self.plan.workers.len());
        let destination = stream.next;
        let mut open = self.open.iter_mut();
        let open = open.find(|open| open.round == round).expect("what is sent is open");
        let len = wire::write(&packet, self.key, buffer, |lanes| {
            if is_check {
                open.write_check(rank, ranks, lanes)
            } else {
                open.write(fragment, lanes)
            }
        });
        Transmit { destination, len }
    }

    /// A datagram has come.
    pub fn handle_datagram(&mut self, _source: SocketAddr, datagram: &[u8], now: Time) {
        if self.failed.is_some() {
            return;
        }
        match wire::read(datagram) {
            Ok((key, packet)) if key == self.key => self.take(&packet, now),
            Ok(_) => self.strangers += 1,
            Err(_) => match Note::parse(datagram) {
                Some(note) => self.hear(&note, now),
                None => self.malformed += 1,
            },
        }
    }

    fn take(&mut self, packet: &Packet<&[u8]>, now: Time) {
        let index = self.streams.iter().position(|s| s.sub_model == packet.sub_model);
        let Some(index) = index.filter(|_| packet.job == self.hello.job) else {
            self.strangers += 1;
            return;
        };
        let stream = &mut self.streams[index];
        let place = stream.locate(packet.fragment);
        match stream.worker.handle(packet, now) {
            Received::Fresh => {}
            Received::Foreign => return self.strangers += 1,
            Received::Duplicate | Received::Refused => return,
        }
        self.progress = now;
        self.hearing.next = None;
        let Some((round, fragment)) = place else { return };
        let ranks = self.plan.workers.len();
        let is_check = self.streams[index].role == Role::Exponents;
        let mut open = self.open.iter_mut();
        let Some(open) = open.find(|open| open.round == round) else { return };
        let wrong = Failure::WrongSum { node: self.root, fragment: packet.fragment.0 };
        let taken = if !is_check {
            if open.take(fragment, packet.values) { Ok(()) } else { Err(wrong) }
        } else if packet.values.len() == collective::check_len(ranks) {
            open.take_check(ranks, packet.values)
        } else {
            Err(wrong)
        };
        match taken {
            Ok(()) => self.advance(),
            Err(failure) => self.fail(failure),
        }
    }

    /// Sums at switches take every rank.
    fn everyone(&self) -> Participation {
        Participation { ranks: self.plan.workers.len() as u32, is_own_in: true }
    }

    /// Ends the rounds that are done, in order.
    fn advance(&mut self) {
        while let Some(outcome) = self.open.front().and_then(Collective::outcome) {
            self.finish(outcome);
        }
    }

    fn finish(&mut self, outcome: Result<(), Failure>) {
        let Some(open) = self.open.pop_front() else { return };
        for stream in &mut self.streams {
            stream.parts.retain(|part| part.round != open.round);
        }
        let Collective { round, buffer, .. } = open;
        let participation = self.everyone();
        self.events.push_back(Event::Finished { round, buffer, outcome, participation });
    }

    fn fail(&mut self, failure: Failure) {
        if self.open.is_empty() {
            let outcome = Err(failure.clone());
            let buffer = Box::new(crate::buffer::Nothing);
            let (round, participation) = (Round(0), self.everyone());
            self.events.push_back(Event::Finished { round, buffer, outcome, participation });
        }
        while !self.open.is_empty() {
            self.finish(Err(failure.clone()));
        }
        self.failed = Some(failure);
    }

    /// Sends hellos that are due to every first neighbour.
    fn say_hello(&mut self, now: Time) {
        let Some(attempt) = self.hearing.due(now) else { return };
        let late = self.streams.iter().find(|stream| !stream.worker.is_done());
        let lacks = late.map(|stream| (stream.sub_model, stream.worker.oldest()));
        let (sub_model, fragment) = lacks.unwrap_or((SubModelId(0), FragmentId(0)));
        let note = Note { attempt, sub_model, fragment, ..self.hello }.emit();
        let mut neighbours: Vec<_> = self.streams.iter().map(|stream| stream.next).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        self.notes.extend(neighbours.into_iter().map(|next| (next, note)));
    }

    /// When a worker without news asks who is there.
    fn asking_begins(&self) -> Option<Time> {
        let open = self.open.front()?;
        let share = open.deadline.since(open.begun) / PATIENCE_SHARE;
        Some(self.progress.plus(PATIENCE.min(share)))
    }

    fn hear(&mut self, note: &Note, now: Time) {
        if note.worker != self.rank || note.job != self.hello.job {
            self.strangers += 1;
            return;
        }
        if note.kind == Kind::Refusal {
            let reason = explain(note.reason()).to_owned();
            return self.fail(Failure::Refused { node: note.node, reason });
        }
        if note.kind != Kind::Welcome || note.incarnation() != self.hello.incarnation() {
            return;
        }
        self.hearing.hear(note.node, note.known(), note.held(), now);
        let everyone = parts::everyone(&self.plan);
        let is_complete = self.hearing.of(self.root).0 == everyone;
        let is_joining = matches!(self.stage, Stage::Joining { .. });
        if is_joining && is_complete && self.hearing.silent(now).is_none() {
            (self.stage, self.hearing.next) = (Stage::Joined, None);
            self.events.push_back(Event::Joined);
        }
    }

    /// Why this worker is not in: a silent node, or other workers.
    fn absence(&self, now: Time) -> Failure {
        let Stage::Joining { since, .. } = self.stage else { return Failure::Left };
        let waited = now.since(since);
        if let Some((node, _)) = self.hearing.silent(now) {
            return Failure::NotWelcomed { node, address: self.address(node), waited };
        }
        let missing = self.without(self.hearing.of(self.root).0);
        Failure::Missing { round: Round(0), fragment: 0, node: self.root, missing, waited }
    }

    /// Why a collective is late: a silent node, or workers whose values the root lacks.
    fn blame(&self, now: Time) -> Failure {
        let Some(open) = self.open.front() else { return Failure::Left };
        let (round, waited) = (open.round, now.since(open.begun));
        if let Some((node, silent)) = self.hearing.silent(now) {
            return Failure::Silent { round, node, address: self.address(node), silent };
        }
        let late = self.streams.iter().find(|stream| !stream.worker.is_done());
        let fragment = late.map_or(0, |stream| stream.worker.oldest().0);
        let missing = self.without(self.hearing.of(self.root).1);
        Failure::Missing { round, fragment, node: self.root, missing, waited }
    }

    /// Names of the workers that are not in a set.
    fn without(&self, there: Contributors) -> Vec<String> {
        let is_absent = |rank: &usize| !there.contains(Contributors::one(*rank as u8));
        let ranks = (0..self.plan.workers.len()).filter(is_absent);
        ranks.map(|rank| self.plan.workers[rank].name.clone()).collect()
    }

    /// Where a node's neighbour on this worker's ways sends to.
    fn address(&self, node: NodeId) -> SocketAddr {
        let fabric = self.plan.fabric.as_ref();
        let ways = self.plan.ways();
        let own = ways.iter().flat_map(|ways| &ways.of[usize::from(self.rank)].legs);
        let hop = own.flat_map(|leg| &leg.hops).find(|hop| hop.to == Site::Node(node)).copied();
        let address = hop.and_then(|hop| fabric?.address(hop.to, hop.link));
        address.unwrap_or(self.streams[0].next)
    }
}

impl Stream {
    fn begin(&mut self, round: Round, fragments: Range<u32>) {
        if fragments.is_empty() {
            return;
        }
        let (begin, count) = (self.end, fragments.len() as u32);
        self.end = begin.plus(count);
        self.worker.begin(count);
        self.parts.push_back(Part { round, begin, fragments });
    }

    /// Which fragment of which collective a position is.
    fn locate(&self, position: FragmentId) -> Option<(Round, u32)> {
        self.parts.iter().find_map(|part| {
            let offset = u32::try_from(position.since(part.begin)).ok()?;
            let is_within = offset < part.fragments.len() as u32;
            is_within.then_some((part.round, part.fragments.start + offset))
        })
    }
}

fn values(plan: &Plan) -> impl Iterator<Item = &SubModel> {
    plan.sub_models.iter().filter(|sub_model| sub_model.role == Role::Values)
}

fn streams(plan: &Plan, fabric: &Fabric, rank: u8) -> Vec<Stream> {
    let table = Forwarding::of(Site::Worker(rank), &plan.ways()).expect("a valid plan");
    let next = |sending: &Sending| {
        let way = table.up(sending.job, sending.sub_model, sending.node, rank);
        let next = way.expect("a way begins at its worker");
        fabric.address(next.site, next.link).expect("a link has two ends")
    };
    let make = |(sending, sub_model): (Sending, &SubModel)| Stream {
        next: next(&sending),
        worker: Worker::new(sending),
        sub_model: sending.sub_model,
        role: sub_model.role,
        parts: VecDeque::new(),
        end: FragmentId(0),
    };
    parts::sendings(plan, rank).into_iter().zip(&plan.sub_models).map(make).collect()
}

fn explain(reason: Option<RefusalReason>) -> &'static str {
    match reason {
        Some(RefusalReason::UnknownJob) => {
            "it has no plan with this job id: start it with this plan"
        }
        Some(RefusalReason::WrongSecret) => "the secret is not that of its plan",
        Some(RefusalReason::OtherPlan) => {
            "it holds another plan: give all nodes and workers the same"
        }
        Some(RefusalReason::Superseded) => "a newer incarnation of the job is running",
        _ => "the plan does not place this worker there",
    }
}
