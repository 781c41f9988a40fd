//! Stochastic gradient descent, as `torch.optim.SGD` treats sparse gradients: neither momentum nor weight decay.
//!
//! > w ← w − lr · g

use serde::{Deserialize, Serialize};

use super::{Step, fused};

/// Stochastic gradient descent. There is no state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
}

impl Step for Sgd {
    fn state_len(&self, _dim: usize) -> usize {
        0
    }

    fn step(&self, _round: u64, weights: &mut [f32], _state: &mut [f32], gradient: &[f32]) {
        let rate = -self.lr as f32;
        weights.iter_mut().zip(gradient).for_each(|(w, g)| *w = fused(*w, rate, *g));
    }
}
