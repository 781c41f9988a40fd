//! Rounds that go on without a worker that is late (GOAT §V; `spec/session.md`, *Late workers*).
//!
//! A worker whose owner has not submitted the next collective looks at its node. When enough of the node's children
//! are in, it takes part with nothing: it leaves its lanes of the preamble unset and sends zeros. It decides so by
//! itself, once for a round, and says it in the preamble, so there is nothing to agree on; to nodes such a round is
//! like any other. The results wait here for the owner.

use std::collections::VecDeque;
use std::time::Duration;

use wiresum_protocol::plan::Rounds as Rules;
use wiresum_protocol::{Plan, Time, Transmit};
use wiresum_wire::{NodeId, Round};

use super::round::OpenRound;
use super::shape::Shape;
use super::{Failure, Session};
use crate::Collective;

/// Between two looks at the node: 550 bytes each on the wire at a server, 2.2 Mbit/s, and what a round may take
/// longer.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Who took part in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participation {
    /// Ranks whose values are in the sum.
    pub ranks: u32,
    /// This one's are.
    pub is_own_in: bool,
}

/// Results of a round that nobody here has submitted yet, and of what shape they are.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Once the preamble has said it.
    pub shape: Option<Shape>,
    /// Fragment, exponent, lanes.
    pub fragments: Vec<(u32, i8, Vec<u8>)>,
}

/// A round that was over before its owner came.
struct Missed {
    open: OpenRound,
    outcome: Result<(), Failure>,
}

/// What a worker knows of the rounds that go on without it.
pub(super) struct Quorum {
    most_missed: u16,
    /// Members that a round takes at least at the node that knows who is in.
    awaited: u32,
    /// Members of that node.
    members: u32,
    /// Rounds in a row that this worker has missed.
    missed_in_a_row: u16,
    /// Rounds opened here that the owner has not submitted, whether they are over or not.
    unclaimed: u32,
    /// Those that are over, oldest first.
    over: VecDeque<Missed>,
    look_at: Time,
    missed_ever: u64,
}

impl Quorum {
    /// The rules of a plan, where `gathering` is the node that knows who is in, and how many members it awaits;
    /// `None` if every round takes all.
    pub fn new(plan: &Plan, gathering: (NodeId, u32)) -> Option<Self> {
        let rules: &Rules = plan.job.rounds.as_ref()?;
        let (node, members) = gathering;
        let count = rules.counts.iter().find(|count| count.node == node.0);
        Some(Self {
            most_missed: rules.most_missed,
            awaited: count.map_or(members, |count| count.k.into()),
            members,
            missed_in_a_row: 0,
            unclaimed: 0,
            over: VecDeque::new(),
            look_at: Time::default(),
            missed_ever: 0,
        })
    }

    /// Keeps a round that nobody has submitted.
    pub fn keep(&mut self, open: OpenRound, outcome: Result<(), Failure>) {
        self.over.push_back(Missed { open, outcome });
    }

    /// Counters by name, for people and metrics.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [("rounds_missed", self.missed_ever), ("rounds_ahead", self.unclaimed.into())]
    }
}

impl Session {
    /// From now on rounds take this many of the members of the node that knows who is in, at least; at most all: the
    /// children of this worker's node, or, where switches sum, the job's workers. It matters to this worker alone, so
    /// workers need not agree. Nothing happens where the plan says that rounds take everyone.
    pub fn await_members(&mut self, k: u32) {
        if let Some(quorum) = &mut self.quorum {
            quorum.awaited = k.clamp(1, quorum.members);
        }
    }

    /// Whether the next round is under way, or over, without its owner.
    pub(super) fn is_behind(&self) -> bool {
        self.quorum.as_ref().is_some_and(|quorum| quorum.unclaimed > 0)
    }

    /// Hands the oldest unclaimed round to its owner.
    pub(super) fn claim(&mut self, collective: Collective, deadline: Time) -> Round {
        let quorum = self.quorum.as_mut().expect("only such jobs have unclaimed rounds");
        let round = Round(self.rounds.next().0.wrapping_sub(quorum.unclaimed));
        quorum.unclaimed -= 1;
        match quorum.over.pop_front() {
            Some(missed) => self.settle(missed, collective),
            None => self.hand_over(round, collective, deadline),
        }
        round
    }

    /// Ends a round that was over before its owner came.
    fn settle(&mut self, missed: Missed, collective: Collective) {
        let Missed { mut open, outcome } = missed;
        match open.hand_over(collective) {
            Ok(()) => self.tell_end(open, outcome),
            Err(failure) => {
                self.tell_end(open, Err(failure.clone()));
                self.fail_open(failure);
            }
        }
    }

    fn hand_over(&mut self, round: Round, collective: Collective, deadline: Time) {
        let open = self.rounds.get_mut(round).expect("a round that is not over is open");
        open.deadline = deadline;
        let handed_over = open.hand_over(collective);
        self.deadlines.insert((deadline, round));
        if let Err(failure) = handed_over {
            return self.fail(failure);
        }
        self.rounds.extend_preamble(round);
        self.advance();
    }

    /// Whether this worker would go on without its owner.
    fn is_looking(&self) -> bool {
        let may_miss = |quorum: &Quorum| {
            let is_partial = quorum.awaited < quorum.members;
            is_partial && quorum.missed_in_a_row < quorum.most_missed
        };
        self.quorum.as_ref().is_some_and(may_miss)
            && self.has_joined
            && self.failed.is_none()
            && self.rounds.first_unallotted() == self.rounds.next()
    }

    /// When the next look is due.
    pub(super) fn look_timeout(&self) -> Option<Time> {
        if self.is_looking() { self.quorum.as_ref().map(|quorum| quorum.look_at) } else { None }
    }

    /// Asks who is in the next round, if that is due.
    pub(super) fn transmit_look(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        self.look_timeout().filter(|at| *at <= now)?;
        self.quorum.as_mut()?.look_at = now.plus(LOOK_INTERVAL);
        self.streams.ask_who_is_in(self.rounds.positions(0).limit(), now, buffer)
    }

    /// Opens the next round without its owner, if enough others are in.
    pub(super) fn look_who_is_in(&mut self, now: Time) {
        let Some(quorum) = &self.quorum else { return };
        let present = self.streams.count_who_is_in(self.rounds.positions(0).limit());
        let is_enough = present >= quorum.awaited;
        if is_enough && self.is_looking() {
            self.miss(now);
        }
    }

    fn miss(&mut self, now: Time) {
        let Some(quorum) = &mut self.quorum else { return };
        (quorum.missed_in_a_row, quorum.unclaimed) =
            (quorum.missed_in_a_row + 1, quorum.unclaimed + 1);
        quorum.missed_ever += 1;
        quorum.look_at = now;
        let round = self.rounds.take_number();
        self.rounds.open(OpenRound::missed(round, self.rounds.format, now));
        self.advance();
    }

    /// The owner is in time.
    pub(super) fn note_presence(&mut self) {
        if let Some(quorum) = &mut self.quorum {
            quorum.missed_in_a_row = 0;
        }
    }
}
