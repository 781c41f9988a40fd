//! The hash of values that proofs are made of: NH (Black et al., "UMAC", CRYPTO '99).
//!
//! It costs a multiplication for every two lanes, in the processor's own words, where SipHash takes some forty
//! instructions. Two payloads of one length have the same hash with a chance of at most 2⁻³² for whoever does not know
//! the key. It is no code by itself: SipHash over it and the header is (`tag`).

use std::fmt;
use std::sync::Arc;

use wiresum_wire::PAGE_PAYLOAD;

/// Words of the key: one for each of the longest payload.
pub const HASH_WORDS: usize = PAGE_PAYLOAD / 4;

/// The key by which all participants of a job hash values.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueHash(Arc<[u32; HASH_WORDS]>);

impl fmt::Debug for ValueHash {
    /// Says that there is a key, and not which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueHash")
    }
}

impl ValueHash {
    /// The key with these bytes, which are read as little-endian words.
    pub(crate) fn new(bytes: &[u8; PAGE_PAYLOAD]) -> Self {
        let mut words = [0; HASH_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self(Arc::new(words))
    }

    /// The words, for a data plane that hashes where packets arrive.
    #[must_use]
    pub fn words(&self) -> &[u32; HASH_WORDS] {
        &self.0
    }

    /// The hash of a payload, of whole blocks and at most [`PAGE_PAYLOAD`] bytes: its words, little-endian whatever its
    /// lanes are, plus those of the key modulo 2³², multiplied in pairs, summed modulo 2⁶⁴.
    #[must_use]
    pub fn of(&self, payload: &[u8]) -> u64 {
        let (pairs, keys) = (payload.as_chunks::<8>().0, self.0.as_chunks::<2>().0);
        pairs.iter().zip(keys).fold(0, |sum, (pair, key)| {
            let pair = u64::from_le_bytes(*pair);
            let (first, second) = (pair as u32, (pair >> 32) as u32);
            let first = u64::from(first.wrapping_add(key[0]));
            let second = u64::from(second.wrapping_add(key[1]));
            sum.wrapping_add(first * second)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(seed: u32) -> ValueHash {
        let word = |index| {
            (seed ^ index as u32).wrapping_mul(0x9e37_79b9) ^ seed.rotate_left(index as u32)
        };
        ValueHash(Arc::new(std::array::from_fn(word)))
    }

    #[test]
    fn it_is_the_sum_of_products_of_the_paper() {
        let mut words = [0; HASH_WORDS];
        words[..4].copy_from_slice(&[1, u32::MAX, 5, 7]);
        let payload = [u32::MAX, 3, 10, 20].map(u32::to_le_bytes).concat();
        // (2³² − 1 + 1) · (3 − 1) + (10 + 5) · (20 + 7), where the first factor is 0 modulo 2³².
        assert_eq!(ValueHash(Arc::new(words)).of(&payload), 15 * 27);
    }

    proptest! {
        #[test]
        fn any_changed_word_changes_it(
            payload in prop::collection::vec(any::<u8>(), 32..=PAGE_PAYLOAD),
            seed in any::<u32>(),
            bit in any::<prop::sample::Index>(),
        ) {
            let payload = &payload[..payload.len() / 32 * 32];
            let mut other = payload.to_vec();
            let bit = bit.index(8 * other.len());
            other[bit / 8] ^= 1 << (bit % 8);
            // By the factor beside the changed word, which is 0 for one key in 2³².
            prop_assert_ne!(hash(seed).of(payload), hash(seed).of(&other));
        }
    }
}
