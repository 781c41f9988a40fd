//! What a server counts.

/// Counts since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows of gradients that were taken.
    pub rows: u64,
    /// Those among them, and among what rank 0 told of, that were of hot rows.
    pub hot: u64,
    /// Those among them that came for rows that are not hot.
    pub cold: u64,
    /// Rows that were pulled.
    pub pulled: u64,
    /// Packets that had come before.
    pub duplicates: u64,
    /// Packets of closed rounds.
    pub late: u64,
    /// Packets of rounds that are not open yet.
    pub early: u64,
    /// Packets that cannot be taken.
    pub refused: u64,
    /// Rows that went to the workers.
    pub lent: u64,
    /// Rows that were told to come back.
    pub returning: u64,
}
