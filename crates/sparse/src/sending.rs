//! What was sent and not answered, to be sent again; and what is kept for a receiver that restarts.

use std::collections::{BTreeMap, BTreeSet};

use wiresum_netem::Time;

/// What is not answered for so long is sent again; doubled in a row.
pub(crate) const FIRST_TIMEOUT_US: u64 = 2_000;
/// The longest wait for an answer.
pub(crate) const LONGEST_TIMEOUT_US: u64 = 200_000;

/// The number of a round's end among its packets.
pub(crate) const END: u32 = u32::MAX;

/// The number of what is decided about the map, among the messages of a round.
pub(crate) const DECISION: u32 = u32::MAX - 1;

/// A message: to whom, of which round, and which of the round.
pub(crate) type Key = (u16, u32, u32);

#[derive(Clone, Debug)]
struct Waiting {
    due: Time,
    timeout_us: u64,
}

/// Messages to several receivers.
#[derive(Clone, Debug)]
pub(crate) struct Sending<M> {
    kept: BTreeMap<Key, M>,
    fresh: BTreeSet<Key>,
    waiting: BTreeMap<Key, Waiting>,
}

impl<M> Default for Sending<M> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), fresh: BTreeSet::new(), waiting: BTreeMap::new() }
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
        self.waiting.remove(&key);
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
        let again = self.kept.keys().filter(|key| key.0 == to && key.1 > version);
        self.fresh.extend(again);
    }

    /// The next message that is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u16, M)> {
        let due = |(key, waiting): (&Key, &Waiting)| (waiting.due <= now).then_some(*key);
        let key = self.fresh.pop_first().or_else(|| self.waiting.iter().find_map(due))?;
        let again = |waiting: &Waiting| (2 * waiting.timeout_us).min(LONGEST_TIMEOUT_US);
        let timeout_us = self.waiting.get(&key).map_or(FIRST_TIMEOUT_US, again);
        self.waiting.insert(key, Waiting { due: Time(now.0 + timeout_us), timeout_us });
        Some((key.0, self.kept[&key].clone()))
    }

    /// When the next message is due, if nothing is answered before.
    pub(crate) fn next_due(&self) -> Option<Time> {
        if !self.fresh.is_empty() {
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
        assert_eq!(gaps[..3], [2_000, 4_000, 8_000]);
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
        assert_eq!(sending.poll(Time(0)), Some((0, 4)));
        assert_eq!(sending.poll(Time(0)), None);
    }
}
