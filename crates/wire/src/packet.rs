//! A checked view of one datagram.

use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

use crate::{
    BLOCK_LEN, Flags, HEADER_LEN, Header, Kind, LaneType, MAGIC, MAX_PAYLOAD, MAX_SWITCHED_WORKERS,
    PROOF_LEN, VERSION,
};

/// A datagram whose form is right: known kind, exact length, matching check. Whether it belongs here is for the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The header, in place.
    pub header: &'a Header,
    /// The kind, decoded.
    pub kind: Kind,
    /// The flags, decoded.
    pub flags: Flags,
    /// The lanes or control words.
    pub payload: &'a [u8],
    /// The proof of values that have one; that of control packets is in their words.
    pub proof: Option<u64>,
}

/// Why a datagram is not a packet. Each is counted and dropped, never answered.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// Shorter than the header, or than the header says.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes received.
        have: usize,
        /// Bytes that the header calls for.
        need: usize,
    },
    /// Longer than the header says.
    #[error("{have} bytes where the header calls for {need}")]
    TrailingBytes {
        /// Bytes received.
        have: usize,
        /// Bytes that the header calls for.
        need: usize,
    },
    /// Another protocol's datagram.
    #[error("magic {0:#06x} is not Wiresum's")]
    Magic(u16),
    /// Another version of this protocol.
    #[error("version {0} is not understood; this is version {VERSION}")]
    Version(u8),
    /// A kind that this version does not define.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// The payload's length is not that of its control kind; or, where values are due, zero, not a multiple of
    /// [`BLOCK_LEN`], or above [`MAX_PAYLOAD`].
    #[error("a payload of {0} bytes is not allowed")]
    PayloadLength(usize),
    /// Among switches: the second header is missing.
    #[error(
        "no switch header: the sender takes this node for an aggregation server; give it a plan for switches"
    )]
    NotSwitched,
    /// Among switches: no worker of a job has this number.
    #[error("worker {0} of at most {MAX_SWITCHED_WORKERS}")]
    Contributor(u8),
    /// Positions of hot rows do not ascend, or are beyond 32 bits.
    #[error("positions of hot rows do not ascend, or are beyond 32 bits: each row is there once")]
    Positions,
    /// The check does not match: damaged on the way.
    #[error("check {have:#010x} does not match {want:#010x}: the packet was damaged on the way")]
    Check {
        /// Check found in the packet.
        have: u32,
        /// Check computed over the packet.
        want: u32,
    },
}

impl ParseError {
    /// Its name in `spec/vectors/packets.json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::TrailingBytes { .. } => "trailing_bytes",
            Self::Magic(_) => "magic",
            Self::Version(_) => "version",
            Self::Kind(_) => "kind",
            Self::PayloadLength(_) => "payload_length",
            Self::NotSwitched => "not_switched",
            Self::Contributor(_) => "contributor",
            Self::Positions => "positions",
            Self::Check { .. } => "check",
        }
    }
}

impl<'a> Packet<'a> {
    /// Validates the form of `bytes`.
    ///
    /// # Errors
    /// One [`ParseError`] per way in which a datagram can be ill-formed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let packet = Self::parse_unchecked(bytes)?;
        let have = packet.header.check.get();
        let want = header_sum(packet.header).wrapping_add(packet.lane_sum());
        if have == want { Ok(packet) } else { Err(ParseError::Check { have, want }) }
    }

    /// As [`Self::parse`], without the check: for an engine that sums the lanes while it adds them.
    ///
    /// # Errors
    /// As [`Self::parse`], except [`ParseError::Check`].
    pub fn parse_unchecked(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, kind, payload) = parse_header(bytes)?;
        let flags = Flags(header.flags.get());
        let width = if kind.carries_values() { LaneType::of(flags).width() } else { 4 };
        let payload_len = usize::from(header.value_count.get()) * width;
        if !is_payload_len(kind, payload_len) {
            return Err(ParseError::PayloadLength(payload_len));
        }
        let is_proven = kind.carries_values() && flags.contains(Flags::PROVEN);
        let proof_len = if is_proven { PROOF_LEN } else { 0 };
        expect_len(bytes.len(), HEADER_LEN + payload_len + proof_len)?;
        let (payload, proof) = payload.split_at(payload_len);
        let proof = proof.try_into().ok().map(u64::from_be_bytes);
        Ok(Self { header, kind, flags, payload, proof })
    }

    /// The sum of the payload as the check counts it.
    #[must_use]
    pub fn lane_sum(&self) -> u32 {
        self.lane_type().sum(self.payload)
    }

    /// How the payload is laid out; control words are big-endian and 32 bits wide.
    #[must_use]
    pub fn lane_type(&self) -> LaneType {
        if self.kind.carries_values() { LaneType::of(self.flags) } else { LaneType::I32Be }
    }
}

/// The header, its kind, and what follows.
pub(crate) fn parse_header(bytes: &[u8]) -> Result<(&Header, Kind, &[u8]), ParseError> {
    let (header, rest) = parse_prefix(bytes)?;
    let kind = Kind::from_wire(header.kind).ok_or(ParseError::Kind(header.kind))?;
    Ok((header, kind, rest))
}

/// The header of a packet of this version, whatever its kind, and what follows.
pub(crate) fn parse_prefix(bytes: &[u8]) -> Result<(&Header, &[u8]), ParseError> {
    let (header, rest) = Header::ref_from_prefix(bytes)
        .map_err(|_| ParseError::Truncated { have: bytes.len(), need: HEADER_LEN })?;
    if header.magic.get() != MAGIC {
        return Err(ParseError::Magic(header.magic.get()));
    }
    if header.version != VERSION {
        return Err(ParseError::Version(header.version));
    }
    Ok((header, rest))
}

pub(crate) fn expect_len(have: usize, need: usize) -> Result<(), ParseError> {
    match have.cmp(&need) {
        std::cmp::Ordering::Less => Err(ParseError::Truncated { have, need }),
        std::cmp::Ordering::Greater => Err(ParseError::TrailingBytes { have, need }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

pub(crate) fn is_payload_len(kind: Kind, len: usize) -> bool {
    match kind.control_words() {
        Some(words) => len == 4 * words,
        None => (1..=MAX_PAYLOAD).contains(&len) && len.is_multiple_of(BLOCK_LEN),
    }
}

/// The header's share of the check: the sum of its big-endian 32-bit words, `check` taken as absent. Every bit of the
/// header counts, so a fragment id damaged on the way cannot send values to another slot.
#[must_use]
pub fn header_sum(header: &Header) -> u32 {
    let fields = &header.as_bytes()[..std::mem::offset_of!(Header, flags)];
    let words = fields.chunks_exact(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    words.fold(u32::from(header.flags.get()), u32::wrapping_add)
}

/// Sets the header's check for a payload whose lanes sum to `lane_sum`.
pub fn seal(header: &mut Header, lane_sum: u32) {
    header.check.set(header_sum(header).wrapping_add(lane_sum));
}
