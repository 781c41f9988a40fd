//! A count for each key that was touched lately.

use super::{Counter, largest};
use crate::sum::Index;

/// Counts below this are forgotten: of one touch nothing is left after 13 periods with a decay of 0.7.
const LEAST: f32 = 0.01;

/// A count for each key that was touched lately: 16 bytes a key.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    index: Index,
    counts: Vec<f32>,
}

impl Counter for Exact {
    fn add(&mut self, key: u64, count: f32) {
        let number = self.index.get_or_add(key);
        if number == self.counts.len() {
            self.counts.push(0.0);
        }
        self.counts[number] += count;
    }

    fn decay(&mut self, factor: f32) {
        for number in (0..self.counts.len()).rev() {
            self.counts[number] *= factor;
            if self.counts[number] < LEAST {
                self.index.swap_remove(number);
                self.counts.swap_remove(number);
            }
        }
    }

    fn top(&self, most: usize) -> Vec<(u64, f32)> {
        let keys = self.index.keys().iter().copied();
        largest(keys.zip(self.counts.iter().copied()).collect(), most)
    }

    fn counted(&self) -> usize {
        self.counts.len()
    }

    fn boxed(&self) -> Box<dyn Counter> {
        Box::new(self.clone())
    }

    fn bytes(&self) -> usize {
        Index::bytes_for(self.counts.len()) + self.counts.len() * size_of::<f32>()
    }
}
