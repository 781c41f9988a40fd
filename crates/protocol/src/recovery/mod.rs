//! Recovery of a sender of contributions: when it asks the node that it sends to, and what it sends again upon the answer. The
//! recovery table of `spec/aggregation.md`.
//!
//! Asking costs little and changes nothing, so everything here may be wrong about *whether* something was lost; only a status
//! makes a sender send values again, and sending them again is harmless.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `flight` | the positions on their way |
//! | `asking` | the questions, and what an answer belongs to |
//! | `rtt` | how long an answer takes |

mod asking;
mod flight;
mod rtt;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use wiresum_wire::FragmentId;
use wiresum_wire::control::{EntryState, double_word, status, word};

use crate::Time;
use crate::plan::PlanStream;
use crate::policy::{self, Acknowledgement};
use asking::{Asking, SILENT_QUESTIONS};
pub use asking::{PULSE, Probe};
pub use flight::{Flight, Queue, Record};
pub use rtt::{MAX_TIMEOUT, Rtt};

/// Positions by which packets may overtake each other before a missing one counts as lost: more than the queues of a
/// host reorder, and less than the windows in use, or losses would be noticed only by silence.
const REORDER_FRAGMENTS: u32 = 32;

/// Repetitions of a position that a question follows at once: enough for any loss that a link in use has. What is still missing
/// then is refused rather than lost, and is asked about only when something else is a reason to.
const FOLLOWED_REPETITIONS: u8 = 4;

/// Overtaken positions that are looked at for one that no question under way is about; the others are due a moment later.
const LOOKED_AT: usize = 64;

/// How long a node leaves questions unanswered before it is given up, where there is another way: what a daemon on a busy host may
/// take to get its turn, and no more than a person notices. Giving up a node that lives costs bandwidth, not sums.
pub const SILENCE: Duration = Duration::from_millis(250);

/// What the node said last about the first position asked about: for the error when time runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastStatus {
    /// The position.
    pub first: FragmentId,
    /// State of its entry.
    pub state: EntryState,
    /// Contributors that are in.
    pub contributors: u64,
}

/// What a status says of one position.
#[derive(Clone, Copy, Debug)]
struct Report {
    is_held: bool,
    is_final: bool,
}

