//! Every packet format of Wiresum, one file per header. `spec/wire.md` is the prose of this crate.
//!
//! The header is big-endian; the byte order of the lanes is a flag. [`Packet::parse`] is the only place where
//! bytes from the network become values, and it never reads past what it was given.

mod header;
mod ids;
mod lanes;
mod packet;
pub mod control;

pub use header::{Flags, HEADER_LEN, Header, Kind, MAGIC, VERSION};
pub use ids::{Contributor, FragmentId, JobId, JobKey, NodeId, Round, SubModelId};
pub use lanes::LaneType;
pub use packet::{Packet, ParseError, header_sum, seal};

/// Payload granularity in bytes: a payload is a whole number of these, so that every engine may add in blocks.
pub const BLOCK_LEN: usize = 32;
/// Most int32 lanes in one packet: 2944 bytes of payload, the most that plain XDP on veth can carry.
pub const MAX_VALUES: usize = 736;
/// Fewest int32 lanes that a job may choose for its packets.
pub const MIN_VALUES: usize = 64;
/// Most children of one aggregator, the width of the contributor bitmap.
pub const MAX_CONTRIBUTORS: usize = 64;
/// Largest payload in bytes.
pub const MAX_PAYLOAD: usize = MAX_VALUES * 4;
/// Largest datagram in bytes.
pub const MAX_PACKET: usize = HEADER_LEN + MAX_PAYLOAD;
/// Fragments described by one probe (XAgg §IV-D: groups of 1024 packets).
pub const GROUP_FRAGMENTS: usize = 1024;
