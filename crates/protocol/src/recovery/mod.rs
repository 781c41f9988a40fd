//! Recovery of a sender of contributions: when it asks the node that it sends to, and what it sends again upon the answer. The
//! recovery table of `spec/aggregation.md`.
//!
//! Asking costs little and changes nothing, so everything here may be wrong about *whether* something was lost; only a status
//! makes a sender send values again, and sending them again is harmless.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `flight` | the positions on their way |
//! | `questions` | when to ask, and about what |
//! | `asking` | the questions under way, and what an answer belongs to |
//! | `answers` | what statuses and overtaking results say |
//! | `rtt` | how long an answer takes |

mod answers;
mod asking;
mod flight;
mod questions;
mod rtt;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use wiresum_wire::FragmentId;

use crate::Time;
use crate::plan::PlanStream;
use crate::policy::{self, Acknowledgement};
pub use answers::LastStatus;
use asking::{Asking, SILENT_QUESTIONS};
pub use asking::{PULSE, Probe};
pub use flight::{Duty, Flight, Queue, Record};
pub use rtt::{MAX_TIMEOUT, Rtt};

/// Repetitions of a position that a question follows at once: enough for any loss that a link in use has. What is still missing
/// then is refused rather than lost, and is asked about only when something else is a reason to.
const FOLLOWED_REPETITIONS: u8 = 4;

/// How long a node leaves questions unanswered before it is given up, where there is another way: what a daemon on a busy host may
/// take to get its turn, and no more than a person notices. Giving up a node that lives costs bandwidth, not sums.
pub const SILENCE: Duration = Duration::from_millis(250);

/// Contributions of which it is known what became of them. Results that were lost do not count: they say nothing about the way up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Positions that the node has, each counted once.
    pub arrived: u64,
    /// Transmissions that, as statuses have shown, it has not got.
    pub lost: u64,
}

/// What a sender knows of what it has sent to one node in one sub-model.
pub struct Recovery {
    window: u32,
    /// Positions that a probe is about.
    group: u32,
    acknowledgement: Acknowledgement,
    /// Lowest position that was sent and is not done, or `next`.
    oldest: FragmentId,
    /// End of the positions that were sent.
    next: FragmentId,
    /// Sent, and not acknowledged as the policy has it.
    outstanding: u32,
    /// Positions to which nothing is contributed, and whose results are due.
    due: u32,
    /// Positions that became done by a report.
    released: VecDeque<FragmentId>,
    flight: Flight,
    again: VecDeque<FragmentId>,
    lost: u64,
    tally: Tally,
    /// Transmissions so far.
    ordinal: u32,
    /// Highest ordinal of a transmission whose result has come.
    answered_ordinal: u32,
    /// Highest position whose result has come.
    top: FragmentId,
    rtt: Rtt,
    asking: Asking,
    /// When to ask if nothing is heard.
    alarm: Option<Time>,
    last_heard: Option<Time>,
    last_status: Option<LastStatus>,
    /// Since when, and how many questions for, nothing has been heard.
    unheard: Option<(Time, u32)>,
    /// What was sent to an earlier node and has not been asked about at this one.
    unconfirmed: Range<FragmentId>,
    /// Lowest position that was sent again since the last question.
    unasked_repetition: Option<FragmentId>,
}

impl Recovery {
    /// The recovery of a sender to a sub-model's node, whose first position will be `first`.
    #[must_use]
    pub fn new(sub_model: &PlanStream, first: FragmentId) -> Self {
        Self {
            window: sub_model.window,
            group: sub_model.group_fragments(),
            acknowledgement: policy::of(sub_model.policy).acknowledgement(),
            oldest: first,
            next: first,
            outstanding: 0,
            due: 0,
            released: VecDeque::new(),
            flight: Flight::new(sub_model.most_begun()),
            again: VecDeque::new(),
            lost: 0,
            tally: Tally::default(),
            ordinal: 0,
            answered_ordinal: 0,
            top: first.plus(u32::MAX),
            rtt: Rtt::default(),
            asking: Asking::default(),
            alarm: None,
            last_heard: None,
            last_status: None,
            unheard: None,
            unconfirmed: first..first,
            unasked_repetition: None,
        }
    }

