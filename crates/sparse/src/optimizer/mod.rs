//! What a round's gradient does to a row: one file for each optimizer, with the semantics of the named reference.
//!
//! All arithmetic is float32, in the order that each file states, so every machine gets equal bits. Hyperparameters are
//! float64, as in Python, and are rounded to float32 where torch does so. Where torch fuses the last multiplication with
//! the addition to the weights, [`fused`] does so too.

mod adagrad;
mod ftrl;
mod row_wise_adagrad;
mod sgd;
mod sparse_adam;

pub use adagrad::Adagrad;
pub use ftrl::Ftrl;
pub use row_wise_adagrad::RowWiseAdagrad;
pub use sgd::Sgd;
pub use sparse_adam::SparseAdam;

use serde::{Deserialize, Serialize};

/// How one row is changed by its gradient.
pub trait Step {
    /// Float32 numbers of state that a row of `dim` values has.
    fn state_len(&self, dim: usize) -> usize;

    /// The state of a row that has had no gradient yet.
    fn initial_state(&self) -> f32 {
        0.0
    }

    /// Changes a row's weights and state. `round` counts the rounds of the job, from 1: what torch calls the step.
    fn step(&self, round: u64, weights: &mut [f32], state: &mut [f32], gradient: &[f32]);
}

/// The optimizer of a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Optimizer {
    /// See [`Sgd`].
    Sgd(Sgd),
    /// See [`Adagrad`].
    Adagrad(Adagrad),
    /// See [`RowWiseAdagrad`].
    RowWiseAdagrad(RowWiseAdagrad),
    /// See [`SparseAdam`].
    SparseAdam(SparseAdam),
    /// See [`Ftrl`].
    Ftrl(Ftrl),
}

impl Optimizer {
    fn steps(&self) -> &dyn Step {
        match self {
            Self::Sgd(optimizer) => optimizer,
            Self::Adagrad(optimizer) => optimizer,
            Self::RowWiseAdagrad(optimizer) => optimizer,
            Self::SparseAdam(optimizer) => optimizer,
            Self::Ftrl(optimizer) => optimizer,
        }
    }
}

impl Step for Optimizer {
    fn state_len(&self, dim: usize) -> usize {
        self.steps().state_len(dim)
    }

    fn initial_state(&self) -> f32 {
        self.steps().initial_state()
    }

    fn step(&self, round: u64, weights: &mut [f32], state: &mut [f32], gradient: &[f32]) {
        self.steps().step(round, weights, state, gradient);
    }
}

/// w + rate · x, rounded once. The product is exact in float64; rounding the sum to float64 and then to float32 differs from
/// a fused multiply-add only where the former makes a tie, in about one case of 2²⁹. It takes no special instruction.
#[inline]
fn fused(w: f32, rate: f32, x: f32) -> f32 {
    (f64::from(rate) * f64::from(x) + f64::from(w)) as f32
}
