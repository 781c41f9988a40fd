//! One participant of a job: from collectives to datagrams and back.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `rounds` | which rounds are open, whose positions are whose, and when a round ends |
//! | `round` | what a round's agreement and fragments hold, and what becomes of them |
//! | `format`, `shape`, `check`, `layout` | of what form they are |
//! | `forecast` | which values may flow before the agreement on their exponents |
//! | `quorum` | going on without an owner who is late |
//! | `sealing` | the seals of sums |
//! | `gate` | whether this worker may send, and how fast |
//! | `failure`, `blame` | how a round fails, and who is to blame |
//! | `patience` | when waiting is worth a word, long before a deadline |
//! | `watch` | when a node is gone that nobody takes the place of |
//!
//! How positions travel is the part of [`crate::stream`].

mod blame;
mod check;
pub(crate) mod failure;
mod forecast;
pub(crate) mod format;
mod gate;
mod layout;
mod patience;
mod positions;
mod quorum;
pub(crate) mod round;
pub(crate) mod rounds;
mod sealing;
mod shape;
pub(crate) mod tail;
mod watch;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_protocol::{Plan, Time, Transmit};
use wiresum_wire::control::Absent;
use wiresum_wire::{FragmentId, HEADER_LEN, IpVersion, Round, SubModelId, cable_len};

use crate::kind::MAX_ROOTS;
use crate::stream::{Answered, Asked, Streams};
pub use crate::stream::{Departure, SwitchOver};
use crate::{Collective, Members};
pub use failure::{Failure, Summed};
use gate::Gate;
use patience::Patience;
pub(crate) use positions::Positions;
pub use quorum::Participation;
use quorum::Quorum;
use round::OpenRound;
use rounds::Rounds;
pub use shape::Shape;
use watch::{Losses, Watch};

/// One participant of a job, whoever sums.
///
/// *Commands*: [`join`](Self::join), [`submit`](Self::submit), [`await_members`](Self::await_members),
/// [`shut`](Self::shut), [`open`](Self::open), [`leave`](Self::leave). *Inputs*: [`handle_datagram`](Self::handle_datagram),
/// [`handle_unreachable`](Self::handle_unreachable), [`handle_timeout`](Self::handle_timeout). *Outputs*:
/// [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event), [`poll_timeout`](Self::poll_timeout),
/// polled in this order until each is exhausted after any command or input.
pub struct Session {
    plan: Plan,
    rank: u32,
    streams: Box<dyn Streams>,
    rounds: Rounds,
    /// When it was told to join.
    began: Option<Time>,
    /// By when it has to have joined, while it has not.
    join_by: Option<Time>,
    has_joined: bool,
    /// It has said hello.
    is_known: bool,
    gate: Gate,
    patience: Patience,
    /// Where the owner wants to know of nodes that are gone.
    watch: Option<Watch>,
    deadlines: BTreeSet<(Time, Round)>,
    /// Whether a lost worker ends the job; if not, whether the owner knows of one.
    losses: Losses,
    /// Where rounds may go on without late workers.
    quorum: Option<Quorum>,
    /// Why the job is over.
    failed: Option<Failure>,
}

/// What a session tells its owner.
pub enum Event {
    /// Every node has welcomed this worker.
    Joined,
    /// This worker contributes to another node from now on.
    Moved(SwitchOver),
    /// A shut gate has opened by itself: nobody has opened it in time.
    Unattended,
    /// Nothing has come for a while. If that goes on, the job ends with this failure.
    HeldUp(Failure),
    /// A node is gone, as [`Session::watch_nodes`] has asked, and this is what a round will fail with. Told once.
    NodeGone(Failure),
    /// A worker is lost, which ends the job unless [`Session::outlive_workers`] was called. Told once, of the first.
    WorkerLost(Failure),
    /// A round is done; rounds finish in order of submission, but those of [shares](crate::Kind::is_share), which need
    /// not wait for earlier ones.
    Finished {
        /// The round.
        round: Round,
        /// What was submitted. Its sink holds the results, or, after a failure that
        /// [spares the job](Failure::spares_the_job), what it held before.
        collective: Collective,
        /// How it ended.
        outcome: Result<(), Failure>,
        /// Ranks whose values are in the sums; of no meaning after a failure.
        participation: Participation,
    },
}

impl Session {
    /// A worker that has not joined yet. The plan says what its streams are.
    ///
    /// # Panics
    /// If `rank` is not in the plan.
    #[must_use]
    pub fn new(plan: &Plan, rank: u32, incarnation: u64) -> Self {
        Self::starting_at(plan, rank, incarnation, FragmentId(0))
    }

