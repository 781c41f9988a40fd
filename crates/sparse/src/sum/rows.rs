//! The sums of one round and table: rows of lanes, and whose gradients are in each.

use thiserror::Error;

use super::{Index, is_summable, lane};

/// A row that cannot be summed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SumError {
    /// Inf, NaN, or beyond ±2¹².
    #[error(
        "row {0} has a gradient that is not finite or not within ±4096: clip it, or lower the loss scale"
    )]
    Range(u64),
    /// A row that a worker has given before in this round.
    #[error(
        "row {0} was given before by the same worker: merge the gradients of a row before they are pushed"
    )]
    Twice(u64),
}

/// Sums of the rows of one table in one round.
#[derive(Clone, Debug)]
pub struct RowSums {
    dim: usize,
    index: Index,
    lanes: Vec<i64>,
    contributors: Vec<u64>,
}

impl RowSums {
    /// No sums yet, of rows of `dim` values.
    #[must_use]
    pub fn new(dim: usize) -> Self {
        Self { dim, index: Index::default(), lanes: Vec::new(), contributors: Vec::new() }
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether a row has a sum.
    #[must_use]
    pub fn has(&self, key: u64) -> bool {
        self.index.get(key).is_some()
    }

    /// Contributors of a row's sum as a bitmap, and its lanes.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<(u64, &[i64])> {
        let number = self.index.get(key)?;
        Some((self.contributors[number], &self.lanes[number * self.dim..][..self.dim]))
    }

    /// The rows' keys, in the order in which they came.
    #[must_use]
    pub fn keys(&self) -> &[u64] {
        self.index.keys()
    }

    /// Adds the gradients of one worker: all of them, or none.
    ///
    /// # Errors
    /// The first row that cannot be summed.
    ///
    /// # Panics
    /// If `values` are not as many as the keys' rows have.
    pub fn add(&mut self, worker: u32, keys: &[u64], values: &[f32]) -> Result<(), SumError> {
        assert_eq!(keys.len() * self.dim, values.len());
        for (key, row) in keys.iter().zip(values.chunks_exact(self.dim)) {
            if !row.iter().all(|value| is_summable(*value)) {
                return Err(SumError::Range(*key));
            }
        }
        self.enter(|_| 1 << worker, keys)?;
        for (key, row) in keys.iter().zip(values.chunks_exact(self.dim)) {
            let begin = self.index.get_or_add(*key) * self.dim;
            let lanes = &mut self.lanes[begin..begin + self.dim];
            lanes
                .iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum = sum.wrapping_add(lane(*value)));
        }
        Ok(())
    }

    /// Adds sums that were made elsewhere, each of the gradients of its `contributors`: all of them, or none.
    ///
    /// # Errors
    /// [`SumError::Twice`].
    ///
    /// # Panics
    /// If there are not as many contributors as keys, or `lanes` are not as many as the rows have.
    pub fn add_sums(
        &mut self,
        contributors: &[u64],
        keys: &[u64],
        lanes: &[i64],
    ) -> Result<(), SumError> {
        assert_eq!((contributors.len(), keys.len() * self.dim), (keys.len(), lanes.len()));
        self.enter(|row| contributors[row], keys)?;
        for (key, row) in keys.iter().zip(lanes.chunks_exact(self.dim)) {
            let begin = self.index.get_or_add(*key) * self.dim;
            let sums = &mut self.lanes[begin..begin + self.dim];
            // A peer's lanes may be any; what overflows is wrong, and no reason to stop.
            sums.iter_mut().zip(row).for_each(|(sum, lane)| *sum = sum.wrapping_add(*lane));
        }
        Ok(())
    }

    /// Marks the rows as given by the contributors of each, all or none.
    fn enter(&mut self, contributors: impl Fn(usize) -> u64, keys: &[u64]) -> Result<(), SumError> {
        for (entered, key) in keys.iter().enumerate() {
            let number = self.index.get_or_add(*key);
            if number == self.contributors.len() {
                self.contributors.push(0);
                self.lanes.resize(self.lanes.len() + self.dim, 0);
            }
            if self.contributors[number] & contributors(entered) != 0 {
                self.leave(contributors, &keys[..entered]);
                return Err(SumError::Twice(*key));
            }
            self.contributors[number] |= contributors(entered);
        }
        Ok(())
    }

    fn leave(&mut self, contributors: impl Fn(usize) -> u64, keys: &[u64]) {
        for (row, key) in keys.iter().enumerate() {
            let number = self.index.get_or_add(*key);
            self.contributors[number] &= !contributors(row);
        }
        self.forget_rows_of_nobody();
    }

    fn forget_rows_of_nobody(&mut self) {
        while self.contributors.last() == Some(&0) {
            self.contributors.pop();
            self.index.swap_remove(self.contributors.len());
            self.lanes.truncate(self.contributors.len() * self.dim);
        }
    }

    /// Each row: its key, whose gradients are in it, its lanes. In the order in which the rows came.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &[i64])> {
        let contributors = self.contributors.iter().copied();
        let keys = self.index.keys().iter().copied();
        keys.zip(contributors).zip(self.lanes.chunks_exact(self.dim)).map(|((k, c), l)| (k, c, l))
    }

    /// Forgets all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.index.clear();
        self.lanes.clear();
        self.contributors.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_and_counted() {
        let mut sums = RowSums::new(2);
        sums.add(0, &[7, 9], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        sums.add(5, &[9], &[0.5, -8.0]).unwrap();
        sums.add_sums(&[0b110], &[9], &[lane(1.0), lane(1.0)]).unwrap();
        let all: Vec<_> = sums.iter().map(|(k, c, lanes)| (k, c, lanes.to_vec())).collect();
        let lanes = |values: [f32; 2]| values.map(lane).to_vec();
        assert_eq!(all, [(7, 0b1, lanes([1.0, 2.0])), (9, 0b10_0111, lanes([4.5, -3.0]))]);
    }

    #[test]
    fn a_refused_push_leaves_nothing() {
        let mut sums = RowSums::new(1);
        sums.add(0, &[1], &[1.0]).unwrap();
        let before: Vec<(u64, u64, Vec<i64>)> =
            sums.iter().map(|(k, c, l)| (k, c, l.to_vec())).collect();
        assert_eq!(sums.add(0, &[2, 1], &[1.0, 1.0]), Err(SumError::Twice(1)));
        assert_eq!(sums.add(1, &[3, 3], &[1.0, 1.0]), Err(SumError::Twice(3)));
        assert_eq!(sums.add(1, &[1, 4], &[1.0, f32::NAN]), Err(SumError::Range(4)));
        assert_eq!(sums.add_sums(&[1], &[1], &[5]), Err(SumError::Twice(1)));
        assert_eq!(sums.add_sums(&[4, 6, 2], &[1, 8, 8], &[5; 3]), Err(SumError::Twice(8)));
        let after: Vec<_> = sums.iter().map(|(k, c, l)| (k, c, l.to_vec())).collect();
        assert_eq!(before, after);
    }
}
