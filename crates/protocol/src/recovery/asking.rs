//! The questions of a sender: which are under way, which are lost, and what an answer belongs to.

use std::time::Duration;

use wiresum_wire::FragmentId;

use super::rtt::MAX_TIMEOUT;
use crate::Time;

/// Bit of a question's echo that tells other questions from those that recovery asks.
pub const PULSE: u32 = 1 << 31;

/// Questions that may still be answered, and the most that are under way at once. An answer is worth having even if its question has
/// been given up, because a timeout that is too short would else discard the very answers that could lengthen it.
const OPEN_PROBES: u32 = 8;
/// Questions in a row without an answer after which a node counts as silent: two may be lost.
pub(super) const SILENT_QUESTIONS: u32 = 3;
/// Doublings of the timeout, at most: 2 ms doubled so often is beyond the longest one.
const MOST_DOUBLINGS: u32 = 7;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Opaque number that comes back.
    pub echo: u32,
    /// First position asked about.
    pub first: FragmentId,
    /// Ordinal of the last transmission before it.
    pub ordinal: u32,
    /// When it was sent.
    pub sent_at: Time,
}

/// The questions of a stream, numbered by their echoes. Those after `settled` up to `asked` are *under way*.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking {
    /// By echo, modulo their number.
    open: [Option<Probe>; OPEN_PROBES as usize],
    asked: u32,
    /// The last question that is answered, overtaken by the answer to a later one, or given up.
    settled: u32,
    /// Timeouts since the last answer.
    timeouts: u32,
    /// Ordinal of the last transmission before the latest question.
    pub ordinal: u32,
    /// Where the next question begins while that one is under way: the end of the positions that had been sent by then, or,
    /// where statuses alone answer, of those that it is about.
    pub next: FragmentId,
    /// There is a reason to ask about the oldest position.
    pub is_oldest_doubted: bool,
}

impl Asking {
    /// Notes that a question is asked now; `next`: see there.
    pub fn ask(&mut self, first: FragmentId, next: FragmentId, ordinal: u32, now: Time) -> Probe {
        self.asked = self.asked.wrapping_add(1) & !PULSE;
        (self.ordinal, self.next) = (ordinal, next);
        self.is_oldest_doubted = false;
        let probe = Probe { echo: self.asked, first, ordinal, sent_at: now };
        self.open[self.asked as usize % OPEN_PROBES as usize] = Some(probe);
        probe
    }

    fn under_way(&self) -> u32 {
        self.asked.wrapping_sub(self.settled) & !PULSE
    }

    pub fn is_waiting(&self) -> bool {
        self.under_way() > 0
    }

    pub fn has_room(&self) -> bool {
        self.under_way() < OPEN_PROBES
    }

    /// What a position's record says of the latest question about it.
    pub fn tag(&self) -> u16 {
        self.asked as u16
    }

    /// Whether the question with this tag is under way.
    pub fn is_under_way(&self, tag: u16) -> bool {
        self.under_way() as u16 > (self.asked as u16).wrapping_sub(tag)
    }

    /// The earliest question under way.
    fn earliest(&self) -> Option<Probe> {
        let echo = self.settled.wrapping_add(1);
        self.open[echo as usize % OPEN_PROBES as usize].filter(|_| self.is_waiting())
    }

    /// When the earliest question under way is taken as lost, given the timeout of the first of a row.
    pub fn lost_at(&self, timeout: Duration) -> Option<Time> {
        let patience = timeout.saturating_mul(1 << self.timeouts.min(MOST_DOUBLINGS));
        Some(self.earliest()?.sent_at.plus(patience.min(MAX_TIMEOUT)))
    }

    /// Gives up the questions whose time is over; whether there are any.
    pub fn give_up_late(&mut self, timeout: Duration, now: Time) -> bool {
        let settled = self.settled;
        while self.lost_at(timeout).is_some_and(|at| at <= now) {
            self.settled = self.settled.wrapping_add(1);
        }
        self.timeouts += u32::from(self.settled != settled);
        self.settled != settled
    }