    /// As [`Self::new`]; the streams' first position is `first`, which all workers must agree on.
    ///
    /// # Panics
    /// If `rank` is not in the plan, or the job is sealed and the plan has a node's keys in place of the secret.
    #[must_use]
    pub fn starting_at(plan: &Plan, rank: u32, incarnation: u64, first: FragmentId) -> Self {
        assert!((rank as usize) < plan.workers.len(), "rank {rank} is not in the plan");
        let streams: Box<dyn Streams> = if plan.fabric.is_some() {
            Box::new(Answered::new(plan, rank, incarnation, first))
        } else {
            Box::new(Asked::new(plan, rank, incarnation, first))
        };
        Self {
            rounds: Rounds::new(plan, rank, incarnation, first),
            quorum: Quorum::new(plan, streams.gathering()),
            streams,
            rank,
            plan: plan.clone(),
            began: None,
            join_by: None,
            has_joined: false,
            is_known: false,
            gate: Gate::default(),
            patience: Patience::default(),
            watch: None,
            losses: Losses::EndTheJob,
            deadlines: BTreeSet::new(),
            failed: None,
        }
    }

    /// The same in an incarnation that goes on without these workers, as all others say, too. They count as ranks whose
    /// values are not in the sums.
    ///
    /// # Panics
    /// If this worker is one of them, or switches sum.
    #[must_use]
    pub fn without(mut self, absent: Absent) -> Self {
        assert!(!absent.holds(self.rank), "rank {} goes on without itself", self.rank);
        assert!(absent.is_empty() || self.plan.fabric.is_none(), "switches await every worker");
        self.rounds.go_on_without(absent);
        self.streams.go_on_without(absent);
        self
    }

    /// The same in an incarnation of these members alone, as all of them say. Each has a number of its own among them,
    /// its rank, by which collectives name it and give it its part; sums and averages are theirs, and nobody is missed.
    ///
    /// # Panics
    /// If this worker is none of them, or switches sum.
    #[must_use]
    pub fn of_members(mut self, members: Members) -> Self {
        assert!(members.rank_of(self.rank as usize).is_some(), "seat {} is nobody's", self.rank);
        let vacant = members.vacant(self.plan.workers.len());
        assert!(vacant.is_empty() || self.plan.fabric.is_none(), "switches await every worker");
        self.rounds.go_on_as(members);
        self.streams.go_on_without(vacant);
        self
    }

    /// Says hello; [`Event::Joined`], or a failed round 0 with an empty collective, follows by `deadline`. With a shut
    /// gate it does so when that opens, and the deadline is later by the time until then.
    pub fn join(&mut self, deadline: Time, now: Time) {
        if self.began.is_none() && self.failed.is_none() {
            (self.began, self.join_by) = (Some(now), Some(deadline));
            self.say_hello(now);
        }
    }

    /// Says from now on, until it leaves, that this worker is alive, whatever its owner does. Whoever watches it takes it
    /// for lost after this time without a word, and so every other worker ends the job with [`Failure::WorkerLost`]. A
    /// gate that is shut keeps this back, too.
    pub fn keep_alive(&mut self, dead_after: Duration, now: Time) {
        self.streams.keep_alive(dead_after, now);
    }

    /// From now on sends nothing, and waits for nothing but results, until it is opened, at `until` at the latest:
    /// then there is an [`Event::Unattended`]. Rounds keep their deadlines.
    pub fn shut(&mut self, until: Time, now: Time) {
        self.gate.shut(now, until);
    }

    /// From now on sends, at this rate on the cable where there is one. What was on its way when the gate was shut is
    /// given the time of a round trip again before it is taken as lost.
    pub fn open(&mut self, rate_bps: Option<u64>, now: Time) {
        let Some(since) = self.gate.open(rate_bps) else { return };
        self.join_by = self.join_by.map(|by| by.plus(now.since(since)));
        self.be_patient(now);
        self.say_hello(now);
        self.streams.resume(now);
    }

    fn say_hello(&mut self, now: Time) {
        if self.began.is_some() && !self.is_known && !self.gate.is_shut() && self.failed.is_none() {
            self.is_known = true;
            self.streams.join(now);
        }
    }

    /// Queues a collective. Rounds are numbered from 0 in order of submission; every rank must submit the same ones.
    ///
    /// # Panics
    /// If the root is not a rank of the job, or the plan has no streams for a kind that copies, or no room for a share.
    pub fn submit(&mut self, collective: Collective, deadline: Time, now: Time) -> Round {
        let roots = (self.rounds.format.ranks() as u32).min(MAX_ROOTS);
        assert!(collective.root < roots, "the root {} of {roots} ranks", collective.root);
        let is_possible = self.rounds.format.carries(&collective);
        assert!(is_possible, "the plan has no room for {}", collective.kind);
        if self.failed.is_none() && self.is_behind() {
            return self.claim(collective, deadline);
        }
        let round = self.rounds.take_number();
        if let Some(failure) = &self.failed {
            let outcome = Err(failure.clone());
            let participation = Participation { ranks: 0, is_own_in: false };
            self.tell(Event::Finished { round, collective, outcome, participation });
            return round;
        }
        self.note_presence();
        self.rounds.open(OpenRound::new(round, collective, self.rounds.format, deadline, now));
        self.deadlines.insert((deadline, round));
        if let Some(left) = self.rounds.left() {
            self.patience.go_on(left, now);
        }
        self.advance();
        round
    }

