//! The questions of a sender, and which of them an answer belongs to.

use std::time::Duration;

use wiresum_wire::FragmentId;

use super::rtt::MAX_TIMEOUT;
use crate::Time;

/// Questions that may still be answered. An answer is worth having even if another question has followed, because a timeout that
/// is too short would else discard the very answers that could lengthen it.
const OPEN_PROBES: usize = 8;
/// Questions in a row without an answer after which a node counts as silent: two may be lost.
pub(super) const SILENT_QUESTIONS: u32 = 3;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Opaque number that comes back.
    pub echo: u32,
    /// First position asked about.
    pub first: FragmentId,
    /// Ordinal of the last transmission before it.
    pub ordinal: u32,
    pub sent_at: Time,
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
    pub waiting_since: Option<Time>,
    /// Ordinal of the last transmission before the latest question.
    pub ordinal: u32,
    /// There is a reason to ask about the oldest position.
    pub is_oldest_doubted: bool,
}

impl Asking {
    /// Notes that a question is asked now.
    pub fn ask(&mut self, first: FragmentId, ordinal: u32, now: Time) -> Probe {
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
    pub fn is_waiting(&self, timeout: Duration, now: Time) -> bool {
        let doublings = self.unanswered.clamp(1, 8) - 1;
        let patience = timeout.saturating_mul(1 << doublings).min(MAX_TIMEOUT);
        self.waiting_since.is_some_and(|since| now.since(since) < patience)
    }

    /// Whether question after question goes unanswered.
    pub fn is_ignored(&self) -> bool {
        self.unanswered >= SILENT_QUESTIONS
    }

    /// The question that this answers; `None` if it is too old or not ours.
    pub fn answer(&mut self, echo: u32, first: FragmentId) -> Option<Probe> {
        let open = &mut self.open[echo as usize % OPEN_PROBES];
        let probe = open.take_if(|probe| probe.echo == echo && probe.first == first)?;
        self.unanswered = 0;
        if echo == self.asked {
            self.waiting_since = None;
        }
        Some(probe)
    }
}
