//! Count-min (Cormode, Muthukrishnan, 2005): counts in a few rows of cells, where keys share cells by hash. A key's count is
//! the least of its cells, never below the truth.
//!
//! A sketch cannot name its keys, so the keys with the largest counts so far are kept beside it.

use super::{Counter, largest};
use crate::mix;
use crate::sum::Index;

const ROWS: usize = 4;

/// Rows of cells that keys share by hash, and the keys with the largest counts so far (Count-min).
#[derive(Clone, Debug)]
pub struct CountMin {
    cells: Vec<f32>,
    candidates: Index,
    most_candidates: usize,
}

impl CountMin {
    /// A sketch of four rows of so many cells, which can name so many keys.
    ///
    /// # Panics
    /// If there are no cells.
    #[must_use]
    pub fn new(cells: usize, keys: usize) -> Self {
        assert!(cells > 0, "a sketch has cells");
        // Twice as many, so that what is not worth keeping is found out rarely.
        let candidates = Index::with_capacity(2 * keys);
        Self { cells: vec![0.0; ROWS * cells], candidates, most_candidates: 2 * keys }
    }

    fn places(&self, key: u64) -> [usize; ROWS] {
        let width = self.cells.len() / ROWS;
        let cell = |row: usize| mix(key ^ mix(row as u64)) % width as u64;
        std::array::from_fn(|row| row * width + cell(row) as usize)
    }

    /// A key's count, or more.
    #[must_use]
    pub fn count(&self, key: u64) -> f32 {
        self.places(key).into_iter().map(|place| self.cells[place]).fold(f32::INFINITY, f32::min)
    }

    fn drop_the_smaller_half(&mut self) {
        let keep = self.top(self.most_candidates / 2);
        self.candidates.clear();
        for (key, _) in keep {
            self.candidates.get_or_add(key);
        }
    }
}

impl Counter for CountMin {
    fn add(&mut self, key: u64, count: f32) {
        let places = self.places(key);
        // Only the cells that hold the count grow ("conservative update"): the others hold more than the truth already.
        let raised = self.count(key) + count;
        for place in places {
            self.cells[place] = self.cells[place].max(raised);
        }
        if self.candidates.get(key).is_none() {
            if self.candidates.len() == self.most_candidates {
                self.drop_the_smaller_half();
            }
            self.candidates.get_or_add(key);
        }
    }

    fn decay(&mut self, factor: f32) {
        self.cells.iter_mut().for_each(|cell| *cell *= factor);
    }

    fn top(&self, most: usize) -> Vec<(u64, f32)> {
        let keys = self.candidates.keys().iter();
        largest(keys.map(|key| (*key, self.count(*key))).collect(), most)
    }

    fn counted(&self) -> usize {
        self.candidates.len()
    }

    fn boxed(&self) -> Box<dyn Counter> {
        Box::new(self.clone())
    }

    fn bytes(&self) -> usize {
        self.cells.len() * size_of::<f32>() + Index::bytes_for(self.most_candidates)
    }
}
