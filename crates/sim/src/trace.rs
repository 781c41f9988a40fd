//! A run in one number.

/// What happened, in order, as a hash: two runs with the same one had the same events at the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    /// Takes in one more number. Multiplied by an odd constant and rotated, so that order matters.
    #[inline]
    pub fn note(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// The hash.
    #[must_use]
    pub fn hash(self) -> u64 {
        self.0
    }
}
