//! Slot memory: entries allocated once, of which each job gets one contiguous range while it is served.

use std::ops::Range;

use crate::layout::Entry;

/// Which entries are taken. First fit: jobs are few and live long, so a better strategy would have nothing to do.
pub struct Pool {
    entry_count: u32,
    payload_len: usize,
    /// In order of their start.
    taken: Vec<Range<u32>>,
}

/// How much a pool has, for messages and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Bytes in all.
    pub total: usize,
    /// Bytes that no job has.
    pub free: usize,
    /// Bytes of the largest range that no job has.
    pub largest: usize,
}

impl Pool {
    /// A pool of entries with room for `payload_len` bytes of values each.
    pub fn new(entry_count: u32, payload_len: usize) -> Self {
        Self { entry_count, payload_len, taken: Vec::new() }
    }

    /// Entries in all.
    pub fn entry_count(&self) -> u32 {
        self.entry_count
    }

    /// Bytes of values that an entry has room for.
    pub fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Bytes that so many entries take.
    pub fn bytes(&self, entries: u32) -> usize {
        entries as usize * (self.payload_len + size_of::<Entry>())
    }

    /// Takes the first free range of this length.
    pub fn take(&mut self, entries: u32) -> Option<Range<u32>> {
        let start = self.gaps().find(|gap| gap.len() >= entries as usize)?.start;
        let range = start..start + entries;
        let place = self.taken.partition_point(|other| other.start < start);
        self.taken.insert(place, range.clone());
        Some(range)
    }

    /// Takes this very range, if it is free.
    pub fn take_range(&mut self, range: &Range<u32>) -> bool {
        let is_free = self.gaps().any(|gap| gap.start <= range.start && range.end <= gap.end);
        if is_free {
            let place = self.taken.partition_point(|other| other.start < range.start);
            self.taken.insert(place, range.clone());
        }
        is_free
    }

    /// Gives a range back.
    pub fn give_back(&mut self, range: &Range<u32>) {
        self.taken.retain(|other| other != range);
    }

    /// How much there is.
    pub fn usage(&self) -> PoolUse {
        let gaps = || self.gaps().map(|gap| gap.len() as u32);
        PoolUse {
            total: self.bytes(self.entry_count),
            free: self.bytes(gaps().sum()),
            largest: self.bytes(gaps().max().unwrap_or(0)),
        }
    }

    fn gaps(&self) -> impl Iterator<Item = Range<u32>> {
        let starts = [0].into_iter().chain(self.taken.iter().map(|range| range.end));
        let ends = self.taken.iter().map(|range| range.start).chain([self.entry_count]);
        starts.zip(ends).map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: usize = 256 + size_of::<Entry>();

    #[test]
    fn ranges_are_given_in_order_and_reused() {
        let mut pool = Pool::new(100, 256);
        let [a, b, c] = [40, 30, 30].map(|entries| pool.take(entries).expect("room"));
        assert_eq!([&a, &b, &c], [&(0..40), &(40..70), &(70..100)]);
        assert_eq!(pool.take(1), None);
        pool.give_back(&b);
        assert_eq!(pool.take(31), None);
        assert_eq!(pool.take(20), Some(40..60));
        assert!(!pool.take_range(&(55..65)));
        assert!(pool.take_range(&(65..70)));
        assert_eq!(pool.take(10), None);
        assert_eq!(pool.take(5), Some(60..65));
    }

    #[test]
    fn use_is_in_bytes_and_knows_the_largest_piece() {
        let mut pool = Pool::new(100, 256);
        let ranges = [10, 50, 10].map(|entries| pool.take(entries).expect("room"));
        pool.give_back(&ranges[0]);
        let expected = PoolUse { total: 100 * ENTRY, free: 40 * ENTRY, largest: 30 * ENTRY };
        assert_eq!(pool.usage(), expected);
    }
}
