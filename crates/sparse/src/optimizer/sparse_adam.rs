//! Adam for sparse gradients, as `torch.optim.SparseAdam`: a row without a gradient keeps its moments ("lazy").
//!
//! > m ← m + (1 − β₁)(g − m); v ← v + (1 − β₂)(g² − v)
//! > w ← w − (lr · √(1 − β₂ᵗ) / (1 − β₁ᵗ)) · (m / (√v + eps))
//!
//! t counts the rounds of the job, also those in which the row had no gradient. βᵗ is a product of float64 numbers by
//! repeated squaring, so that it does not depend on a machine's mathematical library.

use serde::{Deserialize, Serialize};

use super::Step;

/// Adam for sparse gradients. The state is all of m, then all of v.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparseAdam {
    /// Learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    #[serde(default = "usual_betas")]
    pub betas: (f64, f64),
    /// Keeps the quotient finite.
    #[serde(default = "usual_eps")]
    pub eps: f64,
}

fn usual_betas() -> (f64, f64) {
    (0.9, 0.999)
}

fn usual_eps() -> f64 {
    1e-8
}

impl Step for SparseAdam {
    fn state_len(&self, dim: usize) -> usize {
        2 * dim
    }

    fn step(&self, round: u64, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let (beta1, beta2) = self.betas;
        let (rest1, rest2) = ((1.0 - beta1) as f32, (1.0 - beta2) as f32);
        let (gone1, gone2) = (1.0 - power(beta1, round), 1.0 - power(beta2, round));
        let rate = -(self.lr * gone2.sqrt() / gone1) as f32;
        let eps = self.eps as f32;
        let (means, squares) = state.split_at_mut(weights.len());
        for (((w, m), v), g) in weights.iter_mut().zip(means).zip(squares).zip(gradient) {
            *m += (g - *m) * rest1;
            *v += (g * g - *v) * rest2;
            *w += rate * (*m / (v.sqrt() + eps));
        }
    }
}

fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}
