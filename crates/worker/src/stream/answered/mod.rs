//! Streams to switches, of which results are the only sign of what became of a contribution.
//!
//! Hellos travel the same links to every node on the worker's ways, when it joins and when nothing comes; what sums
//! and sends again is [`wiresum_switch::Worker`]'s part, one of them for each stream.

mod hearing;
mod kept;
mod renewal;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_keys::Keyring;
use wiresum_protocol::association::RENEWAL_INTERVAL;
use wiresum_protocol::plan::Fabric;
use wiresum_protocol::ways::Site;
use wiresum_protocol::{Association, Plan, Time, Transmit};
use wiresum_switch::live::notes::{NOTE_LEN, Note};
use wiresum_switch::{Forwarding, Packet, Sending, Worker, WorkerCounters, Workers, wire};
use wiresum_wire::{Exchange, Flags, FragmentId, JobKey, Kind, NodeId, SubModelId};

use super::{Evidence, Streams, remedy};
use crate::session::rounds::{Arrived, Rounds};
use crate::session::{Failure, ordered};
use hearing::Hearing;
use kept::Kept;
use renewal::Renewal;

/// Silence after which a worker asks who is there.
const PATIENCE: Duration = Duration::from_secs(1);
/// It asks after this part of a round's time at the latest.
const PATIENCE_SHARE: u32 = 4;
/// Least time between two questions who is in. Each is a hello, of which a node takes some ten thousand a second for
/// a job.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

struct Stream {
    worker: Worker,
    sub_model: SubModelId,
    /// What values carry.
    association: Association,
    /// The neighbour that its packets go to.
    next: SocketAddr,
    kept: Kept,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Outside,
    Joining,
    Joined,
    Over,
}

/// What happened to packets that no stream counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    strangers: u64,
    malformed: u64,
    mismatches: u64,
    results_without_room: u64,
    results_given_back: u64,
}

pub(crate) struct Answered {
    plan: Plan,
    rank: u8,
    hello: Note,
    keys: Keyring,
    root: NodeId,
    /// Where packets may come from.
    neighbours: BTreeSet<SocketAddr>,
    stage: Stage,
    hearing: Hearing,
    renewal: Renewal,
    /// When keys are to be renewed, from joining on.
    renew_at: Time,
    streams: Vec<Stream>,
    /// Which stream sends next.
    turn: usize,
    /// When a result came last.
    progress: Time,
    /// Notes to be sent.
    notes: VecDeque<(SocketAddr, [u8; NOTE_LEN])>,
    /// The position that the root was last asked about in a look, and the workers that were in.
    looked: Option<(FragmentId, Workers)>,
    /// When to look again.
    look_at: Time,
    counters: Counters,
}

impl Answered {
    /// The streams of worker `rank`, whose first position is `first`.
    ///
    /// # Panics
    /// If the plan has no fabric.
    pub fn new(plan: &Plan, rank: u32, incarnation: u64, first: FragmentId) -> Self {
        let rank = rank as u8;
        let all = plan.ways();
        let own = all.iter().map(|ways| &ways.of[usize::from(rank)]);
        let Some(Site::Node(root)) = own.clone().find_map(|way| way.root()) else {
            panic!("ways end at a node")
        };
        let streams = streams(plan, rank, (incarnation, first));
        Self {
            rank,
            hello: Note::hello(plan, rank, incarnation),
            keys: plan.keys(),
            root,
            neighbours: fabric(plan).neighbours(Site::Worker(rank)),
            stage: Stage::Outside,
            hearing: Hearing::new(own),
            renewal: Renewal::of(&streams),
            renew_at: Time(0),
            streams,
            turn: 0,
            progress: Time(0),
            notes: VecDeque::new(),
            looked: None,
            look_at: Time(0),
            counters: Counters::default(),
            plan: plan.clone(),
        }
    }

