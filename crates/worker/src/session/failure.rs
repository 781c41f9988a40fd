//! How a round, or joining, can fail.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;
use wiresum_wire::{NodeId, Round};

use super::shape::{self, Shape};

use crate::Members;

/// Why a round, or joining, did not succeed. Everything but `NotFinite` and `Unforeseen` ends the job: later rounds
/// fail with the same reason.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Failure {
    /// Some worker's values are not finite, or do not fit the codec. Every worker learns it in the same round, before
    /// it touches its sink.
    #[error(
        "a value is Inf or NaN, or does not fit the codec, on at least one rank; nothing was summed"
    )]
    NotFinite,
    /// The values' exponents are not those that were expected from the collectives before. Every worker learns it in
    /// the same round, before it touches its sink.
    #[error(
        "the values have grown or shrunk too much since the last collective of this shape to be summed with its exponents; \
         nothing was summed"
    )]
    Unforeseen,
    /// Ranks passed different collectives.
    #[error("ranks passed different collectives as number {round}: {}", shape::describe(shapes))]
    Mismatch {
        /// The round.
        round: Round,
        /// What was passed, by rank; nothing by a rank that was late.
        shapes: Vec<Option<Shape>>,
    },
    /// Contributors did not deliver in time.
    #[error(
        "collective {round} timed out after {waited:.1?}: no contribution to fragment {fragment} from {missing:?} at node {node}"
    )]
    Missing {
        /// The round.
        round: Round,
        /// First fragment without a result.
        fragment: u32,
        /// The node that waits.
        node: NodeId,
        /// Names (from the plan) of the children that it waits for.
        missing: Vec<String>,
        /// How long the round ran.
        waited: Duration,
    },
    /// This worker's node has done its part and the rest of the tree has not: all that can be seen from below.
    #[error(
        "collective {round} timed out after {waited:.1?}: node {node} has everyone's contribution to fragment {fragment} but no \
         result arrived; the fault is at or below one of {suspects:?}, whose own workers know more"
    )]
    NoResult {
        /// The round.
        round: Round,
        /// First fragment without a result.
        fragment: u32,
        /// The node that has everyone's contribution.
        node: NodeId,
        /// Names (from the plan) of the nodes above it and of everything else that those wait for.
        suspects: Vec<String>,
        /// How long the round ran.
        waited: Duration,
    },
    /// The aggregator does not answer.
    #[error(
        "collective {round} timed out: node {node} at {address} has been silent for {silent:.1?}"
    )]
    Silent {
        /// The round.
        round: Round,
        /// The node.
        node: NodeId,
        /// Where it should be.
        address: SocketAddr,
        /// For how long nothing was heard.
        silent: Duration,
    },
    /// A worker has sent no heartbeat for longer than it said.
    #[error("{}", describe_loss(*rank, name, *address, node, *is_own))]
    WorkerLost {
        /// The worker.
        rank: u32,
        /// Its name in the plan.
        name: String,
        /// Where it sends from, if the plan says so.
        address: Option<IpAddr>,
        /// Name of the node that it is a child of.
        node: String,
        /// It is this worker itself.
        is_own: bool,
    },
    /// No welcome in time.
    #[error(
        "node {node} at {address} did not answer within {waited:.1?}: is wiresum-node running there, with this plan \
         and keys of this job's secret? Whoever has another one gets no answer"
    )]
    NotWelcomed {
        /// The node.
        node: NodeId,
        /// Where it should be.
        address: SocketAddr,
        /// How long this worker tried.
        waited: Duration,
    },
    /// Turned away.
    #[error("node {node} refused this worker: {reason}")]
    Refused {
        /// The node.
        node: NodeId,
        /// Why, and what to do.
        reason: String,
    },
    /// The result's check fails although every hop's did not: an aggregator is broken.
    #[error(
        "node {node} sent a sum for fragment {fragment} whose check does not match its contributions"
    )]
    WrongSum {
        /// The node.
        node: NodeId,
        /// The fragment.
        fragment: u32,
    },
    /// A sealed sum is not that of what the ranks sent: someone on the way has changed it, or what they agreed on.
    #[error(
        "collective {round}: {what} is not what the ranks sent; it was changed at one of {suspects:?}, or on the way there; \
         look at these nodes before you run the job again"
    )]
    Altered {
        /// The round.
        round: Round,
        /// What was changed.
        what: Summed,
        /// Names (from the plan) of the nodes that sum it.
        suspects: Vec<String>,
    },
    /// The owner has ended the job, and says why.
    #[error("{why}")]
    Ended {
        /// What the owner says.
        why: String,
    },
    /// The network does not serve the job any more, as the owner says on every rank alike. A source that lies apart
    /// from the sink is as it was; some results may be in the sink, if this worker has sent anything.
    #[error("the network does not serve this job, and has not summed this: {why}")]
    NotServed {
        /// What the owner says.
        why: String,
    },
    /// The owner left while rounds were open.
    #[error("this worker has left the job")]
    Left,
}

fn describe_loss(
    rank: u32,
    name: &str,
    address: Option<IpAddr>,
    node: &str,
    is_own: bool,
) -> String {
    if is_own {
        return format!(
            "node {node} has taken this worker ({name}, rank {rank}) for dead, as nothing was heard from it for longer than its \
             WIRESUM_DEAD_AFTER: its process was stopped, or its host or link was down; the others have ended the job, so restart it"
        );
    }
    let place = address.map_or_else(String::new, |address| format!(" at {address}"));
    format!(
        "worker {name} (rank {rank}{place}) is lost: nothing was heard from it below node {node} for longer than its \
         WIRESUM_DEAD_AFTER; its process has ended or was stopped, or its host or link is down: look at its output, and restart \
         the job"
    )
}

/// What ranks get from nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summed {
    /// The sum of a fragment of the round.
    Fragment(u32),
    /// What the ranks agree on before the round, or beside it.
    Agreement,
}

impl fmt::Display for Summed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fragment(fragment) => write!(to, "the sum of fragment {fragment}"),
            Self::Agreement => to.write_str("the agreement on it"),
        }
    }
}

impl Failure {
    /// The same where a worker's rank is not its seat.
    pub(super) fn by_rank(mut self, members: Option<Members>) -> Self {
        if let (Self::WorkerLost { rank, .. }, Some(members)) = (&mut self, members) {
            *rank = members.rank_of(*rank as usize).map_or(*rank, |place| place as u32);
        }
        self
    }

    /// Whether the job goes on: every rank has this outcome for the same round, and its sink as it was.
    #[must_use]
    pub fn spares_the_job(&self) -> bool {
        matches!(self, Self::NotFinite | Self::Unforeseen)
    }
}