    /// Gives up the questions before which nothing after this ordinal was sent: what was sent behind them has been answered.
    pub fn give_up_overtaken(&mut self, ordinal: u32) {
        while self.earliest().is_some_and(|q| ordinal.wrapping_sub(q.ordinal) as i32 > 0) {
            self.settled = self.settled.wrapping_add(1);
        }
    }

    /// Gives up every question: nothing has come for too long.
    pub fn give_up_all(&mut self) {
        self.timeouts += u32::from(self.is_waiting());
        self.settled = self.asked;
    }

    /// Whether question after question goes unanswered.
    pub fn is_ignored(&self) -> bool {
        self.timeouts + u32::from(self.is_waiting()) >= SILENT_QUESTIONS
    }

    /// The question that this answers; `None` if it is too old or not ours.
    pub fn answer(&mut self, echo: u32, first: FragmentId) -> Option<Probe> {
        let open = &mut self.open[echo as usize % OPEN_PROBES as usize];
        let probe = open.take_if(|probe| probe.echo == echo && probe.first == first)?;
        self.timeouts = 0;
        // The uppermost bit is not part of the count.
        if (echo.wrapping_sub(self.settled) << 1) as i32 > 0 {
            self.settled = echo;
        }
        Some(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: FragmentId = FragmentId(7);
    const TIMEOUT: Duration = Duration::from_millis(2);

    fn asked(ordinals: &[u32]) -> (Asking, Vec<Probe>) {
        let mut asking = Asking::default();
        let ask = |ordinal: &u32| asking.ask(FIRST, FIRST.plus(9), *ordinal, Time(0));
        let probes = ordinals.iter().map(ask).collect();
        (asking, probes)
    }

    #[test]
    fn an_answer_settles_the_questions_before_it_and_no_later_one() {
        let (mut asking, probes) = asked(&[1, 2, 3]);
        assert_eq!(asking.answer(probes[1].echo, FIRST), Some(probes[1]));
        let is_under_way = |probe: &Probe| asking.is_under_way(probe.echo as u16);
        assert_eq!(probes.iter().map(is_under_way).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(asking.answer(probes[0].echo, FIRST), Some(probes[0]), "late, and of use");
        assert_eq!(asking.answer(probes[0].echo, FIRST), None, "twice");
        assert!(asking.is_waiting());
    }

    #[test]
    fn questions_are_lost_by_time_or_when_what_was_sent_later_is_answered() {
        let (mut asking, probes) = asked(&[1, 5]);
        asking.give_up_overtaken(5);
        assert!(!asking.is_under_way(probes[0].echo as u16));
        assert!(asking.is_under_way(probes[1].echo as u16));
        assert!(!asking.give_up_late(TIMEOUT, Time(1999)));
        assert!(asking.give_up_late(TIMEOUT, Time(2000)));
        assert!(!asking.is_waiting());
    }

    #[test]
    fn timeouts_in_a_row_double_and_make_a_node_silent() {
        let (mut asking, _) = asked(&[1]);
        assert!(asking.give_up_late(TIMEOUT, Time(2000)));
        asking.ask(FIRST, FIRST, 1, Time(2000));
        assert_eq!(asking.lost_at(TIMEOUT), Some(Time(6000)));
        asking.give_up_all();
        assert!(!asking.is_ignored());
        let last = asking.ask(FIRST, FIRST, 1, Time(9000));
        assert!(asking.is_ignored());
        asking.answer(last.echo, FIRST);
        assert!(!asking.is_ignored());
    }

    #[test]
    fn there_is_room_for_eight_at_once() {
        let (asking, _) = asked(&[0; OPEN_PROBES as usize]);
        assert!(!asking.has_room());
        assert!(asked(&[0; 7]).0.has_room());
    }
}
