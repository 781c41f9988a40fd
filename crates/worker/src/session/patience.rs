//! When waiting is worth a word: results have stopped coming, long before any deadline.

use std::time::Duration;

use wiresum_protocol::Time;

use super::failure::Failure;
use super::rounds::Left;

/// How often it looks whether results have come: well above what a busy host or a switch-over takes.
const LOOK: Duration = Duration::from_secs(10);
/// Looks in vain after which it says so whoever is late: ranks compile and write checkpoints for less than a minute.
const LATE: u32 = 6;

/// Looks now and then whether open rounds get on.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    /// When it looks next; `None`: nothing is open.
    due: Option<Time>,
    seen: Left,
    /// Looks that saw the same.
    in_vain: u32,
    has_told: bool,
}

impl Patience {
    /// A round was opened, or may go on.
    pub fn begin(&mut self, left: Left, now: Time) {
        *self = Self { due: Some(now.plus(LOOK)), seen: left, ..Self::default() };
    }

    /// As [`Self::begin`], if nothing was open before.
    pub fn go_on(&mut self, left: Left, now: Time) {
        if self.due.is_none() {
            self.begin(left, now);
        }
    }

    /// When it looks next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Looks, if it is time: whether nothing has come since it looked last.
    pub fn looks_in_vain(&mut self, left: Option<Left>, now: Time) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        let Some(left) = left else {
            self.due = None;
            return false;
        };
        if left != self.seen {
            self.begin(left, now);
            return false;
        }
        (self.due, self.in_vain) = (Some(now.plus(LOOK)), self.in_vain + 1);
        !self.has_told
    }

    /// Whether this is to be said now: at once of nodes that are not there, of others once they are very late.
    pub fn tells(&mut self, why: &Failure) -> bool {
        let is_absent = matches!(why, Failure::Silent { .. } | Failure::NotWelcomed { .. });
        self.has_told = is_absent || self.in_vain >= LATE;
        self.has_told
    }
}