    /// Has parts and copies go this many positions beyond where barriers allow: for tests, which then have to fail.
    #[doc(hidden)]
    pub fn overreach(&mut self, positions: u32) {
        self.streams.overreach(positions);
    }

    /// Takes leave; open rounds fail with [`Failure::Left`].
    pub fn leave(&mut self, _now: Time) {
        let is_joining = self.join_by.is_some();
        if self.failed.is_none() && (is_joining || self.rounds.oldest().is_some()) {
            self.fail(Failure::Left);
        }
        self.failed.get_or_insert(Failure::Left);
        self.gate.open(None);
        self.streams.leave();
    }

    /// Ends the job: open rounds and later ones fail, and this is why. With `elsewhere` every rank is told alike that
    /// others than the network have to sum, and they fail with [`Failure::NotServed`]. Ranks need not have ended the
    /// same rounds by then.
    pub fn stop(&mut self, why: String, elsewhere: bool) {
        self.end(if elsewhere { Failure::NotServed { why } } else { Failure::Ended { why } });
    }

    /// Ends the job, as it has ended elsewhere in this process: open rounds and later ones fail with this.
    pub fn end(&mut self, failure: Failure) {
        if self.failed.is_none() {
            self.fail_open(failure);
        }
    }

    /// Takes one datagram from the network. Anything that is not for this worker is counted and dropped.
    pub fn handle_datagram(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        if self.failed.is_some() {
            return;
        }
        let taken = self.streams.handle_datagram(source, datagram, &mut self.rounds, now);
        match taken.map_err(|failure| failure.by_rank(self.rounds.format.members)) {
            Err(failure) if self.outlives(&failure) => self.tell_of_loss(failure),
            Err(failure) => {
                if matches!(failure, Failure::WorkerLost { is_own: false, .. }) {
                    self.tell(Event::WorkerLost(failure.clone()));
                }
                return self.fail(failure);
            }
            Ok(()) => self.advance(),
        }
        if !self.has_joined && self.streams.has_joined() {
            (self.has_joined, self.join_by) = (true, None);
            self.be_patient(now);
            self.tell(Event::Joined);
        }
        self.look_who_is_in(now);
    }

    /// A host says that nothing listens at this address, and quotes how the datagram began that came in vain.
    pub fn handle_unreachable(&mut self, address: SocketAddr, quote: &[u8], now: Time) {
        if self.failed.is_none() {
            self.streams.handle_unreachable(address, quote, &mut self.rounds, now);
        }
    }