    /// Lowest position that was sent and is not done; the next one to send if there is none.
    #[must_use]
    pub fn oldest(&self) -> FragmentId {
        self.oldest
    }

    /// End of the positions that were sent.
    #[must_use]
    pub fn next(&self) -> FragmentId {
        self.next
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn alarm(&self) -> Option<Time> {
        self.alarm.into_iter().chain(self.asking.lost_at(self.rtt.timeout())).min()
    }

    /// When something last came from the node.
    #[must_use]
    pub fn last_heard(&self) -> Option<Time> {
        self.last_heard
    }

    /// What the node said last.
    #[must_use]
    pub fn last_status(&self) -> Option<LastStatus> {
        self.last_status
    }

    /// Positions sent that no one has acknowledged, as the policy has it.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Positions to which this sender contributes nothing, and whose results are due.
    #[must_use]
    pub fn due(&self) -> u32 {
        self.due
    }

    /// Whether some position was sent and is not done.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.oldest != self.next
    }

    /// Whether a position was sent and has no result.
    #[must_use]
    pub fn is_pending(&self, position: FragmentId) -> bool {
        position.since(self.oldest) >= 0
            && position.since(self.next) < 0
            && !self.flight.is_done(position)
    }

    /// Whether the node leaves question after question unanswered.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.asking.is_ignored()
    }

    /// A position is sent, for the first time or again: in any order, but all that are not done within one slot count.
    pub fn note_sent(&mut self, position: FragmentId, now: Time) {
        self.note_begun(position);
        self.ordinal = self.ordinal.wrapping_add(1);
        let repetitions = self.flight.note_sent(position, self.ordinal);
        if (1..=FOLLOWED_REPETITIONS).contains(&repetitions) {
            let first = self.unasked_repetition.filter(|first| position.since(*first) >= 0);
            self.unasked_repetition = first.or(Some(position));
        }
        if let Some(record) = self.flight.get(position).filter(|record| record.held == 0) {
            self.outstanding += u32::from(record.is_counted == 0);
            record.is_counted = 1;
        }
        self.watch(now);
    }

    /// A position is sent for the first time, and its result is for others: it is done when the node holds it.
    pub fn note_given(&mut self, position: FragmentId, now: Time) {
        self.note_sent(position, now);
        if let Some(record) = self.flight.get(position) {
            record.duty = Duty::Gives as u8;
        }
    }

    /// The result of a position is due, to which only others contribute.
    pub fn note_due(&mut self, position: FragmentId, now: Time) {
        self.note_begun(position);
        self.due += 1;
        self.flight.enqueue(position, Queue::Reported, self.top.0);
        if let Some(record) = self.flight.get(position) {
            (record.duty, record.held) = (Duty::Takes as u8, 1);
        }
        self.watch(now);
    }

    /// The next position is others' business: it counts as sent, and as done.
    pub fn note_passed(&mut self) {
        let is_idle = !self.is_busy();
        self.next = self.next.plus(1);
        if is_idle {
            self.oldest = self.next;
        }
        self.skip_ahead();
    }

    fn note_begun(&mut self, position: FragmentId) {
        if !self.is_busy() || position.since(self.oldest) < 0 {
            self.oldest = position;
        }
        if position.since(self.next) >= 0 {
            self.next = position.plus(1);
            self.skip_ahead();
        }
    }

    /// Positions whose results came before their turn are done when it comes.
    fn skip_ahead(&mut self) {
        while self.flight.take_ahead(self.next) {
            let (position, is_idle) = (self.next, !self.is_busy());
            self.raise_top(position);
            self.next = position.plus(1);
            if is_idle {
                self.oldest = self.next;
            }
        }
    }

    fn raise_top(&mut self, position: FragmentId) {
        if position.since(self.top) > 0 {
            self.top = position;
        }
    }

    fn watch(&mut self, now: Time) {
        if self.alarm.is_none() {
            self.alarm = Some(now.plus(self.rtt.patience()));
        }
    }

    /// Whether this sender contributes nothing to a position on its way.
    pub fn only_takes(&mut self, position: FragmentId) -> bool {
        self.flight.get(position).is_some_and(|record| record.is(Duty::Takes))
    }

    /// A position that a status has made done, which none of its results is for.
    pub fn next_released(&mut self) -> Option<FragmentId> {
        self.released.pop_front()
    }

    /// Positions that statuses have shown to be lost, one way or the other.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What became of what was sent, as far as it is known.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether nothing new has come for longer than a timeout.
    #[must_use]
    pub fn is_backing_off(&self) -> bool {
        self.rtt.is_backing_off()
    }

    /// Whether something is to be sent again.
    #[must_use]
    pub fn owes_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// A position to be sent again.
    pub fn next_again(&mut self) -> Option<FragmentId> {
        while let Some(position) = self.again.pop_front() {
            if self.is_pending(position) {
                return Some(position);
            }
        }
        None
    }

    /// A result of a pending position has come, and its check failed. How many of it have by now.
    pub fn note_damaged(&mut self, position: FragmentId) -> u8 {
        self.flight.get(position).map_or(0, |record| {
            record.damaged = record.damaged.saturating_add(1);
            record.damaged
        })
    }

    /// The result of a pending position has come.
    pub fn complete(&mut self, position: FragmentId, now: Time) {
        let Some(record) = self.flight.get(position).copied() else { return };
        self.outstanding -= u32::from(record.is_counted);
        self.tally.arrived += u64::from(record.held == 0);
        let is_unreported = self.flight.queue_of(position) == Some(Queue::Unreported);
        self.due -= u32::from(record.is(Duty::Takes));
        self.note_answer(position, &record, is_unreported);
        self.forget(position);
        self.rtt.reset();
        self.hear(now);
    }

    /// Whether a position has not been begun, and its result may come all the same, from those who are ahead.
    #[must_use]
    pub fn may_come_ahead(&self, position: FragmentId) -> bool {
        position.since(self.next) >= 0
            && (position.since(self.oldest) as u32) < self.flight.slots()
            && !self.flight.is_ahead(position)
    }

    /// The result of such a position has come, to which this sender contributes nothing.
    pub fn complete_ahead(&mut self, position: FragmentId, now: Time) {
        self.flight.note_ahead(position);
        self.skip_ahead();
        self.rtt.reset();
        self.hear(now);
    }

    /// A position is done.
    fn forget(&mut self, position: FragmentId) {
        self.flight.remove(position);
        while self.oldest != self.next && self.flight.is_done(self.oldest) {
            self.oldest = self.oldest.plus(1);
        }
    }

    /// Another node takes the contributions now. It may or may not hold what is on its way: all is asked about, oldest first.
    pub fn restart(&mut self, now: Time) {
        self.again.clear();
        self.unasked_repetition = None;
        (self.rtt, self.asking, self.last_status) = (Rtt::default(), Asking::default(), None);
        let is_acknowledged_anew = self.acknowledgement == Acknowledgement::Held;
        for index in 0..self.next.since(self.oldest) as u32 {
            let position = self.oldest.plus(index);
            let Some(record) = self.flight.get(position) else { continue };
            (record.held, record.is_due_again, record.repetitions) = (0, 0, 0);
            if is_acknowledged_anew {
                self.outstanding -= u32::from(std::mem::take(&mut record.is_counted));
            }
            self.flight.enqueue(position, Queue::Unreported, self.ordinal);
        }
        self.unconfirmed = self.oldest..self.next;
        self.hear(now);
    }

    /// Whether everything sent to an earlier node has been asked about at this one.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        // Positions wrap, so the range's own idea of being empty is of no use.
        let Range { start, end } = self.unconfirmed;
        start == end || self.oldest.since(end) >= 0
    }

    /// When the node is to be given up if nothing is heard until then; `None` while there is no reason to think so.
    #[must_use]
    pub fn silence_ends(&self) -> Option<Time> {
        let (since, questions) = self.unheard?;
        // The alarm gives the questions their time.
        let end = self.alarm?.max(since.plus(SILENCE));
        (questions >= SILENT_QUESTIONS).then_some(end)
    }

    /// Something came from the node: the alarm starts anew.
    pub fn hear(&mut self, now: Time) {
        self.note_heard(now);
        self.alarm = self.is_busy().then(|| now.plus(self.rtt.patience()));
    }

    /// As [`Self::hear`], but what came is no reason to wait longer.
    pub fn note_heard(&mut self, now: Time) {
        self.last_heard = Some(now);
        self.unheard = None;
    }
}
