//! The worker: from collectives to datagrams and back.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `join` | when this worker is a child of its nodes |
//! | `round`, `layout` | what a collective's preamble and fragments hold, and how it ends |
//! | `quorum` | going on without an owner who is late |
//! | `forecast` | which values may flow before the agreement on their exponents |
//! | `pacing` | how fast values are sent |
//! | `stream` | which position may be sent next; what was lost is [`crate::recovery`]'s part |
//! | `failover` | leaving a node that is gone, and going home |
//! | `failure`, `blame` | how a round fails, and who is to blame |

mod blame;
pub(crate) mod collective;
pub(crate) mod failure;
mod forecast;
pub mod layout;
mod quorum;
pub(crate) mod round;

use std::collections::{BTreeSet, VecDeque};

use wiresum_wire::{Flags, FragmentId, JobKey, LaneType, Round};

use crate::Buffer;
use crate::buffer::Nothing;
use crate::stream::asked::counters::Counters;
use crate::stream::asked::failover::Pending;
pub use crate::stream::asked::failover::{Departure, SwitchOver};
use crate::stream::asked::join::{Seat, Stage};
use crate::stream::asked::stream::{Parent, Stream};
pub use failure::Failure;
use forecast::Forecaster;
pub use quorum::Participation;
use quorum::Quorum;
use round::{Format, OpenRound, Phase};
use wiresum_protocol::plan::{Role, SubModel};
use wiresum_protocol::{Plan, Time};

/// One participant of a job.
///
/// *Commands*: [`join`](Self::join), [`submit`](Self::submit), [`leave`](Self::leave). *Inputs*: [`handle_datagram`](Self::handle_datagram),
/// [`handle_timeout`](Self::handle_timeout). *Outputs*: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
/// [`poll_timeout`](Self::poll_timeout), polled in this order until each is exhausted after any command or input.
pub struct Worker {
    pub(crate) plan: Plan,
    pub(crate) incarnation: u64,
    pub(crate) key: JobKey,
    pub(crate) stage: Stage,
    /// By stream.
    pub(crate) seats: Vec<Seat>,
    /// The exponents' stream, then those of values in the order of the plan.
    pub(crate) streams: Vec<Stream>,
    /// Shares of the streams of values.
    pub(crate) shares: Vec<f64>,
    /// Which stream of values sends first.
    pub(crate) turn: usize,
    pub(crate) lane_type: LaneType,
    pub(crate) format: Format,
    pub(crate) forecaster: Forecaster,
    /// Open rounds, oldest first.
    pub(crate) rounds: VecDeque<OpenRound>,
    pub(crate) deadlines: BTreeSet<(Time, Round)>,
    /// Rounds at the front that own positions for their values, or need none.
    pub(crate) placed: usize,
    /// Rounds at the front whose votes on going home are counted.
    pub(crate) counted: usize,
    /// Some stream is not at home.
    pub(crate) is_away: bool,
    /// Left nodes whose parents have not sent a result yet.
    pub(crate) pending_switches: Vec<Pending>,
    /// Goodbyes to nodes that streams are not at.
    pub(crate) farewells: VecDeque<(usize, Parent, Flags)>,
    /// The next to be opened.
    pub(crate) next_round: Round,
    /// Where rounds may go on without late workers.
    pub(crate) quorum: Option<Quorum>,
    pub(crate) events: VecDeque<Event>,
    /// Why the job is over.
    pub(crate) failed: Option<Failure>,
    pub(crate) counters: Counters,
}

/// What a worker tells its owner.
pub enum Event {
    /// Every parent has welcomed this worker.
    Joined,
    /// This worker contributes to another node from now on.
    Moved(SwitchOver),
    /// A round is done; rounds finish in order of submission.
    Finished {
        /// The round.
        round: Round,
        /// Its buffer: holding the sums, or, after a failure that [spares the job](Failure::spares_the_job), untouched.
        buffer: Box<dyn Buffer>,
        /// How it ended.
        outcome: Result<(), Failure>,
        /// Whose values are in the sums; of no meaning after a failure.
        participation: Participation,
    },
}

