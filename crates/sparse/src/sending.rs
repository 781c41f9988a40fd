//! What was sent and not answered, to be sent again; and what is kept for a receiver that restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use wiresum_netem::Time;

use crate::flow::{Flow, HELD_TIMEOUT_US, LONGEST_TIMEOUT_US};

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

/// A packet is lost if so many that were sent after it to the same receiver have come before it, as in TCP (RFC 9002, 6.1.1).
const OVERTAKEN_BY: u64 = 3;

/// The round and the number of a message.
type Turn = (u32, u32);

#[derive(Clone, Debug)]
struct Waiting {
    due: Time,
    timeout_us: u64,
    sent: Time,
    /// Counts what was sent to the receiver.
    serial: u64,
    is_resent: bool,
    /// The receiver has it, and will answer later.
    is_held: bool,
}

/// What one receiver is to get, and what is under way to it.
#[derive(Clone, Debug, Default)]
struct Receiver {
    fresh: BTreeSet<Turn>,
    waiting: BTreeMap<Turn, Waiting>,
    /// Turns of numbered messages that wait for their first answer, by number.
    serials: BTreeMap<u64, Turn>,
    /// Those that wait and are held: they are on no link, so no window counts them.
    held: usize,
    sent: u64,
    flow: Flow,
}

impl Receiver {
    /// Whether one more may be under way, and it has had all of the rounds before: one that was restarted drops what is of
    /// later rounds than its own.
    fn next(&self) -> Option<Turn> {
        let next = *self.fresh.first()?;
        let is_its_turn = self.waiting.first_key_value().is_none_or(|(turn, _)| turn.0 >= next.0);
        (is_its_turn && self.flow.has_room(self.waiting.len() - self.held)).then_some(next)
    }
}

/// Messages to several receivers.
#[derive(Clone, Debug)]
pub(crate) struct Sending<M> {
    kept: BTreeMap<Key, M>,
    receivers: BTreeMap<u16, Receiver>,
    /// When what waits is sent again.
    due: BTreeSet<(Time, Key)>,
    /// Receivers take turns: this one was the last.
    last: u16,
    /// Flows whose share what is for each receiver takes.
    flows: f64,
    /// Messages that were sent again as nobody had answered them.
    repeated: u64,
    now: Time,
}

impl<M> Default for Sending<M> {
    fn default() -> Self {
        let (kept, receivers, due) = Default::default();
        let (last, flows, repeated, now) = (0, 1.0, 0, Time(0));
        Self { kept, receivers, due, last, flows, repeated, now }
    }
}

impl<M: Clone> Sending<M> {
    /// To each receiver, with the share of several flows.
    pub(crate) fn of(flows: f64) -> Self {
        Self { flows, ..Self::default() }
    }

    fn receiver(&mut self, to: u16) -> &mut Receiver {
        let flows = self.flows;
        let begin = || Receiver { flow: Flow::of(flows), ..Receiver::default() };
        self.receivers.entry(to).or_insert_with(begin)
    }

    /// Sends a message until it is answered, and keeps it.
    pub(crate) fn send(&mut self, key: Key, message: M) {
        self.kept.insert(key, message);
        self.receiver(key.0).fresh.insert((key.1, key.2));
    }

    /// Keeps a message for a receiver that restarts.
    pub(crate) fn keep(&mut self, key: Key, message: M) {
        self.kept.insert(key, message);
    }

    /// A message has come.
    pub(crate) fn answered(&mut self, key: Key) {
        let Some(waiting) = self.take(key) else { return };
        // What was sent again may be answered for the first time (Karn and Partridge, SIGCOMM 1987).
        if !waiting.is_resent && !waiting.is_held && is_numbered(key) {
            self.learn(key.0, &waiting);
        }
    }

    /// A message has come, and is not to be kept.
    pub(crate) fn settled(&mut self, key: Key) {
        self.answered(key);
        self.kept.remove(&key);
    }

    /// A message is not to come any more.
    pub(crate) fn withdraw(&mut self, key: Key) {
        self.take(key);
        self.kept.remove(&key);
    }

