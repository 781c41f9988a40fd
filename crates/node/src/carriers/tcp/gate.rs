//! Who has to wait for whom: back-pressure without deadlock.
//!
//! A packet from a child may cause one to the parent or to the children; a packet from a parent only to the children. So
//! children have to wait while a box towards the parent or a child of the same job is full, parents only for children. Workers
//! read whatever happens, so by induction up the tree every box towards a child empties, and then every box towards a
//! parent. Where trees of one job cross each other, a wait may close a circle; it ends, as does the wait for a peer that has
//! stopped to read, when nothing has moved for [`STALL_TIME`]: what does not fit is lost from then on, and asked for again.

use std::time::{Duration, Instant};

use super::outbox::FULL_LEN;

/// How long a peer may take nothing before others of its job stop to wait for it: several of TCP's shortest retransmission
/// timeouts (200 ms), so that loss alone is no stall.
pub const STALL_TIME: Duration = Duration::from_secs(1);

/// How full the box towards one peer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pressure {
    /// There is room.
    #[default]
    Low,
    /// Others have to wait for this peer, which last took something at this time.
    High(Instant),
    /// It has taken nothing for long; no one waits for it until its box is half empty.
    Stalled,
}

impl Pressure {
    /// The pressure when `waiting` bytes are in the box; `has_moved` if the peer has just taken some.
    pub fn after(self, waiting: usize, has_moved: bool, now: Instant) -> Self {
        match self {
            Self::Low if waiting < FULL_LEN => Self::Low,
            Self::Low => Self::High(now),
            // Not at the first gap, or each packet would open and close the gate.
            Self::High(_) | Self::Stalled if waiting < FULL_LEN / 2 => Self::Low,
            Self::High(_) if has_moved => Self::High(now),
            Self::High(since) if now >= since + STALL_TIME => Self::Stalled,
            same => same,
        }
    }

    /// Whether others have to wait.
    pub fn is_high(self) -> bool {
        matches!(self, Self::High(_))
    }
}

/// Whether the children and the parents of one job may be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate {
    /// The box of a child is full.
    pub is_child_full: bool,
    /// The box of a parent is full.
    pub is_parent_full: bool,
}

impl Gate {
    /// Whether what a peer has sent may be dealt with now.
    pub fn lets(self, is_parent: bool) -> bool {
        !self.is_child_full && (is_parent || !self.is_parent_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_nothing_is_waited_for_only_so_long() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut pressure = Pressure::default();
        for (waiting, has_moved, when, is_high, is_stalled) in [
            (FULL_LEN - 1, false, 0, false, false),
            (FULL_LEN, false, 0, true, false),
            (FULL_LEN - 1, true, 900, true, false),
            (FULL_LEN, false, 1800, true, false),
            (FULL_LEN, false, 1900, false, true),
            (FULL_LEN / 2, true, 2000, false, true),
            (FULL_LEN / 2 - 1, true, 2100, false, false),
            (FULL_LEN, false, 2200, true, false),
        ] {
            pressure = pressure.after(waiting, has_moved, at(when));
            assert_eq!(pressure.is_high(), is_high, "{waiting} at {when}: {pressure:?}");
            assert_eq!(pressure == Pressure::Stalled, is_stalled, "{waiting} at {when}");
        }
    }

    #[test]
    fn results_pass_a_full_parent() {
        let full_parent = Gate { is_parent_full: true, ..Gate::default() };
        let full_child = Gate { is_child_full: true, ..Gate::default() };
        assert_eq!([true, false].map(|is_parent| full_parent.lets(is_parent)), [true, false]);
        assert_eq!([true, false].map(|is_parent| full_child.lets(is_parent)), [false, false]);
        assert_eq!([true, false].map(|is_parent| Gate::default().lets(is_parent)), [true, true]);
    }
}
