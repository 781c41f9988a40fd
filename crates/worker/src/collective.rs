//! What a worker passes to be summed: where values are read from, and where results are written to.

use std::ops::Range;

/// One call such as `all_reduce`, as one rank passes it.
pub struct Collective {
    /// Where values are read from.
    pub source: Box<dyn Source>,
    /// Where results are written to.
    pub sink: Box<dyn Sink>,
}

impl Collective {
    /// A collective that was never submitted.
    #[must_use]
    pub fn nothing() -> Self {
        Self { source: Box::new(Nothing), sink: Box::new(Nothing) }
    }
}

/// Where the values of a collective are read from.
///
/// Element ranges are those of one fragment, in order. Nothing but the elements and the arguments decides what is
/// encoded, so it may be done on any thread.
pub trait Source: Send {
    /// Number of elements.
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
    fn exponent(&self, range: Range<usize>) -> i32;

    /// Encodes a fragment into `lanes` (a whole number of blocks, zero-padded) with the agreed exponent, and returns
    /// the sum of the lanes as [`wiresum_wire::LaneType::sum`] defines it.
    fn encode(&self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32;
}

/// Where the results of a collective are written to.
///
/// It may be the memory of the source: a range is decoded at most once, and never encoded afterwards. Otherwise a
/// collective that fails leaves the source as it was.
pub trait Sink: Send {
    /// So many ranks' values are in the sums that follow, where rounds may go on without some: what is decoded from
    /// now on stands for the sum, or the average, of all.
    fn set_participation(&mut self, _ranks: u32) {}

    /// Decodes the summed lanes of these elements.
    fn decode(&mut self, range: Range<usize>, exponent: i8, lanes: &[u8]);
}

/// The exponent of a fragment with an element that is not finite.
pub use wiresum_wire::NOT_FINITE;

/// No values, and no results.
struct Nothing;

impl Source for Nothing {
    fn len(&self) -> usize {
        0
    }

    fn signature(&self) -> i32 {
        0
    }

    fn exponent(&self, _range: Range<usize>) -> i32 {
        0
    }

    fn encode(&self, _range: Range<usize>, _exponent: i8, _lanes: &mut [u8]) -> u32 {
        0
    }
}

impl Sink for Nothing {
    fn decode(&mut self, _range: Range<usize>, _exponent: i8, _lanes: &[u8]) {}
}