    /// To be called when the time given by [`Self::poll_timeout`] has come; harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.failed.is_some() {
            return;
        }
        if self.gate.has_expired(now) {
            self.open(None, now);
            self.tell(Event::Unattended);
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        if deadline.into_iter().chain(self.join_deadline()).any(|deadline| deadline <= now) {
            return self.fail(self.blame(now));
        }
        if !self.gate.is_shut() {
            self.streams.handle_timeout(&mut self.rounds, now);
            self.look_what_holds_up(now);
            self.look_who_is_gone(now);
        }
    }

    /// From now on results are due again.
    fn be_patient(&mut self, now: Time) {
        if let Some(left) = self.rounds.left() {
            self.patience.begin(left, now);
        }
    }

    fn look_what_holds_up(&mut self, now: Time) {
        if self.has_joined && self.patience.looks_in_vain(self.rounds.left(), now) {
            let why = self.blame(now);
            if self.patience.tells(&why) {
                self.tell(Event::HeldUp(why));
            }
        }
    }

    /// Writes the next datagram to `buffer` (at least [`wiresum_wire::MAX_PACKET`] bytes).
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.gate.lets_out(now) {
            return None;
        }
        let next = self.transmit_streams(now, buffer);
        let next = next.or_else(|| self.transmit_look(now, buffer))?;
        let version = if next.destination.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        self.gate.note_sent(cable_len(next.len - HEADER_LEN, version), now);
        Some(next)
    }

    fn transmit_streams(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        loop {
            let next = self.streams.poll_transmit(&mut self.rounds, now, buffer);
            if self.failed.is_some() || self.rounds.outcome().is_none() {
                return next;
            }
            // The last that this worker had to do was to let others' positions pass. Later rounds may have some now.
            self.advance();
            if next.is_some() {
                return next;
            }
        }
    }

    /// By when it has to have joined. A shut gate stops this clock.
    fn join_deadline(&self) -> Option<Time> {
        self.join_by.filter(|_| !self.gate.is_shut())
    }

    /// The next thing to tell the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.rounds.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.failed.is_some() {
            // This worker is alive until its owner leaves, or others would be told that it is lost.
            return self.streams.heartbeat_timeout().filter(|_| !self.gate.is_shut());
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let gate = self.gate.poll_timeout();
        if self.gate.is_shut() {
            return deadline.into_iter().chain(gate).min();
        }
        // What the rate holds back has nothing due before it may leave but to leave.
        let streams = self.streams.poll_timeout(&self.rounds);
        let patience = self.patience.poll_timeout().filter(|_| self.has_joined);
        let watch = self.watch_timeout();
        let own = [deadline, self.join_by, self.look_timeout(), gate, patience, watch];
        own.into_iter().chain([streams]).flatten().min()
    }

    /// Counters by name, for people and metrics.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let quorum = self.quorum.iter().flat_map(Quorum::counters);
        self.streams.counters().into_iter().chain(quorum).collect()
    }

    /// A line for people about a switch-over of this worker.
    #[must_use]
    pub fn describe(&self, switch: &SwitchOver) -> String {
        switch.describe(&self.plan, self.rank)
    }

    /// Whether the result of a position has not come yet.
    ///
    /// # Panics
    /// If `sub_model` is not in the plan.
    #[must_use]
    pub fn needs(&self, sub_model: SubModelId, position: FragmentId) -> bool {
        let of_plan = ordered(&self.plan).position(|s| s.id() == sub_model);
        let stream = of_plan.expect("in the plan");
        position.since(self.streams.sent(stream)) >= 0 || self.streams.is_pending(stream, position)
    }

    /// Positions sent in each stream.
    #[must_use]
    pub fn streams_sent(&self) -> Vec<u32> {
        (0..self.plan.streams.len()).map(|stream| self.streams.sent(stream).0).collect()
    }

    /// Gives positions to values whose turn it is, and ends the rounds that are done.
    fn advance(&mut self) {
        self.rounds.place();
        while let Some(outcome) = self.rounds.outcome() {
            match outcome {
                Err(failure) if !failure.spares_the_job() => return self.fail(failure),
                outcome => self.finish(outcome),
            }
        }
        self.finish_early();
    }

    /// Tells the owner of rounds that have all they need, though earlier ones have not.
    fn finish_early(&mut self) {
        while let Some(open) = self.rounds.take_early() {
            let (round, deadline, participation) =
                (open.round, open.deadline, open.participation());
            let collective = open.give_back();
            self.deadlines.remove(&(deadline, round));
            self.tell(Event::Finished { round, collective, outcome: Ok(()), participation });
        }
    }

    /// Ends the oldest round.
    fn finish(&mut self, outcome: Result<(), Failure>) {
        let Some(open) = self.rounds.close() else { return };
        self.deadlines.remove(&(open.deadline, open.round));
        if open.is_told() {
            return;
        }
        match &mut self.quorum {
            Some(quorum) if open.is_unclaimed() => quorum.keep(open, outcome),
            _ => self.tell_end(open, outcome),
        }
    }

    /// Tells the owner how a round ended.
    fn tell_end(&mut self, open: OpenRound, outcome: Result<(), Failure>) {
        let (round, participation) = (open.round, open.participation());
        let collective = open.collective;
        self.tell(Event::Finished { round, collective, outcome, participation });
    }

    fn tell(&mut self, event: Event) {
        self.rounds.events.push_back(event);
    }

    /// Ends the job: every open round, and every later one, or joining, fails with this reason.
    fn fail(&mut self, failure: Failure) {
        if self.rounds.oldest().is_none() && !self.has_joined {
            let (round, outcome) = (Round(0), Err(failure.clone()));
            let collective = Collective::nothing();
            let participation = Participation { ranks: 0, is_own_in: false };
            self.tell(Event::Finished { round, collective, outcome, participation });
        }
        self.fail_open(failure);
    }

    fn fail_open(&mut self, failure: Failure) {
        while self.rounds.oldest().is_some() {
            self.finish(Err(failure.clone()));
        }
        self.streams.stop();
        (self.failed, self.join_by) = (Some(failure), None);
    }
}

/// The streams of a plan: the one of the agreement, those of values, of parts, of copies, and their barriers.
pub(crate) fn ordered(plan: &Plan) -> impl Iterator<Item = &wiresum_protocol::plan::PlanStream> {
    use wiresum_protocol::plan::Role;
    let of_role = |role| plan.streams.iter().filter(move |s| s.role == role);
    let sums = of_role(Role::Exponents).chain(of_role(Role::Values));
    let exchanges = [Role::Parts, Role::Copies, Role::Acknowledgements];
    sums.chain(exchanges.into_iter().flat_map(of_role))
}
