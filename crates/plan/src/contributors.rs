//! Sets of a job's workers.

/// Bit w is worker w of the job. The bits mean the same at every node, so partial sums from anywhere can be merged, or told to
/// overlap, without knowing how they came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contributors(pub u64);

impl Contributors {
    /// No one.
    pub const NONE: Self = Self(0);

    /// Worker `index` alone.
    ///
    /// # Panics
    /// If `index` is 64 or more.
    #[must_use]
    pub fn one(index: u8) -> Self {
        assert!(
            index < 64,
            "worker {index} of a job of at most 64: sum some of them on a server first"
        );
        Self(1 << index)
    }

    /// Workers 0 to `count` − 1.
    ///
    /// # Panics
    /// If `count` is more than 64.
    #[must_use]
    pub fn first(count: u8) -> Self {
        assert!(
            count <= 64,
            "{count} workers of a job of at most 64: sum some of them on a server first"
        );
        Self(if count == 0 { 0 } else { u64::MAX >> (64 - count) })
    }

    /// Both sets' workers.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in `other` too.
    #[must_use]
    pub fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are in.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether some of `other` are in.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether `other` is someone, and no one from outside.
    #[must_use]
    pub fn holds_some(self, other: Self) -> bool {
        !other.is_empty() && self.contains(other)
    }

    /// Whether no one is in.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many are in.
    #[must_use]
    pub fn count(self) -> u8 {
        self.0.count_ones() as u8
    }

    /// Their indices, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |i| self.0 >> i & 1 != 0)
    }
}
