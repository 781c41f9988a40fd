//! Ranks by Zipf's law, for the examples that draw lookups.
#![allow(dead_code, reason = "each example uses a part")]

use wiresum_netem::Rng;

/// A number from 0 to 1, below 1.
pub fn unit(rng: &mut Rng) -> f64 {
    (rng.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Ranks, counted from 0: the first is the most popular.
pub struct Zipf {
    exponent: f64,
    /// The sum of the shares of all ranks before each, and of all.
    before: Vec<f64>,
}

impl Zipf {
    pub fn new(ranks: usize, exponent: f64) -> Self {
        let mut zipf = Self { exponent, before: vec![0.0] };
        (0..ranks).for_each(|rank| zipf.before.push(zipf.before[rank] + zipf.share(rank)));
        zipf
    }

    /// The share of a rank, where that of the first is 1.
    pub fn share(&self, rank: usize) -> f64 {
        ((rank + 1) as f64).powf(-self.exponent)
    }

    /// The shares of this many ranks, the first ones, together.
    pub fn of_first(&self, ranks: usize) -> f64 {
        self.before[ranks]
    }

    /// The rank of one lookup.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let ranks = self.before.len() - 1;
        let point = unit(rng) * self.before[ranks];
        self.before.partition_point(|sum| *sum <= point).min(ranks) - 1
    }
}
