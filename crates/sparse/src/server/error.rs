//! What a server refuses.

use thiserror::Error;

use crate::hot::MapError;
use crate::sum::SumError;
use crate::table::{TableError, TableSpec};

/// A packet that cannot be taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PushError {
    /// See [`TableError`].
    #[error(transparent)]
    Table(#[from] TableError),
    /// See [`SumError`].
    #[error("table {table}: {problem}")]
    Sum {
        /// Number of the table.
        table: u16,
        /// What is wrong.
        problem: SumError,
    },
    /// A table that the job does not have.
    #[error("there is no table {0} in this job: give all ranks one plan")]
    NoTable(u16),
    /// Another length than that of the table's rows.
    #[error(
        "table {table} has rows of {expected} numbers, and {found} came for {rows} rows: give all ranks one plan"
    )]
    Length {
        /// Number of the table.
        table: u16,
        /// Numbers of a row.
        expected: usize,
        /// Rows in the packet.
        rows: usize,
        /// Numbers in the packet.
        found: usize,
    },
    /// Another length than that of the hot rows.
    #[error(
        "hot rows have {expected} values, and {found} came for {rows} rows: give all ranks one plan"
    )]
    HotLength {
        /// Values of a row.
        expected: usize,
        /// Rows in the packet.
        rows: usize,
        /// Values in the packet.
        found: usize,
    },
    /// A position without a row.
    #[error("no row is at position {0} of the hot map: give all ranks one hot map")]
    Position(u32),
    /// Rows that were sorted into tiers by another map.
    #[error(
        "rows were sorted by version {found} of the hot map, and version {expected} is in use: take the new map"
    )]
    Map {
        /// In the packet.
        found: u32,
        /// In use.
        expected: u32,
    },
    /// A decision on a map that does not lead on from the one in use.
    #[error("what is decided about the hot map cannot be: {0}")]
    Change(#[from] MapError),
    /// A number of packets that cannot be.
    #[error(
        "{announced} packets were announced, and {least} or more were sent: the sender counts wrongly"
    )]
    Count {
        /// As announced.
        announced: u32,
        /// As is known.
        least: u32,
    },
    /// What the program beneath a switch does not add, for no reason of those above.
    #[error(
        "packet {0} of a round has a row that the same worker has given before, or one whose sum has left: merge the gradients \
         of a row, and send rows in order of position"
    )]
    Repeated(u32),
    /// Too many packets.
    #[error("packet {0} of a round: a sender has fewer than {max} for each server", max = crate::reception::MAX_PACKETS)]
    Sequence(u32),
    /// A sum from a worker, or of other numbers of workers than the job has.
    #[error("a sum came of {0} workers: only switches send sums, of workers of the job")]
    Contributors(u32),
    /// A row that a switch sums, straight from a worker.
    #[error("table {table}: row {key} is summed by a switch: give all ranks one hot map")]
    Hot {
        /// Number of the table.
        table: u16,
        /// The row.
        key: u64,
    },
    /// Rows that are not behind those of the packets before.
    #[error(
        "packet {0} of a round has rows out of order: senders send them by table and key, or by position"
    )]
    Order(u32),
    /// A row that was put twice in a round.
    #[error("table {table}: row {key} was put twice in a round: have one rank put it")]
    PutTwice {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
    },
}

/// A snapshot that cannot be restored.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// See [`TableError`].
    #[error(transparent)]
    Table(#[from] TableError),
    /// See [`MapError`].
    #[error(transparent)]
    Map(#[from] MapError),
    /// No snapshot, or a part of one.
    #[error("the snapshot is damaged at byte {0}: restore an older one")]
    Damaged(usize),
    /// A snapshot of another plan, or of another server.
    #[error(
        "the snapshot is of other tables, or of another server: restore it with the plan that it was made with"
    )]
    Foreign,
}

pub(super) fn no_memory(table: &TableSpec, bytes: u64, left: u64) -> TableError {
    TableError::Spec {
        table: table.name.clone(),
        field: "rows",
        problem: format!(
            "take {bytes} bytes here, and {left} are left of the server's memory: plan more servers, or fewer rows"
        ),
    }
}
