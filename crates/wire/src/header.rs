//! The one header that every Wiresum packet starts with.

use zerocopy::FromZeros;
use zerocopy::byteorder::network_endian::{U16, U32, U64};

use crate::control::{hello, rate, ready, status};
use crate::limits::{HEADER_LEN, MAGIC, VERSION};
use crate::schema::{layout, numbers};

layout! {
    /// The header's fields in wire order (see `spec/wire.md`).
    pub struct Header {
        /// [`MAGIC`](crate::MAGIC).
        pub magic: U16,
        /// [`VERSION`](crate::VERSION).
        pub version: u8,
        /// One of [`Kind`].
        pub kind: u8,
        /// Job, as numbered by the plan.
        pub job: U16,
        /// The aggregator that is addressed (upwards) or that answers (downwards).
        pub node: U16,
        /// Incarnation of the job.
        pub job_key: U64,
        /// Ordinal of the collective.
        pub round: U32,
        /// Position in the sub-model's stream.
        pub fragment: U32,
        /// Stream that the fragment belongs to.
        pub sub_model: U16,
        /// Lanes of payload that follow; lanes × lane width is a multiple of the block length.
        pub value_count: U16,
        /// Child index at the parent. In a result: that of the child addressed.
        pub contributor: u8,
        /// Contributors that the sender believes the node waits for.
        pub expected: u8,
        /// Block exponent that the lanes were scaled with; opaque to aggregators, which only require it to be equal.
        pub exponent: i8,
        /// Urgency for policies that preempt; where servers sum, the fragment's [`Exchange`](crate::Exchange).
        pub priority: u8,
        /// Bits of [`Flags`].
        pub flags: U16,
        /// Sum of the header's words and of the lanes, modulo 2³².
        pub check: U32,
    }
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

impl Header {
    /// What every packet of a kind starts with; all else is zero. The check comes last, with [`seal`](crate::seal) or
    /// [`seal_switched`](crate::seal_switched).
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { magic: MAGIC.into(), version: VERSION, kind: kind as u8, ..Self::new_zeroed() }
    }
}

numbers! {
    /// What a packet is for.
    pub enum Kind: u8 {
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
        /// A child has something to send, has finished, or can send at another rate than before.
        Ready = 9,
        /// What a child may send at.
        Rate = 10,
    }
}

impl Kind {
    /// Whether the payload is lanes of values rather than big-endian control words.
    #[must_use]
    pub fn carries_values(self) -> bool {
        matches!(self, Self::Contribution | Self::Result)
    }

    /// Whether it is about who takes part: hello, welcome, refusal, goodbye.
    #[must_use]
    pub fn is_joining(self) -> bool {
        matches!(self, Self::Hello | Self::Welcome | Self::Refusal | Self::Goodbye)
    }

    /// Words of the payload of a control kind; `None` for the kinds that carry values.
    #[must_use]
    pub fn control_words(self) -> Option<usize> {
        match self {
            Self::Contribution | Self::Result => None,
            Self::Probe | Self::Status => Some(status::WORDS),
            Self::Hello | Self::Welcome | Self::Refusal | Self::Goodbye => Some(hello::WORDS),
            Self::Ready => Some(ready::WORDS),
            Self::Rate => Some(rate::WORDS),
        }
    }
}

/// Flag bits of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

/// Declares one constant per flag and the table of them.
macro_rules! flags {
    ($($(#[doc = $doc:literal])+ $name:ident = $bit:literal;)+) => {
        impl Flags {
            $($(#[doc = $doc])+ pub const $name: Self = Self(1 << $bit);)+

            pub(crate) const CONSTANTS: &[crate::schema::Constant] = &[
                $(crate::schema::Constant {
                    name: stringify!($name),
                    value: 1 << $bit,
                    doc: concat!($($doc),+),
                }),+
            ];
        }
    };
}

flags! {
    /// Lanes are little-endian; otherwise in network order (a P4 switch is on the tree).
    LITTLE_ENDIAN = 0;
    /// Lanes are combined by maximum, not by sum.
    MAXIMUM = 1;
    /// Lanes are 16 bits wide; otherwise 32.
    LANES16 = 2;
    /// Sent before; the sender lacks an acknowledgement.
    RETRANSMISSION = 3;
    /// Last packet of a group: the node should report what it holds.
    END_OF_GROUP = 4;
    /// Congestion was met on the way.
    ECN = 5;
    /// A lane saturated on the way.
    OVERFLOW = 6;
    /// The slot was taken: this packet was not summed where it was planned to be.
    COLLISION = 7;
    /// In a goodbye: the sender leaves a substitute's seat for its own place, not the job.
    HOME = 8;
    /// In a contribution to a segment: its sender lacks the result of an older fragment in the same slot.
    EARLY = 9;
    /// In a result: no result, but the recipient's own contribution refused, which is to be sent again.
    REFUSED = 10;
    /// A switch header follows this one (see `spec/switch.md`).
    SWITCHED = 11;
    /// Lanes of rows are float32, which are summed as 64-bit fixed point; otherwise int32.
    FLOAT = 12;
    /// In a contribution: no values, but a request for the result.
    REQUEST = 13;
    /// A proof follows the values.
    PROVEN = 14;
    /// Values of rows that have 16 bits are bfloat16; otherwise float16.
    BFLOAT = 15;
}

impl Flags {
    /// The flags that decide how lanes are read and combined; all contributors must agree on them.
    pub const FORMAT: Self = Self(Self::LITTLE_ENDIAN.0 | Self::MAXIMUM.0 | Self::LANES16.0);

    /// Those that all packets of a stream have in common at switches: the width of the lanes, and whether the larger ones are kept.
    /// The byte order is each packet's own matter.
    pub const LANES: Self = Self(Self::MAXIMUM.0 | Self::LANES16.0);

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
