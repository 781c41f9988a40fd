//! Packets as datagrams: a header, a switch header, lanes (see `spec/switch.md`).

use wiresum_wire::{
    Flags, FragmentId, HEADER_LEN, Header, JobId, JobKey, LaneType, NodeId, ParseError, Round,
    SWITCH_HEADER_LEN, SubModelId, SwitchHeader, SwitchPacket, seal_switched,
};
use zerocopy::IntoBytes;

use crate::{Contributors, Packet, Values};

/// The packet in a datagram, and the incarnation that it belongs to. Lanes are 32 bits wide, in the byte order that the flags say.
///
/// # Errors
/// As [`SwitchPacket::parse`]; lanes of 16 bits are [`ParseError::PayloadLength`], as this reference does not sum them.
pub fn parse(datagram: &[u8]) -> Result<(JobKey, Packet<Values>), ParseError> {
    let (key, packet) = read(datagram)?;
    let values = lanes(packet.values, packet.flags)?;
    Ok((key, packet.carrying(values)))
}

/// As [`parse`], with the lanes where they are.
///
/// # Errors
/// As [`SwitchPacket::parse`].
pub fn read(datagram: &[u8]) -> Result<(JobKey, Packet<&[u8]>), ParseError> {
    let SwitchPacket { header, switch, kind, flags, payload } = SwitchPacket::parse(datagram)?;
    let packet = Packet {
        contributors: Contributors(switch.contributors.get()),
        fragment: FragmentId(header.fragment.get()),
        round: Round(header.round.get()),
        slot: switch.slot.get(),
        job: JobId(header.job.get()),
        sub_model: SubModelId(header.sub_model.get()),
        node: NodeId(header.node.get()),
        flags,
        kind,
        worker: header.contributor,
        expected: header.expected,
        priority: header.priority,
        exponent: header.exponent,
        values: payload,
    };
    Ok((JobKey(header.job_key.get()), packet))
}

fn lanes(payload: &[u8], flags: Flags) -> Result<Values, ParseError> {
    let words = payload.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    match LaneType::of(flags) {
        LaneType::I32Le => Ok(words.map(i32::from_le_bytes).collect()),
        LaneType::I32Be => Ok(words.map(i32::from_be_bytes).collect()),
        LaneType::I16Le | LaneType::I16Be => Err(ParseError::PayloadLength(payload.len())),
    }
}

/// The datagram of a packet whose values are a whole number of blocks of lanes, or, in a refusal, none.
#[must_use]
pub fn emit(packet: &Packet<Values>, key: JobKey) -> Vec<u8> {
    let is_little_endian = packet.flags.contains(Flags::LITTLE_ENDIAN);
    let mut datagram = vec![0; LANES_AT + 4 * packet.values.len()];
    write(packet, key, &mut datagram, |payload| {
        for (bytes, lane) in payload.chunks_exact_mut(4).zip(&packet.values) {
            let lane = if is_little_endian { lane.to_le_bytes() } else { lane.to_be_bytes() };
            bytes.copy_from_slice(&lane);
        }
        4 * packet.values.len()
    });
    datagram
}

/// Bytes before the lanes.
pub const LANES_AT: usize = HEADER_LEN + SWITCH_HEADER_LEN;

/// Writes the datagram of a packet of 32-bit lanes: `fill` writes the lanes and says how many bytes they are. Returns the datagram's length.
///
/// # Panics
/// If `datagram` is too short.
pub fn write<V>(
    packet: &Packet<V>,
    key: JobKey,
    datagram: &mut [u8],
    fill: impl FnOnce(&mut [u8]) -> usize,
) -> usize {
    let (headers, payload) = datagram.split_at_mut(LANES_AT);
    let len = fill(payload);
    let flags = packet.flags.with(Flags::SWITCHED);
    let switch =
        SwitchHeader { contributors: packet.contributors.0.into(), slot: packet.slot.into() };
    let mut header = header(packet, key, flags, len / 4);
    seal_switched(&mut header, &switch, &payload[..len]);
    headers[..HEADER_LEN].copy_from_slice(header.as_bytes());
    headers[HEADER_LEN..].copy_from_slice(switch.as_bytes());
    LANES_AT + len
}

fn header<V>(packet: &Packet<V>, key: JobKey, flags: Flags, values: usize) -> Header {
    Header {
        job: packet.job.0.into(),
        node: packet.node.0.into(),
        job_key: key.0.into(),
        round: packet.round.0.into(),
        fragment: packet.fragment.0.into(),
        sub_model: packet.sub_model.0.into(),
        value_count: (values as u16).into(),
        contributor: packet.worker,
        expected: packet.expected,
        exponent: packet.exponent,
        priority: packet.priority,
        flags: flags.0.into(),
        ..Header::new(packet.kind)
    }
}