impl Worker {
    /// A worker that has not joined yet.
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
    /// If `rank` is not in the plan.
    #[must_use]
    pub fn starting_at(plan: &Plan, rank: u32, incarnation: u64, first: FragmentId) -> Self {
        assert!((rank as usize) < plan.workers.len(), "rank {rank} is not in the plan");
        let of_role = |role| plan.sub_models.iter().filter(move |s| s.role == role);
        let ordered: Vec<&SubModel> =
            of_role(Role::Exponents).chain(of_role(Role::Values)).collect();
        let stream = |s: &&SubModel| Stream::new(plan, s, rank, first).expect("a valid plan");
        let streams: Vec<Stream> = ordered.iter().map(stream).collect();
        Self {
            plan: plan.clone(),
            incarnation,
            key: plan.job_key(incarnation),
            stage: Stage::Outside,
            seats: vec![Seat::default(); streams.len()],
            shares: ordered[1..].iter().map(|s| s.share).collect(),
            streams,
            turn: 0,
            lane_type: plan.job.lanes.into(),
            format: Format::new(plan, rank),
            forecaster: Forecaster::new(plan),
            rounds: VecDeque::new(),
            deadlines: BTreeSet::new(),
            placed: 0,
            counted: 0,
            is_away: false,
            pending_switches: Vec::new(),
            farewells: VecDeque::new(),
            next_round: Round(0),
            quorum: Quorum::new(plan, rank),
            events: VecDeque::new(),
            failed: None,
            counters: Counters::default(),
        }
    }

    /// Says hello to every parent; [`Event::Joined`], or a failed round 0 with an empty buffer, follows by `deadline`.
    pub fn join(&mut self, deadline: Time, now: Time) {
        self.begin_joining(deadline, now);
    }

    /// Queues a collective. Rounds are numbered from 0 in order of submission; every rank must submit the same ones.
    pub fn submit(&mut self, buffer: Box<dyn Buffer>, deadline: Time, now: Time) -> Round {
        if self.failed.is_none() && self.is_behind() {
            return self.claim(buffer, deadline);
        }
        let round = self.next_round;
        self.next_round = Round(round.0.wrapping_add(1));
        if let Some(failure) = &self.failed {
            let outcome = Err(failure.clone());
            let participation = Participation { ranks: 0, is_own_in: false };
            self.events.push_back(Event::Finished { round, buffer, outcome, participation });
            return round;
        }
        self.note_presence();
        let open = OpenRound::new(round, buffer, self.format, deadline, now);
        self.streams[0].allocate(round, 0..open.preamble_fragments());
        self.forecaster.expect(open.shape());
        self.rounds.push_back(open);
        self.deadlines.insert((deadline, round));
        self.advance();
        round
    }

    /// Says goodbye; open rounds fail with [`Failure::Left`].
    pub fn leave(&mut self, _now: Time) {
        let is_joining = matches!(self.stage, Stage::Joining { .. });
        if self.failed.is_none() && (is_joining || !self.rounds.is_empty()) {
            self.fail(Failure::Left);
        }
        self.failed.get_or_insert(Failure::Left);
        self.begin_leaving();
    }

