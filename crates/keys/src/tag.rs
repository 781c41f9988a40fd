//! Proofs in control packets: SipHash-2-4 (Aumasson and Bernstein, 2012) over all that the packet says. Those of values
//! have the values' hash in place of the words.
//!
//! Sixty-four bits are enough, as a forger has to ask the node about each guess, and the node takes some thousand packets
//! of strangers a second: one in 2⁶⁴ is right. SipHash is made for short messages and runs in the kernel's XDP programs,
//! where a hash of SHA's kind does not fit.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use wiresum_wire::control::{PROOF_WORD, double_word, set_double_word};
use wiresum_wire::{Header, LaneType, Packet, seal};
use zerocopy::IntoBytes;

use crate::hash::ValueHash;

/// Bytes of a seat's key.
pub(crate) const SEAT_KEY_LEN: usize = 16;
/// Bytes of the header that come before flags and check.
const FIELDS_LEN: usize = std::mem::offset_of!(Header, flags);

/// What the holder of one seat and its node share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SeatKey(pub(crate) [u8; SEAT_KEY_LEN]);

impl fmt::Debug for SeatKey {
    /// Says that there is a key, and not which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeatKey")
    }
}

/// Whether the values of a packet carry the proof of a seat; where nothing is hashed, whether they carry none.
#[must_use]
pub fn is_authentic(
    hash: Option<&ValueHash>,
    key: impl FnOnce() -> Option<SeatKey>,
    packet: &Packet<'_>,
) -> bool {
    match (hash, packet.proof) {
        (None, None) => true,
        (Some(hash), Some(proof)) => {
            key().is_some_and(|key| key.value_proof(hash, packet.header, packet.payload) == proof)
        }
        _ => false,
    }
}

impl SeatKey {
    /// The key for a data plane that tests proofs where packets arrive.
    #[must_use]
    pub fn bytes(&self) -> [u8; SEAT_KEY_LEN] {
        self.0
    }

    /// The proof of a packet: over its header but for the check, and its control words but for the proof.
    #[must_use]
    pub fn proof(&self, header: &Header, payload: &[u8]) -> u64 {
        self.tag(header, &payload[4 * (PROOF_WORD + 2)..])
    }

    /// The proof of values: over their header but for the check, and their hash.
    #[must_use]
    pub fn value_proof(&self, hash: &ValueHash, header: &Header, payload: &[u8]) -> u64 {
        self.tag(header, &hash.of(payload).to_be_bytes())
    }

    /// The tag of a header, but for its check, and of what it says of the rest of its packet.
    fn tag(&self, header: &Header, said: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&header.as_bytes()[..FIELDS_LEN]);
        hasher.write(&u64::from(header.flags.get()).to_be_bytes());
        hasher.write(said);
        hasher.finish()
    }

    /// Puts the proof into a packet's control words, and seals the header.
    ///
    /// # Panics
    /// If the payload is shorter than a proof.
    pub fn prove(&self, header: &mut Header, payload: &mut [u8]) {
        let proof = self.proof(header, payload);
        set_double_word(payload, PROOF_WORD, proof);
        seal(header, LaneType::I32Be.sum(payload));
    }

    /// Whether a packet carries the proof that it has to.
    #[must_use]
    pub fn is_proven(&self, header: &Header, payload: &[u8]) -> bool {
        payload.len() >= 4 * (PROOF_WORD + 2)
            && self.proof(header, payload) == double_word(payload, PROOF_WORD)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wiresum_wire::Kind;
    use wiresum_wire::control::hello;
    use zerocopy::FromBytes;

    use super::*;

    const WORDS_LEN: usize = 4 * hello::WORDS;

    fn hello_of(fields: &[u8], words: &[u8]) -> (Header, [u8; WORDS_LEN]) {
        let mut header = Header::new(Kind::Hello);
        header.as_mut_bytes().copy_from_slice(fields);
        (header, words.try_into().expect("as long as a hello"))
    }

    #[test]
    fn tags_are_those_of_the_paper() {
        // Appendix A of the paper: the key 00…0f and the message 00…0e.
        let key: [u8; 16] = std::array::from_fn(|index| index as u8);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&std::array::from_fn::<u8, 15, _>(|index| index as u8));
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    proptest! {
        #[test]
        fn a_proof_holds_for_its_packet_and_key_alone(
            fields in prop::collection::vec(any::<u8>(), size_of::<Header>()),
            words in prop::collection::vec(any::<u8>(), WORDS_LEN),
            key in any::<[u8; 16]>(),
            bit in 0..8 * (FIELDS_LEN + 2 + WORDS_LEN),
            key_bit in 0..128usize,
        ) {
            let (mut header, mut payload) = hello_of(&fields, &words);
            SeatKey(key).prove(&mut header, &mut payload);
            prop_assert!(SeatKey(key).is_proven(&header, &payload));
            let mut other = key;
            other[key_bit / 8] ^= 1 << (key_bit % 8);
            prop_assert!(!SeatKey(other).is_proven(&header, &payload));
            let mut bytes = [header.as_bytes(), &payload[..]].concat();
            let at = bit / 8 + if bit / 8 < FIELDS_LEN + 2 { 0 } else { 4 };
            bytes[at] ^= 1 << (bit % 8);
            let (header, payload) = Header::read_from_prefix(&bytes).expect("a whole header");
            prop_assert!(!SeatKey(key).is_proven(&header, payload));
        }
    }
}
