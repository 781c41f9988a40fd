//! Sets of a job's workers: those of one cohort, as packets name them, and those of all.
//!
//! A packet names workers by 64 bits. So a job's workers are counted in *cohorts* of 64, by rank, and a packet is about
//! one of them, that of its `worker`. A sum of one cohort never meets that of another but at a parameter server.

use wiresum_wire::{COHORT_WORKERS, MAX_SWITCHED_WORKERS};

/// Cohorts of a job at most.
pub const MAX_COHORTS: usize = MAX_SWITCHED_WORKERS.div_ceil(COHORT_WORKERS);

/// Workers 64c to 64c + 63 of a job, for cohort c.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cohort(pub u8);

impl Cohort {
    /// The cohort of a worker.
    #[must_use]
    pub fn of(worker: u8) -> Self {
        Self(worker / COHORT_WORKERS as u8)
    }

    /// How many a job with so many workers has.
    #[must_use]
    pub fn count(workers: usize) -> usize {
        workers.div_ceil(COHORT_WORKERS)
    }

    /// The worker with this number in the cohort.
    #[must_use]
    pub fn worker(self, index: u8) -> u8 {
        self.0 * COHORT_WORKERS as u8 + index
    }
}

/// Bit b is worker b of a cohort. The bits mean the same at every node, so partial sums from anywhere can be merged, or
/// told to overlap, without knowing how they came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contributors(pub u64);

impl Contributors {
    /// No one.
    pub const NONE: Self = Self(0);

    /// A worker of the job alone, in its cohort.
    #[must_use]
    pub fn one(worker: u8) -> Self {
        Self(1 << (usize::from(worker) % COHORT_WORKERS))
    }

    /// The first `count` workers of a cohort.
    ///
    /// # Panics
    /// If `count` is more than 64.
    #[must_use]
    pub fn first(count: u8) -> Self {
        assert!(usize::from(count) <= COHORT_WORKERS, "{count} workers of a cohort of 64");
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

    /// Their numbers in the cohort, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |i| self.0 >> i & 1 != 0)
    }
}

/// Workers of a job, whichever cohorts they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workers([Contributors; MAX_COHORTS]);

impl Workers {
    /// No one.
    pub const NONE: Self = Self([Contributors::NONE; MAX_COHORTS]);

    /// The workers that a packet of a cohort names.
    #[must_use]
    pub fn of(cohort: Cohort, contributors: Contributors) -> Self {
        Self::NONE.with_cohort(cohort, contributors)
    }

    /// A worker alone.
    #[must_use]
    pub fn one(worker: u8) -> Self {
        Self::of(Cohort::of(worker), Contributors::one(worker))
    }

    /// Workers 0 to `count` − 1.
    #[must_use]
    pub fn first(count: u8) -> Self {
        let in_cohort = |cohort: usize| {
            let before = cohort * COHORT_WORKERS;
            Contributors::first(usize::from(count).saturating_sub(before).min(COHORT_WORKERS) as u8)
        };
        Self(std::array::from_fn(in_cohort))
    }

    /// Those of a cohort; none if there is no such cohort.
    #[must_use]
    pub fn in_cohort(self, cohort: Cohort) -> Contributors {
        self.0.get(usize::from(cohort.0)).copied().unwrap_or_default()
    }

    /// The cohorts that some are in, in order, each with these.
    pub fn cohorts(self) -> impl Iterator<Item = (Cohort, Contributors)> {
        (0..).map(Cohort).zip(self.0).filter(|(_, workers)| !workers.is_empty())
    }

    /// Both sets' workers.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        self.each(other, Contributors::with)
    }

    /// The same set with others in a cohort; as it is if there is no such cohort.
    #[must_use]
    pub fn with_cohort(mut self, cohort: Cohort, workers: Contributors) -> Self {
        if let Some(of) = self.0.get_mut(usize::from(cohort.0)) {
            *of = workers;
        }
        self
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        self.each(other, Contributors::without)
    }

    /// Whether all of `other` are in.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// Whether no one is in.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// How many are in.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.iter().map(|workers| u32::from(workers.count())).sum()
    }

    /// Their ranks, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        self.cohorts().flat_map(|(cohort, workers)| workers.iter().map(move |i| cohort.worker(i)))
    }

    /// As plain numbers, the bits of each cohort.
    #[must_use]
    pub fn bits(self) -> [u64; MAX_COHORTS] {
        self.0.map(|workers| workers.0)
    }

    /// The set of which these are the [`Self::bits`].
    #[must_use]
    pub fn from_bits(bits: [u64; MAX_COHORTS]) -> Self {
        Self(bits.map(Contributors))
    }

    fn each(self, other: Self, both: fn(Contributors, Contributors) -> Contributors) -> Self {
        Self(std::array::from_fn(|cohort| both(self.0[cohort], other.0[cohort])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_in_cohorts_by_rank() {
        let all = Workers::first(200);
        assert_eq!(all.count(), 200);
        assert_eq!(all.iter().collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
        let cohorts: Vec<_> = all.cohorts().map(|(cohort, of)| (cohort.0, of.count())).collect();
        assert_eq!(cohorts, [(0, 64), (1, 64), (2, 64), (3, 8)]);
        assert_eq!([0, 63, 64, 199].map(Cohort::of), [0, 0, 1, 3].map(Cohort));
        assert_eq!([1, 64, 65, 254].map(Cohort::count), [1, 1, 2, 4]);
    }

    #[test]
    fn a_worker_is_not_one_of_another_cohort() {
        let (one, other) = (Workers::one(1), Workers::one(65));
        assert!(!one.contains(other) && !other.contains(one));
        assert_eq!(one.with(other).iter().collect::<Vec<_>>(), [1, 65]);
        assert_eq!(one.with(other).without(one), other);
        assert_eq!(Workers::from_bits(other.bits()), other);
    }
}
