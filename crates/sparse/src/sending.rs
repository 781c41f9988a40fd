//! What was sent and not answered, to be sent again; and what is kept for a receiver that restarts.
//!
//! Answers tell what is lost: a message is, if some that were sent later have been answered (RFC 9002, section 6.1).
//! What was sent last has nothing behind it. So where nothing is answered for longer than a round trip takes, a message
//! is sent once more, as a probe (RFC 8985, section 7): its answer tells of those before it, and no window shrinks for
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use wiresum_netem::Time;

use crate::flow::{Flow, HELD_TIMEOUT_US, LONGEST_TIMEOUT_US, MOST_DOUBLINGS};

/// The number of a round's end among its packets.
pub(crate) const END: u32 = u32::MAX;

/// The number of what is decided about the map, among the messages of a round.
pub(crate) const DECISION: u32 = u32::MAX - 1;

/// A message: to whom, of which round, and which of the round.
pub(crate) type Key = (u16, u32, u32);

/// Whether it counts how soon an answer comes, and how often the message is sent: an end may be answered when
/// everybody's has come.
fn is_numbered(key: Key) -> bool {
    key.2 < DECISION
}

/// A message is lost if so many that were sent after it to the same receiver have come before it, as in TCP (RFC 9002,
/// 6.1.1).
const OVERTAKEN_BY: u64 = 3;

/// Messages that are kept for receivers that restart, each a packet at most: about 1.5 GB.
const MOST_KEPT: usize = 1 << 20;

/// The round and the number of a message.
type Turn = (u32, u32);

#[derive(Clone, Debug)]
struct Waiting {
    /// When it is sent again, if that is known: it is lost, or has been held for long.
    due: Option<Time>,
    /// When it was sent last.
    sent: Time,
    /// Counts what was sent to the receiver: when it was sent first, and last.
    serials: (u64, u64),
    is_resent: bool,
    /// The receiver has it, and will answer later.
    is_held: bool,
}

/// What one receiver is to get, and what is under way to it.
#[derive(Clone, Debug, Default)]
struct Receiver {
    fresh: BTreeSet<Turn>,
    waiting: BTreeMap<Turn, Waiting>,
    /// Turns of messages that wait and are not known to be lost, by the number of when they were sent last.
    serials: BTreeMap<u64, Turn>,
    /// Those of them that are held: they are on no link, so no window counts them.
    held: usize,
    sent: u64,
    flow: Flow,
    /// When a message is sent again to learn which ones are lost, if nothing is answered before.
    probe: Option<Time>,
    /// Probes since the last answer.
    probes: u32,
    /// Nothing of the rounds up to this one is kept any more.
    forgotten: u32,
}

impl Receiver {
    /// Whether one more may be under way, and it has had all of the rounds before: one that was restarted drops what is of
    /// later rounds than its own.
    fn next(&self) -> Option<Turn> {
        let next = *self.fresh.first()?;
        let is_its_turn = self.waiting.first_key_value().is_none_or(|(turn, _)| turn.0 >= next.0);
        (is_its_turn && self.flow.has_room(self.waiting.len() - self.held)).then_some(next)
    }

    /// Puts the next probe off, as something was sent or answered.
    fn wait_for_answers(&mut self, now: Time) {
        let wait_us = self.flow.probe_us() << self.probes.min(MOST_DOUBLINGS);
        self.probe = self.is_expecting().then_some(Time(now.0 + wait_us.min(LONGEST_TIMEOUT_US)));
    }

    /// When a probe is due.
    fn probe(&self) -> Option<Time> {
        self.probe.filter(|_| self.is_expecting())
    }

    /// Whether answers are on their way.
    fn is_expecting(&self) -> bool {
        self.serials.len() > self.held
    }

    /// The message that a probe sends again: the last one, whose answer tells of all before it; then each in turn.
    fn probed(&self) -> Option<Turn> {
        let mut expected = self.serials.values().filter(|turn| !self.waiting[*turn].is_held);
        if self.probes == 0 { expected.next_back().copied() } else { expected.next().copied() }
    }
}

