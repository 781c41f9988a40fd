//! Messages as datagrams, there and back. The formats are those of `spec/wire.md`, "Rows".
//!
//! Whoever sends has an [`Envelope`] and emits a message as one datagram, or as several where it is longer. Whoever
//! receives parses a datagram with [`RowPacket::parse`](wiresum_wire::RowPacket::parse), and gives it to the function of
//! its role. Messages in parts meet in an [`Assembly`]. Nothing that comes makes these functions panic.

mod acknowledgements;
mod emit;
mod keys;
mod long;
mod parse;

pub use acknowledgements::Acknowledgements;
pub use keys::{Renewal, RowKeys};
pub use long::Assembly;
pub use parse::{from_server, from_switch, report, to_server, to_switch};

use wiresum_wire::{JobId, RowDraft, RowKind};

/// Hot rows of one packet are within this many positions of the first.
pub const FARTHEST_OFFSET: u32 = u16::MAX as u32;

/// What the headers of all packets between two have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The job.
    pub job: JobId,
    /// What packets of its incarnation carry.
    pub keys: RowKeys,
    /// The server, or the switch, which is numbered after all servers: the one that is addressed or that answers.
    pub node: u16,
    /// The sender, upwards, or the addressee, downwards.
    pub peer: u8,
    /// From a server: its incarnation.
    pub incarnation: u32,
    /// Bytes of a packet after its headers.
    pub room: usize,
    /// Whether values that fit 16 bits have no more in packets: where the job has a table of such values.
    pub may_narrow: bool,
}

impl Envelope {
    fn draft(&self, kind: RowKind, round: u32, number: u32) -> RowDraft {
        let mut draft = RowDraft::new(kind);
        let header = &mut draft.header;
        (header.job, header.job_key) = (self.job.0.into(), self.keys.of(round).0.into());
        (header.node, header.contributor) = (self.node.into(), self.peer);
        (header.round, header.fragment) = (round.into(), number.into());
        draft.rows.stamp = self.incarnation.into();
        draft
    }

    /// What a server can be restored to.
    pub fn restorable(&self, version: u32, mut send: impl FnMut(&[u8])) {
        let mut out = Vec::new();
        self.draft(RowKind::Restorable, version, 0).emit(&[], &mut out);
        send(&out);
    }
}

#[cfg(test)]
mod tests;
