//! What packets carry besides their description.

use wiresum_wire::Flags;

/// The values of a fragment: [`Values`] where sums matter, `()` where only packets do.
pub trait Payload: Clone + Default {
    /// Merges another fragment's values into these, lane by lane, as these flags say: sums modulo 2³² or 2¹⁶, or the larger of both.
    /// The order in which fragments are merged leaves no trace.
    fn merge(&mut self, other: &Self, lanes: Flags);

    /// How many there are.
    fn lanes(&self) -> usize;
}

/// Exact lanes, of 16 bits too. No lanes are zeros.
pub type Values = Vec<i32>;

impl Payload for Values {
    fn merge(&mut self, other: &Self, lanes: Flags) {
        if self.len() < other.len() {
            self.resize(other.len(), 0);
        }
        let missing = std::iter::repeat(&0);
        for (lane, &value) in self.iter_mut().zip(other.iter().chain(missing)) {
            *lane = merged(*lane, value, lanes);
        }
    }

    fn lanes(&self) -> usize {
        self.len()
    }
}

fn merged(lane: i32, value: i32, lanes: Flags) -> i32 {
    if lanes.contains(Flags::MAXIMUM) {
        return lane.max(value);
    }
    let sum = lane.wrapping_add(value);
    if lanes.contains(Flags::LANES16) { i32::from(sum as i16) } else { sum }
}

impl Payload for () {
    #[inline]
    fn merge(&mut self, (): &Self, _lanes: Flags) {}

    #[inline]
    fn lanes(&self) -> usize {
        0
    }
}
