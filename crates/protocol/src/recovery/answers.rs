//! What a sender learns: from statuses, and from results that overtake others.

use wiresum_wire::FragmentId;
use wiresum_wire::control::{EntryState, double_word, status, word};

use super::{Acknowledgement, Duty, Probe, Queue, Record, Recovery};
use crate::Time;

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

impl Recovery {
    /// Evidence about losses from a result that has come.
    pub(super) fn note_answer(
        &mut self,
        position: FragmentId,
        record: &Record,
        is_unreported: bool,
    ) {
        self.raise_top(position);
        if !is_unreported {
            return;
        }
        if record.mark.wrapping_sub(self.answered_ordinal) as i32 > 0 {
            self.answered_ordinal = record.mark;
        }
        let tolerance = self.tolerance() as u32;
        self.asking.give_up_overtaken(self.answered_ordinal.wrapping_sub(tolerance));
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
        let (gives, takes) = (!record.is(Duty::Takes), !record.is(Duty::Gives));
        let report = Report { is_held: report.is_held || !gives, ..report };
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
        if report.is_held && !takes {
            self.released.push_back(position);
            return self.forget(position);
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
