//! Numbers for keys, in the order in which they come: a hash table whose order of iteration is that of arrival.

use crate::mix;

/// Slot without a key.
const EMPTY: u32 = u32::MAX;
/// Slots are filled to 7/8 at most.
const FULL: (usize, usize) = (7, 8);
const LEAST_SLOTS: usize = 16;

/// Keys, each with a number, from 0 on.
#[derive(Clone, Debug, Default)]
pub struct Index {
    slots: Vec<u32>,
    keys: Vec<u64>,
}

impl Index {
    /// An index that holds this many keys without growing: 8 bytes for each and 4 for each of its slots.
    #[must_use]
    pub fn with_capacity(keys: usize) -> Self {
        Self { slots: vec![EMPTY; slots_for(keys)], keys: Vec::with_capacity(keys) }
    }

    /// Bytes that [`Self::with_capacity`] takes.
    #[must_use]
    pub fn bytes_for(keys: usize) -> usize {
        slots_for(keys) * size_of::<u32>() + keys * size_of::<u64>()
    }

    /// The keys; the number of each is its place.
    #[must_use]
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The number of a key.
    #[must_use]
    #[inline]
    pub fn get(&self, key: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let number = self.slots[self.slot(key)];
        (number != EMPTY).then_some(number as usize)
    }

    /// The number of a key, a new one if it has none yet.
    ///
    /// # Panics
    /// If there are 2³² − 1 keys.
    #[inline]
    pub fn get_or_add(&mut self, key: u64) -> usize {
        if self.slots.len() * FULL.0 <= self.keys.len() * FULL.1 {
            self.grow();
        }
        let slot = self.slot(key);
        if self.slots[slot] == EMPTY {
            assert!(self.keys.len() < EMPTY as usize, "an index has 32-bit numbers");
            self.slots[slot] = self.keys.len() as u32;
            self.keys.push(key);
        }
        self.slots[slot] as usize
    }

    /// Forgets a key. The last key gets its number, as with `Vec::swap_remove`.
    pub fn swap_remove(&mut self, number: usize) {
        let slot = self.slot(self.keys[number]);
        self.close_gap(slot);
        self.keys.swap_remove(number);
        if let Some(moved) = self.keys.get(number) {
            let slot = self.slot_of(*moved, self.keys.len() as u32);
            self.slots[slot] = number as u32;
        }
    }

    /// Forgets all keys, and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.keys.clear();
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        // The upper half of a product spreads keys over any number of slots.
        ((u128::from(mix(key)) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// Where a key is, or would be.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let mut slot = self.home(key);
        while self.slots[slot] != EMPTY && self.keys[self.slots[slot] as usize] != key {
            slot = self.next(slot);
        }
        slot
    }

    /// Where the slot with this number is, on the way from the key's home.
    fn slot_of(&self, key: u64, number: u32) -> usize {
        let mut slot = self.home(key);
        while self.slots[slot] != number {
            slot = self.next(slot);
        }
        slot
    }

    /// Empties a slot, and moves up what could not be found behind it any more.
    fn close_gap(&mut self, mut gap: usize) {
        let mut slot = self.next(gap);
        while self.slots[slot] != EMPTY {
            let home = self.home(self.keys[self.slots[slot] as usize]);
            let is_before_gap =
                if gap <= slot { home <= gap || home > slot } else { home <= gap && home > slot };
            if is_before_gap {
                self.slots[gap] = self.slots[slot];
                gap = slot;
            }
            slot = self.next(slot);
        }
        self.slots[gap] = EMPTY;
    }

    fn grow(&mut self) {
        self.slots = vec![EMPTY; slots_for(2 * self.keys.len().max(1))];
        for number in 0..self.keys.len() {
            let slot = self.slot(self.keys[number]);
            self.slots[slot] = number as u32;
        }
    }
}

/// Slots for this many keys, with one that stays empty, so that every search ends.
fn slots_for(keys: usize) -> usize {
    ((keys + 1) * FULL.1).div_ceil(FULL.0).max(LEAST_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Keys from few, so that they are added, found and removed many times over.
        #[test]
        fn an_index_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u64..60), 0..400)) {
            let mut index = Index::default();
            let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
            for (is_added, key) in steps {
                prop_assert_eq!(index.get(key), numbers.get(&key).copied());
                if is_added {
                    let next = numbers.len();
                    prop_assert_eq!(index.get_or_add(key), *numbers.entry(key).or_insert(next));
                } else if let Some(number) = numbers.remove(&key) {
                    index.swap_remove(number);
                    let last = numbers.len();
                    numbers.values_mut().filter(|n| **n == last).for_each(|n| *n = number);
                }
                prop_assert_eq!(index.len(), numbers.len());
                for (key, number) in &numbers {
                    prop_assert_eq!(index.keys()[*number], *key);
                    prop_assert_eq!(index.get(*key), Some(*number));
                }
            }
        }
    }

    #[test]
    fn what_is_reserved_does_not_grow() {
        let mut index = Index::with_capacity(1000);
        let slots = index.slots.len();
        (0..1000).for_each(|key| assert_eq!(index.get_or_add(key * key), key as usize));
        assert_eq!(index.slots.len(), slots);
        assert_eq!(Index::bytes_for(1000), slots * 4 + 8000);
    }
}
