//! Adagrad, as `torch.optim.Adagrad` treats sparse gradients (Duchi, Hazan, Singer, JMLR 2011).
//!
//! > s ← s + g²; w ← w − lr / (1 + (t − 1) · lr_decay) · (g / (√s + eps))

use serde::{Deserialize, Serialize};

use super::{Step, fused};

/// Adagrad. The state is s, one number for each weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adagrad {
    /// Learning rate.
    pub lr: f64,
    /// How fast the learning rate falls.
    #[serde(default)]
    pub lr_decay: f64,
    /// Keeps the quotient finite.
    #[serde(default = "usual_eps")]
    pub eps: f64,
    /// What s begins with.
    #[serde(default)]
    pub initial_accumulator_value: f64,
}

fn usual_eps() -> f64 {
    1e-10
}

impl Step for Adagrad {
    fn state_len(&self, dim: usize) -> usize {
        dim
    }

    fn initial_state(&self) -> f32 {
        self.initial_accumulator_value as f32
    }

    fn step(&self, round: u64, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        let rate = -(self.lr / (1.0 + (round as f64 - 1.0) * self.lr_decay)) as f32;
        let eps = self.eps as f32;
        for ((w, s), g) in weights.iter_mut().zip(state).zip(gradient) {
            *s += g * g;
            *w = fused(*w, rate, g / (s.sqrt() + eps));
        }
    }
}
