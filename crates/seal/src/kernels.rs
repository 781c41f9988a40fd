//! The two loops over lanes, for each type of lane.

use std::marker::PhantomData;

use wiresum_codec::lane::Lane;

use crate::keystream::Mask;
use crate::{Counts, PART_LEN};

/// Bits of a tag.
const TAG_BITS: u32 = u64::BITS;
/// Counts of a fragment.
const COUNTS: usize = 4;

/// Payloads of one type of lane.
pub(crate) struct Masked<L>(PhantomData<L>);

impl<L: Lane> Masked<L> {
    /// Lanes from one count to the next.
    const COUNT_STEP: usize = PART_LEN * 8 / L::BITS as usize / COUNTS;
    /// Bits of each piece of a tag: half a lane's, so that the pieces of many ranks can be added.
    const PIECE_BITS: u32 = L::BITS / 2;

    /// Writes the counts, masks the lanes and writes the tag. The sum of all lanes, modulo 2³².
    pub fn seal(
        masked: &mut [u8],
        tag: &mut [u8],
        counts: Counts,
        [added, taken]: [&Mask; 2],
        factors: &[u64],
    ) -> u32 {
        Self::write_counts(masked, counts);
        let mut sum = 0u32;
        let mut total = added.of_tag().wrapping_sub(taken.of_tag());
        let masks = Self::numbers(added).zip(Self::numbers(taken));
        for ((lane, factor), (added, taken)) in
            L::split_mut(masked).iter_mut().zip(factors).zip(masks)
        {
            let value = L::load(*lane);
            total = total.wrapping_add(product(*factor, value));
            *lane = L::store(value.wrapping_add(added).wrapping_sub(taken));
            sum = sum.wrapping_add(L::load(*lane) as u32);
        }
        for (index, piece) in L::split_mut(tag).iter_mut().enumerate() {
            let number =
                (total >> (Self::PIECE_BITS * index as u32)) as u32 % (1 << Self::PIECE_BITS);
            *piece = L::store(number as i32);
            sum = sum.wrapping_add(number);
        }
        sum
    }

    /// Takes the mask off and compares the tag.
    pub fn open(masked: &mut [u8], tag: &[u8], mask: &Mask, factors: &[u64]) -> Option<Counts> {
        let mut total = mask.of_tag();
        let lanes = L::split_mut(masked).iter_mut().zip(factors).zip(Self::numbers(mask));
        for ((lane, factor), mask) in lanes {
            *lane = L::store(L::load(*lane).wrapping_sub(mask));
            total = total.wrapping_add(product(*factor, L::load(*lane)));
        }
        let pieces = L::split(tag).iter().enumerate();
        let given = pieces.fold(0u64, |tag, (index, piece)| {
            tag.wrapping_add(Self::unsigned(*piece) << (Self::PIECE_BITS * index as u32))
        });
        (given == total).then(|| Self::read_counts(masked))
    }

    /// The numbers of a keystream.
    fn numbers(mask: &Mask) -> impl Iterator<Item = i32> {
        L::split(mask.of_lanes()).iter().map(|bytes| L::load(*bytes))
    }

    fn write_counts(masked: &mut [u8], counts: Counts) {
        let at = masked.len() - PART_LEN;
        let Counts { took_part, stood, unfit, zeros } = counts;
        let lanes = L::split_mut(&mut masked[at..]);
        lanes.fill(L::store(0));
        let firsts = lanes.iter_mut().step_by(Self::COUNT_STEP);
        for (lane, count) in firsts.zip([took_part, stood, unfit, zeros]) {
            *lane = L::store(count as i32);
        }
    }

    fn read_counts(masked: &[u8]) -> Counts {
        let lanes = L::split(&masked[masked.len() - PART_LEN..]);
        let count = |index: usize| Self::unsigned(lanes[index * Self::COUNT_STEP]) as u32;
        Counts { took_part: count(0), stood: count(1), unfit: count(2), zeros: count(3) }
    }

    fn unsigned(lane: L::Bytes) -> u64 {
        u64::from(L::load(lane) as u32) & (u64::MAX >> (TAG_BITS - L::BITS))
    }
}

/// What a lane adds to the tag: lanes are signed, and so are their sums, which never overflow.
#[inline(always)]
fn product(factor: u64, value: i32) -> u64 {
    factor.wrapping_mul(i64::from(value) as u64)
}
