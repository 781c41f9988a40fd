//! Packets of rows: literal bytes, and whatever chance makes of them.

use half::{bf16, f16};
use proptest::prelude::*;
use serde::Deserialize;
use wiresum_wire::{
    ACKNOWLEDGEMENT_WORDS, Flags, HEADER_LEN, Kind, MAX_PACKET_ROWS, MAX_ROW_VALUES, PAGE_PAYLOAD,
    Packet, ParseError, ROW_HEADER_LEN, RowDraft, RowKind, RowPacket, RowValue, SwitchPacket,
};

/// Hot rows 0x10000 and 0x10007 with one value each, 1.0 and -2.0, of worker 2 in round 5: packet 3, map 9.
const HOT_ROWS: &str = "5753021100070001deadbeef01020304000000050000000300000003020000000000 00000000\
     00000009000000000001000000020001 00000007 0000803f000000c0";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn draft(kind: RowKind, rows: u16, dim: u16) -> RowDraft {
    let mut draft = RowDraft::new(kind);
    (draft.rows.rows, draft.rows.dim) = (rows.into(), dim.into());
    draft
}

fn emit(draft: RowDraft, columns: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    draft.emit(columns, &mut out);
    out
}

#[test]
fn the_fields_are_where_the_spec_has_them() {
    let mut hot = draft(RowKind::HotRows, 2, 1);
    (hot.header.job, hot.header.node) = (7.into(), 1.into());
    (hot.header.job_key, hot.header.round) = (0xdead_beef_0102_0304.into(), 5.into());
    (hot.header.fragment, hot.header.contributor) = (3.into(), 2);
    (hot.rows.stamp, hot.rows.base) = (9.into(), 0x10000.into());
    let columns = [&[0, 0, 0, 7][..], &1f32.to_le_bytes(), &(-2f32).to_le_bytes()].concat();
    let whole = emit(hot, &columns);
    let mut unsealed = whole.clone();
    unsealed[34..38].fill(0);
    // The flags are LITTLE_ENDIAN and FLOAT.
    let mut literal = bytes(HOT_ROWS);
    literal[32..34].copy_from_slice(&0x1001u16.to_be_bytes());
    literal[30..32].fill(0);
    assert_eq!(unsealed, literal);
    let packet = RowPacket::parse(&whole).expect("well-formed");
    assert_eq!(Vec::from_iter(packet.positions()), [0x10000, 0x10007]);
    assert_eq!(Vec::from_iter(packet.values().iter().map(|value| value.get())), [1.0, -2.0]);
    // Header words; then everything after it as little-endian words.
    let header = [
        0x5753_0211u32,
        0x0007_0001,
        0xdead_beef,
        0x0102_0304,
        5,
        3,
        0x0000_0003,
        0x0200_0000,
        0x1001,
    ];
    let rest =
        whole[HEADER_LEN..].chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
    let check = header.into_iter().chain(rest).fold(0, u32::wrapping_add);
    assert_eq!(packet.header.check.get(), check);
}

#[test]
fn columns_stay_aligned_in_a_frame() {
    assert_eq!((42 + HEADER_LEN + ROW_HEADER_LEN) % 4, 0);
}

#[test]
fn no_number_is_a_kind_of_both() {
    for kind in RowKind::ALL {
        assert_eq!(Kind::from_wire(kind as u8), None);
        assert_eq!(RowKind::from_wire(kind as u8), Some(kind));
    }
}

#[test]
fn others_do_not_take_it_for_their_own() {
    let whole = emit(draft(RowKind::End, 0, 0), &[]);
    let kind = RowKind::End as u8;
    assert_eq!(Packet::parse(&whole).unwrap_err(), ParseError::Kind(kind));
    assert_eq!(SwitchPacket::parse(&whole).unwrap_err(), ParseError::Kind(kind));
}

