//! What a worker needs from the values of one collective.

use std::ops::Range;

/// The values of one collective: read while they are encoded, written while results are decoded.
///
/// Element ranges are those of one fragment, in order of the buffer. A range is decoded at most once and never
/// encoded afterwards.
pub trait Buffer: Send {
    /// Elements in the buffer.
    fn len(&self) -> usize;

    /// Whether there is nothing to sum.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type, operation and codec in one number ≥ 0, equal on every rank if they pass the same kind of
    /// collective.
    fn signature(&self) -> i32;

    /// What this worker proposes as the exponent of a fragment: [`NOT_FINITE`] if an element is not finite, or does
    /// not fit the codec.
    fn exponent(&mut self, range: Range<usize>) -> i32;

    /// Encodes a fragment into `lanes` (a whole number of blocks, zero-padded) with the agreed exponent, and returns
    /// the sum of the lanes as [`wiresum_wire::LaneType::sum`] defines it.
    fn encode(&mut self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32;

    /// So many ranks' values are in the sums that follow, where rounds may go on without some: what is decoded from
    /// now on stands for the sum, or the average, of all.
    fn set_participation(&mut self, _ranks: u32) {}

    /// Decodes the summed lanes of a fragment in place of its elements.
    fn decode(&mut self, range: Range<usize>, exponent: i8, lanes: &[u8]);
}

/// The exponent of a fragment with an element that is not finite.
pub use wiresum_wire::NOT_FINITE;

/// The buffer of a round that was never submitted.
#[derive(Debug)]
pub struct Nothing;

impl Buffer for Nothing {
    fn len(&self) -> usize {
        0
    }

    fn signature(&self) -> i32 {
        0
    }

    fn exponent(&mut self, _range: Range<usize>) -> i32 {
        0
    }

    fn encode(&mut self, _range: Range<usize>, _exponent: i8, _lanes: &mut [u8]) -> u32 {
        0
    }

    fn decode(&mut self, _range: Range<usize>, _exponent: i8, _lanes: &[u8]) {}
}
