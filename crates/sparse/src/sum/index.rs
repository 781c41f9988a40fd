//! Numbers for keys, in the order in which they come: a hash table whose order of iteration is that of arrival.

use crate::mix;

/// Slot without a key.
const EMPTY: u32 = u32::MAX;
/// Slots are filled to 7/8 at most.
const FULL: (usize, usize) = (7, 8);
const LEAST_SLOTS: usize = 16;
/// Most keys of [`Index::get_all`]: as many as a core has misses under way, or so.
pub const MAX_BATCH: usize = 16;

/// Keys, each with a number, from 0 on.
///
/// A slot has a key's number in its lower bits, and bits of the key's hash, its *tag*, in those that are left. A search
/// looks at the key itself, which lies elsewhere in memory, only if the tags are equal.
#[derive(Clone, Debug, Default)]
pub struct Index {
    slots: Vec<u32>,
    keys: Vec<u64>,
    /// Lower bits of a slot, which any number has room in.
    number_bits: u32,
}

/// Where a search for a key begins, and what it looks for.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    key: u64,
    home: usize,
    tag: u32,
}

impl Index {
    /// An index that holds this many keys without growing: 8 bytes for each and 4 for each of its slots.
    #[must_use]
    pub fn with_capacity(keys: usize) -> Self {
        let mut index = Self { keys: Vec::with_capacity(keys), ..Self::default() };
        index.set_slots(slots_for(keys));
        index
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
        self.found(self.search(key))
    }

    /// The numbers of several keys. Their slots are asked for all at once, and then those keys that their tags point to: a
    /// core waits for memory twice, and not for each key.
    ///
    /// # Panics
    /// If there are more than [`MAX_BATCH`] keys.
    #[inline]
    pub fn get_all<'a>(&'a self, keys: &[u64]) -> impl Iterator<Item = Option<usize>> + use<'a> {
        assert!(keys.len() <= MAX_BATCH, "{} keys", keys.len());
        let mut searches = [Search::default(); MAX_BATCH];
        let count = if self.slots.is_empty() { 0 } else { keys.len() };
        for (search, key) in searches.iter_mut().zip(&keys[..count]) {
            *search = self.search(*key);
        }
        let slots = searches[..count].iter().fold(0, |all, search| all ^ self.slots[search.home]);
        let first_match = |search: &Search| {
            let slot = self.slots[self.matching(search.home, search.tag)];
            self.keys.get(self.number(slot)).copied().unwrap_or_default()
        };
        let seen = searches[..count].iter().fold(0, |all, search| all ^ first_match(search));
        std::hint::black_box((slots, seen));
        searches.into_iter().take(keys.len()).map(|search| self.found(search))
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
        let search = self.search(key);
        let slot = self.slot(search);
        if self.slots[slot] == EMPTY {
            assert!(self.keys.len() < EMPTY as usize, "an index has 32-bit numbers");
            self.slots[slot] = search.tag | self.keys.len() as u32;
            self.keys.push(key);
        }
        self.number(self.slots[slot])
    }

    /// Forgets a key. The last key gets its number, as with `Vec::swap_remove`.
    pub fn swap_remove(&mut self, number: usize) {
        let slot = self.slot_of(self.keys[number], number);
        self.close_gap(slot);
        self.keys.swap_remove(number);
        if let Some(moved) = self.keys.get(number) {
            let slot = self.slot_of(*moved, self.keys.len());
            self.slots[slot] = self.search(*moved).tag | number as u32;
        }
    }

    /// Forgets all keys, and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.keys.clear();
    }

    #[inline]
    fn search(&self, key: u64) -> Search {
        let hash = mix(key);
        // The upper half of a product spreads keys over any number of slots; the tag is of the lower bits.
        let home = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        Search { key, home, tag: (hash << self.number_bits) as u32 }
    }

    /// The number in a slot.
    #[inline]
    fn number(&self, slot: u32) -> usize {
        (u64::from(slot) & ((1 << self.number_bits) - 1)) as usize
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// The next slot with this tag, or without a key.
    #[inline]
    fn matching(&self, mut slot: usize, tag: u32) -> usize {
        while self.slots[slot] != EMPTY
            && u64::from(self.slots[slot] ^ tag) >> self.number_bits != 0
        {
            slot = self.next(slot);
        }
        slot
    }

    /// Where a key is, or would be.
    #[inline]
    fn slot(&self, search: Search) -> usize {
        let mut slot = self.matching(search.home, search.tag);
        while self.slots[slot] != EMPTY && self.keys[self.number(self.slots[slot])] != search.key {
            slot = self.matching(self.next(slot), search.tag);
        }
        slot
    }

    #[inline]
    fn found(&self, search: Search) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = self.slots[self.slot(search)];
        (slot != EMPTY).then(|| self.number(slot))
    }

    /// Where the slot with this number is, on the way from the key's home.
    fn slot_of(&self, key: u64, number: usize) -> usize {
        let Search { home, tag, .. } = self.search(key);
        let mut slot = home;
        while self.slots[slot] != tag | number as u32 {
            slot = self.next(slot);
        }
        slot
    }

    /// Empties a slot, and moves up what could not be found behind it any more.
    fn close_gap(&mut self, mut gap: usize) {
        let mut slot = self.next(gap);
        while self.slots[slot] != EMPTY {
            let home = self.search(self.keys[self.number(self.slots[slot])]).home;
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
        self.set_slots(slots_for(2 * self.keys.len().max(1)));
        for number in 0..self.keys.len() {
            let search = self.search(self.keys[number]);
            let slot = self.slot(search);
            self.slots[slot] = search.tag | number as u32;
        }
    }

    /// So many slots, none of which has a key. Numbers are smaller, so no slot with a key looks empty.
    fn set_slots(&mut self, slots: usize) {
        self.slots = vec![EMPTY; slots];
        self.number_bits = (usize::BITS - slots.leading_zeros()).min(u32::BITS);
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
                let all: Vec<u64> = (0..64).collect();
                for keys in all.chunks(MAX_BATCH).chain([&all[..1]]) {
                    let one_by_one: Vec<_> = keys.iter().map(|key| index.get(*key)).collect();
                    prop_assert_eq!(index.get_all(keys).collect::<Vec<_>>(), one_by_one);
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
