//! When a sender asks, and about which positions.

use wiresum_wire::FragmentId;

use super::{Acknowledgement, Duty, Probe, Queue, Record, Recovery};
use crate::Time;

/// Positions by which packets may overtake each other before a missing one counts as lost: more than the queues of a
/// host reorder, and less than the windows in use, or losses would be noticed only by silence.
const REORDER_FRAGMENTS: u32 = 32;

/// Overtaken positions that are looked at for one that no question under way is about; the others are due a moment later.
const LOOKED_AT: usize = 64;

impl Recovery {
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
        // Where others give or take, results say nothing of what lies beyond, so the next question begins there.
        let is_both = self.flight.get(first).is_none_or(|record| record.is(Duty::Both));
        let covered = first.plus(self.group.min(self.next.since(first) as u32));
        let next = if is_both { self.next } else { covered };
        let probe = self.asking.ask(first, next, self.ordinal, now);
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
    pub(super) fn tolerance(&self) -> i32 {
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

    /// Where a status is the acknowledgement: the first position without one that no question under way is about, once half a window
    /// is out since the last question, so that the other half keeps the link busy, or nothing more can be sent. While another
    /// question is under way, three quarters, if results answer as well. Where others give most positions, few transmissions are
    /// many positions: as many as a status covers are enough, too; and of what is only given nothing else will ever tell, so
    /// it is asked about as soon as nothing more can be sent, whatever was asked since.
    fn unacknowledged_group(&self, can_send_new: bool) -> Option<FragmentId> {
        if self.acknowledgement != Acknowledgement::Held {
            return None;
        }
        let (first, record) = self.flight.first(Queue::Unreported, self.oldest)?;
        let (is_waiting, is_given) = (self.asking.is_waiting(), record.is(Duty::Gives));
        let position = if is_waiting { self.asking.next } else { first };
        let sent_since = self.ordinal.wrapping_sub(self.asking.ordinal);
        let part = if is_waiting && !is_given { 3 } else { 2 };
        let is_enough = sent_since >= self.group.min((self.window * part).div_ceil(4));
        let is_due = is_enough || is_given && self.next.since(position) >= self.group as i32;
        let is_left = is_given && record.is_due_again == 0;
        let is_last = (sent_since > 0 || is_left) && !can_send_new && !is_waiting;
        (is_last || is_due && position != self.next).then_some(position)
    }
}