    /// A message has come, and its answer takes as long as it takes.
    pub(crate) fn held(&mut self, key: Key) {
        let Some(mut waiting) = self.take(key) else { return };
        if !waiting.is_resent && !waiting.is_held {
            self.learn(key.0, &waiting);
        }
        waiting.is_held = true;
        waiting.due = Time(self.now.0 + HELD_TIMEOUT_US);
        self.put(key, waiting);
    }

    /// A receiver has answered all that it held: what has not come by now is asked for again soon.
    pub(crate) fn hasten(&mut self, to: u16) {
        let Some(receiver) = self.receivers.get_mut(&to) else { return };
        let due = Time(self.now.0 + receiver.flow.timeout_us());
        for (turn, waiting) in receiver.waiting.iter_mut().filter(|(_, one)| one.is_held) {
            let key = (to, turn.0, turn.1);
            self.due.remove(&(waiting.due, key));
            waiting.due = waiting.due.min(due);
            self.due.insert((waiting.due, key));
        }
    }

    /// Takes a message off the way.
    fn take(&mut self, key: Key) -> Option<Waiting> {
        let receiver = self.receivers.get_mut(&key.0)?;
        receiver.fresh.remove(&(key.1, key.2));
        let waiting = receiver.waiting.remove(&(key.1, key.2))?;
        receiver.serials.remove(&waiting.serial);
        receiver.held -= usize::from(waiting.is_held);
        self.due.remove(&(waiting.due, key));
        Some(waiting)
    }

    fn put(&mut self, key: Key, waiting: Waiting) {
        self.due.insert((waiting.due, key));
        let receiver = self.receiver(key.0);
        // What was sent again is overtaken no more: it was when it was sent first.
        if is_numbered(key) && !waiting.is_held && !waiting.is_resent {
            receiver.serials.insert(waiting.serial, (key.1, key.2));
        }
        receiver.held += usize::from(waiting.is_held);
        receiver.waiting.insert((key.1, key.2), waiting);
    }

    /// What a first answer says: of the round trip, and of packets that it has overtaken.
    fn learn(&mut self, to: u16, answered: &Waiting) {
        let Some(receiver) = self.receivers.get_mut(&to) else { return };
        receiver.flow.answered(self.now.0.saturating_sub(answered.sent.0), self.now);
        let behind = receiver.serials.range(..(answered.serial + 1).saturating_sub(OVERTAKEN_BY));
        let lost: Vec<u64> = behind.map(|(serial, _)| *serial).collect();
        for serial in lost {
            let turn = receiver.serials.remove(&serial).expect("it was found");
            let waiting = receiver.waiting.get_mut(&turn).expect("what has a serial number waits");
            let key = (to, turn.0, turn.1);
            self.due.remove(&(waiting.due, key));
            waiting.due = self.now;
            self.due.insert((waiting.due, key));
        }
    }

    /// All messages of a round and those before have come.
    pub(crate) fn all_answered(&mut self, to: u16, round: u32) {
        let Some(receiver) = self.receivers.get_mut(&to) else { return };
        receiver.fresh = receiver.fresh.split_off(&(round.saturating_add(1), 0));
        let later = receiver.waiting.split_off(&(round.saturating_add(1), 0));
        let over = std::mem::replace(&mut receiver.waiting, later);
        for (turn, waiting) in over {
            receiver.serials.remove(&waiting.serial);
            receiver.held -= usize::from(waiting.is_held);
            self.due.remove(&(waiting.due, (to, turn.0, turn.1)));
        }
    }

    /// Nothing of these rounds will be asked for again.
    pub(crate) fn forget(&mut self, to: u16, round: u32) {
        self.all_answered(to, round);
        let over = self.kept.range((to, 0, 0)..=(to, round, u32::MAX)).map(|(key, _)| *key);
        for key in over.collect::<Vec<_>>() {
            self.kept.remove(&key);
        }
    }

