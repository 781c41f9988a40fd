//! Replays `spec/vectors/packets.json`, which an independent implementation wrote.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use wiresum_wire::{HEADER_LEN, Header, Kind, Packet, header_sum, seal};
use zerocopy::{FromBytes, IntoBytes};

#[derive(Deserialize)]
struct Vectors {
    format: String,
    packets: Vec<WellFormed>,
    malformed: Vec<Malformed>,
}

#[derive(Deserialize)]
struct WellFormed {
    name: String,
    header: BTreeMap<String, i128>,
    lanes: Vec<i32>,
    bytes: String,
}

#[derive(Deserialize)]
struct Malformed {
    name: String,
    error: String,
    bytes: String,
}

fn vectors() -> Vectors {
    let vectors: Vectors = serde_json::from_str(include_str!("../../../spec/vectors/packets.json"))
        .expect("golden packets");
    assert_eq!(vectors.format, "wiresum-packets/1");
    vectors
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).expect("hexadecimal digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A field read through the table that the C and Python definitions are generated from.
fn field(header: &Header, name: &str) -> i128 {
    let field = Header::FIELDS.iter().find(|field| field.name == name).expect("a field");
    let bytes = &header.as_bytes()[field.offset..][..field.len];
    let number = bytes.iter().fold(0, |number, byte| number << 8 | i128::from(*byte));
    if field.c_type == "__s8" { i128::from(number as i8) } else { number }
}

#[test]
fn golden_packets_parse_to_their_fields() {
    for golden in vectors().packets {
        let bytes = bytes(&golden.bytes);
        let packet =
            Packet::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        assert_eq!(golden.header.len(), Header::FIELDS.len(), "{}", golden.name);
        for (name, value) in &golden.header {
            assert_eq!(field(packet.header, name), *value, "{}: {name}", golden.name);
        }
        let lanes = packet.lane_type();
        let found: Vec<i32> =
            packet.payload.chunks(lanes.width()).map(|lane| number(lanes.name(), lane)).collect();
        assert_eq!(found, golden.lanes, "{}", golden.name);
    }
}

fn number(lanes: &str, lane: &[u8]) -> i32 {
    match lanes {
        "int32-le" => i32::from_le_bytes(lane.try_into().expect("4 bytes")),
        "int32-be" => i32::from_be_bytes(lane.try_into().expect("4 bytes")),
        "int16-le" => i16::from_le_bytes(lane.try_into().expect("2 bytes")).into(),
        _ => i16::from_be_bytes(lane.try_into().expect("2 bytes")).into(),
    }
}

#[test]
fn golden_packets_are_sealed_alike() {
    for golden in vectors().packets {
        let bytes = bytes(&golden.bytes);
        let packet = Packet::parse_unchecked(&bytes).expect("well-formed");
        let mut header = Header::read_from_bytes(&bytes[..HEADER_LEN]).expect("a header");
        header.check.set(0);
        assert_eq!(
            header_sum(&header),
            header_sum(packet.header),
            "the check is no part of its sum"
        );
        seal(&mut header, packet.lane_sum());
        assert_eq!(header.as_bytes(), &bytes[..HEADER_LEN], "{}", golden.name);
    }
}

#[test]
fn golden_packets_cover_every_kind() {
    let kinds: BTreeSet<i128> =
        vectors().packets.iter().map(|golden| golden.header["kind"]).collect();
    assert_eq!(kinds, Kind::ALL.iter().map(|kind| *kind as i128).collect());
}

#[test]
fn malformed_datagrams_give_their_error() {
    let mut seen = BTreeSet::new();
    for golden in vectors().malformed {
        let error = Packet::parse(&bytes(&golden.bytes)).expect_err(&golden.name);
        assert_eq!(error.name(), golden.error, "{}: {error}", golden.name);
        seen.insert(error.name());
    }
    assert_eq!(seen.len(), 7, "every error has a vector: {seen:?}");
}
