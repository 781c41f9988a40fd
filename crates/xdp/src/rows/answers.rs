//! What a switch for hot rows tells its station.

use wiresum_wire::Verdict;

/// What an end of a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// [`Verdict::Control`] if it was news; `Duplicate`, `Stale`, `Early`, or `Wrong`.
    pub verdict: Verdict,
    /// Whether the round is complete, which it was not before.
    pub is_complete: bool,
}

/// How far the open round of a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// All rows before this position have come, of all workers.
    pub reached: u32,
    /// Whether all have come.
    pub is_complete: bool,
}
