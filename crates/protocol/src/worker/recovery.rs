//! When a worker asks its node, and what it sends again upon the answer: the recovery table of `spec/aggregation.md`.
//!
//! Asking costs little and changes nothing, so everything here may be wrong about *whether* something was lost; only a status
//! makes the worker send values again, and sending them again is harmless.

use std::time::Duration;

use wiresum_wire::FragmentId;
use wiresum_wire::control::{EntryState, double_word, status, word};

use super::flight::{Queue, Record};
use super::rtt::MAX_TIMEOUT;
use super::stream::Stream;
use crate::Time;
use crate::policy::Acknowledgement;

/// Positions by which packets may overtake each other before a missing one counts as lost: more than the queues of a
/// host reorder, and less than the windows in use, or losses would be noticed only by silence.
const REORDER_FRAGMENTS: u32 = 32;
/// Questions that may still be answered. An answer is worth having even if another question has followed, because a timeout that
/// is too short would else discard the very answers that could lengthen it.
const OPEN_PROBES: usize = 8;

/// Fragments, complete at an inner node but without a result, that one status makes a worker send again: each goes all the
/// way to the root, through links that may be slow rather than lossy, so a worker must not add a window's worth at once.
const STUCK_TRIALS: u32 = 4;

/// Questions in a row without an answer after which a node counts as silent: two may be lost.
const SILENT_QUESTIONS: u32 = 3;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Opaque number that comes back.
    pub echo: u32,
    /// First position asked about.
    pub first: FragmentId,
    /// Ordinal of the last transmission before it.
    pub ordinal: u32,
    pub sent_at: Time,
}

/// What the node said last about the first position asked about: for the error when time runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastStatus {
    pub first: FragmentId,
    pub state: EntryState,
    pub contributors: u64,
}

/// The questions of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking {
    /// By echo, modulo their number.
    open: [Option<Probe>; OPEN_PROBES],
    asked: u32,
    /// Questions in a row without an answer.
    unanswered: u32,
    /// When the latest question was asked, unless it is answered or given up.
    waiting_since: Option<Time>,
    /// Ordinal of the last transmission before the latest question.
    ordinal: u32,
    /// There is a reason to ask about the oldest position.
    is_oldest_doubted: bool,
}

impl Asking {
    fn ask(&mut self, first: FragmentId, ordinal: u32, now: Time) -> Probe {
        self.asked = self.asked.wrapping_add(1);
        self.unanswered += 1;
        self.waiting_since = Some(now);
        self.ordinal = ordinal;
        self.is_oldest_doubted = false;
        let probe = Probe { echo: self.asked, first, ordinal, sent_at: now };
        self.open[self.asked as usize % OPEN_PROBES] = Some(probe);
        probe
    }

    /// Whether the latest question may still be answered, given the timeout of the first of a row.
    fn is_waiting(&self, timeout: Duration, now: Time) -> bool {
        let doublings = self.unanswered.clamp(1, 8) - 1;
        let patience = timeout.saturating_mul(1 << doublings).min(MAX_TIMEOUT);
        self.waiting_since.is_some_and(|since| now.since(since) < patience)
    }

    /// Whether question after question goes unanswered.
    pub fn is_ignored(&self) -> bool {
        self.unanswered >= SILENT_QUESTIONS
    }

    /// The question that this answers; `None` if it is too old or not ours.
    fn answer(&mut self, echo: u32, first: FragmentId) -> Option<Probe> {
        let open = &mut self.open[echo as usize % OPEN_PROBES];
        let probe = open.take_if(|probe| probe.echo == echo && probe.first == first)?;
        self.unanswered = 0;
        if echo == self.asked {
            self.waiting_since = None;
        }
        Some(probe)
    }
}

/// What a status says of one position.
#[derive(Clone, Copy, Debug)]
struct Report {
    is_held: bool,
    is_complete: bool,
    is_final: bool,
}

impl Report {
    fn of(payload: &[u8], index: u32) -> Self {
        let bit =
            |bitmap: usize| word(payload, bitmap + index as usize / 32) >> (index % 32) & 1 != 0;
        Self {
            is_held: bit(status::HELD_WORD),
            is_complete: bit(status::COMPLETE_WORD),
            is_final: bit(status::FINAL_WORD),
        }
    }
}

impl Stream {
    /// The probe to send now, if one is due.
    pub fn next_probe(&mut self, now: Time) -> Option<Probe> {
        if !self.is_busy() || self.asking.is_waiting(self.rtt.timeout(), now) {
            return None;
        }
        let doubted = self.asking.is_oldest_doubted.then_some(self.oldest);
        let first = doubted.or_else(|| self.gap()).or_else(|| self.unacknowledged_group())?;
        self.alarm = Some(now.plus(self.rtt.patience()));
        Some(self.asking.ask(first, self.ordinal, now))
    }

