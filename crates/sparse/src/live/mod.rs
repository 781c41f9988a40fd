//! The machines as participants of a job: datagrams in, datagrams out, by the job's file.
//!
//! A [`Member`] is a worker, a [`Host`] a server of tables or a switch that sums hot rows. Both are sans-IO: what carries
//! datagrams calls `handle` with what has come, `poll` until there is nothing more to send, and comes back at
//! `poll_timeout`. [`keyed`] has the same for Zebra's program.

mod exchange;
mod host;
mod job;
pub mod keyed;
mod member;
mod renewal;
mod seats;
mod tree;

use std::net::SocketAddr;

use thiserror::Error;

use crate::worker::WorkerError;

pub use crate::packet::Renewal;
pub use host::{Host, HostCounters, HostError};
pub use job::{FORMAT, Job, JobError};
pub use member::Member;
pub use tree::Tree;

/// A datagram, and where it goes.
pub type Datagram = (SocketAddr, Vec<u8>);

/// Why a worker cannot go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MemberError {
    /// A node does not let it in.
    #[error("node {node} at {address} refuses this rank, {rank}: {reason}")]
    Refused {
        /// The node.
        node: u16,
        /// Where it is.
        address: SocketAddr,
        /// The worker's number.
        rank: u8,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A node that keeps nothing over a restart has lost the sums of a round.
    #[error(
        "node {node} at {address} was restarted, and the sums of the round are lost: begin the job anew"
    )]
    Restarted {
        /// The node.
        node: u16,
        /// Where it is.
        address: SocketAddr,
    },
    /// See [`WorkerError`].
    #[error(transparent)]
    Worker(#[from] WorkerError),
}
