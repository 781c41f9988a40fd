//! What a worker is told, and what it tells.

use std::time::Duration;

use wiresum_plan::Sender;
use wiresum_wire::{JobId, NodeId, SubModelId};

use super::{Addressing, Window};
use crate::ANY_NODE;
use crate::policy::Policy;

/// How long nothing is heard before something is sent again, unless a plan says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(2);

/// One worker's stream, as the plan has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The policy of its switches.
    pub policy: Policy,
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// This worker's bit.
    pub worker: u8,
    /// Workers of which a result is the sum.
    pub workers: u8,
    /// Where it is to be summed, or [`ANY_NODE`].
    pub node: NodeId,
    /// Position p is sent only after the result of p − window; at least 1.
    pub window: u32,
    /// Window to begin with, where the policy adapts it.
    pub initial_window: u32,
    /// First slot of the stream, where the sender chooses slots.
    pub base: u32,
    /// Slots that it may choose from; at least 1.
    pub slots: u32,
    /// Urgency, where the policy preempts.
    pub priority: u8,
    /// How long nothing is heard before the oldest position is sent again; doubled in a row.
    pub timeout: Duration,
}

impl Sending {
    /// As a plan has it.
    #[must_use]
    pub fn of(policy: Policy, sender: &Sender) -> Self {
        let Sender { job, sub_model, worker, workers, node, window, .. } = *sender;
        let Sender { base, slots, priority, timeout, .. } = *sender;
        Self {
            policy,
            job,
            sub_model,
            worker,
            workers,
            node,
            window,
            initial_window: window,
            base,
            slots,
            priority,
            timeout,
        }
    }
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            policy: Policy::Pool,
            job: JobId(0),
            sub_model: SubModelId(0),
            worker: 0,
            workers: 1,
            node: ANY_NODE,
            window: 1,
            initial_window: 1,
            base: 0,
            slots: 1,
            priority: 0,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

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
