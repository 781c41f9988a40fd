//! Sparse models: what layouts of hot rows cost a switch, and what a row's optimizer keeps.

use pyo3::prelude::*;
use wiresum_sparse::hot::HotRows;
use wiresum_sparse::layout::{Pushes, compare};
use wiresum_sparse::optimizer::{Optimizer, Step};

use crate::errors;

/// Recirculations and packets of every layout and packaging over some pushes, as JSON.
#[pyfunction]
pub fn sparse_layout(
    py: Python<'_>,
    map_json: &str,
    pushes: Vec<Vec<u32>>,
    registers: u32,
    pairs: u32,
    seed: u64,
) -> PyResult<String> {
    let map = HotRows::from_json(map_json).map_err(errors::sparse_error)?;
    let pushes = Pushes { rows: map.positions, positions: &pushes };
    let rows =
        py.detach(|| compare(pushes, registers, pairs, seed)).map_err(errors::sparse_error)?;
    Ok(serde_json::to_string(&rows).expect("it serialises"))
}

/// The digest that a hot map's file has to have.
#[pyfunction]
pub fn hot_map_digest(map_json: &str) -> PyResult<u64> {
    Ok(HotRows::from_json(map_json).map_err(errors::sparse_error)?.digest())
}

/// Float32 numbers that an optimizer (JSON) keeps for a row of `dim` values.
#[pyfunction]
pub fn optimizer_state_len(optimizer_json: &str, dim: usize) -> PyResult<usize> {
    let optimizer: Optimizer =
        serde_json::from_str(optimizer_json).map_err(errors::sparse_error)?;
    Ok(optimizer.state_len(dim))
}
