//! Space-Saving (Metwally, Agrawal, El Abbadi, 2005): as many counts as there is room for; a key that finds none takes over
//! the smallest one, and inherits it. Of m counts that add up to N, none has inherited more than N/m, and every key that was
//! touched more often than that has one.
//!
//! Keys are ranked by what they were seen themselves, without what they inherited: a newcomer would else be as popular as the
//! least popular of all counted keys, and near the edge of the hot set everybody is a newcomer.

use std::collections::BTreeSet;

use super::{Counter, largest};
use crate::sum::Index;

/// At most `most` keys with their counts and what each has inherited (Space-Saving).
#[derive(Clone, Debug)]
pub struct SpaceSaving {
    most: usize,
    index: Index,
    counts: Vec<f32>,
    inherited: Vec<f32>,
    /// Counts, as bits, which order like the numbers, as none is negative; and keys.
    order: BTreeSet<(u32, u64)>,
}

impl SpaceSaving {
    /// With room for so many counts.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn new(most: usize) -> Self {
        assert!(most > 0, "there is room for a count");
        let (counts, inherited) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let (index, order) = (Index::with_capacity(most), BTreeSet::new());
        Self { most, index, counts, inherited, order }
    }

    fn take_over_the_smallest(&mut self) -> f32 {
        let (bits, key) = self.order.pop_first().expect("there are counts");
        let number = self.index.get(key).expect("what is ordered is counted");
        self.index.swap_remove(number);
        self.counts.swap_remove(number);
        self.inherited.swap_remove(number);
        f32::from_bits(bits)
    }
}

impl Counter for SpaceSaving {
    fn add(&mut self, key: u64, count: f32) {
        let mut inherited = 0.0;
        if self.index.get(key).is_none() && self.counts.len() == self.most {
            inherited = self.take_over_the_smallest();
        }
        let number = self.index.get_or_add(key);
        if number == self.counts.len() {
            self.counts.push(inherited);
            self.inherited.push(inherited);
        } else {
            self.order.remove(&(self.counts[number].to_bits(), key));
        }
        self.counts[number] += count;
        self.order.insert((self.counts[number].to_bits(), key));
    }

    fn decay(&mut self, factor: f32) {
        self.counts.iter_mut().for_each(|count| *count *= factor);
        self.inherited.iter_mut().for_each(|count| *count *= factor);
        let bits = self.counts.iter().map(|count| count.to_bits());
        self.order = bits.zip(self.index.keys().iter().copied()).collect();
    }

    fn top(&self, most: usize) -> Vec<(u64, f32)> {
        let seen = self.counts.iter().zip(&self.inherited).map(|(count, before)| count - before);
        largest(self.index.keys().iter().copied().zip(seen).collect(), most)
    }

    fn counted(&self) -> usize {
        self.counts.len()
    }

    fn boxed(&self) -> Box<dyn Counter> {
        Box::new(self.clone())
    }

    fn bytes(&self) -> usize {
        // A node of the ordered set holds its entry, and some room beside it.
        let ordered = 3 * size_of::<(u32, u64)>() / 2;
        Index::bytes_for(self.most) + self.most * (2 * size_of::<f32>() + ordered)
    }
}
