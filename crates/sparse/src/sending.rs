//! What was sent and not answered, to be sent again; and what is kept for a receiver that restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use wiresum_netem::Time;

use crate::flow::{Flow, LONGEST_TIMEOUT_US};

/// The number of a round's end among its packets.
pub(crate) const END: u32 = u32::MAX;

/// The number of what is decided about the map, among the messages of a round.
pub(crate) const DECISION: u32 = u32::MAX - 1;

/// A message: to whom, of which round, and which of the round.
pub(crate) type Key = (u16, u32, u32);

/// Whether an answer comes as soon as the message has: an end is answered when everybody's has come.
fn is_numbered(key: Key) -> bool {
    key.2 < DECISION
}

#[derive(Clone, Debug)]
struct Waiting {
    due: Time,
    timeout_us: u64,
    sent: Time,
    is_resent: bool,
}

/// Messages to several receivers.
#[derive(Clone, Debug)]
pub(crate) struct Sending<M> {
    kept: BTreeMap<Key, M>,
    fresh: BTreeSet<Key>,
    waiting: BTreeMap<Key, Waiting>,
    flows: BTreeMap<u16, Flow>,
    /// Messages that were sent again.
    repeated: u64,
    now: Time,
}

impl<M> Default for Sending<M> {
    fn default() -> Self {
        let (kept, fresh, waiting, flows) = Default::default();
        Self { kept, fresh, waiting, flows, repeated: 0, now: Time(0) }
    }
}

impl<M: Clone> Sending<M> {
    /// Sends a message until it is answered, and keeps it.
    pub(crate) fn send(&mut self, key: Key, message: M) {
        self.kept.insert(key, message);
        self.fresh.insert(key);
    }

    /// Keeps a message for a receiver that restarts.
    pub(crate) fn keep(&mut self, key: Key, message: M) {
        self.kept.insert(key, message);
    }

    /// A message has come.
    pub(crate) fn answered(&mut self, key: Key) {
        self.fresh.remove(&key);
        let Some(waiting) = self.waiting.remove(&key) else { return };
        // What was sent again may be answered for the first time (Karn and Partridge, SIGCOMM 1987).
        if !waiting.is_resent && is_numbered(key) {
            let taken_us = self.now.0.saturating_sub(waiting.sent.0);
            self.flows.entry(key.0).or_default().answered(taken_us);
        }
    }

    /// A message has come, and is not to be kept.
    pub(crate) fn settled(&mut self, key: Key) {
        self.answered(key);
        self.kept.remove(&key);
    }

    /// All messages of a round and those before have come.
    pub(crate) fn all_answered(&mut self, to: u16, round: u32) {
        let is_open = |key: &Key| key.0 != to || key.1 > round;
        self.fresh.retain(is_open);
        self.waiting.retain(|key, _| is_open(key));
    }

    /// Nothing of these rounds will be asked for again.
    pub(crate) fn forget(&mut self, to: u16, round: u32) {
        self.all_answered(to, round);
        self.kept.retain(|key, _| key.0 != to || key.1 > round);
    }

    /// A receiver has restarted from what it was after round `version`: everything later is sent again.
    pub(crate) fn restarted(&mut self, to: u16, version: u32) {
        let is_lost = |key: &Key| key.0 == to && key.1 > version;
        self.waiting.retain(|key, _| !is_lost(key));
        self.fresh.extend(self.kept.keys().filter(|key| is_lost(key)));
    }

    /// What time it is, before anything is handled: answers are timed by it.
    pub(crate) fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Messages that were sent more than once.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The next message that is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u16, M)> {
        self.now = now;
        let due = |(key, waiting): (&Key, &Waiting)| (waiting.due <= now).then_some(*key);
        let again = self.waiting.iter().find_map(due);
        let key = again.or_else(|| self.next_fresh())?;
        let timeout_us = match self.waiting.get(&key) {
            Some(before) => (2 * before.timeout_us).min(LONGEST_TIMEOUT_US),
            None => self.flows.entry(key.0).or_default().timeout_us(),
        };
        if again.is_some() {
            self.repeated += 1;
            if is_numbered(key) {
                self.flows.entry(key.0).or_default().lost(now);
            }
        }
        self.fresh.remove(&key);
        let (due, is_resent) = (Time(now.0 + timeout_us), again.is_some());
        self.waiting.insert(key, Waiting { due, timeout_us, sent: now, is_resent });
        Some((key.0, self.kept[&key].clone()))
    }

    /// The next message to somebody to whom one more may be under way, and who has had all of the rounds before: one that
    /// was restarted drops what is of later rounds than its own.
    fn next_fresh(&self) -> Option<Key> {
        let mut next = self.fresh.first().copied()?;
        loop {
            let of_receiver = (next.0, 0, 0)..=(next.0, u32::MAX, u32::MAX);
            let mut under_way = self.waiting.range(of_receiver.clone()).map(|(key, _)| key.1);
            let is_its_turn = under_way.next().is_none_or(|round| round >= next.1);
            let flow = self.flows.get(&next.0);
            if is_its_turn && flow.is_none_or(|flow| flow.has_room(under_way.count())) {
                return Some(next);
            }
            let others = (Bound::Excluded(*of_receiver.end()), Bound::Unbounded);
            next = self.fresh.range(others).next().copied()?;
        }
    }

    /// When the next message is due, if nothing is answered before.
    pub(crate) fn next_due(&self) -> Option<Time> {
        if self.next_fresh().is_some() {
            return Some(Time(0));
        }
        self.waiting.values().map(|waiting| waiting.due).min()
    }

    /// Whether everything was answered.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.fresh.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_answered_is_sent_again_and_again_more_slowly() {
        let mut sending = Sending::default();
        sending.send((3, 1, 0), "a");
        let mut sent_at = Vec::new();
        while sent_at.len() < 10 {
            let now = sending.next_due().unwrap().max(*sent_at.last().unwrap_or(&Time(0)));
            assert_eq!(sending.poll(now), Some((3, "a")));
            assert_eq!(sending.poll(now), None);
            sent_at.push(now);
        }
        let gaps: Vec<u64> = sent_at.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert_eq!(gaps[..3], [20_000, 40_000, 80_000]);
        assert_eq!(gaps.last(), Some(&LONGEST_TIMEOUT_US));
        sending.answered((3, 1, 0));
        assert!(sending.is_idle());
    }

    #[test]
    fn a_restarted_receiver_gets_what_is_later_than_its_snapshot() {
        let mut sending = Sending::default();
        for round in 1..=4 {
            sending.send((0, round, END), round);
            sending.send((1, round, END), round);
        }
        sending.all_answered(0, 4);
        sending.all_answered(1, 4);
        assert!(sending.is_idle());
        sending.forget(0, 1);
        sending.restarted(0, 2);
        assert_eq!(sending.poll(Time(0)), Some((0, 3)));
        assert_eq!(sending.poll(Time(0)), None, "round 3 is not closed yet");
        sending.all_answered(0, 3);
        assert_eq!(sending.poll(Time(0)), Some((0, 4)));
        assert_eq!(sending.poll(Time(0)), None);
    }
}
