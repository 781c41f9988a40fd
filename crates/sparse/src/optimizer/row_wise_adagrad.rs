//! Row-wise Adagrad, as FBGEMM's `EXACT_ROWWISE_ADAGRAD`: one accumulator for a row, the mean of its squared gradient.
//!
//! > s ← s + (Σ g²) / D; w ← w − (lr / (√s + eps)) · g
//!
//! Σ g² is taken in eight partial sums, of the elements whose index modulo 8 is equal, then ((0 + 4) + (2 + 6)) +
//! ((1 + 5) + (3 + 7)). FBGEMM does not state an order; another one changes the last bits of s.

use serde::{Deserialize, Serialize};

use super::{Step, fused};

const PARTIAL_SUMS: usize = 8;

/// Row-wise Adagrad. The state is s, one number for a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowWiseAdagrad {
    /// Learning rate.
    pub lr: f64,
    /// Keeps the quotient finite.
    #[serde(default = "usual_eps")]
    pub eps: f64,
}

fn usual_eps() -> f64 {
    1e-8
}

impl Step for RowWiseAdagrad {
    fn state_len(&self, _dim: usize) -> usize {
        1
    }

    fn step(&self, _round: u64, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let mean = sum_of_squares(gradient) / gradient.len() as f32;
        state[0] += mean;
        let rate = -(self.lr as f32 / (state[0].sqrt() + self.eps as f32));
        weights.iter_mut().zip(gradient).for_each(|(w, g)| *w = fused(*w, rate, *g));
    }
}

fn sum_of_squares(gradient: &[f32]) -> f32 {
    let mut sums = [0.0f32; PARTIAL_SUMS];
    for part in gradient.chunks(PARTIAL_SUMS) {
        sums.iter_mut().zip(part).for_each(|(sum, g)| *sum += g * g);
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