    /// Lets a stream send what rounds have given positions to.
    fn begin(&mut self, rounds: &Rounds) {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let fresh = rounds.positions(index).limit().since(stream.worker.end());
            if fresh > 0 {
                stream.worker.begin(fresh as u32);
            }
        }
    }

    fn write(
        &mut self,
        index: usize,
        mut packet: Packet<()>,
        rounds: &mut Rounds,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let payload = &mut buffer[wire::LANES_AT..];
        let written = rounds.write(index, packet.fragment, 0, payload)?;
        (packet.round, packet.exponent) = (written.round, written.exponent);
        packet.flags = packet.flags.with(written.format);
        let stream = &mut self.streams[index];
        if stream.association.reach(&self.plan, packet.fragment) {
            self.renewal.begin(index);
        }
        let key = stream.association.key(packet.fragment);
        let len = wire::write(&packet, key, buffer, |_| written.len);
        Some(Transmit { destination: stream.next, len })
    }

    /// Writes a result that a node has forgotten.
    fn give_back(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let given_back = self.streams.iter_mut().find_map(|stream| {
            let Stream { next, association, kept, .. } = stream;
            let packet = kept.poll(now)?;
            let key = association.key(packet.fragment);
            let fill = |payload: &mut [u8]| {
                payload[..packet.values.len()].copy_from_slice(&packet.values);
                packet.values.len()
            };
            Some(Transmit { destination: *next, len: wire::write(packet, key, buffer, fill) })
        });
        self.counters.results_given_back += u64::from(given_back.is_some());
        given_back
    }

    /// Whether values carry a key of their stream. One that is next tells that others have renewed theirs.
    fn takes_key(&mut self, key: JobKey, packet: &Packet<&[u8]>, now: Time) -> bool {
        let stream = self.streams.iter().find(|stream| stream.sub_model == packet.sub_model);
        let Some(Stream { association, .. }) = stream else { return false };
        let is_taken = association.takes(packet.fragment, key);
        if association.is_next(packet.fragment, key) {
            self.renew(now);
        }
        is_taken
    }

    /// Renews the keys of all streams, of which nodes are told.
    fn renew(&mut self, now: Time) {
        self.renew_at = now.plus(RENEWAL_INTERVAL);
        for (index, stream) in self.streams.iter_mut().enumerate() {
            stream.association.renew(&self.plan);
            self.renewal.begin(index);
        }
    }

    /// When keys are to be renewed next: not before all nodes know of the last time.
    fn renewal_timeout(&self) -> Option<Time> {
        let is_due = self.stage == Stage::Joined && self.renewal.is_settled();
        is_due.then_some(self.renew_at)
    }

    fn take(&mut self, packet: &Packet<&[u8]>, rounds: &mut Rounds, now: Time) {
        let is_ours = |stream: &Stream| {
            packet.kind == Kind::Result
                && (packet.job, packet.sub_model) == (self.hello.job, stream.sub_model)
        };
        let Some(index) = self.streams.iter().position(is_ours) else {
            return self.counters.strangers += 1;
        };
        let position = packet.fragment;
        if packet.is_recall() {
            return self.streams[index].kept.recall(position, now);
        }
        let is_result = !packet.flags.contains(Flags::REFUSED);
        if is_result && self.streams[index].worker.is_pending(position) {
            let Packet { round, exponent, flags, values: payload, .. } = *packet;
            let exchange = Exchange::ALL;
            let arrived = Arrived { round, exponent, exchange, flags, payload };
            match rounds.take(index, position, &arrived) {
                Some(true) => {}
                Some(false) => return self.counters.results_without_room += 1,
                None => return self.counters.mismatches += 1,
            }
            self.streams[index].kept.keep(packet);
            (self.progress, self.hearing.next) = (now, None);
        }
        self.streams[index].worker.handle(packet, now);
    }

    /// What the oldest round lacks: a stream and a position; the first of all if it lacks nothing.
    fn lacks(&self, rounds: &Rounds) -> (usize, FragmentId) {
        let oldest = |index: usize| self.streams[index].worker.oldest();
        let stream = rounds.awaited(oldest).first().copied();
        stream.map_or((0, FragmentId(0)), |index| (index, oldest(index)))
    }

    /// A hello about a position, which says whether this worker has joined.
    fn hello(&self, attempt: u32, index: usize, position: FragmentId) -> [u8; NOTE_LEN] {
        let Stream { sub_model, association, .. } = &self.streams[index];
        let note = Note { attempt, is_member: self.stage == Stage::Joined, ..self.hello };
        let note = note.about(*sub_model, position, association.age());
        note.proven(&self.keys.hello(self.rank)).emit()
    }

    /// Queues hellos that are due, for every first neighbour: those that ask, and those that tell of renewals.
    fn say_hello(&mut self, rounds: &Rounds, now: Time) {
        if let Some(attempt) = self.hearing.due(now) {
            let (index, position) = self.lacks(rounds);
            self.queue(self.hello(attempt, index, position));
        }
        if self.stage == Stage::Joined
            && let Some(index) = self.renewal.due(now)
        {
            let attempt = self.hearing.next_attempt();
            self.renewal.note_told(attempt);
            self.queue(self.hello(attempt, index, self.streams[index].worker.oldest()));
        }
    }

    /// Queues a hello for every first neighbour.
    fn queue(&mut self, note: [u8; NOTE_LEN]) {
        let mut neighbours: Vec<_> = self.streams.iter().map(|stream| stream.next).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        self.notes.extend(neighbours.into_iter().map(|next| (next, note)));
    }

    /// When a worker without news asks who is there.
    fn asking_begins(&self, rounds: &Rounds) -> Option<Time> {
        let open = rounds.oldest()?;
        let share = open.deadline.since(open.submitted) / PATIENCE_SHARE;
        Some(self.progress.max(open.submitted).plus(PATIENCE.min(share)))
    }

    fn hear(&mut self, note: &Note, now: Time) -> Result<(), Failure> {
        if note.worker != self.rank || note.job != self.hello.job {
            self.counters.strangers += 1;
            return Ok(());
        }
        if !self.has_asked(note) {
            self.counters.strangers += 1;
            return Ok(());
        }
        if note.kind == Kind::Refusal {
            let reason = remedy(note.reason()).to_owned();
            return Err(Failure::Refused { node: note.node, reason });
        }
        let asked_about = (note.sub_model, note.fragment);
        let look = self.looked.as_mut().filter(|(position, _)| {
            note.node == self.root && asked_about == (self.streams[0].sub_model, *position)
        });
        match look {
            // What the oldest round lacks is asked about by other hellos.
            Some((_, held)) => *held = held.with_cohort(note.cohort, note.held()),
            None => self.hearing.hear_held(note),
        }
        self.hearing.hear(note, now);
        let stream = self.streams.iter().position(|stream| stream.sub_model == note.sub_model);
        self.renewal.hear(stream, note, self.hearing.nodes.len());
        let is_complete = self.hearing.of(self.root).0 == self.plan.everyone();
        if self.stage == Stage::Joining && is_complete && self.hearing.silent(now).is_none() {
            (self.stage, self.hearing.next) = (Stage::Joined, None);
            self.renew_at = now.plus(RENEWAL_INTERVAL);
        }
        Ok(())
    }

    /// Whether a note answers one of this worker's hellos, with the proof of a node on its ways.
    fn has_asked(&self, note: &Note) -> bool {
        let asked = 1..=self.hearing.attempt;
        // The key comes last: it takes microseconds to derive.
        note.kind != Kind::Hello
            && note.incarnation() == self.hello.incarnation()
            && asked.contains(&note.attempt)
            && self.hearing.nodes.iter().any(|heard| heard.node == note.node)
            && self.keys.answer(note.node, self.rank).is_some_and(|key| note.is_proven(&key))
    }

    /// Names of the workers that are not in a set.
    fn without(&self, there: Workers) -> Vec<String> {
        let absent = self.plan.everyone().without(there);
        absent.iter().map(|rank| self.plan.workers[usize::from(rank)].name.clone()).collect()
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

impl Streams for Answered {
    fn join(&mut self, now: Time) {
        self.stage = Stage::Joining;
        self.hearing.begin(now);
    }

    fn has_joined(&self) -> bool {
        self.stage == Stage::Joined
    }

    fn resume(&mut self, now: Time) {
        self.progress = now;
        self.hearing.hasten(now);
        self.streams.iter_mut().for_each(|stream| stream.worker.resume(now));
    }

    fn stop(&mut self) {
        (self.stage, self.hearing.next) = (Stage::Over, None);
    }

    /// Switches know no goodbyes: a worker is gone when its hellos are.
    fn leave(&mut self) {
        self.stop();
        self.notes.clear();
    }

    fn handle_datagram(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        rounds: &mut Rounds,
        now: Time,
    ) -> Result<(), Failure> {
        if !self.neighbours.contains(&source) {
            self.counters.strangers += 1;
            return Ok(());
        }
        match wire::read(datagram) {
            Ok((key, packet)) if self.takes_key(key, &packet, now) => {
                self.take(&packet, rounds, now);
            }
            Ok(_) => self.counters.strangers += 1,
            Err(_) => match Note::parse(datagram) {
                Some(note) => return self.hear(&note, now),
                None => self.counters.malformed += 1,
            },
        }
        Ok(())
    }

    /// A neighbour is gone, or not there yet: where a round waits, every node is asked at once. As no more follows, it
    /// does not matter who says so.
    fn handle_unreachable(
        &mut self,
        address: SocketAddr,
        _quote: &[u8],
        rounds: &mut Rounds,
        now: Time,
    ) {
        let is_neighbour = self.streams.iter().any(|stream| stream.next == address);
        if is_neighbour && self.stage == Stage::Joined && rounds.oldest().is_some() {
            self.hearing.begin(now);
            self.say_hello(rounds, now);
        }
    }

    fn handle_timeout(&mut self, rounds: &mut Rounds, now: Time) {
        if self.asking_begins(rounds).is_some_and(|begin| begin <= now) {
            self.hearing.begin(now);
        }
        if self.renewal_timeout().is_some_and(|due| due <= now) {
            self.renew(now);
        }
        self.say_hello(rounds, now);
        self.streams.iter_mut().for_each(|stream| stream.worker.handle_timeout(now));
    }

    fn poll_timeout(&self, rounds: &Rounds) -> Option<Time> {
        let alarms = self.streams.iter().filter_map(|stream| stream.worker.poll_timeout());
        let asking = self.asking_begins(rounds).filter(|_| self.hearing.next.is_none());
        let renewal = self.renewal.next().or(self.renewal_timeout());
        alarms.chain(self.hearing.next).chain(renewal).chain(asking).min()
    }

    fn poll_transmit(
        &mut self,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        self.say_hello(rounds, now);
        if let Some((destination, note)) = self.notes.pop_front() {
            buffer[..NOTE_LEN].copy_from_slice(&note);
            return Some(Transmit { destination, len: NOTE_LEN });
        }
        if self.stage != Stage::Joined {
            return None;
        }
        if let Some(given_back) = self.give_back(now, buffer) {
            return Some(given_back);
        }
        self.begin(rounds);
        for _ in 0..self.streams.len() {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.streams.len();
            if let Some(packet) = self.streams[index].worker.poll_transmit(now) {
                return self.write(index, packet, rounds, buffer);
            }
        }
        None
    }

    fn gathering(&self) -> (NodeId, u32) {
        (self.root, self.plan.workers.len() as u32)
    }

    /// A hello: the root's welcome says whose values it holds.
    fn ask_who_is_in(
        &mut self,
        position: FragmentId,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now.plus(LOOK_INTERVAL);
        if self.looked.is_none_or(|(at, _)| at != position) {
            self.looked = Some((position, Workers::NONE));
        }
        let attempt = self.hearing.next_attempt();
        buffer[..NOTE_LEN].copy_from_slice(&self.hello(attempt, 0, position));
        Some(Transmit { destination: self.streams[0].next, len: NOTE_LEN })
    }

    fn count_who_is_in(&self, position: FragmentId) -> u32 {
        let looked = self.looked.filter(|(at, _)| *at == position);
        let all = self.plan.everyone();
        looked.map_or(0, |(_, held)| all.count() - all.without(held).count())
    }

    fn evidence(&self, rounds: &Rounds, now: Time) -> Evidence {
        let (known, held) = self.hearing.of(self.root);
        let is_joining = self.stage != Stage::Joined;
        match self.hearing.silent(now) {
            Some((node, _)) if is_joining => {
                Evidence::NotWelcomed { node, address: self.address(node) }
            }
            Some((node, since)) => {
                Evidence::Silent { node, address: self.address(node), since: Some(since) }
            }
            None => {
                let (_, fragment) = self.lacks(rounds);
                let missing = self.without(if is_joining { known } else { held });
                Evidence::Missing { node: self.root, fragment: fragment.0, missing }
            }
        }
    }

    fn sent(&self, stream: usize) -> FragmentId {
        self.streams[stream].worker.next()
    }

    fn is_pending(&self, stream: usize, position: FragmentId) -> bool {
        self.streams[stream].worker.is_pending(position)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: fn(&WorkerCounters) -> u64| {
            self.streams.iter().map(|stream| of(stream.worker.counters())).sum()
        };
        let Counters { strangers, malformed, mismatches, .. } = self.counters;
        let Counters { results_without_room, results_given_back, .. } = self.counters;
        vec![
            ("hellos", self.hearing.attempt.into()),
            ("contributions", sum(|c| c.sent - c.resent)),
            ("repetitions", sum(|c| c.resent)),
            ("results", sum(|c| c.results)),
            ("marked", sum(|c| c.marked)),
            ("rehashed", sum(|c| c.rehashed)),
            ("timeouts", sum(|c| c.timeouts)),
            ("mismatches", mismatches),
            ("results_without_room", results_without_room),
            ("results_given_back", results_given_back),
            ("foreign", strangers),
            ("malformed", malformed),
        ]
    }
}

fn fabric(plan: &Plan) -> &Fabric {
    plan.fabric.as_ref().expect("a plan with a fabric")
}

/// The streams in the order of [`ordered`].
fn streams(plan: &Plan, rank: u8, (incarnation, first): (u64, FragmentId)) -> Vec<Stream> {
    let fabric = fabric(plan);
    let table = Forwarding::of(Site::Worker(rank), &plan.ways()).expect("a valid plan");
    let next = |sending: &Sending| {
        let way = table.up(sending.job, sending.sub_model, sending.node, rank);
        let next = way.expect("a way begins at its worker");
        fabric.address(next.site, next.link).expect("a link has two ends")
    };
    let sendings = plan.sendings(rank);
    let make = |id: SubModelId| {
        let sending = sendings.iter().find(|sending| sending.sub_model == id).copied();
        let sending = sending.expect("every stream has ways");
        let worker = Worker::starting_at(sending, first);
        let kept = Kept::new(sending, plan.payload_len());
        let association = Association::starting_at(plan, incarnation, first);
        Stream { next: next(&sending), worker, sub_model: id, association, kept }
    };
    ordered(plan).map(|sub_model| make(sub_model.id())).collect()
}
