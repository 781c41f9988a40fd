//! Rounds that go on without a worker that is late (GOAT §V; `spec/aggregation.md`, *Late workers*).
//!
//! A worker whose owner has not submitted the next collective looks at its node. When enough of the node's children are in, it takes part
//! with nothing: it leaves its lanes of the preamble unset and sends zeros. It decides so by itself, once for a round, and
//! says it in the preamble, so there is nothing to agree on; to nodes such a round is like any other. The results wait here for the owner.

use std::collections::VecDeque;
use std::time::Duration;

use wiresum_wire::control::{status, word};
use wiresum_wire::{FragmentId, Packet, Round};

use super::layout::Layout;
use super::round::OpenRound;
use super::{Failure, Worker};
use crate::Buffer;
use crate::stream::asked::join::Stage;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::plan::{Role, Rounds};
use wiresum_protocol::recovery::PULSE;
use wiresum_protocol::{Plan, Time};

/// Between two looks at the node: 550 bytes each on the wire, 2.2 Mbit/s, and what a round may take longer.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Echo of a look. Pulses have the bit too, but there are none in the exponents' stream.
const LOOK: u32 = PULSE;

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
pub(crate) struct Kept {
    /// Elements and signature, once the preamble has said them.
    pub shape: Option<(usize, i32)>,
    /// Fragment, exponent, lanes.
    pub fragments: Vec<(u32, i8, Vec<u8>)>,
}

impl Kept {
    /// Gives what there is to its owner.
    pub fn decode_into(self, layout: Layout, buffer: &mut dyn Buffer) {
        for (fragment, exponent, lanes) in self.fragments {
            buffer.decode(layout.range(fragment), exponent, &lanes);
        }
    }
}

/// A round that was over before its owner came.
struct Missed {
    open: OpenRound,
    outcome: Result<(), Failure>,
}

