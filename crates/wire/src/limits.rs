//! Numbers that every implementation of the format shares.

use crate::schema::constants;

constants! {
    /// "WS".
    pub const MAGIC: u16 = 0x5753;
    /// Version of the format; a packet of another version is malformed.
    pub const VERSION: u8 = 2;
    /// UDP port of an aggregator unless its plan says otherwise.
    pub const DEFAULT_PORT: u16 = 5747;
    /// Bytes of the header. With 42 bytes of Ethernet, IPv4 and UDP before it, the lanes are 16-byte aligned in a frame.
    pub const HEADER_LEN: usize = 38;
    /// Bytes of the switch header, where there is one: it keeps the lanes aligned too.
    pub const SWITCH_HEADER_LEN: usize = 12;
    /// Payload granularity in bytes: a payload is a whole number of these, so that every engine may add in blocks.
    pub const BLOCK_LEN: usize = 32;
    /// Bytes that a sealed payload has more than its values, in ordinary lanes (see `spec/security.md`): a whole block.
    pub const SEAL_LEN: usize = 32;
    /// Fewest int32 lanes that a job may choose for its packets.
    pub const MIN_VALUES: usize = 64;
    /// Most int32 lanes in one packet: what an MTU of 9000 bytes carries. Only processes sum so many.
    pub const MAX_VALUES: usize = 2232;
    /// Largest payload in bytes.
    pub const MAX_PAYLOAD: usize = MAX_VALUES * 4;
    /// Most int32 lanes in a packet that the kernel's programs, frames of AF_XDP or P4 switches see: 2944 bytes of payload, the
    /// most that plain XDP on veth has in one page.
    pub const PAGE_VALUES: usize = 736;
    /// Largest payload of such a packet, and of rows, in bytes.
    pub const PAGE_PAYLOAD: usize = PAGE_VALUES * 4;
    /// Bytes of the proof that follows proven values (see `spec/security.md`).
    pub const PROOF_LEN: usize = 8;
    /// Largest datagram in bytes.
    pub const MAX_PACKET: usize = HEADER_LEN + MAX_PAYLOAD + PROOF_LEN;
    /// Largest datagram in bytes that programs see in one page.
    pub const PAGE_PACKET: usize = HEADER_LEN + PAGE_PAYLOAD + PROOF_LEN;
    /// Bytes of an Ethernet header.
    pub const ETHERNET_LEN: usize = 14;
    /// Bytes that an Ethernet frame takes on a cable beyond its header and payload: preamble 8, check 4, gap 12.
    pub const ETHERNET_CABLE_LEN: usize = 24;
    /// Bytes of an IPv4 header; packets with options are not ours.
    pub const IPV4_LEN: usize = 20;
    /// Bytes of an IPv6 header; packets with extension headers are not ours.
    pub const IPV6_LEN: usize = 40;
    /// Bytes of a UDP header.
    pub const UDP_LEN: usize = 8;
    /// Most children of one aggregator, the width of the contributor bitmap.
    pub const MAX_CONTRIBUTORS: usize = 64;
    /// Workers of a cohort: those that one packet at switches can name, the width of its bitmap.
    pub const COHORT_WORKERS: usize = 64;
    /// Most workers of a job at switches, which packets count in a byte.
    pub const MAX_SWITCHED_WORKERS: usize = 255;
    /// Words of the bitmap of workers that an incarnation goes on without: 256 ranks.
    pub const ABSENT_WORDS: usize = 8;
    /// Bit of an exchange: one gives, and nothing is added.
    pub const EXCHANGE_COPY: u8 = 128;
    /// Bits of an exchange that hold one more than the only taker; 0 where there is none.
    pub const EXCHANGE_TAKER: u8 = 127;
    /// Fragments described by one probe (XAgg §IV-D: groups of 1024 packets).
    pub const GROUP_FRAGMENTS: usize = 1024;
    /// Words of a bitmap over one group.
    pub const BITMAP_WORDS: usize = GROUP_FRAGMENTS / 32;
    /// Bytes of the row header, where there is one: it keeps the columns aligned too.
    pub const ROW_HEADER_LEN: usize = 16;
    /// Most values of a row on the wire.
    pub const MAX_ROW_VALUES: usize = 256;
    /// Most numbers of a row with its optimizer's state, which keeps two for each value at most.
    pub const MAX_STORED_VALUES: usize = 3 * MAX_ROW_VALUES;
    /// Most hot rows in a packet: with one value of 16 bits each they take 4 bytes of what the row header leaves.
    pub const MAX_PACKET_ROWS: usize = (PAGE_PAYLOAD - ROW_HEADER_LEN) / 4;
    /// Most words of an acknowledgement's bitmap: with the first number it is about 257 packets.
    pub const ACKNOWLEDGEMENT_WORDS: usize = 8;
}
