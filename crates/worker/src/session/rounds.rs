//! The open rounds, as streams see them: what to send at a position, and what to do with its result.

use std::collections::VecDeque;
use std::sync::Arc;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::Role;
use wiresum_protocol::recovery::Duty;
use wiresum_wire::control::Absent;
use wiresum_wire::{BLOCK_LEN, Exchange, Flags, FragmentId, Round};

use super::Event;
use super::failure::Failure;
use super::forecast::Forecaster;
use super::format::Format;
use super::layout::split;
use super::ordered;
use super::positions::Positions;
use super::round::{Dealt, OpenRound, Phase};
use super::sealing::{Sealing, Seals};
use crate::Members;

/// The payload of a contribution, and what its header has to say of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub round: Round,
    pub exponent: i8,
    pub exchange: Exchange,
    /// How its lanes are read and combined.
    pub format: Flags,
    /// Bytes of the lanes, and their sum.
    pub len: usize,
    pub lane_sum: u32,
}

impl Written {
    /// What a position looks like that all give and take, without a scale.
    fn for_all(round: Round, format: Flags, len: usize) -> Self {
        Self { round, exponent: 0, exchange: Exchange::ALL, format, len, lane_sum: 0 }
    }
}

/// A result, and what its header says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub round: Round,
    pub exponent: i8,
    pub exchange: Exchange,
    pub flags: Flags,
    pub payload: &'a [u8],
}

impl Arrived<'_> {
    /// Whether it is the result of what this worker has written.
    fn answers(&self, written: &Written) -> bool {
        self.round == written.round
            && self.exponent == written.exponent
            && self.exchange == written.exchange
            && self.flags.only(Flags::FORMAT) == written.format
            && self.payload.len() == written.len
    }
}

/// What open rounds still wait for: the oldest of them, and value fragments without a result of all.
pub(super) type Left = (Round, u64);

/// Stream 0 carries the agreement, the others values or barriers.
pub(crate) struct Rounds {
    /// What each stream carries, and which share of that.
    roles: Vec<(Role, f64)>,
    pub format: Format,
    /// Where sums are sealed.
    sealing: Option<Arc<Sealing>>,
    /// Rounds that were ever opened, in the order of all ranks.
    opened: u64,
    forecaster: Forecaster,
    /// Oldest first.
    open: VecDeque<OpenRound>,
    /// Rounds at the front that own positions for their values, or need none.
    placed: usize,
    /// The next to be opened.
    next: Round,
    /// By stream.
    positions: Vec<Positions>,
    /// Rounds whose shares have come while earlier ones are open.
    early: VecDeque<Round>,
    /// What the owner is to be told.
    pub events: VecDeque<Event>,
}