    /// To be called when the time given by [`Self::poll_timeout`] has come; harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.failed.is_some() {
            return;
        }
        self.check_joining(now);
        if self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
            self.fail(self.blame(now));
        }
        if self.stage == Stage::Joined {
            self.check_silence(now);
            self.streams.iter_mut().for_each(|stream| stream.recovery.handle_timeout(now));
            self.handle_rate_timeouts(now);
        }
    }

    /// The next thing to tell the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.failed.is_some() {
            return None;
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let alarms = self.streams.iter().filter_map(|stream| stream.recovery.alarm());
        let paces = self.pace_timeout().filter(|_| self.stage == Stage::Joined);
        let look = self.look_timeout();
        let others = [deadline, self.joining_timeout(), self.failover_timeout(), paces, look];
        alarms.chain(others.into_iter().flatten()).min()
    }

    /// Counters by name, for people and metrics.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.counters.list().into_iter();
        let quorum = self.quorum.iter().flat_map(Quorum::counters);
        counters.chain(self.rate_counters()).chain(quorum).collect()
    }

    /// Whether the result of a position has not come yet.
    ///
    /// # Panics
    /// If `sub_model` is not in the plan.
    #[must_use]
    pub fn needs(&self, sub_model: wiresum_wire::SubModelId, position: FragmentId) -> bool {
        let stream = self.streams.iter().find(|s| s.sub_model == sub_model).expect("in the plan");
        position.since(stream.recovery.next()) >= 0 || stream.recovery.is_pending(position)
    }

    /// Positions sent in each stream.
    #[must_use]
    pub fn streams_sent(&self) -> Vec<u32> {
        self.streams.iter().map(|stream| stream.recovery.next().0).collect()
    }

    /// Gives positions to the values of every round whose turn it is, and ends the rounds that are done.
    pub(crate) fn advance(&mut self) {
        while self.placed < self.rounds.len() && self.is_next_decided() {
            let round = &self.rounds[self.placed];
            if round.forecast().is_some() || round.phase == Phase::Agreed {
                let parts = round.layout.split(&self.shares);
                for (stream, part) in self.streams[1..].iter_mut().zip(parts) {
                    stream.allocate(round.round, part);
                }
            }
            self.placed += 1;
        }
        self.count_votes();
        while let Some(Phase::Ended(outcome)) = self.rounds.front().map(|r| r.phase.clone()) {
            match outcome {
                Err(failure) if !failure.spares_the_job() => return self.fail(failure),
                outcome => self.finish(outcome),
            }
        }
    }

    /// Whether the first round without positions gets them now, or needs none: its exponents are forecast, or the preamble is complete.
    fn is_next_decided(&mut self) -> bool {
        let (before, rest) = self.rounds.make_contiguous().split_at_mut(self.placed);
        let round = &mut rest[0];
        let is_mismatch =
            |round: &OpenRound| matches!(round.phase, Phase::Ended(Err(Failure::Mismatch { .. })));
        if is_mismatch(round) || round.layout.fragments() == 0 && round.phase == Phase::Preamble {
            return false;
        }
        let shape = round.shape();
        if self.forecaster.learns() {
            for earlier in before.iter_mut().filter(|earlier| earlier.shape() == shape) {
                if earlier.phase == Phase::Preamble {
                    return false;
                }
                earlier.teach(&mut self.forecaster);
            }
        }
        if let Some(forecast) = self.forecaster.forecast(shape, round.layout.fragments()) {
            round.adopt(forecast);
            return true;
        }
        round.phase != Phase::Preamble
    }

    /// Ends the oldest round.
    pub(crate) fn finish(&mut self, outcome: Result<(), Failure>) {
        let Some(mut open) = self.rounds.pop_front() else { return };
        self.placed = self.placed.saturating_sub(1);
        self.counted = self.counted.saturating_sub(1);
        self.deadlines.remove(&(open.deadline, open.round));
        self.streams.iter_mut().for_each(|stream| stream.release(open.round));
        open.teach(&mut self.forecaster);
        match &mut self.quorum {
            Some(quorum) if open.is_unclaimed() => quorum.keep(open, outcome),
            _ => self.tell(open, outcome),
        }
    }

    /// Tells the owner how a round ended.
    pub(crate) fn tell(&mut self, open: OpenRound, outcome: Result<(), Failure>) {
        let (round, participation) = (open.round, open.participation());
        let buffer = open.buffer;
        self.events.push_back(Event::Finished { round, buffer, outcome, participation });
    }

    /// Ends the job: every open round, and every later one, fails with this reason.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.rounds.is_empty() {
            let buffer = Box::new(Nothing);
            let outcome = Err(failure.clone());
            let participation = Participation { ranks: 0, is_own_in: false };
            self.events.push_back(Event::Finished {
                round: Round(0),
                buffer,
                outcome,
                participation,
            });
        }
        self.fail_open(failure);
    }

    pub(crate) fn fail_open(&mut self, failure: Failure) {
        while !self.rounds.is_empty() {
            self.finish(Err(failure.clone()));
        }
        self.failed = Some(failure);
    }
}
