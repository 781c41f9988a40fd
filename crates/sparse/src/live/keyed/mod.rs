//! Zebra's workers, server and switch as participants of a job: datagrams in, datagrams out, by the job's file
//! (`spec/keyed.md`).
//!
//! What becomes of pairs is decided by [`crate::keyed::Host`] and, at the switch, by its program. Here is who has joined,
//! and what a packet is as a datagram.

mod job;
mod member;
mod node;

use wiresum_switch::keyed::Packet;
use wiresum_wire::{Header, RowDraft};

use crate::packet::RowKeys;

pub use job::{FORMAT, KeyedJob, MAP_VERSION, SERVER, SWITCH};
pub use member::KeyedMember;
pub use node::{KeyedCounters, KeyedNode};
pub use wiresum_switch::keyed::Pair;

/// A packet to or from a node of the job, as a datagram.
fn datagram(job: &KeyedJob, keys: RowKeys, node: u16, packet: &Packet) -> Vec<u8> {
    let (mut out, key) = (Vec::new(), keys.of(packet.round));
    let begun = |kind| {
        let draft = RowDraft::new(kind);
        let (job, job_key, node) = (job.id.into(), key.0.into(), node.into());
        RowDraft { header: Header { job, job_key, node, ..draft.header }, ..draft }
    };
    packet.emit(begun, &mut out);
    out
}
