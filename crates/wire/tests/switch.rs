//! Packets with a switch header, byte by byte.

use wiresum_wire::{
    Flags, HEADER_LEN, Header, Kind, Packet, ParseError, SWITCH_HEADER_LEN, SwitchHeader,
    SwitchPacket, seal_switched,
};
use zerocopy::{FromBytes, IntoBytes};

/// A contribution of workers 0 and 33 to fragment 0x01020304, for slot 5, with eight little-endian lanes from 1 to 8.
const CONTRIBUTION: &str = "57530201000700030badcafedeadbeef000000050102030400010008020400000801bbbbbbbb\
     000000020000000100000005\
     0100000002000000030000000400000005000000060000000700000008000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn contribution() -> Vec<u8> {
    sealed(bytes(CONTRIBUTION))
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let (mut header, rest) = Header::read_from_prefix(&bytes).expect("long enough");
    let (switch, payload) = SwitchHeader::read_from_prefix(rest).expect("long enough");
    seal_switched(&mut header, &switch, payload);
    bytes[..HEADER_LEN].copy_from_slice(header.as_bytes());
    bytes
}

/// A changed contribution, sealed anew.
fn with_byte(index: usize, value: u8) -> Vec<u8> {
    let mut bytes = contribution();
    bytes[index] = value;
    sealed(bytes)
}

#[test]
fn the_fields_are_where_the_spec_has_them() {
    let bytes = contribution();
    let packet = SwitchPacket::parse(&bytes).expect("well-formed");
    assert_eq!(packet.switch.contributors.get(), 1 << 33 | 1);
    assert_eq!(packet.switch.slot.get(), 5);
    assert_eq!(packet.header.fragment.get(), 0x0102_0304);
    assert_eq!((packet.kind, packet.payload.len()), (Kind::Contribution, 32));
    // Header words, flags, switch header words, lanes.
    let (key, identity) = ([0x0bad_cafe, 0xdead_beef], [0x5753_0201u32, 0x0007_0003]);
    let place = [5, 0x0102_0304, 0x0001_0008, 0x0204_0000];
    let words = [&identity[..], &key, &place].concat();
    let header = words.iter().fold(0x0801, |sum: u32, word| sum.wrapping_add(*word));
    assert_eq!(packet.header.check.get(), header.wrapping_add(2 + 1 + 5).wrapping_add(36));
}

#[test]
fn lanes_stay_aligned_in_a_frame() {
    assert_eq!((42 + HEADER_LEN + SWITCH_HEADER_LEN) % 4, 0);
}

#[test]
fn a_refusal_needs_no_lanes_and_nothing_else_does_without() {
    let flags = Flags::LITTLE_ENDIAN.with(Flags::SWITCHED);
    let without_lanes = |kind: Kind, flags: Flags| {
        let mut bytes = contribution()[..HEADER_LEN + SWITCH_HEADER_LEN].to_vec();
        bytes[3] = kind as u8;
        bytes[26..28].fill(0);
        bytes[32..34].copy_from_slice(&flags.0.to_be_bytes());
        SwitchPacket::parse(&sealed(bytes)).map(|packet| packet.payload.len())
    };
    assert_eq!(without_lanes(Kind::Result, flags.with(Flags::REFUSED)), Ok(0));
    let empty = Err(ParseError::PayloadLength(0));
    assert_eq!(without_lanes(Kind::Result, flags), empty);
    assert_eq!(without_lanes(Kind::Contribution, flags.with(Flags::REFUSED)), empty);
}

#[test]
fn every_damaged_bit_is_noticed() {
    let whole = contribution();
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(SwitchPacket::parse(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn every_way_to_be_malformed_has_its_error() {
    let error = |bytes: &[u8]| SwitchPacket::parse(bytes).expect_err("malformed").name();
    let whole = contribution();
    for len in 0..whole.len() {
        assert_eq!(error(&whole[..len]), "truncated", "{len} bytes");
    }
    assert_eq!(error(&[&whole[..], &[0]].concat()), "trailing_bytes");
    assert_eq!(error(&with_byte(0, 0)), "magic");
    assert_eq!(error(&with_byte(2, 9)), "version");
    assert_eq!(error(&with_byte(3, 0)), "kind");
    assert_eq!(error(&with_byte(3, Kind::Probe as u8)), "kind");
    assert_eq!(error(&with_byte(27, 7)), "payload_length");
    assert_eq!(error(&with_byte(32, 0)), "not_switched");
    assert_eq!(error(&with_byte(28, 255)), "contributor");
}

#[test]
fn an_aggregation_server_does_not_take_it_for_its_own() {
    assert!(matches!(Packet::parse(&contribution()), Err(ParseError::TrailingBytes { .. })));
}