#[test]
fn every_way_to_be_malformed_has_its_error() {
    let error = |bytes: &[u8]| RowPacket::parse(bytes).expect_err("malformed").name();
    let hot = |offsets: &[u8]| {
        let columns = [offsets, &[0; 8]].concat();
        emit(draft(RowKind::HotRows, 2, 1), &columns)
    };
    let whole = hot(&[0, 1, 0, 2]);
    assert!(RowPacket::parse(&whole).is_ok());
    for len in 0..whole.len() {
        assert_eq!(error(&whole[..len]), "truncated", "{len} bytes");
    }
    assert_eq!(error(&[&whole[..], &[0]].concat()), "trailing_bytes");
    assert_eq!(error(&hot(&[0, 2, 0, 2])), "positions");
    assert_eq!(error(&hot(&[0, 2, 0, 1])), "positions");
    let mut beyond = draft(RowKind::HotRows, 1, 1);
    beyond.rows.base = u32::MAX.into();
    assert_eq!(error(&emit(beyond, &[0, 1, 0, 0, 0, 0, 0, 0])), "positions");
    for (kind, rows, dim) in [
        (RowKind::Push, 0, 1),
        (RowKind::Push, 1, 0),
        (RowKind::Push, 1, MAX_ROW_VALUES as u16 + 1),
        (RowKind::Return, 2, 1),
        (RowKind::End, 1, 0),
        (RowKind::Acknowledgement, ACKNOWLEDGEMENT_WORDS as u16 + 1, 0),
    ] {
        let columns = vec![0; kind.payload_len(rows.into(), dim.into())];
        assert_eq!(error(&emit(draft(kind, rows, dim), &columns)), "payload_length", "{kind:?}");
    }
    let mut said = whole.clone();
    said[27] += 1;
    assert_eq!(error(&said), "payload_length");
    let mut damaged = whole;
    damaged[60] ^= 1;
    assert_eq!(error(&damaged), "check");
}

#[test]
fn the_most_rows_that_fit_are_as_many_as_the_kernel_has_bounds_for() {
    let room = PAGE_PAYLOAD - ROW_HEADER_LEN;
    assert_eq!(RowKind::HotRows.rows_of(room, 1, RowValue::Float16), MAX_PACKET_ROWS);
    for kind in RowKind::ALL {
        for (room, dim) in [(0, 1), (100, 3), (1424, 16), (room, 1), (room, 256)] {
            let rows = kind.rows_for(room, dim);
            assert!(rows == 0 || kind.payload_len(rows, dim) <= room, "{kind:?}");
            let is_most = kind.payload_len(rows + 1, dim) > room;
            let is_bounded = kind.payload_len(1, dim) > kind.payload_len(0, dim);
            assert!(is_most || !is_bounded, "{kind:?}, {room} bytes, {dim} values: {rows}");
        }
    }
}

fn some_kind() -> impl Strategy<Value = RowKind> {
    (0..RowKind::ALL.len()).prop_map(|index| RowKind::ALL[index])
}

fn read_all(packet: &RowPacket<'_>) -> usize {
    let sums = packet.contributors().len() + packet.lanes().len() + packet.text().len();
    let counts = packet.contributor_counts().len() + packet.values().len();
    packet.positions().count() + packet.keys().len() + packet.acknowledged().count() + sums + counts
}

proptest! {
    /// Whatever comes is either refused, or can be read to its end.
    #[test]
    fn nothing_is_read_beyond_the_end(
        kind in some_kind(), rows in 0u16..40, dim in 0u16..20, seed in any::<[u8; 32]>(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let len = kind.payload_len(rows.into(), dim.into());
        prop_assume!(len <= PAGE_PAYLOAD - ROW_HEADER_LEN);
        let columns: Vec<u8> = seed.iter().copied().cycle().take(len).collect();
        let mut whole = emit(draft(kind, rows, dim), &columns);
        for (place, value) in hits {
            let place = place.index(whole.len());
            whole[place] = value;
        }
        for end in [whole.len(), whole.len() / 2] {
            if let Ok(packet) = RowPacket::parse(&whole[..end]) {
                read_all(&packet);
            }
        }
    }

    /// Lengths that lie, with a check that matches.
    #[test]
    fn lengths_that_lie_are_refused(kind in some_kind(), rows: u16, dim: u16, len in 0usize..300) {
        let whole = emit(draft(kind, rows, dim), &vec![0; len]);
        let is_right = kind.payload_len(rows.into(), dim.into()) == len.next_multiple_of(4);
        if let Ok(packet) = RowPacket::parse(&whole) {
            prop_assert!(is_right);
            read_all(&packet);
        }
    }
}

#[test]
fn flags_say_what_lanes_are() {
    let whole = emit(draft(RowKind::End, 0, 0), &[]);
    let packet = RowPacket::parse(&whole).expect("well-formed");
    let flags = Flags(packet.header.flags.get());
    assert!(flags.contains(Flags::LITTLE_ENDIAN.with(Flags::FLOAT)));
}

#[test]
fn values_of_16_bits_are_read_where_a_kind_may_have_them() {
    for (value, flags) in [(RowValue::Float16, 0x1005), (RowValue::Bfloat16, 0x9005)] {
        let mut push = draft(RowKind::Push, 2, 3);
        push.set_value(value);
        let mut columns = vec![0; 16];
        columns.extend([1, 2, 3, 4, 5, 6].map(u16::to_le_bytes).concat());
        let bytes = emit(push, &columns);
        let packet = RowPacket::parse(&bytes).unwrap();
        assert_eq!((packet.value(), packet.header.flags.get()), (value, flags));
        assert_eq!(
            packet.narrow_values().iter().map(|v| v.get()).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6]
        );
        assert!(packet.values().is_empty());
        // As many bytes as values of 32 bits take are too many.
        let columns = vec![0; RowKind::Push.payload_len(2, 3)];
        assert_eq!(RowPacket::parse(&emit(push, &columns)).unwrap_err().name(), "payload_length");
    }
    let mut odd = draft(RowKind::Weights, 1, 3);
    odd.set_value(RowValue::Float16);
    let bytes = emit(odd, &[1, 0, 2, 0, 3, 0]);
    assert_eq!(RowPacket::parse(&bytes).unwrap().narrow_values().len(), 3);
    // Three offsets and nine values: both columns end at a whole word.
    let mut hot = draft(RowKind::HotRows, 3, 3);
    hot.set_value(RowValue::Bfloat16);
    let columns =
        [&[0, 1, 0, 2, 0, 3, 0, 0][..], &(1..10u16).flat_map(u16::to_le_bytes).collect::<Vec<_>>()];
    let bytes = emit(hot, &columns.concat());
    let packet = RowPacket::parse(&bytes).unwrap();
    assert_eq!(Vec::from_iter(packet.positions()), [1, 2, 3]);
    assert_eq!(
        Vec::from_iter(packet.narrow_values().iter().map(|v| v.get())),
        Vec::from_iter(1..10)
    );
    assert_eq!(packet.payload.len(), 28);
    let room = PAGE_PAYLOAD - ROW_HEADER_LEN;
    let rows = RowKind::Push.rows_of(room, 16, RowValue::Float16);
    assert!(RowKind::Push.payload_len_of(rows, 16, RowValue::Float16) <= room);
    assert!(RowKind::Push.payload_len_of(rows + 1, 16, RowValue::Float16) > room);
}

