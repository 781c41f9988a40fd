//! What packets carry besides their description.

/// The values of a fragment: [`Values`] where sums matter, `()` where only packets do.
pub trait Payload: Clone + Default {
    /// Adds another fragment's values, lane by lane, modulo 2³²: the order of additions leaves no trace.
    fn add(&mut self, other: &Self);

    /// How many there are.
    fn lanes(&self) -> usize;
}

/// Exact int32 lanes. No lanes are zeros.
pub type Values = Vec<i32>;

impl Payload for Values {
    fn add(&mut self, other: &Self) {
        if self.len() < other.len() {
            self.resize(other.len(), 0);
        }
        for (lane, &value) in self.iter_mut().zip(other) {
            *lane = lane.wrapping_add(value);
        }
    }

    fn lanes(&self) -> usize {
        self.len()
    }
}

impl Payload for () {
    #[inline]
    fn add(&mut self, (): &Self) {}

    #[inline]
    fn lanes(&self) -> usize {
        0
    }
}
