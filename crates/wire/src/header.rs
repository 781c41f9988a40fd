//! The one header that every Wiresum packet starts with.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// "WS".
pub const MAGIC: u16 = 0x5753;
/// Version of the format; a packet of another version is malformed.
pub const VERSION: u8 = 1;
/// Bytes of the header. 42 bytes of Ethernet, IPv4 and UDP and these 34 leave the lanes 4-byte aligned in a frame.
pub const HEADER_LEN: usize = 34;

/// The header's fields in wire order (see `spec/wire.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: U16,
    /// [`VERSION`].
    pub version: u8,
    /// One of [`Kind`].
    pub kind: u8,
    /// Job, as numbered by the plan.
    pub job: U16,
    /// The aggregator that is addressed (upwards) or that answers (downwards).
    pub node: U16,
    /// Incarnation of the job.
    pub job_key: U32,
    /// Ordinal of the collective.
    pub round: U32,
    /// Position in the sub-model's stream.
    pub fragment: U32,
    /// Stream that the fragment belongs to.
    pub sub_model: U16,
    /// Lanes of payload that follow; lanes × lane width is a multiple of [`crate::BLOCK_LEN`].
    pub value_count: U16,
    /// Child index at the parent. In a result: that of the child addressed.
    pub contributor: u8,
    /// Contributors that the sender believes the node waits for.
    pub expected: u8,
    /// Block exponent: lane × 2^exponent is the value's scale (see `wiresum-codec`).
    pub exponent: i8,
    /// Urgency for policies that preempt; 0 where unused.
    pub priority: u8,
    /// Bits of [`Flags`].
    pub flags: U16,
    /// [`crate::header_sum`] plus the sum of the lanes, modulo 2³².
    pub check: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Values on their way up, from a child to its aggregator.
    Contribution = 1,
    /// The finished sum on its way down.
    Result = 2,
    /// "Which fragments of this group do you hold?", from a child.
    Probe = 3,
    /// The answer to a probe.
    Status = 4,
    /// A child announces itself and its incarnation.
    Hello = 5,
    /// The node admits the child.
    Welcome = 6,
    /// The node refuses the child, with a reason.
    Refusal = 7,
    /// A child leaves for good.
    Goodbye = 8,
}

impl Kind {
    /// Every kind, in numeric order.
    pub const ALL: [Self; 8] = [
        Self::Contribution,
        Self::Result,
        Self::Probe,
        Self::Status,
        Self::Hello,
        Self::Welcome,
        Self::Refusal,
        Self::Goodbye,
    ];

    /// The kind with this number on the wire.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    /// Whether the payload is lanes of values rather than big-endian control words.
    #[must_use]
    pub fn carries_values(self) -> bool {
        matches!(self, Self::Contribution | Self::Result)
    }
}

/// Flag bits of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// Lanes are little-endian; otherwise in network order (a P4 switch is on the tree).
    pub const LITTLE_ENDIAN: Self = Self(1 << 0);
    /// Lanes are combined by maximum, not by sum.
    pub const MAXIMUM: Self = Self(1 << 1);
    /// Lanes are 16 bits wide; otherwise 32.
    pub const LANES16: Self = Self(1 << 2);
    /// Sent before; the sender lacks an acknowledgement.
    pub const RETRANSMISSION: Self = Self(1 << 3);
    /// Last packet of a group: the node should report what it holds.
    pub const END_OF_GROUP: Self = Self(1 << 4);
    /// Congestion was met on the way.
    pub const ECN: Self = Self(1 << 5);
    /// A lane saturated on the way.
    pub const OVERFLOW: Self = Self(1 << 6);
    /// The slot was taken: this packet was not summed where it was planned to be.
    pub const COLLISION: Self = Self(1 << 7);
    /// The flags that decide how lanes are read and combined; all contributors must agree on them.
    pub const FORMAT: Self = Self(Self::LITTLE_ENDIAN.0 | Self::MAXIMUM.0 | Self::LANES16.0);

    /// Whether every bit of `other` is set.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits that are in `other` too.
    #[must_use]
    pub fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