#[derive(Deserialize)]
struct Golden {
    name: String,
    kind: u8,
    rows: u16,
    dim: u16,
    bytes: String,
    #[serde(default)]
    positions: Vec<u32>,
    #[serde(default)]
    keys: Vec<u64>,
    #[serde(default)]
    counts: Vec<u8>,
    #[serde(default)]
    contributors: Vec<u64>,
    #[serde(default)]
    lanes: Vec<i64>,
    #[serde(default)]
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct Goldens {
    format: String,
    packets: Vec<Golden>,
}

/// All columns as an independent implementation has written them, and the same bytes from them.
#[test]
fn golden_packets_are_read_and_written_alike() {
    let file = include_str!("../../../spec/vectors/rows.json");
    let goldens: Goldens = serde_json::from_str(file).expect("golden packets");
    assert_eq!(goldens.format, "wiresum-rows/1");
    assert_eq!(goldens.packets.len(), 14);
    for golden in goldens.packets {
        let (name, bytes) = (&golden.name, bytes(&golden.bytes));
        let packet = RowPacket::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let fields = (packet.kind as u8, packet.rows.rows.get(), packet.rows.dim.get());
        assert_eq!(fields, (golden.kind, golden.rows, golden.dim), "{name}");
        let widened = |bits: u16| match packet.value() {
            RowValue::Float16 => f16::from_bits(bits).to_f32(),
            _ => bf16::from_bits(bits).to_f32(),
        };
        let narrow = packet.narrow_values().iter().map(|bits| widened(bits.get()));
        let values = packet.values().iter().map(|value| value.get()).chain(narrow);
        assert_eq!(Vec::from_iter(values), golden.values, "{name}");
        assert_eq!(Vec::from_iter(packet.positions()), golden.positions, "{name}");
        let keys = packet.keys().iter().map(|key| key.get());
        assert_eq!(Vec::from_iter(keys), golden.keys, "{name}");
        assert_eq!(packet.contributor_counts(), golden.counts, "{name}");
        let ranks = packet.contributors().iter().map(|ranks| ranks.get());
        assert_eq!(Vec::from_iter(ranks), golden.contributors, "{name}");
        let lanes = packet.lanes().iter().map(|lane| lane.get());
        assert_eq!(Vec::from_iter(lanes), golden.lanes, "{name}");
        let draft = RowDraft { header: *packet.header, rows: *packet.rows };
        assert_eq!(emit(draft, packet.payload), bytes, "{name}");
        if name.starts_with("acknowledgement") {
            assert_eq!(Vec::from_iter(packet.acknowledged()), [4, 5, 36]);
        }
    }
}
