//! Each optimizer against its reference: golden vectors from torch, made by `spec/vectors/sparse/optimizers.py`.
//!
//! Weights and state are compared after each step, from the reference's own numbers before it. Where the same operations are
//! done in the same order the bits must be equal; elsewhere this file says how many units in the last place may differ.

use serde::Deserialize;
use wiresum_sparse::optimizer::{Optimizer, Step};

const VECTORS: &str = include_str!("../../../spec/vectors/sparse/optimizers.json");

#[derive(Deserialize)]
struct Case {
    optimizer: Optimizer,
    steps: Vec<OneStep>,
}

#[derive(Deserialize)]
struct OneStep {
    round: u64,
    gradient: Vec<u32>,
    before: Row,
    after: Row,
}

#[derive(Deserialize)]
struct Row {
    weights: Vec<u32>,
    state: Vec<u32>,
}

fn floats(bits: &[u32]) -> Vec<f32> {
    bits.iter().map(|bits| f32::from_bits(*bits)).collect()
}

/// Units in the last place of the larger of two numbers and of `scale` that lie between the two.
fn ulps(ours: f32, reference: f32, scale: f32) -> f32 {
    let large = ours.abs().max(reference.abs()).max(scale.abs());
    (ours - reference).abs() / (large.next_up() - large)
}

/// What may differ: (weights, state). Row-wise Adagrad's reference sums squares in another order, and does not fuse the
/// change of the weights. A weight is compared in units of the larger one of what it was and what it became.
fn tolerance(optimizer: &Optimizer) -> (f32, f32) {
    match optimizer {
        Optimizer::RowWiseAdagrad(_) => (2.0, 2.0),
        Optimizer::Sgd(_) | Optimizer::Adagrad(_) => (0.0, 0.0),
        Optimizer::SparseAdam(_) | Optimizer::Ftrl(_) => (0.0, 0.0),
    }
}

#[test]
fn one_step_is_the_references() {
    let cases: Vec<Case> = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(cases.len(), 6);
    for case in cases {
        let (of_weights, of_state) = tolerance(&case.optimizer);
        for step in &case.steps {
            let (mut weights, mut state) =
                (floats(&step.before.weights), floats(&step.before.state));
            assert_eq!(state.len(), case.optimizer.state_len(weights.len()));
            let old = weights.clone();
            case.optimizer.step(step.round, &mut weights, &mut state, &floats(&step.gradient));
            let expected = floats(&step.after.weights);
            for ((ours, theirs), old) in weights.iter().zip(&expected).zip(old) {
                let apart = ulps(*ours, *theirs, old);
                assert!(apart <= of_weights, "{:?}: {ours} for {theirs}", case.optimizer);
            }
            for (ours, theirs) in state.iter().zip(floats(&step.after.state)) {
                let apart = ulps(*ours, theirs, 0.0);
                assert!(apart <= of_state, "{:?}: state {ours} for {theirs}", case.optimizer);
            }
        }
    }
}

#[test]
fn states_begin_as_the_references_do() {
    for case in serde_json::from_str::<Vec<Case>>(VECTORS).unwrap() {
        for step in case.steps.iter().filter(|step| step.round == 1) {
            let initial = case.optimizer.initial_state().to_bits();
            assert!(step.before.state.iter().all(|bits| *bits == initial));
        }
    }
}

#[test]
fn options_that_a_reference_does_not_have_are_refused() {
    let wrong = r#"{"name": "sgd", "lr": 0.1, "momentum": 0.9}"#;
    assert!(serde_json::from_str::<Optimizer>(wrong).is_err());
    assert!(serde_json::from_str::<Optimizer>(r#"{"name": "lion", "lr": 0.1}"#).is_err());
}
