//! Why a client's call fails.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use wiresum_protocol::Time;
use wiresum_sparse::live::MemberError;

/// A node that has said nothing for so long is named where a call takes too long.
const SILENCE: Duration = Duration::from_secs(1);

/// Why a call of a [`RowClient`](super::RowClient) or of a [`PairClient`](crate::pairs::PairClient) fails.
/// [`Self::is_usage`] says whether the job can go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientError {
    /// A rank that the job does not have.
    #[error("there is no rank {rank}: the job has {workers} workers")]
    Rank {
        /// The rank.
        rank: u32,
        /// Workers of the job.
        workers: u32,
    },
    /// The kernel refuses the address.
    #[error("cannot receive at {address}: {problem}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        problem: String,
    },
    /// The kernel refuses to go on.
    #[error("the socket fails: {0}")]
    Socket(String),
    /// A table that the job does not have.
    #[error("the job has no table {0}")]
    NoTable(u16),
    /// A row that the table does not have.
    #[error("table {table} has rows 0 to {last}, and row {key} is none: check the index")]
    NoRow {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
        /// The last row.
        last: u64,
    },
    /// Other numbers of values than the rows have.
    #[error("table {table} has rows of {len} values, and {found} came for {rows} rows")]
    Length {
        /// Name of the table.
        table: String,
        /// Values of a row, with the optimizer's state where that is asked for or put.
        len: usize,
        /// Values that came.
        found: usize,
        /// Rows.
        rows: usize,
    },
    /// Rows that travel in no packet.
    #[error(
        "table {table}: a row with the optimizer's state takes {bytes} bytes of a packet, which has room for {room}: raise packet_bytes"
    )]
    Long {
        /// Name of the table.
        table: String,
        /// Bytes of a packet with one row, after its headers.
        bytes: usize,
        /// Room of a packet.
        room: usize,
    },
    /// Inf, NaN, or beyond ±2¹².
    #[error(
        "table {table}: row {key} has a gradient that is not finite or not within ±4096: clip it, or lower the loss scale"
    )]
    Range {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
    },
    /// See [`MemberError`].
    #[error(transparent)]
    Member(#[from] MemberError),
    /// Too long.
    #[error("{what} took longer than {seconds} s: {who}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The bound.
        seconds: u64,
        /// Who is silent, or what else it may be.
        who: String,
    },
    /// The caller gave up.
    #[error("interrupted: the round is not over, and the job cannot go on")]
    Interrupted,
}

impl ClientError {
    /// A call took too long.
    ///
    /// # Arguments
    /// * `silent`: nodes that have said nothing since some time.
    /// * `other`: what else it may be, where none is silent.
    pub(crate) fn timeout<Silent: Iterator<Item = (u16, SocketAddr)>>(
        what: &'static str,
        after: Duration,
        now: Time,
        silent: impl FnOnce(Time) -> Silent,
        other: &str,
    ) -> Self {
        let nodes = silent(Time(now.0.saturating_sub(SILENCE.as_micros() as u64)));
        let nodes: Vec<String> =
            nodes.map(|(node, address)| format!("node {node} at {address}")).collect();
        let who = match &nodes[..] {
            [] => format!("all nodes answer; {other}, or has left"),
            nodes => format!("{} said nothing: start it with this job's file", nodes.join(", ")),
        };
        Self::Timeout { what, seconds: after.as_secs(), who }
    }

    /// Whether the call was wrong and changed nothing, so that others may follow.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoTable(_)
                | Self::NoRow { .. }
                | Self::Length { .. }
                | Self::Long { .. }
                | Self::Range { .. }
        )
    }
}
