//! Secret numbers from the key of a round: AES-128 in counter mode.

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use wiresum_wire::PAGE_PAYLOAD;

use crate::{Fragment, KEY_LEN};

/// Bytes of a block of AES.
const BLOCK_LEN: usize = 16;
/// Blocks of a mask: one for its tag, then those of the lanes.
const MASK_BLOCKS: usize = 1 + PAGE_PAYLOAD / BLOCK_LEN;

/// What a block is for; no two blocks of a key have the same input.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Purpose {
    /// Masks of lanes and tags.
    Mask = 0,
    /// Factors of tags.
    Factors = 1,
}

/// The mask of a rank for one payload.
pub(crate) struct Mask([[u8; BLOCK_LEN]; MASK_BLOCKS]);

impl Mask {
    /// That which changes nothing.
    pub fn zeros() -> Self {
        Self([[0; BLOCK_LEN]; MASK_BLOCKS])
    }

    /// F, which hides the tag.
    pub fn of_tag(&self) -> u64 {
        first_half(&self.0[0])
    }

    /// P, which hides the lanes.
    pub fn of_lanes(&self) -> &[u8] {
        self.0[1..].as_flattened()
    }
}

pub(crate) struct Generator(Aes128);

impl Generator {
    pub fn new(key: [u8; KEY_LEN]) -> Self {
        Self(Aes128::new(&key.into()))
    }

    /// The mask of a rank, with at least `len` bytes for lanes.
    pub fn mask(&self, fragment: Fragment, rank: u32, len: usize) -> Mask {
        let mut mask = Mask::zeros();
        let blocks = &mut mask.0[..1 + len.div_ceil(BLOCK_LEN)];
        self.fill(0, blocks, |block| input(Purpose::Mask, fragment, rank, block));
        mask
    }

    /// Appends factors until there are `count`.
    pub fn extend(&self, factors: &mut Vec<u64>, count: usize) {
        const PER_BLOCK: usize = BLOCK_LEN / size_of::<u64>();
        if factors.len() >= count {
            return;
        }
        let first = factors.len() / PER_BLOCK;
        let mut blocks = vec![[0; BLOCK_LEN]; count.div_ceil(PER_BLOCK) - first];
        let of_round = Fragment { index: 0, exponent: 0 };
        self.fill(first, &mut blocks, |block| input(Purpose::Factors, of_round, 0, block));
        let numbers = blocks.as_flattened().as_chunks().0.iter().copied();
        factors.extend(numbers.map(u64::from_le_bytes));
    }

    fn fill(
        &self,
        first: usize,
        blocks: &mut [[u8; BLOCK_LEN]],
        input: impl Fn(u32) -> [u8; BLOCK_LEN],
    ) {
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = input((first + index) as u32);
        }
        self.0.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

/// The input of one block: each of what tells blocks apart has bytes of its own.
fn input(purpose: Purpose, fragment: Fragment, rank: u32, block: u32) -> [u8; BLOCK_LEN] {
    let mut bytes = [0; BLOCK_LEN];
    bytes[0] = purpose as u8;
    bytes[1] = fragment.exponent as u8;
    bytes[4..8].copy_from_slice(&fragment.index.to_be_bytes());
    bytes[8..12].copy_from_slice(&rank.to_be_bytes());
    bytes[12..].copy_from_slice(&block.to_be_bytes());
    bytes
}

fn first_half(block: &[u8; BLOCK_LEN]) -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&block[..8]);
    u64::from_le_bytes(half)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn blocks_are_those_of_fips_197() {
        // Appendix C.1: the key 00…0f and the text 0011…ff.
        let generator = Generator::new(std::array::from_fn(|index| index as u8));
        let mut block = [std::array::from_fn(|index| 0x11 * index as u8)];
        let text = block[0];
        generator.fill(0, &mut block, |_| text);
        assert_eq!(block[0][..4], [0x69, 0xc4, 0xe0, 0xd8]);
        assert_eq!(block[0][12..], [0x70, 0xb4, 0xc5, 0x5a]);
    }

    #[test]
    fn no_two_uses_of_a_key_have_the_same_input() {
        let mut seen = BTreeSet::new();
        let numbers = [0, 1, 2, 255, 256, 65_535, 65_536, u32::MAX];
        for exponent in [i8::MIN, -1, 0, 1, i8::MAX] {
            for index in numbers {
                for rank in numbers {
                    for block in numbers {
                        let fragment = Fragment { index, exponent };
                        assert!(seen.insert(input(Purpose::Mask, fragment, rank, block)));
                    }
                }
            }
        }
        let of_round = Fragment { index: 0, exponent: 0 };
        for block in numbers {
            assert!(seen.insert(input(Purpose::Factors, of_round, 0, block)));
        }
    }

    #[test]
    fn factors_are_the_same_however_they_are_asked_for() {
        let generator = Generator::new([7; KEY_LEN]);
        let (mut at_once, mut bit_by_bit) = (Vec::new(), Vec::new());
        generator.extend(&mut at_once, 40);
        for count in [8, 8, 24, 40, 16] {
            generator.extend(&mut bit_by_bit, count);
        }
        assert_eq!(at_once, bit_by_bit);
    }
}