    /// A receiver has restarted from what it was after round `version`: everything later is sent again.
    pub(crate) fn restarted(&mut self, to: u16, version: u32) {
        let lost = self.kept.range((to, version.saturating_add(1), 0)..=(to, u32::MAX, u32::MAX));
        for key in lost.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.take(key);
            self.receiver(to).fresh.insert((key.1, key.2));
        }
    }

    /// What time it is, before anything is handled: answers are timed by it.
    pub(crate) fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Messages that were sent again as nobody had answered them; ends, whose answer takes as long as a round, do not count.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The next message that is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u16, M)> {
        self.now = now;
        let again = self.due.first().filter(|(due, _)| *due <= now).map(|(_, key)| *key);
        let key = match again {
            Some(key) => self.repeat(key),
            None => self.begin(self.next_fresh()?),
        };
        Some((key.0, self.kept[&key].clone()))
    }

    fn begin(&mut self, key: Key) -> Key {
        self.last = key.0;
        let receiver = self.receivers.get_mut(&key.0).expect("its turn has come");
        receiver.fresh.remove(&(key.1, key.2));
        receiver.sent += 1;
        let (serial, timeout_us) = (receiver.sent, receiver.flow.timeout_us());
        let (sent, due) = (self.now, Time(self.now.0 + timeout_us));
        let (is_resent, is_held) = (false, false);
        self.put(key, Waiting { due, timeout_us, sent, serial, is_resent, is_held });
        key
    }

    fn repeat(&mut self, key: Key) -> Key {
        let mut waiting = self.take(key).expect("what is due waits");
        self.repeated += u64::from(is_numbered(key) && !waiting.is_held);
        if is_numbered(key) && !waiting.is_held {
            let now = self.now;
            self.receiver(key.0).flow.lost(now);
        }
        waiting.timeout_us = (2 * waiting.timeout_us).min(LONGEST_TIMEOUT_US);
        waiting.due = Time(self.now.0 + waiting.timeout_us);
        (waiting.is_resent, waiting.is_held) = (true, false);
        self.put(key, waiting);
        key
    }

    /// The next message to somebody whose turn it is.
    fn next_fresh(&self) -> Option<Key> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let others = self.receivers.range(after).chain(self.receivers.range(..=self.last));
        others.filter_map(|(to, receiver)| receiver.next().map(|turn| (*to, turn.0, turn.1))).next()
    }

    /// When the next message is due, if nothing is answered before.
    pub(crate) fn next_due(&self) -> Option<Time> {
        if self.next_fresh().is_some() {
            return Some(Time(0));
        }
        self.due.first().map(|(due, _)| *due)
    }

    /// Whether everything was answered.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.receivers.values().all(|one| one.fresh.is_empty() && one.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::INITIAL_TIMEOUT_US;

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
        assert_eq!(gaps[..2], [INITIAL_TIMEOUT_US, LONGEST_TIMEOUT_US]);
        assert_eq!(gaps.last(), Some(&LONGEST_TIMEOUT_US));
        sending.answered((3, 1, 0));
        assert!(sending.is_idle());
    }

    #[test]
    fn what_is_overtaken_is_sent_again_at_once() {
        let mut sending = Sending::default();
        (0..5).for_each(|number| sending.send((1, 1, number), number));
        (0..4).for_each(|number| assert_eq!(sending.poll(Time(0)), Some((1, number))));
        sending.set_time(Time(1_000));
        sending.answered((1, 1, 1));
        sending.answered((1, 1, 2));
        assert_eq!(sending.poll(Time(1_000)), Some((1, 4)), "two may be late by chance");
        sending.answered((1, 1, 3));
        assert_eq!(sending.poll(Time(1_000)), Some((1, 0)));
        assert_eq!((sending.poll(Time(1_000)), sending.repeated()), (None, 1));
    }

    #[test]
    fn what_is_held_is_asked_for_once_more_when_all_is_answered() {
        let mut sending = Sending::default();
        sending.send((1, 1, 0), "question");
        assert_eq!(sending.poll(Time(0)), Some((1, "question")));
        sending.set_time(Time(1_000));
        sending.held((1, 1, 0));
        assert_eq!(sending.next_due(), Some(Time(1_000 + HELD_TIMEOUT_US)));
        sending.hasten(1);
        let due = sending.next_due().unwrap();
        assert!(due < Time(LONGEST_TIMEOUT_US) && sending.poll(Time(due.0 - 1)).is_none());
        assert_eq!(sending.poll(due), Some((1, "question")));
        sending.settled((1, 1, 0));
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