/// Messages to several receivers.
#[derive(Clone, Debug)]
pub(crate) struct Sending<M> {
    kept: BTreeMap<Key, M>,
    most_kept: usize,
    receivers: BTreeMap<u16, Receiver>,
    /// When what is lost is sent again.
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
        Self { kept, most_kept: MOST_KEPT, receivers, due, last, flows, repeated, now }
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
        self.keep(key, message);
        self.receiver(key.0).fresh.insert((key.1, key.2));
    }

    /// Keeps a message for a receiver that restarts.
    pub(crate) fn keep(&mut self, key: Key, message: M) {
        self.kept.insert(key, message);
        if self.kept.len() > self.most_kept {
            self.forget_oldest(key);
        }
    }

    /// Makes room for a message by its receiver's oldest round, unless that may still be unanswered.
    fn forget_oldest(&mut self, (to, round, _): Key) {
        let oldest = self.kept.range((to, 0, 0)..).next().map(|((_, oldest, _), _)| *oldest);
        if let Some(oldest) = oldest.filter(|oldest| *oldest < round.saturating_sub(1)) {
            self.forget(to, oldest);
        }
    }

    /// A message has come.
    pub(crate) fn answered(&mut self, key: Key) {
        if let Some(waiting) = self.take(key) {
            self.learn(key, &waiting, true);
        }
    }

    /// A server has a message; an end it answers with the news, when everybody's has come.
    pub(crate) fn acknowledged(&mut self, key: Key) {
        if key.2 == END { self.held(key) } else { self.answered(key) }
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
        self.learn(key, &waiting, false);
        waiting.is_held = true;
        let end_timeout_us = self.receiver(key.0).flow.end_timeout_us();
        let timeout_us = if key.2 == END { end_timeout_us } else { HELD_TIMEOUT_US };
        waiting.due = Some(Time(self.now.0 + timeout_us));
        self.put(key, waiting);
    }

    /// A receiver has answered all that it held: what has not come by now is lost.
    pub(crate) fn hasten(&mut self, to: u16) {
        let Some(receiver) = self.receivers.get(&to) else { return };
        let due = Time(self.now.0 + receiver.flow.reordering_us());
        let held = receiver.waiting.iter().filter(|(_, one)| one.is_held);
        for turn in held.map(|(turn, _)| *turn).collect::<Vec<_>>() {
            self.make_due((to, turn.0, turn.1), due);
        }
    }

    /// Has a message that waits be sent again at this time, if not before.
    fn make_due(&mut self, key: Key, due: Time) {
        let receiver = self.receivers.get_mut(&key.0);
        let waiting = receiver.and_then(|one| one.waiting.get_mut(&(key.1, key.2)));
        let Some(waiting) = waiting else { return };
        if let Some(before) = waiting.due {
            self.due.remove(&(before, key));
        }
        let due = waiting.due.map_or(due, |before| before.min(due));
        waiting.due = Some(due);
        self.due.insert((due, key));
    }

    /// Takes a message off the way.
    fn take(&mut self, key: Key) -> Option<Waiting> {
        let receiver = self.receivers.get_mut(&key.0)?;
        receiver.fresh.remove(&(key.1, key.2));
        let waiting = receiver.waiting.remove(&(key.1, key.2))?;
        receiver.serials.remove(&waiting.serials.1);
        receiver.held -= usize::from(waiting.is_held);
        if let Some(due) = waiting.due {
            self.due.remove(&(due, key));
        }
        Some(waiting)
    }

    fn put(&mut self, key: Key, waiting: Waiting) {
        self.due.extend(waiting.due.map(|due| (due, key)));
        let now = self.now;
        let receiver = self.receiver(key.0);
        receiver.serials.insert(waiting.serials.1, (key.1, key.2));
        receiver.held += usize::from(waiting.is_held);
        receiver.waiting.insert((key.1, key.2), waiting);
        receiver.wait_for_answers(now);
    }

    /// What an answer says: of the round trip, and of messages that it has overtaken. One that was sent more than once
    /// has overtaken what was sent before its first time, whichever of them is answered; of the round trip it tells
    /// nothing (Karn and Partridge, SIGCOMM 1987). What is held is overtaken by answers alone, as these come in the
    /// order of questions.
    fn learn(&mut self, key: Key, answered: &Waiting, is_answer: bool) {
        let now = self.now;
        let Some(receiver) = self.receivers.get_mut(&key.0) else { return };
        receiver.probes = 0;
        receiver.wait_for_answers(now);
        if is_numbered(key) && !answered.is_resent && !answered.is_held {
            receiver.flow.answered(now.0.saturating_sub(answered.sent.0), now);
        }
        let (first, late_us) = (answered.serials.0, receiver.flow.overtaken_us());
        let overtaken = receiver.serials.range(..first).filter_map(|(serial, turn)| {
            let one = &receiver.waiting[turn];
            let is_lost = serial + OVERTAKEN_BY <= first;
            let due = if is_lost { now } else { Time(one.sent.0 + late_us).max(now) };
            (!one.is_held || is_answer && is_lost).then_some((*turn, due, is_lost))
        });
        for (turn, due, is_lost) in overtaken.collect::<Vec<_>>() {
            if is_lost {
                self.forget_serial(key.0, turn);
            }
            self.make_due((key.0, turn.0, turn.1), due);
        }
    }

    /// A message is known to be lost: no answer is waited for until it is sent again.
    fn forget_serial(&mut self, to: u16, turn: Turn) {
        let receiver = self.receiver(to);
        let waiting = receiver.waiting.get_mut(&turn).expect("what has a serial number waits");
        receiver.serials.remove(&waiting.serials.1);
        receiver.held -= usize::from(std::mem::take(&mut waiting.is_held));
    }

    /// All messages of a round and those before have come.
    pub(crate) fn all_answered(&mut self, to: u16, round: u32) {
        let now = self.now;
        let Some(receiver) = self.receivers.get_mut(&to) else { return };
        receiver.fresh = receiver.fresh.split_off(&(round.saturating_add(1), 0));
        let later = receiver.waiting.split_off(&(round.saturating_add(1), 0));
        let over = std::mem::replace(&mut receiver.waiting, later);
        if over.is_empty() {
            // What says nothing new puts off no probe: it may be said more often than probes are due.
            return;
        }
        for (turn, waiting) in over {
            receiver.serials.remove(&waiting.serials.1);
            receiver.held -= usize::from(waiting.is_held);
            if let Some(due) = waiting.due {
                self.due.remove(&(due, (to, turn.0, turn.1)));
            }
        }
        receiver.probes = 0;
        receiver.wait_for_answers(now);
    }

    /// Nothing of these rounds will be asked for again.
    pub(crate) fn forget(&mut self, to: u16, round: u32) {
        self.all_answered(to, round);
        let over = self.kept.range((to, 0, 0)..=(to, round, u32::MAX)).map(|(key, _)| *key);
        for key in over.collect::<Vec<_>>() {
            self.kept.remove(&key);
        }
        let receiver = self.receiver(to);
        receiver.forgotten = receiver.forgotten.max(round);
    }

    /// The last round of which a receiver lacks something that is not kept any more, if it restarts from what it was after
    /// round `version`.
    pub(crate) fn forgotten_after(&self, to: u16, version: u32) -> Option<u32> {
        let forgotten = self.receivers.get(&to)?.forgotten;
        (forgotten > version).then_some(forgotten)
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
            Some(key) => self.repeat(key, true),
            None => match self.next_probe() {
                Some(key) => self.repeat(key, false),
                None => self.begin(self.next_fresh()?),
            },
        };
        Some((key.0, self.kept[&key].clone()))
    }

    fn begin(&mut self, key: Key) -> Key {
        self.last = key.0;
        let now = self.now;
        let receiver = self.receivers.get_mut(&key.0).expect("its turn has come");
        receiver.fresh.remove(&(key.1, key.2));
        receiver.sent += 1;
        let serials = (receiver.sent, receiver.sent);
        let (due, is_resent, is_held) = (None, false, false);
        self.put(key, Waiting { due, sent: now, serials, is_resent, is_held });
        key
    }

    /// Sends a message again: it is lost, or it is a probe.
    fn repeat(&mut self, key: Key, is_lost: bool) -> Key {
        let mut waiting = self.take(key).expect("what is due waits");
        let now = self.now;
        let receiver = self.receiver(key.0);
        receiver.sent += 1;
        // Answers to what was held before have come already.
        let first = if waiting.is_held { receiver.sent } else { waiting.serials.0 };
        waiting.serials = (first, receiver.sent);
        if is_numbered(key) && !waiting.is_held {
            if is_lost {
                receiver.flow.lost(now);
            }
            self.repeated += 1;
        }
        (waiting.due, waiting.sent) = (None, now);
        (waiting.is_resent, waiting.is_held) = (true, false);
        self.put(key, waiting);
        key
    }

    /// A message to a receiver that has not answered for long.
    fn next_probe(&mut self) -> Option<Key> {
        let now = self.now;
        let is_silent = |receiver: &Receiver| receiver.probe().is_some_and(|probe| probe <= now);
        let (to, receiver) = self.receivers.iter_mut().find(|(_, one)| is_silent(one))?;
        let turn = receiver.probed().expect("answers are waited for");
        receiver.probes += 1;
        Some((*to, turn.0, turn.1))
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
        let probes = self.receivers.values().filter_map(Receiver::probe);
        self.due.first().map(|(due, _)| *due).into_iter().chain(probes).min()
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
    fn what_is_lost_again_is_sent_again() {
        let mut sending = Sending::default();
        (0..9).for_each(|number| sending.send((1, 1, number), number));
        (0..4).for_each(|number| assert_eq!(sending.poll(Time(0)), Some((1, number))));
        sending.set_time(Time(1_000));
        (1..4).for_each(|number| sending.answered((1, 1, number)));
        assert_eq!(sending.poll(Time(1_000)), Some((1, 0)));
        (4..8).for_each(|number| assert_eq!(sending.poll(Time(1_000)), Some((1, number))));
        sending.set_time(Time(2_000));
        (5..8).for_each(|number| sending.answered((1, 1, number)));
        let mut again = [sending.poll(Time(2_000)).unwrap(), sending.poll(Time(2_000)).unwrap()];
        again.sort_unstable();
        assert_eq!(again, [(1, 0), (1, 4)], "neither its second time nor 4 has come");
    }

    #[test]
    fn a_probe_tells_what_was_lost_last() {
        let mut sending = Sending::default();
        sending.send((1, 1, 0), 0);
        assert_eq!(sending.poll(Time(0)), Some((1, 0)));
        sending.set_time(Time(10_000));
        sending.answered((1, 1, 0));
        (1..5).for_each(|number| sending.send((1, 1, number), number));
        (1..5).for_each(|number| assert_eq!(sending.poll(Time(10_000)), Some((1, number))));
        let probe = sending.next_due().unwrap();
        assert!((30_000..60_000).contains(&probe.0), "a round trip and more: {probe:?}");
        assert_eq!((sending.poll(probe), sending.poll(probe)), (Some((1, 4)), None));
        assert!(sending.next_due().unwrap().0 > probe.0 + 40_000, "the next one waits longer");
        sending.set_time(probe);
        sending.answered((1, 1, 4));
        let lost: Vec<_> = std::iter::from_fn(|| sending.poll(probe)).collect();
        assert_eq!(lost.len(), 3, "{lost:?}");
    }

    #[test]
    fn a_probe_is_due_however_often_old_rounds_are_forgotten() {
        let mut sending = Sending::default();
        sending.send((1, 5, 0), 0);
        assert_eq!(sending.poll(Time(0)), Some((1, 0)));
        let probe = sending.next_due().unwrap();
        for now in (0..probe.0).step_by(1_000) {
            sending.set_time(Time(now));
            sending.forget(1, 4);
            assert_eq!(sending.poll(Time(now)), None);
        }
        assert_eq!(sending.poll(probe), Some((1, 0)));
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
        assert_eq!((sending.forgotten_after(0, 0), sending.forgotten_after(0, 1)), (Some(1), None));
        sending.restarted(0, 2);
        assert_eq!(sending.poll(Time(0)), Some((0, 3)));
        assert_eq!(sending.poll(Time(0)), None, "round 3 is not closed yet");
        sending.all_answered(0, 3);
        assert_eq!(sending.poll(Time(0)), Some((0, 4)));
        assert_eq!(sending.poll(Time(0)), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut sending = Sending { most_kept: 10, ..Sending::default() };
        for round in 1..=100 {
            (0..3).for_each(|number| sending.send((0, round, number), round));
            sending.all_answered(0, round);
        }
        assert!(sending.kept.len() <= 10, "{}", sending.kept.len());
        assert_eq!(
            (sending.forgotten_after(0, 96), sending.forgotten_after(0, 97)),
            (Some(97), None)
        );
        sending.restarted(0, 97);
        assert_eq!(sending.poll(Time(0)), Some((0, 98)));
    }
}
