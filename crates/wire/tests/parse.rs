//! What holds for any bytes. The seed of a failing case is kept in `parse.regressions` beside this file, which is checked in:
//! `cargo test -p wiresum-wire --test parse` replays it first.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use wiresum_testkit::seeds::times_soak;
use wiresum_wire::{
    BLOCK_LEN, Flags, HEADER_LEN, Header, Kind, LaneType, MAX_PAYLOAD, PROOF_LEN, Packet,
    ParseError, seal,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Any header and a payload that suits it.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let header = prop::collection::vec(any::<u8>(), HEADER_LEN);
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let payload = prop::collection::vec(any::<u8>(), MAX_PAYLOAD);
    let proof = any::<u64>();
    (header, kind, 1..=MAX_PAYLOAD / BLOCK_LEN, payload, proof).prop_map(
        |(header, kind, blocks, payload, proof)| {
            let header = Header::read_from_bytes(&header).expect("a header's length");
            let len = kind.control_words().map_or(blocks * BLOCK_LEN, |words| 4 * words);
            emit(header, kind, &payload[..len], proof)
        },
    )
}

/// Bytes of the proof behind the values, if the header says that there is one.
fn proof_len(header: &Header, kind: Kind) -> usize {
    let is_proven = Flags(header.flags.get()).contains(Flags::PROVEN) && kind.carries_values();
    if is_proven { PROOF_LEN } else { 0 }
}

/// The bytes of a packet with this payload, and all that the payload does not decide taken from `header`.
fn emit(mut header: Header, kind: Kind, payload: &[u8], proof: u64) -> Vec<u8> {
    let flags = Flags(header.flags.get());
    let lanes = if kind.carries_values() { LaneType::of(flags) } else { LaneType::I32Be };
    header.magic.set(wiresum_wire::MAGIC);
    header.version = wiresum_wire::VERSION;
    header.kind = kind as u8;
    header.value_count.set((payload.len() / lanes.width()) as u16);
    seal(&mut header, lanes.sum(payload));
    let proof = &proof.to_be_bytes()[..proof_len(&header, kind)];
    [header.as_bytes(), payload, proof].concat()
}

/// Cases are cheap, and a parser meets everything.
const CASES: u64 = 2000;

fn config() -> ProptestConfig {
    let beside_this_file = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        cases: times_soak(CASES) as u32,
        failure_persistence: Some(Box::new(beside_this_file)),
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn emitted_packets_parse_to_themselves(bytes in packets()) {
        let packet = Packet::parse(&bytes).expect("well-formed");
        prop_assert_eq!(packet.header.as_bytes(), &bytes[..HEADER_LEN]);
        let (payload, proof) = bytes[HEADER_LEN..].split_at(packet.payload.len());
        prop_assert_eq!(packet.payload, payload);
        prop_assert_eq!(packet.proof, proof.try_into().ok().map(u64::from_be_bytes));
        prop_assert_eq!(packet.kind as u8, bytes[3]);
    }

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        judged(&bytes)?;
    }

    #[test]
    fn packets_with_bytes_overwritten_cut_or_added_are_judged(
        packet in packets(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        // Most edits hit the payload; these hit the header.
        header_edits in prop::collection::vec((0..HEADER_LEN, any::<u8>()), 0..4),
        len in any::<prop::sample::Index>(),
        cut: bool,
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = packet;
        for (index, value) in edits {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        for (index, value) in header_edits {
            bytes[index] = value;
        }
        if cut {
            bytes.truncate(len.index(bytes.len()));
        }
        bytes.extend(tail);
        judged(&bytes)?;
    }

    #[test]
    fn every_proper_prefix_is_truncated(packet in packets(), len in any::<prop::sample::Index>()) {
        let prefix = &packet[..len.index(packet.len())];
        let is_truncated = matches!(Packet::parse(prefix), Err(ParseError::Truncated { .. }));
        prop_assert!(is_truncated);
    }

    #[test]
    fn a_flipped_bit_is_detected(packet in packets(), bit in any::<prop::sample::Index>()) {
        flipped_bit_is_detected(packet, bit)?;
    }

    #[test]
    fn a_sum_of_packets_has_the_sum_of_their_checks(
        a in prop::collection::vec(any::<u8>(), 64),
        b in prop::collection::vec(any::<u8>(), 64),
    ) {
        for lanes in [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be] {
            let sum = lanes.sum(&added(lanes, &a, &b));
            prop_assert_eq!(sum, lanes.add_sums(lanes.sum(&a), lanes.sum(&b)), "{}", lanes.name());
        }
    }
}

/// Accepts only what is consistent: the exact length, a known kind, and the check that sealing would set.
fn judged(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(packet) = Packet::parse(bytes) {
        let header = Header::read_from_bytes(&bytes[..HEADER_LEN]).expect("a header");
        let proof_len = proof_len(&header, packet.kind);
        prop_assert_eq!(packet.proof.is_some(), proof_len > 0);
        prop_assert_eq!(bytes.len(), HEADER_LEN + packet.payload.len() + proof_len);
        let proof = packet.proof.unwrap_or_default();
        prop_assert_eq!(emit(header, packet.kind, packet.payload, proof), bytes);
    }
    Ok(())
}

fn flipped_bit_is_detected(
    mut packet: Vec<u8>,
    bit: prop::sample::Index,
) -> Result<(), TestCaseError> {
    // Half of the flips in the header, which is a hundredth of a full packet.
    let covered = covered_len(&packet);
    let bits = 8 * if bit.index(2) == 0 { HEADER_LEN } else { covered };
    let bit = bit.index(bits);
    packet[bit / 8] ^= 1 << (bit % 8);
    prop_assert!(Packet::parse(&packet).is_err(), "bit {} of byte {}", bit % 8, bit / 8);
    Ok(())
}

/// Bytes of a packet but for its proof, which finds its own damage.
fn covered_len(packet: &[u8]) -> usize {
    HEADER_LEN + Packet::parse(packet).expect("well-formed").payload.len()
}

/// Lane by lane, wrapping.
fn added(lanes: LaneType, a: &[u8], b: &[u8]) -> Vec<u8> {
    let width = lanes.width();
    let big_endian = matches!(lanes, LaneType::I32Be | LaneType::I16Be);
    let load = |bytes: &[u8]| {
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if big_endian { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
    };
    let mut out = Vec::new();
    for (a, b) in a.chunks(width).zip(b.chunks(width)) {
        let mut bytes = (load(a) + load(b)).to_le_bytes()[..width].to_vec();
        if big_endian {
            bytes.reverse();
        }
        out.extend(bytes);
    }
    out
}

#[test]
fn every_flipped_bit_of_every_kind_is_detected() {
    for kind in Kind::ALL {
        for flags in (0..8).flat_map(|flags| [flags, flags | Flags::PROVEN.0]) {
            let mut header = Header::new_zeroed();
            header.flags.set(flags);
            let payload: Vec<u8> =
                (0..4 * kind.control_words().unwrap_or(16)).map(|i| i as u8).collect();
            let packet = emit(header, kind, &payload, 0x0123_4567_89ab_cdef);
            for bit in 0..8 * covered_len(&packet) {
                let mut damaged = packet.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Packet::parse(&damaged).is_err(), "{kind:?}, flags {flags}, bit {bit}");
            }
        }
    }
}
