//! Why a worker is not part of its job, and why a collective did not end in a sum.

use std::net::SocketAddr;

use thiserror::Error;
use wiresum_codec::FormatError;
use wiresum_worker::Failure;

/// Why a worker is not part of its job.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The plan has no such worker.
    #[error("rank {rank} is not in the plan, which has {workers} workers")]
    Rank {
        /// Rank asked for.
        rank: u32,
        /// Workers in the plan.
        workers: usize,
    },
    /// The plan's lanes and codec cannot carry its workers' values.
    #[error("plan field `job`: {0}")]
    Format(#[from] FormatError),
    /// The job cannot go on without these workers.
    #[error("the job cannot go on without ranks {absent:?}: {problem}")]
    Absent {
        /// Their ranks.
        absent: Vec<u32>,
        /// Why not.
        problem: &'static str,
    },
    /// The job has not these seats, or not for these members.
    #[error("the job cannot be that of the members with seats {seats:?}: {problem}")]
    Members {
        /// Their seats, by rank.
        seats: Vec<u32>,
        /// Why not.
        problem: &'static str,
    },
    /// The sums are sealed from whom these keys are for.
    #[error(
        "these are the keys of a node, which cannot open sealed sums: give this rank the job's secret"
    )]
    Keys,
    /// This worker's nodes cannot be reached through one socket.
    #[error(
        "the nodes that rank {0} sends to have both IPv4 and IPv6 addresses: use one family in the plan"
    )]
    MixedFamilies(u32),
    /// The address is not this host's, or its port is taken.
    #[error(
        "cannot bind {address}: {source}; is workers[{rank}].address of the plan an address of this host?"
    )]
    Bind {
        /// Address asked for.
        address: SocketAddr,
        /// Rank whose address it is.
        rank: u32,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The process has no thread or descriptor left.
    #[error("cannot start the engine's thread: {0}")]
    Start(#[source] std::io::Error),
    /// No node, or a refusal.
    #[error("{failure}{remark}")]
    Protocol {
        /// What the protocol says.
        failure: Failure,
        /// What the socket has to add.
        remark: String,
    },
}

/// Why a collective did not end in a sum.
#[derive(Clone, Debug, Error)]
pub enum CollectiveError {
    /// A failure of the protocol: see [`Failure`] for which of them end the job.
    #[error("{failure}{remark}")]
    Protocol {
        /// What the protocol says.
        failure: Failure,
        /// What the socket has to add.
        remark: String,
    },
    /// The engine's thread has ended.
    #[error("the engine is closed")]
    Closed,
    /// The engine's thread has ended because of an error of the operating system, or a defect.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
}

/// The badness of what ends the job.
const WORST: u8 = 3;

impl CollectiveError {
    /// What the job of another thread of this rank ends with because of this.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Protocol { failure, .. } => failure.clone(),
            Self::Closed | Self::Stopped(_) => Failure::Ended { why: self.to_string() },
        }
    }

    /// Whether no later collective can be summed, by anybody.
    pub(super) fn ends_the_job(&self) -> bool {
        self.badness() == WORST
    }

    /// How much of the job has ended with it: of the parts of a collective the worst counts.
    pub(super) fn badness(&self) -> u8 {
        match self {
            Self::Protocol { failure, .. } if failure.spares_the_job() => 1,
            Self::Protocol { failure: Failure::NotServed { .. }, .. } => 2,
            _ => WORST,
        }
    }
}