/// What a worker knows of the rounds that go on without it.
pub(crate) struct Quorum {
    most_missed: u16,
    /// Children that a round takes at least at this worker's node in the exponents' tree.
    awaited: u32,
    /// Bits of that node's children.
    children: u64,
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
    /// For worker `rank`; `None` if every round takes all.
    pub fn new(plan: &Plan, rank: u32) -> Option<Self> {
        let rounds: &Rounds = plan.job.rounds.as_ref()?;
        let tree = plan.sub_models.iter().find(|s| s.role == Role::Exponents)?;
        let (node, _) = tree.parent_of(wiresum_protocol::plan::Child::Worker(rank))?;
        let fan_in = tree.place(node)?.children.len() as u32;
        let count = rounds.counts.iter().find(|count| count.node == node.0);
        Some(Self {
            most_missed: rounds.most_missed,
            awaited: count.map_or(fan_in, |count| count.k.into()),
            children: u64::MAX >> (u64::BITS - fan_in),
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

impl Worker {
    /// From now on rounds take this many of the children of this worker's node, at least; at most all. It matters to this worker alone, so
    /// workers need not agree. Nothing happens where the plan says that rounds take everyone.
    pub fn await_children(&mut self, k: u32) {
        if let Some(quorum) = &mut self.quorum {
            quorum.awaited = k.clamp(1, quorum.children.count_ones());
        }
    }

    /// Whether the next round is under way, or over, without its owner.
    pub(crate) fn is_behind(&self) -> bool {
        self.quorum.as_ref().is_some_and(|quorum| quorum.unclaimed > 0)
    }

    /// Hands the oldest unclaimed round to its owner.
    pub(crate) fn claim(&mut self, buffer: Box<dyn Buffer>, deadline: Time) -> Round {
        let quorum = self.quorum.as_mut().expect("only such jobs have unclaimed rounds");
        let round = Round(self.next_round.0.wrapping_sub(quorum.unclaimed));
        quorum.unclaimed -= 1;
        match quorum.over.pop_front() {
            Some(missed) => self.settle(missed, buffer),
            None => self.hand_over(round, buffer, deadline),
        }
        round
    }

    /// Ends a round that was over before its owner came.
    fn settle(&mut self, missed: Missed, buffer: Box<dyn Buffer>) {
        let Missed { mut open, outcome } = missed;
        match open.hand_over(buffer) {
            Ok(()) => self.tell(open, outcome),
            Err(failure) => {
                self.tell(open, Err(failure.clone()));
                self.fail_open(failure);
            }
        }
    }

    fn hand_over(&mut self, round: Round, buffer: Box<dyn Buffer>, deadline: Time) {
        let first = self.rounds.front().map_or(round, |open| open.round);
        let open = &mut self.rounds[round.0.wrapping_sub(first.0) as usize];
        open.deadline = deadline;
        self.deadlines.insert((deadline, round));
        if let Err(failure) = open.hand_over(buffer) {
            return self.fail(failure);
        }
        self.extend_preamble(round);
        self.advance();
    }

    /// Gives positions to the rest of a preamble whose length was not known.
    pub(crate) fn extend_preamble(&mut self, round: Round) {
        let Some(open) = self.rounds.back_mut().filter(|open| open.round == round) else { return };
        let rest = open.rest_of_preamble();
        self.streams[0].allocate(round, rest);
    }

    /// The first round whose preamble has not all its positions.
    pub(crate) fn first_unallotted(&self) -> Round {
        let last = self.rounds.back().filter(|open| !open.has_shape());
        last.map_or(self.next_round, |open| open.round)
    }

    /// Whether this worker would go on without its owner.
    fn is_looking(&self) -> bool {
        let is_settled = self.stage == Stage::Joined && self.failed.is_none() && !self.is_away;
        let may_miss = |quorum: &Quorum| {
            let is_partial = quorum.awaited < quorum.children.count_ones();
            is_partial && quorum.missed_in_a_row < quorum.most_missed
        };
        is_settled
            && self.first_unallotted() == self.next_round
            && self.quorum.as_ref().is_some_and(may_miss)
    }

    /// When the next look is due.
    pub(crate) fn look_timeout(&self) -> Option<Time> {
        if self.is_looking() { self.quorum.as_ref().map(|quorum| quorum.look_at) } else { None }
    }

    /// Asks the node who is in the next round, if that is due.
    pub(crate) fn transmit_look(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let is_due = self.look_timeout().is_some_and(|at| at <= now);
        let quorum = self.quorum.as_mut().filter(|_| is_due)?;
        quorum.look_at = now.plus(LOOK_INTERVAL);
        let next = self.streams[0].limit();
        self.counters.probes += 1;
        let len = self.write_question(0, next, LOOK, buffer);
        Some(Transmit { destination: self.streams[0].address, len })
    }

    /// Takes the answer to a look. Whether it was one.
    pub(crate) fn handle_look(&mut self, index: usize, packet: &Packet, now: Time) -> bool {
        if index != 0 || word(packet.payload, status::ECHO_WORD) != LOOK {
            return false;
        }
        let is_next = FragmentId(packet.header.fragment.get()) == self.streams[0].limit();
        let bits = |i| u64::from(word(packet.payload, status::CONTRIBUTORS_WORD + i));
        let present = bits(0) << 32 | bits(1);
        let is_enough =
            self.quorum.as_ref().is_some_and(|q| (present & q.children).count_ones() >= q.awaited);
        if is_next && is_enough && self.is_looking() {
            self.miss(now);
        }
        true
    }

    /// Opens the next round without its owner.
    fn miss(&mut self, now: Time) {
        let Some(quorum) = &mut self.quorum else { return };
        (quorum.missed_in_a_row, quorum.unclaimed) =
            (quorum.missed_in_a_row + 1, quorum.unclaimed + 1);
        quorum.missed_ever += 1;
        quorum.look_at = now;
        let round = self.next_round;
        self.next_round = Round(round.0.wrapping_add(1));
        let open = OpenRound::missed(round, self.format, now);
        self.streams[0].allocate(round, 0..open.preamble_fragments());
        self.rounds.push_back(open);
        self.advance();
    }

    /// The owner is in time.
    pub(crate) fn note_presence(&mut self) {
        if let Some(quorum) = &mut self.quorum {
            quorum.missed_in_a_row = 0;
        }
    }
}