    /// The first position that results have overtaken.
    fn gap(&self) -> Option<FragmentId> {
        let tolerance = REORDER_FRAGMENTS.min(self.window / 4).max(1) as i32;
        let is_overtaken = |(_, record): &(FragmentId, Record)| {
            self.answered_ordinal.wrapping_sub(record.mark) as i32 >= tolerance
        };
        let is_passed = |(position, record): &(FragmentId, Record)| {
            self.top.since(FragmentId(record.mark)) >= tolerance
                && self.top.since(*position) >= tolerance
        };
        let unreported = self.flight.first(Queue::Unreported, self.oldest).filter(is_overtaken);
        let reported = || self.flight.first(Queue::Reported, self.oldest).filter(is_passed);
        unreported.or_else(reported).map(|(position, _)| position)
    }

    /// Where a status is the acknowledgement: the first position without one, once a group's worth is out, or half a window, so
    /// that the other half keeps the link busy, or nothing more can be sent.
    fn unacknowledged_group(&self) -> Option<FragmentId> {
        if self.acknowledgement != Acknowledgement::Held {
            return None;
        }
        let (position, _) = self.flight.first(Queue::Unreported, self.oldest)?;
        let sent_since = self.ordinal.wrapping_sub(self.asking.ordinal);
        let is_due = sent_since >= self.group.min(self.window.div_ceil(2));
        (is_due || sent_since > 0 && !self.can_send_new()).then_some(position)
    }

    /// Evidence about losses from a result that has come.
    pub fn note_answer(&mut self, position: FragmentId, record: &Record, is_unreported: bool) {
        if position.since(self.top) > 0 {
            self.top = position;
        }
        self.answered_sent_at = self.answered_sent_at.max(Time(record.sent_at));
        if !is_unreported {
            return;
        }
        if record.mark.wrapping_sub(self.answered_ordinal) as i32 > 0 {
            self.answered_ordinal = record.mark;
        }
        // Too little was sent after this repetition for results to overtake what is still missing: ask at once.
        let sent_since = self.ordinal.wrapping_sub(record.mark);
        self.asking.is_oldest_doubted |= record.is_repeated != 0 && sent_since < REORDER_FRAGMENTS;
    }

    /// Asks if nothing was heard for too long.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.alarm.is_some_and(|alarm| alarm <= now) {
            self.rtt.back_off();
            self.alarm = self.is_busy().then(|| now.plus(self.rtt.patience()));
            self.asking.waiting_since = None;
            self.asking.is_oldest_doubted = true;
        }
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
        let mut trials = STUCK_TRIALS;
        for index in 0..self.group {
            let position = first.plus(index);
            if self.is_pending(position) {
                self.handle_report(position, Report::of(payload, index), &probe, &mut trials, now);
            }
        }
        self.hear(now);
        true
    }

    fn handle_report(
        &mut self,
        position: FragmentId,
        report: Report,
        probe: &Probe,
        trials: &mut u32,
        now: Time,
    ) {
        let is_unreported = self.flight.queue_of(position) == Some(Queue::Unreported);
        let Some(record) = self.flight.get(position) else { return };
        let was_sent_later = is_unreported && probe.ordinal.wrapping_sub(record.mark) as i32 <= -1;
        if was_sent_later || record.is_due_again != 0 {
            return;
        }
        let sent_at = Time(record.sent_at);
        let is_news = report.is_held && record.held == 0;
        record.held |= u8::from(report.is_held);
        // Below an inner node the sum or its result may be lost, or others may be late, or a slow link is still working through
        // what piled up before it. The first fragment is enough to find out which; some more follow only when results of what
        // was sent a timeout later have come.
        let timeout = self.rtt.timeout();
        let is_stuck = report.is_complete
            && !report.is_final
            && *trials > 0
            && now.since(sent_at) >= timeout
            && (position == probe.first || self.answered_sent_at > sent_at.plus(timeout));
        *trials -= u32::from(is_stuck);
        if is_news {
            self.rtt.reset();
            self.outstanding -= u32::from(self.acknowledgement == Acknowledgement::Held);
        }
        if report.is_held {
            self.flight.enqueue(position, Queue::Reported, self.top.0);
        }
        if !report.is_held || report.is_final || is_stuck {
            self.send_again(position);
        }
    }

    fn send_again(&mut self, position: FragmentId) {
        if let Some(record) = self.flight.get(position) {
            record.is_due_again = 1;
            self.again.push_back(position);
        }
    }
}

fn entry_state(number: u32) -> EntryState {
    let states = [EntryState::Filling, EntryState::Forwarded, EntryState::Final];
    states.into_iter().find(|state| *state as u32 == number).unwrap_or_default()
}
