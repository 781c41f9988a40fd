//! Replays `spec/vectors/proofs.json`, which an independent implementation wrote.

use serde::Deserialize;
use wiresum_keys::{Keyring, Seat, Secret};
use wiresum_wire::Header;
use zerocopy::FromBytes;

#[derive(Deserialize)]
struct Vector {
    secret: String,
    node: u16,
    stream: u16,
    contributor: u8,
    header: String,
    payload: String,
    hash: String,
    proof: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn proofs_of_values_are_those_of_the_spec() {
    let text = include_str!("../../../spec/vectors/proofs.json");
    let vectors: Vec<Vector> = serde_json::from_str(text).expect("vectors");
    assert!(!vectors.is_empty());
    for vector in vectors {
        let secret = Secret::from_digits(&vector.secret).expect("64 digits");
        let ring = Keyring::whole(secret);
        let Vector { node, stream, contributor, .. } = vector;
        let key =
            ring.seat(Seat { node, stream, contributor }).expect("the secret's owner has all");
        let (header, payload) = (bytes(&vector.header), bytes(&vector.payload));
        let header = Header::read_from_bytes(&header).expect("a header");
        let hash = ring.value_hash();
        assert_eq!(format!("{:016x}", hash.of(&payload)), vector.hash);
        let proof = key.value_proof(&hash, &header, &payload);
        assert_eq!(format!("{proof:016x}"), vector.proof);
    }
}
