//! What a row's weights are before its first gradient: a function of the seed, the table, the row and the place in it, so
//! that every server and every worker can tell, and nothing has to be stored or sent.
//!
//! > word(i) = mix(mix(mix(mix(seed) ⊕ table) ⊕ key) + i · 0x9e3779b97f4a7c15), with `mix` the next number of SplitMix64
//!
//! Only integers and one float32 multiplication: equal bits on every machine.

use serde::{Deserialize, Serialize};
use wiresum_netem::Rng;

use crate::mix;

/// Words of 16 bits that make one normal number.
const PARTS: i32 = 8;
/// Standard deviation of the sum of [`PARTS`] numbers below 2¹⁶: 2¹⁶ · √(8 / 12).
const DEVIATION: f32 = 53_509.91;

/// How weights begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Initial {
    /// Zeros.
    Zeros,
    /// Equally likely between −bound and bound: (w mod 2²⁴ − 2²³ + ½) · 2⁻²³ · bound.
    Uniform(f32),
    /// About normal, with this standard deviation: the sum of eight 16-bit numbers. None is beyond 4.9 deviations.
    Normal(f32),
}

impl Initial {
    /// Fills a row's weights.
    pub fn fill(self, seed: u64, table: u16, key: u64, weights: &mut [f32]) {
        // SplitMix64 adds a constant before each number, so its i-th number is word(i).
        let mut words = Rng::new(mix(mix(mix(seed) ^ u64::from(table)) ^ key));
        for weight in weights {
            *weight = match self {
                Self::Zeros => 0.0,
                Self::Uniform(bound) => uniform(words.next()) * bound,
                Self::Normal(deviation) => normal(words.next(), words.next()) * deviation,
            };
        }
    }
}

fn uniform(word: u64) -> f32 {
    // Odd multiples of 2⁻²⁴, below 1: exact.
    let odd = 2 * (word & 0xff_ffff) as i32 + 1 - (1 << 24);
    odd as f32 / (1 << 24) as f32
}

fn normal(first: u64, second: u64) -> f32 {
    let parts = |word: u64| (0..4).map(|part| (word >> (16 * part) & 0xffff) as i32).sum::<i32>();
    let twice = 2 * (parts(first) + parts(second)) - PARTS * 0xffff;
    twice as f32 / (2.0 * DEVIATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(initial: Initial) -> Vec<f32> {
        let mut weights = vec![0.0; 20_000];
        for (key, row) in weights.chunks_mut(20).enumerate() {
            initial.fill(7, 3, key as u64, row);
        }
        weights
    }

    fn moments(numbers: &[f32]) -> (f64, f64) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
        let square = numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / count;
        (mean, square.sqrt())
    }

    #[test]
    fn spread_is_as_asked_for() {
        let (mean, deviation) = moments(&drawn(Initial::Normal(0.5)));
        assert!(mean.abs() < 0.01 && (deviation - 0.5).abs() < 0.01, "{mean} {deviation}");
        let uniform = drawn(Initial::Uniform(0.1));
        let (mean, deviation) = moments(&uniform);
        assert!(mean.abs() < 0.002 && (deviation - 0.1 / 3f64.sqrt()).abs() < 0.001);
        assert!(uniform.iter().all(|x| x.abs() < 0.1));
    }

    /// The bits are part of the format: a table that was begun by one version goes on with another. These were computed by
    /// another program from the formulas above.
    #[test]
    fn bits_never_change() {
        let mut weights = [0.0; 3];
        Initial::Normal(1.0).fill(42, 1, 1_000_000_007, &mut weights);
        assert_eq!(weights.map(f32::to_bits), [0xbf7c7220, 0x3f199d57, 0xbf4ab5ad]);
        Initial::Uniform(0.25).fill(42, 1, 1_000_000_007, &mut weights);
        assert_eq!(weights.map(f32::to_bits), [0xbdb2909a, 0x3d8d0302, 0xbcfa5438]);
    }

    #[test]
    fn rows_and_tables_differ() {
        let draw = |seed, table, key| {
            let mut weights = [0.0; 4];
            Initial::Uniform(1.0).fill(seed, table, key, &mut weights);
            weights.map(f32::to_bits)
        };
        assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
        assert!([draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4)].iter().all(|x| *x != draw(1, 2, 3)));
    }
}
