//! A worker's side of one stream: what it may send, to which slot, and what it sends again.
//!
//! It knows positions, not values: whoever drives it lays a position's values (and exponent, if not 0) into the packet that
//! [`Worker::poll_transmit`] returns ([`Packet::carrying`]), and takes a result's when [`Worker::handle`] says that it is fresh. Order of polling: after each call of
//! [`Worker::begin`] or a `handle`, drain `poll_transmit`, then ask `poll_timeout`.
//!
//! Recovery goes by results, as in the papers: what was overtaken is sent again, and what nothing is heard of for a timeout.

mod addressing;
mod delay;
mod sending;
mod window;

use std::collections::VecDeque;

use wiresum_protocol::Time;
use wiresum_protocol::recovery::{Flight, Queue, Rtt};
use wiresum_wire::{Flags, FragmentId, Kind, Round};

use crate::{Contributors, MAX_WINDOW, Packet, policy};

use delay::Delay;

pub use addressing::Addressing;
pub use sending::{Received, Rules, WorkerCounters};
pub use window::Window;
pub use wiresum_plan::Sending;

/// More than this part of what is under way, found lost at once, is what a queue had no room for, however little is known of delays.
const BURST_SHARE: u32 = 4;

/// A worker's side of one stream, in positions; values are its driver's.
pub struct Worker {
    sending: Sending,
    rules: Rules,
    /// Positions sent and not done. Unreported: on their way; reported: off it, waiting to be sent again.
    flight: Flight,
    /// How many of them are on their way.
    under_way: u32,
    delay: Delay,
    /// Lowest position that is not done.
    oldest: FragmentId,
    /// The next one to be sent for the first time.
    next: FragmentId,
    /// Ends of the rounds that have begun and are not done.
    rounds: VecDeque<(FragmentId, Round)>,
    begun: u32,
    again: VecDeque<FragmentId>,
    refused: Vec<FragmentId>,
    /// Transmissions so far.
    ordinal: u32,
    /// Highest ordinal of a transmission whose result has come.
    answered: u32,
    rtt: Rtt,
    alarm: Option<Time>,
    /// Positions that the next deadline sends again.
    burst: u32,
    counters: WorkerCounters,
}

impl Worker {
    /// A worker that has sent nothing; its first position is 0.
    ///
    /// # Panics
    /// As [`Self::starting_at`].
    #[must_use]
    pub fn new(sending: Sending) -> Self {
        Self::starting_at(sending, FragmentId(0))
    }

    /// A worker of a stream of which all positions before `first` are done.
    ///
    /// # Panics
    /// If the window is 0 or above [`MAX_WINDOW`], or there is no slot: bugs of the plan's validator.
    #[must_use]
    pub fn starting_at(sending: Sending, first: FragmentId) -> Self {
        assert!((1..=MAX_WINDOW).contains(&sending.window), "a window of {}", sending.window);
        assert!(sending.slots > 0, "no slots");
        let rules = policy::sender(sending.policy, &sending);
        Self {
            flight: Flight::new(rules.window.most().next_power_of_two()),
            under_way: 0,
            delay: Delay::default(),
            rtt: Rtt::fixed(sending.timeout),
            sending,
            rules,
            oldest: first,
            next: first,
            rounds: VecDeque::new(),
            begun: 0,
            again: VecDeque::new(),
            refused: Vec::new(),
            ordinal: 0,
            answered: 0,
            alarm: None,
            burst: 1,
            counters: WorkerCounters::default(),
        }
    }

    /// A collective of so many fragments has begun: they follow those of the one before.
    pub fn begin(&mut self, fragments: u32) {
        let end = self.end().plus(fragments);
        self.rounds.push_back((end, Round(self.begun)));
        self.begun = self.begun.wrapping_add(1);
    }

