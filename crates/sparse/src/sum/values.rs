//! Rows of one table, found by key: what a worker pushes in a round, or what it has pulled.

use super::{Index, is_summable};

/// Rows of equally many numbers, which lie one after the other in the order in which the rows came. A search takes one
/// look at a table of hashes and one at the key, where an ordered map takes one for each level.
#[derive(Clone, Debug)]
pub struct RowValues {
    len: usize,
    index: Index,
    values: Vec<f32>,
}

impl RowValues {
    /// No rows yet, of `len` numbers each.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len, index: Index::default(), values: Vec::new() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The numbers of a row.
    #[must_use]
    #[inline]
    pub fn get(&self, key: u64) -> Option<&[f32]> {
        self.index.get(key).map(|number| self.at(number))
    }

    /// Enters a row, in place of what it was.
    ///
    /// # Panics
    /// If `row` has another length.
    pub fn set(&mut self, key: u64, row: &[f32]) {
        self.row(key).copy_from_slice(row);
    }

    /// Adds to rows, which begin with zeros: to all of them, or to none.
    ///
    /// # Errors
    /// The first key whose sum cannot be summed with those of other workers, as [`is_summable`] says.
    ///
    /// # Panics
    /// If `values` are not as many as the keys' rows have.
    pub fn add(&mut self, keys: &[u64], values: &[f32]) -> Result<(), u64> {
        assert_eq!(keys.len() * self.len, values.len());
        let rows_before = self.index.len();
        let mut before = Vec::with_capacity(values.len());
        for (at, (key, added)) in keys.iter().zip(values.chunks_exact(self.len)).enumerate() {
            let sum = self.row(*key);
            before.extend_from_slice(sum);
            sum.iter_mut().zip(added).for_each(|(sum, value)| *sum += value);
            if !sum.iter().all(|value| is_summable(*value)) {
                self.restore(&keys[..=at], &before, rows_before);
                return Err(*key);
            }
        }
        Ok(())
    }

    /// Has rows be what they were, the last one first, as a key may come twice.
    fn restore(&mut self, keys: &[u64], before: &[f32], rows_before: usize) {
        for (key, row) in keys.iter().zip(before.chunks_exact(self.len)).rev() {
            self.set(*key, row);
        }
        for number in (rows_before..self.index.len()).rev() {
            self.index.swap_remove(number);
        }
        self.values.truncate(rows_before * self.len);
    }

    /// A row to be written, of zeros if it is new.
    fn row(&mut self, key: u64) -> &mut [f32] {
        let begin = self.index.get_or_add(key) * self.len;
        if begin == self.values.len() {
            self.values.resize(begin + self.len, 0.0);
        }
        &mut self.values[begin..begin + self.len]
    }

    fn at(&self, number: usize) -> &[f32] {
        &self.values[number * self.len..][..self.len]
    }

    /// Rows in the order of their keys.
    pub fn in_order(&self) -> impl Iterator<Item = (u64, &[f32])> {
        let keys = self.index.keys();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        if !keys.is_sorted() {
            order.sort_unstable_by_key(|number| keys[*number]);
        }
        order.into_iter().map(|number| (keys[number], self.at(number)))
    }

    /// Forgets all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.index.clear();
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Keys from few, so that they meet, in a packet too; now and then a sum that leaves the range.
        #[test]
        fn rows_are_added_all_or_none(
            steps in prop::collection::vec(prop::collection::vec((0u64..20, -3i16..4), 0..8), 0..12),
        ) {
            let (mut rows, mut expected) = (RowValues::new(2), BTreeMap::<u64, [f32; 2]>::new());
            for step in steps {
                let keys: Vec<u64> = step.iter().map(|(key, _)| *key).collect();
                let all = step.iter().flat_map(|(_, value)| [f32::from(*value) * 1000.0, 1.0]);
                let all: Vec<f32> = all.collect();
                let (mut after, mut wrong) = (expected.clone(), None);
                for (key, value) in keys.iter().zip(all.chunks_exact(2)) {
                    let row = after.entry(*key).or_default();
                    (row[0], row[1]) = (row[0] + value[0], row[1] + value[1]);
                    wrong = wrong.or((row[0].abs() >= 4096.0).then_some(*key));
                }
                prop_assert_eq!(rows.add(&keys, &all).err(), wrong);
                if wrong.is_none() {
                    expected = after;
                }
                let found: Vec<_> = rows.in_order().map(|(key, row)| (key, row.to_vec())).collect();
                let known: Vec<_> = expected.iter().map(|(key, row)| (*key, row.to_vec())).collect();
                prop_assert_eq!(found, known);
            }
            (0..20).for_each(|key| assert_eq!(rows.get(key).is_some(), expected.contains_key(&key)));
        }
    }

    #[test]
    fn a_row_that_is_set_is_another_one() {
        let mut rows = RowValues::new(1);
        rows.set(3, &[1.0]);
        rows.set(2, &[5.0]);
        rows.set(3, &[2.0]);
        assert_eq!(rows.in_order().collect::<Vec<_>>(), [(2, &[5.0][..]), (3, &[2.0])]);
        rows.clear();
        assert!(rows.is_empty() && rows.get(3).is_none());
    }
}