impl Rounds {
    /// No round is open; the streams' first position is `first`.
    pub fn new(plan: &Plan, rank: u32, incarnation: u64, first: FragmentId) -> Self {
        let format = Format::new(plan, rank);
        Self {
            sealing: Sealing::of(plan, format, incarnation),
            opened: 0,
            format,
            positions: vec![Positions::starting_at(first); plan.streams.len()],
            roles: ordered(plan).map(|stream| (stream.role, stream.share)).collect(),
            forecaster: Forecaster::new(plan),
            open: VecDeque::new(),
            placed: 0,
            next: Round(0),
            early: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// All rounds go on without these ranks. To be called before the first.
    pub fn go_on_without(&mut self, absent: Absent) {
        self.set_format(self.format.without(absent));
    }

    /// All rounds are of these members alone. To be called before the first.
    pub fn go_on_as(&mut self, members: Members) {
        self.set_format(self.format.of_members(members));
    }

    fn set_format(&mut self, format: Format) {
        self.format = format;
        self.sealing = self.sealing.take().map(|sealing| Arc::new(sealing.with(self.format)));
    }

    /// The number of the next round, which is taken.
    pub fn take_number(&mut self) -> Round {
        let next = Round(self.next.0.wrapping_add(1));
        std::mem::replace(&mut self.next, next)
    }

    /// The number of the next round.
    pub fn next(&self) -> Round {
        self.next
    }

    /// Adds a round; the fragments of its agreement get their positions.
    pub fn open(&mut self, mut open: OpenRound) {
        let ordinal = self.opened;
        self.opened += 1;
        open.seals = self.sealing.clone().map(|sealing| Seals::new(sealing, ordinal));
        self.positions[0].allocate(open.round, 0..open.preamble_fragments());
        if open.has_shape() && !open.is_share() {
            self.forecaster.expect(open.shape());
        }
        self.open.push_back(open);
    }

    /// The oldest round.
    pub fn oldest(&self) -> Option<&OpenRound> {
        self.open.front()
    }

    /// What is left of the open rounds; `None` if there is none.
    pub(super) fn left(&self) -> Option<Left> {
        let fragments = self.open.iter().map(|open| u64::from(open.values_left())).sum();
        Some((self.oldest()?.round, fragments))
    }

    /// The number of the oldest round; of the next one if there is none.
    pub fn current(&self) -> Round {
        self.oldest().map_or(self.next, |open| open.round)
    }

    /// An open round.
    pub fn get(&self, round: Round) -> Option<&OpenRound> {
        self.open.get(round.0.wrapping_sub(self.open.front()?.round.0) as usize)
    }

    /// An open round.
    pub fn get_mut(&mut self, round: Round) -> Option<&mut OpenRound> {
        let index = round.0.wrapping_sub(self.open.front()?.round.0) as usize;
        self.open.get_mut(index)
    }

    /// The last round whose vote is cast.
    pub fn last_voted(&self) -> Option<Round> {
        self.open.iter().rfind(|open| open.has_voted()).map(|open| open.round)
    }

    /// The first round whose values have no positions; the next one if there is none.
    pub fn first_unplaced(&self) -> Round {
        self.open.get(self.placed).map_or(self.next, |open| open.round)
    }

    /// The first round whose agreement has not all its positions; the next one if there is none.
    pub fn first_unallotted(&self) -> Round {
        let last = self.open.back().filter(|open| !open.has_shape());
        last.map_or(self.next, |open| open.round)
    }

    /// Value fragments of rounds without positions, and the first such round that has some.
    pub fn unplaced(&self) -> (u32, Option<Round>) {
        let has_values = |round: &&OpenRound| {
            round.layout.fragments() > 0 && round.course.role() == Role::Values
        };
        let mut rounds = self.open.range(self.placed.min(self.open.len())..).filter(has_values);
        let first = rounds.next();
        let count = first.into_iter().chain(rounds).map(|round| round.layout.fragments()).sum();
        (count, first.map(|round| round.round))
    }

    /// One more barrier is due in a stream of them.
    pub fn add_barrier(&mut self, stream: usize) {
        self.positions[stream].add_barrier();
    }

    /// The positions of a stream.
    pub fn positions(&self, stream: usize) -> &Positions {
        &self.positions[stream]
    }

    /// The streams that the oldest round waits for, where `oldest` is the lowest position of a stream without a
    /// result.
    pub fn awaited(&self, oldest: impl Fn(usize) -> FragmentId) -> Vec<usize> {
        let Some(round) = self.open.front() else { return Vec::new() };
        if round.phase == Phase::Preamble {
            return vec![0];
        }
        let waits =
            |stream: &usize| self.positions[*stream].round_of(oldest(*stream)) == Some(round.round);
        (1..self.positions.len()).filter(waits).collect()
    }

    /// Writes the lanes of a position. `vote` is this worker's, where the position is the first to carry one.
    pub fn write(
        &mut self,
        stream: usize,
        position: FragmentId,
        vote: i32,
        payload: &mut [u8],
    ) -> Option<Written> {
        if self.role(stream) == Role::Acknowledgements {
            payload[..BLOCK_LEN].fill(0);
            return Some(Written::for_all(Round(0), self.format.wide.flags(), BLOCK_LEN));
        }
        let (round, place) = self.positions[stream].locate(position)?;
        let blank = self.blank(stream, round, place)?;
        let (open, lanes) = (self.get_mut(round)?, &mut payload[..blank.len]);
        let lane_sum = match stream {
            0 => open.encode_preamble(place, vote, lanes),
            _ => open.encode_at(place, lanes),
        };
        Some(Written { lane_sum, ..blank })
    }

    /// What a contribution to a place, and its result, have to look like, but for their lanes.
    fn blank(&self, stream: usize, round: Round, place: u32) -> Option<Written> {
        let (open, format) = (self.get(round)?, &self.format);
        let values = || Written {
            round,
            exponent: open.exponent_at(place),
            exchange: open.course.at(place).exchange,
            format: open.flags(),
            len: open.len_at(place),
            lane_sum: 0,
        };
        let preamble = || Written::for_all(round, format.preamble_flags(), format.preamble_len());
        Some(if stream == 0 { preamble() } else { values() })
    }

    /// Writes a request for the result of a position that this worker only takes: as long as that, and zeros.
    pub fn write_request(
        &self,
        stream: usize,
        position: FragmentId,
        payload: &mut [u8],
    ) -> Option<Written> {
        let (round, place) = self.positions[stream].locate(position)?;
        let blank = self.blank(stream, round, place)?;
        payload[..blank.len].fill(0);
        Some(blank)
    }

    fn role(&self, stream: usize) -> Role {
        self.roles[stream].0
    }

    fn dealt(&self, stream: usize, position: FragmentId) -> Option<Dealt> {
        let (round, place) = self.positions[stream].locate(position)?;
        Some(self.get(round)?.course.at(place))
    }

    /// What this worker has to do at a position.
    pub fn duty(&self, stream: usize, position: FragmentId) -> Duty {
        let is_exchange = matches!(self.role(stream), Role::Parts | Role::Copies);
        let dealt = is_exchange.then(|| self.dealt(stream, position)).flatten();
        dealt.map_or(Duty::Both, |dealt| dealt.duty(self.format.seat))
    }

    /// Who gives a position: bit c is contributor c.
    pub fn givers(&self, stream: usize, position: FragmentId) -> u64 {
        let is_exchange = matches!(self.role(stream), Role::Parts | Role::Copies);
        let dealt = is_exchange.then(|| self.dealt(stream, position)).flatten();
        dealt.map_or(u64::MAX, Dealt::givers)
    }

    /// The node holds what this worker gave at a position whose result is for others.
    pub fn settle(&mut self, stream: usize, position: FragmentId) {
        let located = self.positions[stream].locate(position);
        let open = located.and_then(|(round, _)| self.get_mut(round));
        open.into_iter().for_each(OpenRound::settle);
    }

    /// Decodes the result of a position into its round, or keeps it until its exponents are agreed: whether there was
    /// room for it. `None` if it is not what this worker's contribution calls for.
    pub fn take(
        &mut self,
        stream: usize,
        position: FragmentId,
        arrived: &Arrived<'_>,
    ) -> Option<bool> {
        if self.role(stream) == Role::Acknowledgements {
            return Some(true);
        }
        let (round, place) = self.positions[stream].locate(position)?;
        if !arrived.answers(&self.blank(stream, round, place)?) {
            return None;
        }
        let rank = self.format.seat;
        let open = self.get_mut(round)?;
        // Who has sent what was final already is answered: the node holds it.
        if stream > 0 && open.course.at(place).duty(rank) == Duty::Gives {
            open.settle();
            return Some(true);
        }
        if stream > 0 {
            return Some(open.decode_at(place, arrived.payload));
        }
        open.decode_preamble(place, arrived.payload);
        if open.has_shares() {
            self.early.push_back(round);
        }
        self.extend_preamble(round);
        Some(true)
    }

    /// Gives positions to the rest of a preamble whose length was not known.
    pub fn extend_preamble(&mut self, round: Round) {
        let Some(open) = self.open.back_mut().filter(|open| open.round == round) else { return };
        let rest = open.rest_of_preamble();
        self.positions[0].allocate(round, rest);
    }

    /// Gives positions to the values of every round whose turn it is.
    pub fn place(&mut self) {
        while self.placed < self.open.len() && self.is_next_decided() {
            let round = &self.open[self.placed];
            if round.forecast().is_some() || round.phase == Phase::Agreed {
                let course = &round.course;
                self.allot(round.round, course.role(), course.fragments());
            }
            self.placed += 1;
        }
    }

    /// Gives the fragments of a round positions in the streams of its role, by their shares.
    fn allot(&mut self, round: Round, role: Role, fragments: u32) {
        let carriers = self.roles.iter().enumerate().filter(|(_, (own, _))| *own == role);
        let (streams, shares): (Vec<_>, Vec<_>) =
            carriers.map(|(stream, (_, share))| (stream, *share)).unzip();
        for (stream, part) in streams.into_iter().zip(split(fragments, &shares)) {
            self.positions[stream].allocate(round, part);
        }
    }

    /// Whether the first round without positions gets them now, or needs none: its exponents are forecast, or agreed.
    fn is_next_decided(&mut self) -> bool {
        let (before, rest) = self.open.make_contiguous().split_at_mut(self.placed);
        let round = &mut rest[0];
        let is_mismatch =
            |round: &OpenRound| matches!(round.phase, Phase::Ended(Err(Failure::Mismatch { .. })));
        if !is_mismatch(round) && round.is_share() {
            return true;
        }
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

    /// A round that has its shares while earlier ones are open, all of which ranks have agreed on: before that nobody
    /// knows whether ranks mean the same round.
    pub fn take_early(&mut self) -> Option<&mut OpenRound> {
        while let Some(round) = self.early.front().copied() {
            let before = self.open.iter().take_while(|open| open.round != round);
            match self.get(round) {
                Some(_) if before.into_iter().any(OpenRound::is_in_doubt) => return None,
                _ => self.early.pop_front(),
            };
            if self.get(round).is_some() {
                return self.get_mut(round);
            }
        }
        None
    }

    /// How the oldest round ended, if it has.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        match &self.open.front()?.phase {
            Phase::Ended(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    /// Takes the oldest round out, whether it has ended or not.
    pub fn close(&mut self) -> Option<OpenRound> {
        let mut open = self.open.pop_front()?;
        self.placed = self.placed.saturating_sub(1);
        self.positions.iter_mut().for_each(|positions| positions.release(open.round));
        open.teach(&mut self.forecaster);
        Some(open)
    }
}
