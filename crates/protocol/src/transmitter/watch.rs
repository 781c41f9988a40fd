//! Whether a parent is there, while nothing on its way to it would tell.
//!
//! A node whose children have not all sent has no sums on their way, so no questions either. Where the parent is gone,
//! or was restarted and does not know this node, some of the workers below may have learned of it and have left, and
//! the others would wait for them here for ever. So the node asks now and then, and tells them.

use std::time::Duration;

use crate::Time;
use crate::recovery::{PULSE, SILENCE};

/// Between two questions that are answered: what workers that wait for each other at two places may lose, and a packet
/// of 200 bytes.
const INTERVAL: Duration = Duration::from_secs(1);
/// From a question that is not answered to the next: several fit in [`SILENCE`].
const RETRY: Duration = Duration::from_millis(100);
/// Questions without an answer after which the parent counts as silent: two may be lost.
const SILENT_QUESTIONS: u32 = 3;

/// The questions to one parent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// The parent has welcomed this node, so it is to answer.
    is_on: bool,
    /// When to ask next; absent until the first look at the clock.
    ask_at: Option<Time>,
    /// Questions without an answer.
    unanswered: u32,
    /// When the first of them was sent.
    since: Time,
}

impl Watch {
    /// The parent has to answer from now on, or has not.
    pub fn follow(&mut self, is_welcome: bool) {
        if is_welcome != self.is_on {
            *self = Self { is_on: is_welcome, ..Self::default() };
        }
    }

    /// Something else tells whether the parent is there, or it has answered.
    pub fn rest(&mut self, now: Time) {
        (self.unanswered, self.ask_at) = (0, self.is_on.then(|| now.plus(INTERVAL)));
    }

    /// Begins to wait, if it has not. Whether the parent is silent: once, as it is not asked again before the next
    /// welcome.
    pub fn finds_silence(&mut self, now: Time) -> bool {
        if self.is_on && self.ask_at.is_none() {
            self.rest(now);
        }
        let is_due = self.ask_at.is_some_and(|at| at <= now);
        let is_silent = self.unanswered >= SILENT_QUESTIONS && self.since.plus(SILENCE) <= now;
        let is_found = is_due && is_silent;
        if is_found {
            *self = Self::default();
        }
        is_found
    }

    /// The echo of the question to send now, if one is due.
    pub fn next_question(&mut self, now: Time) -> Option<u32> {
        self.ask_at.filter(|at| *at <= now)?;
        if self.unanswered == 0 {
            self.since = now;
        }
        self.unanswered += 1;
        self.ask_at = Some(now.plus(RETRY));
        Some(PULSE | self.unanswered)
    }

    /// When something is due.
    pub fn alarm(&self) -> Option<Time> {
        self.ask_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A watch that began at 0, and when its questions leave until a time, at which it may have found silence.
    fn questions(watch: &mut Watch, from: u64, until: u64) -> (Vec<u64>, bool) {
        let mut sent = Vec::new();
        for now in (from..=until).step_by(1000) {
            if watch.finds_silence(Time(now)) {
                return (sent, true);
            }
            sent.extend(watch.next_question(Time(now)).map(|_| now));
        }
        (sent, false)
    }

    #[test]
    fn a_parent_that_answers_is_asked_once_a_second() {
        let mut watch = Watch::default();
        watch.follow(true);
        for second in 0..5 {
            let (sent, is_silent) = questions(&mut watch, second * SECOND, (second + 1) * SECOND);
            assert_eq!((sent, is_silent), (vec![(second + 1) * SECOND], false));
            watch.rest(Time((second + 1) * SECOND));
        }
    }

    #[test]
    fn silence_is_found_once_and_not_looked_for_until_the_next_welcome() {
        let mut watch = Watch::default();
        watch.follow(true);
        let asked = vec![SECOND, SECOND + 100_000, SECOND + 200_000];
        assert_eq!(questions(&mut watch, 0, 9 * SECOND), (asked, true));
        assert_eq!(watch.alarm(), None);
        watch.follow(false);
        assert_eq!(questions(&mut watch, 9 * SECOND, 12 * SECOND), (vec![], false));
        watch.follow(true);
        let (sent, _) = questions(&mut watch, 12 * SECOND, 13 * SECOND);
        assert_eq!(sent, [13 * SECOND]);
    }

    #[test]
    fn two_questions_may_be_lost() {
        let mut watch = Watch::default();
        watch.follow(true);
        assert_eq!(questions(&mut watch, 0, SECOND + 200_000).0.len(), 3);
        watch.rest(Time(SECOND + 201_000));
        assert_eq!(questions(&mut watch, SECOND + 201_000, 2 * SECOND), (vec![], false));
    }
}
