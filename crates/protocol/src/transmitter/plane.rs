//! What a transmitter sees of the data plane beside it.

use wiresum_wire::{BITMAP_WORDS, Flags, FragmentId, GROUP_FRAGMENTS, SubModelId};

/// States of the entries of [`GROUP_FRAGMENTS`] positions: bit i mod 32 of word i div 32 is about the first position + i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The sum has gone up, the result has not come down.
    pub forwarded: [u32; BITMAP_WORDS],
    /// The result is here.
    pub finals: [u32; BITMAP_WORDS],
}

impl Survey {
    /// Positions that one survey is about.
    pub const POSITIONS: u32 = GROUP_FRAGMENTS as u32;
    /// Nothing is known of any position.
    pub const EMPTY: Self = Self { forwarded: [0; BITMAP_WORDS], finals: [0; BITMAP_WORDS] };
}

/// What a packet to the parent says of a sum, besides what the plan knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The collective.
    pub round: u32,
    /// Scale of the lanes.
    pub exponent: i8,
    /// Format flags.
    pub format: Flags,
    /// Bytes of lanes.
    pub payload_len: usize,
    /// Sum of the lanes, as the check counts it.
    pub lane_sum: u32,
}

/// Whatever sums at a node: the slots, and the check queue.
///
/// Notes are hints: one that is lost costs time, and none is needed for correctness. A data plane makes one for each sub-model
/// in which the node has a parent, when it forwards the sum of a position or stores its result, if the position ends a check
/// interval ([`PlanStream::check_interval`](crate::plan::PlanStream::check_interval)) or the sub-model is armed; a note disarms it.
pub trait DataPlane {
    /// Takes the next note off the check queue: a position of a sub-model whose sum has gone up, or whose result has come.
    fn next_check(&mut self) -> Option<(SubModelId, FragmentId)>;

    /// Asks for a note of the very next sum or result of a sub-model.
    fn arm(&mut self, sub_model: SubModelId);

    /// The states of positions `first` and those after it.
    fn survey(&mut self, sub_model: SubModelId, first: FragmentId) -> Survey;

    /// Copies the sum of a position to `payload`; `None` if the node does not wait for its result (any more).
    fn sum(
        &mut self,
        sub_model: SubModelId,
        position: FragmentId,
        payload: &mut [u8],
    ) -> Option<Sum>;
}
