//! Every packet format of Wiresum, one file per header. `spec/wire.md` is the prose of this crate.
//!
//! The header is big-endian; the byte order of the lanes is a flag. [`Packet::parse`] is the only place where
//! bytes from the network become values, and it never reads past what it was given.

pub mod bindings;
pub mod control;
mod header;
mod ids;
mod lanes;
mod limits;
mod packet;
pub mod schema;

pub use header::{Flags, Header, Kind};
pub use ids::{Contributor, FragmentId, JobId, JobKey, NodeId, Round, SubModelId};
pub use lanes::{LaneType, NOT_FINITE, UNUSED_LANE};
pub use limits::{
    BITMAP_WORDS, BLOCK_LEN, DEFAULT_PORT, GROUP_FRAGMENTS, HEADER_LEN, MAGIC, MAX_CONTRIBUTORS,
    MAX_PACKET, MAX_PAYLOAD, MAX_VALUES, MIN_VALUES, VERSION,
};
pub use packet::{Packet, ParseError, header_sum, seal};
