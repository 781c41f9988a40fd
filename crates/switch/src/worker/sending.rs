//! How the senders of a policy behave, and what they tell.

use super::{Addressing, Window};

/// How the senders of a policy behave.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How many may be on their way.
    pub window: Window,
    /// Which slot a position goes to.
    pub addressing: Addressing,
    /// A position counts as lost once the result of one has come that was sent so many packets after it.
    pub reordering: u32,
    /// Whether results that are overtaken tell of a loss: not so where switches evict fragments, or refuse some of them for a while.
    pub is_ordered: bool,
    /// Whether a position is held back, and marked EARLY, while an older one in its slot has no result.
    pub is_slot_bound: bool,
}

/// What a packet from above was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A result that was waited for: its values are to be taken.
    Fresh,
    /// A result that is here already, or was never asked for.
    Duplicate,
    /// Word that a contribution was not summed.
    Refused,
    /// Not for this stream.
    Foreign,
}

/// What a worker counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounters {
    /// Contributions sent, repetitions included.
    pub sent: u64,
    /// Repetitions.
    pub resent: u64,
    /// Results taken.
    pub results: u64,
    /// Results and refusals that told of congestion.
    pub marked: u64,
    /// Times that a slot was chosen anew.
    pub rehashed: u64,
    /// Deadlines that passed without news.
    pub timeouts: u64,
}
