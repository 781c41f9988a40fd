//! Seals: sums that those who add learn nothing of, and can change nothing in unnoticed. The argument is in
//! `spec/security.md`, *Sealed sums*.
//!
//! Rank i of n sends v + P(i) − P(i+1) in place of its values v, with a keystream P(i) for each rank but P(n) = 0. The
//! masks of a sum of all ranks telescope to P(0), which every rank can take off and nobody else. A tag, Σ kⱼ·vⱼ + F(i) −
//! F(i+1) modulo 2⁶⁴ with secret kⱼ and F, is summed in ordinary lanes beside the values, in pieces small enough that
//! their sums fit, and is compared with that of the sum. So whoever adds lanes adds seals, and needs not know.
//!
//! | bytes of a payload | what |
//! | --- | --- |
//! | all but the last 32 | values |
//! | 16 | [`Counts`], in the first of four lanes each, or of two where lanes have 16 bits; they are masked and tagged like values |
//! | 16 | the tag: four pieces of 16 bits, or eight of 8 bits where lanes have 16 bits |

#![forbid(unsafe_code)]

mod kernels;
mod keystream;

use wiresum_codec::lane::{I16Be, I16Le, I32Be, I32Le};
pub use wiresum_wire::SEAL_LEN;
use wiresum_wire::{LaneType, PAGE_PAYLOAD};

use kernels::Masked;
use keystream::{Generator, Mask};

/// Bytes of the key of a round.
pub const KEY_LEN: usize = 16;
/// Most ranks of a sealed job: as many 16-bit pieces of tags can be added in a lane of 32 bits.
pub const MAX_RANKS: u32 = 1 << 16;
/// Bytes of the counts, and of the tag.
const PART_LEN: usize = SEAL_LEN / 2;

/// Which payload of a round is sealed. No two of a round may be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its number in the round.
    pub index: u32,
    /// The scale of its lanes: ranks that use different ones cannot open the sum.
    pub exponent: i8,
}

/// What a rank says of itself beside the values of a fragment, as 0 or 1; in a sum, how many ranks say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its values are in, whatever they are.
    pub took_part: u32,
    /// Its values call for this exponent.
    pub stood: u32,
    /// Its values do not fit the exponent, or are no numbers.
    pub unfit: u32,
    /// Its values are zeros, which call for none.
    pub zeros: u32,
}

impl Counts {
    /// Whether the sums of all ranks' counts allow what the fragment was sent as: so many took part, none of them has
    /// values that do not fit, and the exponent is one that somebody stood for.
    #[must_use]
    pub fn allow(&self, took_part: u32) -> bool {
        self.took_part == took_part && self.fit()
    }

    /// Whether the values of all who took part fit the exponent, and somebody stood for it. If not, the ranks say
    /// themselves that the fragment cannot be summed with it.
    #[must_use]
    pub fn fit(&self) -> bool {
        self.unfit == 0 && (self.stood > 0 || self.zeros == self.took_part)
    }
}

/// The seal of one round, as one rank holds it.
pub struct Seal {
    generator: Generator,
    rank: u32,
    ranks: u32,
    lanes: LaneType,
    /// The secret factors kⱼ of the tag, as far as they were needed.
    factors: Vec<u64>,
}

/// Calls a method of [`Masked`] for the type of the lanes.
macro_rules! for_lanes {
    ($lanes:expr, $method:ident, ($($argument:expr),+)) => {
        match $lanes {
            LaneType::I32Le => Masked::<I32Le>::$method($($argument),+),
            LaneType::I32Be => Masked::<I32Be>::$method($($argument),+),
            LaneType::I16Le => Masked::<I16Le>::$method($($argument),+),
            LaneType::I16Be => Masked::<I16Be>::$method($($argument),+),
        }
    };
}

impl Seal {
    /// The seal of rank `rank` of `ranks` under the key of a round, which no other round has.
    ///
    /// # Panics
    /// If there is no such rank, or there are more than [`MAX_RANKS`]; more than 256 where lanes have 16 bits.
    #[must_use]
    pub fn new(key: [u8; KEY_LEN], rank: u32, ranks: u32, lanes: LaneType) -> Self {
        let most = if lanes.width() == 2 { 1 << 8 } else { MAX_RANKS };
        assert!(rank < ranks && ranks <= most, "rank {rank} of {ranks}, at most {most}");
        Self { generator: Generator::new(key), rank, ranks, lanes, factors: Vec::new() }
    }

    /// Seals a payload: the values are in it, and its last [`SEAL_LEN`] bytes are free. Returns the sum of its lanes,
    /// as [`LaneType::sum`] defines it. The same values are sealed to the same bytes.
    ///
    /// # Panics
    /// If the payload is no whole number of blocks, shorter than a seal, or longer than a packet's.
    pub fn seal(&mut self, fragment: Fragment, counts: Counts, payload: &mut [u8]) -> u32 {
        let (masked, tag) = self.split(payload);
        let [added, taken] = [0, 1].map(|next| self.mask(fragment, self.rank + next, masked.len()));
        let sum =
            for_lanes!(self.lanes, seal, (masked, tag, counts, [&added, &taken], &self.factors));
        self.lanes.add_sums(sum, 0)
    }

    /// Opens the sum of all ranks' payloads, in place: its values are where they were, and the counts are returned.
    /// `None` if it is anything else than that sum, but for one chance in 2³³.
    ///
    /// # Panics
    /// As [`Self::seal`].
    pub fn open(&mut self, fragment: Fragment, payload: &mut [u8]) -> Option<Counts> {
        let (masked, tag) = self.split(payload);
        let mask = self.mask(fragment, 0, masked.len());
        for_lanes!(self.lanes, open, (masked, tag, &mask, &self.factors))
    }

    /// The masked part of a payload and its tag. From now on there are factors for all of its lanes.
    fn split<'a>(&mut self, payload: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8]) {
        let len = payload.len();
        let is_fit = (SEAL_LEN..=PAGE_PAYLOAD).contains(&len) && len.is_multiple_of(SEAL_LEN);
        assert!(is_fit, "a payload of {len} bytes");
        let (masked, tag) = payload.split_at_mut(len - PART_LEN);
        self.generator.extend(&mut self.factors, masked.len() / self.lanes.width());
        (masked, tag)
    }

    /// P and F of a rank; those of the rank after the last one are zeros.
    fn mask(&self, fragment: Fragment, rank: u32, len: usize) -> Mask {
        if rank == self.ranks { Mask::zeros() } else { self.generator.mask(fragment, rank, len) }
    }
}
