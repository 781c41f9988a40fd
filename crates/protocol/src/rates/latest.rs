//! Which of two notifications counts, when their sender may have begun anew in between and counts from 1 again.
//!
//! A sender has an *epoch*, chosen when it begins; notifications are ordered by epoch, then by number. So those of a sender's former
//! life are late, however many there were. A clock that was set back would make a new life look like a former one; so where the
//! epoch that counts has been silent for longer than packets live, any other takes its place. Should a late one ever do so, the
//! next of the living epoch is newer and puts things right.

use std::time::Duration;

use crate::Time;

/// Beyond the longest time that a packet may be on its way, and far beyond the pause between a sender's repetitions.
const SILENCE_OF_AN_EPOCH: Duration = Duration::from_secs(1);
/// How finely epochs are told apart: no process begins, fails and begins again in less than a sixteenth of a second, and the numbers
/// go round in eight years.
const EPOCHS_PER_SECOND: u128 = 16;

/// When a sender of notifications began; the later one of two counts, in serial arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch of a sender that begins so long after 1970.
    #[must_use]
    pub fn at(unix_time: Duration) -> Self {
        Self((unix_time.as_millis() * EPOCHS_PER_SECOND / 1000) as u32)
    }

    fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
}

/// What a notification is, compared with those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// A newer one was here.
    Late,
    /// It was here.
    Repeated,
    /// It counts from now on.
    New,
}

/// The latest notification of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Latest {
    epoch: Epoch,
    /// 0 before the first.
    sequence: u32,
    heard_at: Time,
}

impl Latest {
    /// Number of the latest.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Takes a notification in.
    pub fn take(&mut self, epoch: Epoch, sequence: u32, now: Time) -> Novelty {
        let novelty = self.compare(epoch, sequence, now);
        if novelty != Novelty::Late {
            *self = Self { epoch, sequence, heard_at: now };
        }
        novelty
    }

    fn compare(&self, epoch: Epoch, sequence: u32, now: Time) -> Novelty {
        if self.sequence == 0 {
            return Novelty::New;
        }
        if epoch != self.epoch {
            let is_silent = now.since(self.heard_at) > SILENCE_OF_AN_EPOCH;
            let is_late = epoch.is_before(self.epoch) && !is_silent;
            return if is_late { Novelty::Late } else { Novelty::New };
        }
        match sequence.wrapping_sub(self.sequence) as i32 {
            0 => Novelty::Repeated,
            age if age < 0 => Novelty::Late,
            _ => Novelty::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_LIFE: Epoch = Epoch(u32::MAX);
    const SECOND_LIFE: Epoch = Epoch(3);

    #[test]
    fn within_an_epoch_the_number_decides() {
        let mut latest = Latest::default();
        let take = |latest: &mut Latest, n| latest.take(FIRST_LIFE, n, Time(0));
        assert_eq!(take(&mut latest, u32::MAX), Novelty::New);
        assert_eq!(take(&mut latest, 2), Novelty::New, "numbers wrap");
        assert_eq!(take(&mut latest, 2), Novelty::Repeated);
        assert_eq!(take(&mut latest, 1), Novelty::Late);
        assert_eq!(latest.sequence(), 2);
    }

    #[test]
    fn who_begins_anew_is_heard_at_once_and_its_former_life_no_more() {
        let mut latest = Latest::default();
        latest.take(FIRST_LIFE, 1000, Time(0));
        assert_eq!(latest.take(SECOND_LIFE, 1, Time(1)), Novelty::New);
        assert_eq!(latest.take(FIRST_LIFE, 1001, Time(2)), Novelty::Late);
        assert_eq!(latest.sequence(), 1);
    }

    #[test]
    fn a_clock_that_was_set_back_costs_a_second() {
        let mut latest = Latest::default();
        latest.take(SECOND_LIFE, 5, Time(0));
        assert_eq!(latest.take(FIRST_LIFE, 1, Time(1_000_000)), Novelty::Late);
        assert_eq!(latest.take(FIRST_LIFE, 1, Time(1_000_001)), Novelty::New);
        assert_eq!(
            latest.take(SECOND_LIFE, 5, Time(1_000_002)),
            Novelty::New,
            "it lives after all"
        );
    }

    #[test]
    fn epochs_are_sixteenths_of_a_second() {
        assert_eq!(Epoch::at(Duration::from_millis(1125)), Epoch(18));
        assert_eq!(Epoch::at(Duration::from_secs(1 << 28)), Epoch(0));
    }
}
