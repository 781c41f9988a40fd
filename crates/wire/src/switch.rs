//! The second header of packets in a network of switches (see `spec/switch.md`).

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::limits::{HEADER_LEN, MAX_SWITCHED_WORKERS, PAGE_PAYLOAD, SWITCH_HEADER_LEN};
use crate::packet::{expect_len, is_payload_len, parse_header};
use crate::schema::layout;
use crate::{Flags, Header, Kind, LaneType, ParseError, header_sum};

layout! {
    /// What follows the header where the flag SWITCHED is set.
    pub struct SwitchHeader {
        /// Workers of the cohort of the header's `contributor`, c; bit b is worker 64 · (c div 64) + b. Upwards: those whose
        /// values are in the packet. Downwards: those to whom it goes.
        pub contributors: U64,
        /// The sender's choice of a slot, where the policy leaves it to the sender; else 0.
        pub slot: U32,
    }
}

const _: () = assert!(size_of::<SwitchHeader>() == SWITCH_HEADER_LEN);

/// A datagram of a switch network whose form is right.
#[derive(Clone, Copy, Debug)]
pub struct SwitchPacket<'a> {
    /// The header, in place.
    pub header: &'a Header,
    /// The second header, in place.
    pub switch: &'a SwitchHeader,
    /// The kind, decoded: a contribution or a result.
    pub kind: Kind,
    /// The flags, decoded.
    pub flags: Flags,
    /// The lanes; none in a refusal.
    pub payload: &'a [u8],
}

impl<'a> SwitchPacket<'a> {
    /// Validates the form of `bytes`.
    ///
    /// # Errors
    /// One [`ParseError`] per way in which a datagram can be ill-formed. Without the flag SWITCHED it is
    /// [`ParseError::NotSwitched`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, kind, rest) = parse_header(bytes)?;
        let flags = Flags(header.flags.get());
        if !flags.contains(Flags::SWITCHED) {
            return Err(ParseError::NotSwitched);
        }
        if !kind.carries_values() {
            return Err(ParseError::Kind(header.kind));
        }
        if usize::from(header.contributor) >= MAX_SWITCHED_WORKERS {
            return Err(ParseError::Contributor(header.contributor));
        }
        let payload_len = usize::from(header.value_count.get()) * LaneType::of(flags).width();
        let is_refusal = kind == Kind::Result && flags.contains(Flags::REFUSED);
        let is_fit = is_payload_len(kind, payload_len) && payload_len <= PAGE_PAYLOAD;
        if !(is_fit || is_refusal && payload_len == 0) {
            return Err(ParseError::PayloadLength(payload_len));
        }
        expect_len(bytes.len(), HEADER_LEN + SWITCH_HEADER_LEN + payload_len)?;
        let (switch, payload) = SwitchHeader::ref_from_prefix(rest).expect("the length is right");
        let (have, want) = (header.check.get(), check(header, switch, payload));
        let packet = Self { header, switch, kind, flags, payload };
        if have == want { Ok(packet) } else { Err(ParseError::Check { have, want }) }
    }
}

/// Sets the header's check for a packet with a second header and these lanes.
pub fn seal_switched(header: &mut Header, switch: &SwitchHeader, payload: &[u8]) {
    header.check.set(check(header, switch, payload));
}

/// As that of other packets, with the second header's words too.
fn check(header: &Header, switch: &SwitchHeader, payload: &[u8]) -> u32 {
    let lane_sum = LaneType::of(Flags(header.flags.get())).sum(payload);
    let words = LaneType::I32Be.sum(switch.as_bytes());
    header_sum(header).wrapping_add(words).wrapping_add(lane_sum)
}