impl Report {
    fn of(payload: &[u8], index: u32) -> Self {
        let bit =
            |bitmap: usize| word(payload, bitmap + index as usize / 32) >> (index % 32) & 1 != 0;
        Self { is_held: bit(status::HELD_WORD), is_final: bit(status::FINAL_WORD) }
    }
}

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
            flight: Flight::new(sub_model.slots()),
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
        if !self.is_busy() || position.since(self.oldest) < 0 {
            self.oldest = position;
        }
        if position.since(self.next) >= 0 {
            self.next = position.plus(1);
        }
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
        if self.alarm.is_none() {
            self.alarm = Some(now.plus(self.rtt.patience()));
        }
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
        self.note_answer(position, &record, is_unreported);
        self.flight.remove(position);
        while self.oldest != self.next && self.flight.is_done(self.oldest) {
            self.oldest = self.oldest.plus(1);
        }
        self.rtt.reset();
        self.hear(now);
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

    /// The probe to send now, if one is due. `can_send_new`: whether the sender will send new positions without hearing anything.
    pub fn next_probe(&mut self, can_send_new: bool, now: Time) -> Option<Probe> {
        if !self.is_busy() || !self.asking.has_room() {
            return None;
        }
        let doubted = self.asking.is_oldest_doubted.then_some(self.oldest);
        let first = self
            .first_unconfirmed()
            .or(doubted)
            .or_else(|| self.repetition())
            .or_else(|| self.gap(can_send_new))
            .or_else(|| self.unacknowledged_group(can_send_new))?;
        Some(self.ask(first, now))
    }

    fn ask(&mut self, first: FragmentId, now: Time) -> Probe {
        if self.unheard.is_none() {
            // Later ones without an answer between do not delay it, or it would never come.
            self.alarm = Some(now.plus(self.rtt.patience()));
        }
        let (since, questions) = self.unheard.unwrap_or((now, 0));
        self.unheard = Some((since, questions + 1));
        let probe = self.asking.ask(first, self.next, self.ordinal, now);
        for index in 0..self.group {
            let position = first.plus(index);
            if self.is_pending(position)
                && let Some(record) = self.flight.get(position)
            {
                record.asked = self.asking.tag();
            }
        }
        probe
    }

    /// The first position that was sent to an earlier node and has not been asked about at this one, while the window has room for
    /// what may have to be sent again.
    fn first_unconfirmed(&mut self) -> Option<FragmentId> {
        while !self.is_confirmed() && !self.is_pending(self.unconfirmed.start) {
            self.unconfirmed.start = self.unconfirmed.start.plus(1);
        }
        let has_room = self.acknowledgement == Acknowledgement::Result
            || self.again.is_empty() && self.outstanding < self.window;
        let is_due = !self.is_confirmed() && has_room && !self.asking.is_waiting();
        is_due.then_some(self.unconfirmed.start)
    }

    /// The lowest position that was sent again, once all are: the question behind them finds what is lost once more.
    fn repetition(&mut self) -> Option<FragmentId> {
        let position = self.unasked_repetition.filter(|_| self.again.is_empty())?;
        self.unasked_repetition = None;
        self.is_pending(position).then_some(position)
    }

    /// Positions by which results overtake one that is taken as lost.
    fn tolerance(&self) -> i32 {
        REORDER_FRAGMENTS.min(self.window / 4).max(1) as i32
    }

    /// The first position that results have overtaken and no question under way is about. Where nothing more can be sent, one result
    /// is enough, as not many may come.
    fn gap(&self, can_send_new: bool) -> Option<FragmentId> {
        let tolerance = if can_send_new { self.tolerance() } else { 1 };
        let is_overtaken = |(_, record): &(FragmentId, Record)| {
            self.answered_ordinal.wrapping_sub(record.mark) as i32 >= tolerance
        };
        let is_passed = |(position, record): &(FragmentId, Record)| {
            self.top.since(FragmentId(record.mark)) >= tolerance
                && self.top.since(*position) >= tolerance
        };
        let is_unasked =
            |(_, record): &(FragmentId, Record)| !self.asking.is_under_way(record.asked);
        let queue = |queue| self.flight.iter(queue, self.oldest).take(LOOKED_AT);
        let unreported = queue(Queue::Unreported).take_while(is_overtaken).find(is_unasked);
        let reported = || queue(Queue::Reported).take_while(is_passed).find(is_unasked);
        unreported.or_else(reported).map(|(position, _)| position)
    }

    /// Where a status is the acknowledgement: the first position without one that no question under way is about, once a group's
    /// worth is out since the last question, or half a window, so that the other half keeps the link busy (while another question is
    /// under way, three quarters), or nothing more can be sent.
    fn unacknowledged_group(&self, can_send_new: bool) -> Option<FragmentId> {
        if self.acknowledgement != Acknowledgement::Held {
            return None;
        }
        let (first, _) = self.flight.first(Queue::Unreported, self.oldest)?;
        let is_waiting = self.asking.is_waiting();
        let position = if is_waiting { self.asking.next } else { first };
        let sent_since = self.ordinal.wrapping_sub(self.asking.ordinal);
        let enough =
            if is_waiting { self.window - self.window / 4 } else { self.window.div_ceil(2) };
        let is_due = sent_since >= self.group.min(enough);
        let is_last = sent_since > 0 && !can_send_new && !is_waiting;
        (is_last || is_due && position != self.next).then_some(position)
    }

    /// Evidence about losses from a result that has come.
    fn note_answer(&mut self, position: FragmentId, record: &Record, is_unreported: bool) {
        if position.since(self.top) > 0 {
            self.top = position;
        }
        if !is_unreported {
            return;
        }
        if record.mark.wrapping_sub(self.answered_ordinal) as i32 > 0 {
            self.answered_ordinal = record.mark;
        }
        let tolerance = self.tolerance() as u32;
        self.asking.give_up_overtaken(self.answered_ordinal.wrapping_sub(tolerance));
    }

    /// Asks if nothing was heard for too long, and again if a question is lost.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.alarm.is_some_and(|alarm| alarm <= now) {
            self.rtt.back_off();
            self.alarm = self.is_busy().then(|| now.plus(self.rtt.patience()));
            self.asking.give_up_all();
            self.asking.is_oldest_doubted = true;
        }
        self.asking.is_oldest_doubted |= self.asking.give_up_late(self.rtt.timeout(), now);
    }

    /// The node's answer. Returns whether it answers a question of ours that is not too old.
    pub fn handle_status(&mut self, first: FragmentId, payload: &[u8], now: Time) -> bool {
        let Some(probe) = self.asking.answer(word(payload, status::ECHO_WORD), first) else {
            return false;
        };
        self.rtt.sample(now.since(probe.sent_at));
        self.last_status = Some(LastStatus {
            first,
            state: entry_state(word(payload, status::STATE_WORD)),
            contributors: double_word(payload, status::CONTRIBUTORS_WORD),
        });
        if first == self.unconfirmed.start {
            let covered = self.group.min(self.unconfirmed.end.since(first).max(0) as u32);
            self.unconfirmed.start = first.plus(covered);
        }
        for index in 0..self.group {
            let position = first.plus(index);
            if self.is_pending(position) {
                self.handle_report(position, Report::of(payload, index), &probe);
            }
        }
        self.hear(now);
        true
    }

    fn handle_report(&mut self, position: FragmentId, report: Report, probe: &Probe) {
        let is_unreported = self.flight.queue_of(position) == Some(Queue::Unreported);
        let Some(record) = self.flight.get(position) else { return };
        let was_sent_later = is_unreported && probe.ordinal.wrapping_sub(record.mark) as i32 <= -1;
        if was_sent_later || record.is_due_again != 0 {
            return;
        }
        let is_news = report.is_held && record.held == 0;
        record.held |= u8::from(report.is_held);
        if is_news {
            self.tally.arrived += 1;
            self.rtt.reset();
            if self.acknowledgement == Acknowledgement::Held {
                self.outstanding -= u32::from(std::mem::take(&mut record.is_counted));
            }
        }
        if report.is_held {
            self.flight.enqueue(position, Queue::Reported, self.top.0);
        }
        self.tally.lost += u64::from(!report.is_held);
        if !report.is_held || report.is_final {
            self.send_again(position);
        }
    }

    fn send_again(&mut self, position: FragmentId) {
        if let Some(record) = self.flight.get(position) {
            record.is_due_again = 1;
            self.lost += 1;
            self.again.push_back(position);
        }
    }
}

fn entry_state(number: u32) -> EntryState {
    let states = [EntryState::Filling, EntryState::Forwarded, EntryState::Final];
    states.into_iter().find(|state| *state as u32 == number).unwrap_or_default()
}
