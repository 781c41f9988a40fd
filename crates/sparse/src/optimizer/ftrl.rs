//! FTRL-proximal (McMahan et al., KDD 2013, Algorithm 1), with the weights kept beside z and n.
//!
//! > σ = (√(n + g²) − √n) / α; z ← z + (g − σw); n ← n + g²
//! > w ← 0 if |z| ≤ λ₁, else −(z − sgn(z) λ₁) / ((β + √n) / α + λ₂)

use serde::{Deserialize, Serialize};

use super::Step;

/// FTRL-proximal. The state is all of z, then all of n.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ftrl {
    /// α, the learning rate.
    pub lr: f64,
    /// β, which slows the first steps.
    #[serde(default = "usual_beta")]
    pub beta: f64,
    /// λ₁, which makes small weights zero.
    #[serde(default)]
    pub l1: f64,
    /// λ₂.
    #[serde(default)]
    pub l2: f64,
}

fn usual_beta() -> f64 {
    1.0
}

impl Step for Ftrl {
    fn state_len(&self, dim: usize) -> usize {
        2 * dim
    }

    fn step(&self, _round: u64, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let (alpha, beta) = (self.lr as f32, self.beta as f32);
        let (l1, l2) = (self.l1 as f32, self.l2 as f32);
        let (sums, squares) = state.split_at_mut(weights.len());
        for (((w, z), n), g) in weights.iter_mut().zip(sums).zip(squares).zip(gradient) {
            let grown = *n + g * g;
            let sigma = (grown.sqrt() - n.sqrt()) / alpha;
            *z += g - sigma * *w;
            *n = grown;
            let beyond = z.abs() - l1;
            let proximal = -(beyond.copysign(*z)) / ((beta + n.sqrt()) / alpha + l2);
            *w = if beyond > 0.0 { proximal } else { 0.0 };
        }
    }
}
