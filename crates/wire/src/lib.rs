//! Every packet format of Wiresum, one file per header. `spec/wire.md` is the prose of this crate.
//!
//! The header is big-endian; the byte order of the lanes is a flag. [`Packet::parse`] is the only place where
//! bytes from the network become values, and it never reads past what it was given.

#![forbid(unsafe_code)]

pub mod bindings;
pub mod control;
mod exchange;
mod header;
mod ids;
mod lanes;
mod limits;
mod packet;
mod policy;
mod rows;
pub mod schema;
mod sizes;
mod switch;
mod verdict;

pub use exchange::Exchange;
pub use header::{Flags, Header, Kind};
pub use ids::{Contributor, FragmentId, JobId, JobKey, NodeId, Round, SubModelId};
pub use lanes::{LaneType, NOT_FINITE, UNUSED_LANE};
pub use limits::{
    ACKNOWLEDGEMENT_WORDS, BITMAP_WORDS, BLOCK_LEN, COHORT_WORKERS, DEFAULT_PORT,
    ETHERNET_CABLE_LEN, ETHERNET_LEN, EXCHANGE_COPY, EXCHANGE_TAKER, GROUP_FRAGMENTS, HEADER_LEN,
    IPV4_LEN, IPV6_LEN, MAGIC, MAX_CONTRIBUTORS, MAX_PACKET, MAX_PACKET_ROWS, MAX_PAYLOAD,
    MAX_ROW_VALUES, MAX_STORED_VALUES, MAX_SWITCHED_WORKERS, MAX_VALUES, MIN_VALUES, PAGE_PACKET,
    PAGE_PAYLOAD, PAGE_VALUES, PROOF_LEN, ROW_HEADER_LEN, SEAL_LEN, SWITCH_HEADER_LEN, UDP_LEN,
    VERSION,
};
pub use packet::{Packet, ParseError, header_sum, seal};
pub use policy::{Policy, ServerNeed};
pub use rows::{RowDraft, RowHeader, RowKind, RowPacket, RowValue};
pub use sizes::{IpVersion, cable_len, values_for_mtu};
pub use switch::{SwitchHeader, SwitchPacket, seal_switched};
pub use verdict::{VERDICT_RANGE, Verdict};
