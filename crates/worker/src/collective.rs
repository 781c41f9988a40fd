//! What a worker passes to be summed: where values are read from, and where results are written to.

use std::ops::Range;

use crate::kind::{Kind, View};

/// One call such as `all_reduce`, as one rank passes it.
pub struct Collective {
    /// Who takes which of the results.
    pub kind: Kind,
    /// The root, where the kind has one; otherwise 0.
    pub root: u32,
    /// Where values are read from.
    pub source: Box<dyn Source>,
    /// Where results are written to.
    pub sink: Box<dyn Sink>,
}

impl Collective {
    /// Every rank takes all results.
    #[must_use]
    pub fn all_reduce(source: Box<dyn Source>, sink: Box<dyn Sink>) -> Self {
        Self { kind: Kind::AllReduce, root: 0, source, sink }
    }

    /// A collective that was never submitted.
    #[must_use]
    pub(crate) fn nothing() -> Self {
        Self::all_reduce(Box::new(Nothing), Box::new(Nothing))
    }

    /// Elements whose results rank `rank` of `ranks` takes.
    pub(crate) fn part(&self, rank: usize, ranks: usize) -> Range<usize> {
        let (root, elements) = (self.root as usize, self.source.len());
        self.kind.part(View { rank, ranks, root, elements })
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

    /// Element type, operation and codec in one number, equal on every rank.
    fn signature(&self) -> u8;

    /// Bytes of the number that an element becomes, equal on every rank: 4 or 2, those of a lane, or 1 where several
    /// share one; 4 where bytes are copied. Of sums of parts, as of a reduce-scatter, it is not 1.
    fn width(&self) -> usize;

    /// Whether nodes keep the largest of each lane, instead of the sum; every rank takes all results then.
    fn keeps_largest(&self) -> bool {
        false
    }

    /// What this worker proposes as the exponent of a fragment: [`NOT_FINITE`] if an element is not finite, or does
    /// not fit the codec.
    fn exponent(&self, range: Range<usize>) -> i32;

    /// Encodes a fragment into `lanes` (a whole number of blocks, zero-padded) with the agreed exponent, and returns
    /// the sum of the lanes as [`wiresum_wire::LaneType::sum`] defines it.
    fn encode(&self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32;
}

/// Where the results of a collective are written to: those of this rank's part, as the kind says.
///
/// It may be that part of the source: an element is decoded at most once, and never encoded afterwards. Otherwise it
/// is memory apart, and the source stays as it is, however the collective ends.
pub trait Sink: Send {
    /// So many ranks' values are in the sums that follow, where rounds may go on without some: what is decoded from
    /// now on stands for the sum, or the average, of all.
    fn set_participation(&mut self, _ranks: u32) {}

    /// Decodes the summed lanes of these elements, counted from the beginning of the part.
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

    fn signature(&self) -> u8 {
        0
    }

    fn width(&self) -> usize {
        4
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
