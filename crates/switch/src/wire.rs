//! Packets as datagrams: a header, a switch header, lanes (see `spec/switch.md`).

use wiresum_wire::{
    Flags, FragmentId, HEADER_LEN, Header, JobId, JobKey, LaneType, NodeId, ParseError, Round,
    SWITCH_HEADER_LEN, SubModelId, SwitchHeader, SwitchPacket, seal_switched,
};
use zerocopy::IntoBytes;

use crate::{Contributors, Packet, Values};

/// The packet in a datagram, and the incarnation that it belongs to.
///
/// # Errors
/// As [`SwitchPacket::parse`].
pub fn parse(datagram: &[u8]) -> Result<(JobKey, Packet<Values>), ParseError> {
    let (key, packet) = read(datagram)?;
    let values = lanes(packet.values, packet.flags);
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

fn lanes(payload: &[u8], flags: Flags) -> Values {
    let words = payload.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    let halves = payload.chunks_exact(2).map(|b| [b[0], b[1]]);
    match LaneType::of(flags) {
        LaneType::I32Le => words.map(i32::from_le_bytes).collect(),
        LaneType::I32Be => words.map(i32::from_be_bytes).collect(),
        LaneType::I16Le => halves.map(|b| i16::from_le_bytes(b).into()).collect(),
        LaneType::I16Be => halves.map(|b| i16::from_be_bytes(b).into()).collect(),
    }
}

/// Writes lanes in the form that flags say; returns how many bytes they are.
fn write_lanes(values: &Values, flags: Flags, payload: &mut [u8]) -> usize {
    let lanes = LaneType::of(flags);
    for (bytes, &lane) in payload.chunks_exact_mut(lanes.width()).zip(values) {
        match lanes {
            LaneType::I32Le => bytes.copy_from_slice(&lane.to_le_bytes()),
            LaneType::I32Be => bytes.copy_from_slice(&lane.to_be_bytes()),
            LaneType::I16Le => bytes.copy_from_slice(&(lane as i16).to_le_bytes()),
            LaneType::I16Be => bytes.copy_from_slice(&(lane as i16).to_be_bytes()),
        }
    }
    lanes.width() * values.len()
}

/// The datagram of a packet whose values are a whole number of blocks of lanes, or, in a refusal, none.
#[must_use]
pub fn emit(packet: &Packet<Values>, key: JobKey) -> Vec<u8> {
    let width = LaneType::of(packet.flags).width();
    let mut datagram = vec![0; LANES_AT + width * packet.values.len()];
    write(packet, key, &mut datagram, |payload| write_lanes(&packet.values, packet.flags, payload));
    datagram
}

/// Bytes before the lanes.
pub const LANES_AT: usize = HEADER_LEN + SWITCH_HEADER_LEN;

/// Writes the datagram of a packet: `fill` writes the lanes and says how many bytes they are. Returns the datagram's length.
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
    let mut header = header(packet, key, flags, len / LaneType::of(flags).width());
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