    /// Whether every fragment that was begun has its result.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.oldest == self.end()
    }

    /// The lowest position without a result.
    #[must_use]
    pub fn oldest(&self) -> FragmentId {
        self.oldest
    }

    /// The position that is sent next for the first time.
    #[must_use]
    pub fn next(&self) -> FragmentId {
        self.next
    }

    /// Fragments that may be on their way now.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.rules.window.size()
    }

    /// What it has counted.
    #[must_use]
    pub fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.alarm
    }

    /// The next packet to send, without its values; `None` if nothing may be sent now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Packet<()>> {
        if self.under_way >= self.rules.window.size() {
            return None;
        }
        let (position, is_resent) = match self.next_again() {
            Some(position) => (position, true),
            None => (self.next_new()?, false),
        };
        let packet = self.packet(position, is_resent);
        self.ordinal = self.ordinal.wrapping_add(1);
        self.flight.note_sent(position, self.ordinal);
        self.under_way += 1;
        self.delay.note_sent(position, is_resent, now);
        self.counters.sent += 1;
        self.counters.resent += u64::from(is_resent);
        if self.alarm.is_none() {
            self.alarm = Some(now.plus(self.rtt.patience()));
        }
        Some(packet)
    }

    /// A packet from above.
    pub fn handle<V>(&mut self, packet: &Packet<V>, now: Time) -> Received {
        let stream = (self.sending.job, self.sending.sub_model);
        if packet.kind != Kind::Result || (packet.job, packet.sub_model) != stream {
            return Received::Foreign;
        }
        let position = packet.fragment;
        if !self.is_pending(position) {
            return Received::Duplicate;
        }
        if packet.flags.contains(Flags::ECN) {
            self.counters.marked += 1;
            self.rules.window.heed_mark(position, self.next);
        }
        if packet.flags.contains(Flags::REFUSED) {
            self.set_aside(position);
            self.refused.push(position);
            return Received::Refused;
        }
        self.complete(position, packet.flags, now);
        Received::Fresh
    }

    /// Nothing could be sent for a while, so that nothing says of what is under way that it is lost.
    pub fn resume(&mut self, now: Time) {
        self.rtt.reset();
        self.burst = 1;
        self.alarm = self.alarm.map(|_| now.plus(self.rtt.patience()));
    }

    /// Sends the oldest positions again if their deadline has passed: one, and twice as many each time in a row.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.alarm.is_none_or(|alarm| now < alarm) {
            return;
        }
        self.counters.timeouts += 1;
        self.rtt.back_off();
        self.alarm = Some(now.plus(self.rtt.patience()));
        let span = self.next.since(self.oldest) as u32;
        let pending = (0..span).map(|i| self.oldest.plus(i)).filter(|&p| self.is_pending(p));
        let due: Vec<FragmentId> = pending.take(self.burst as usize).collect();
        self.burst = (2 * self.burst).min(self.rules.window.most());
        due.into_iter().for_each(|position| self.lose(position));
    }

    /// End of the positions that rounds have.
    #[must_use]
    pub fn end(&self) -> FragmentId {
        self.rounds.back().map_or(self.next, |&(end, _)| end)
    }

    /// Whether a position was sent and has no result.
    #[must_use]
    pub fn is_pending(&self, position: FragmentId) -> bool {
        position.since(self.oldest) >= 0
            && position.since(self.next) < 0
            && !self.flight.is_done(position)
    }

    fn next_again(&mut self) -> Option<FragmentId> {
        while let Some(position) = self.again.pop_front() {
            if !self.is_due_again(position) {
                continue;
            }
            if !self.is_early(position) {
                return Some(position);
            }
            self.refused.push(position);
        }
        None
    }

    fn is_due_again(&mut self, position: FragmentId) -> bool {
        self.is_pending(position)
            && self.flight.get(position).is_some_and(|record| record.is_due_again == 1)
    }

    fn next_new(&mut self) -> Option<FragmentId> {
        let position = self.next;
        let in_flight = position.since(self.oldest) as u32;
        if position == self.end() || in_flight >= self.rules.window.size() {
            return None;
        }
        self.next = position.plus(1);
        Some(position)
    }

    fn packet(&self, position: FragmentId, is_resent: bool) -> Packet<()> {
        let sending = &self.sending;
        let resent = if is_resent { Flags::RETRANSMISSION } else { Flags(0) };
        let early = if self.is_early(position) { Flags::EARLY } else { Flags(0) };
        Packet {
            contributors: Contributors::one(sending.worker),
            fragment: position,
            round: self.round(position),
            slot: self.rules.addressing.slot(position),
            job: sending.job,
            sub_model: sending.sub_model,
            node: sending.node,
            flags: resent.with(early),
            kind: Kind::Contribution,
            worker: sending.worker,
            expected: sending.workers,
            priority: sending.priority,
            exponent: 0,
            values: (),
        }
    }

    fn round(&self, position: FragmentId) -> Round {
        let is_within = |&&(end, _): &&(FragmentId, Round)| position.since(end) < 0;
        self.rounds.iter().find(is_within).map_or(Round(0), |&(_, round)| round)
    }

    /// Whether an older position in the same slot has no result.
    fn is_early(&self, position: FragmentId) -> bool {
        if !self.rules.is_slot_bound {
            return false;
        }
        let slot = |position| self.rules.addressing.slot(position);
        let older = (0..position.since(self.oldest) as u32).map(|i| self.oldest.plus(i));
        older.into_iter().any(|p| self.is_pending(p) && slot(p) == slot(position))
    }

    fn complete(&mut self, position: FragmentId, flags: Flags, now: Time) {
        let record = self.flight.get(position).copied();
        self.take_off(position);
        self.flight.remove(position);
        self.delay.note_result(position, now);
        while self.oldest != self.next && self.flight.is_done(self.oldest) {
            self.oldest = self.oldest.plus(1);
        }
        while self.rounds.len() > 1 && self.rounds[0].0.since(self.oldest) <= 0 {
            self.rounds.pop_front();
        }
        if flags.contains(Flags::COLLISION) && self.rules.addressing.rehash(position) {
            self.counters.rehashed += 1;
        }
        self.counters.results += 1;
        self.rules.window.grow();
        self.rtt.reset();
        self.alarm = (self.oldest != self.next).then(|| now.plus(self.rtt.patience()));
        if let Some(record) = record.filter(|record| record.repetitions == 0) {
            self.burst = 1;
            self.note_answer(record.mark);
        }
        self.reconsider_refused();
    }

    /// The transmission with this ordinal has its result: what was sent well before it is lost. A repetition tells nothing, as its
    /// result may be the original's.
    fn note_answer(&mut self, ordinal: u32) {
        if ordinal.wrapping_sub(self.answered) as i32 > 0 {
            self.answered = ordinal;
        }
        let under_way = self.under_way;
        while let Some((position, record)) = self.flight.first(Queue::Unreported, self.oldest) {
            if (self.answered.wrapping_sub(record.mark) as i32) < self.rules.reordering as i32 {
                break;
            }
            self.lose(position);
        }
        if self.rules.is_ordered && (under_way - self.under_way) * BURST_SHARE > under_way {
            // And for one of those that were, or nothing would be sent until news of the others comes.
            self.rules.window.keep(self.under_way + 1);
        }
    }

    /// A position is lost: it is sent again, and if a queue stands, that one is taken to have overflowed.
    fn lose(&mut self, position: FragmentId) {
        if self.rules.is_ordered && self.delay.is_standing() {
            self.rules.window.heed_loss(position, self.next);
        }
        self.set_aside(position);
        self.again.push_back(position);
    }

    fn take_off(&mut self, position: FragmentId) {
        self.under_way -= u32::from(self.flight.queue_of(position) == Some(Queue::Unreported));
    }

    /// Takes a position off its way until it is sent again.
    fn set_aside(&mut self, position: FragmentId) {
        self.take_off(position);
        if let Some(record) = self.flight.get(position) {
            record.is_due_again = 1;
            let mark = record.mark;
            self.flight.enqueue(position, Queue::Reported, mark);
        }
    }

    fn reconsider_refused(&mut self) {
        for position in std::mem::take(&mut self.refused) {
            if !self.is_due_again(position) {
                continue;
            }
            if self.is_early(position) {
                self.refused.push(position);
            } else {
                self.again.push_back(position);
            }
        }
    }
}
