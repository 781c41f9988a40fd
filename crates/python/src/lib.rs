//! `wiresum._native`. Nothing else knows PyO3; `python/wiresum/_native.pyi` is this module's documentation.

mod array;
mod bench;
mod engine;
mod errors;
mod simulate;

use pyo3::prelude::*;
use wiresum_node::engine::format_of;
use wiresum_protocol::Plan;

/// Native part of Wiresum.
#[pymodule]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::bench::{
        bench_aggregator, bench_codec, bench_load, bench_scaling, bench_switch, bench_xdp,
    };
    #[pymodule_export]
    use super::engine::PyEngine;
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::{plan_digest, validate_plan};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// A plan that this job's participants can run.
fn read_plan(json: &str) -> PyResult<Plan> {
    let plan = Plan::from_json(json).map_err(errors::plan_error)?;
    format_of(&plan).map_err(errors::format_error)?;
    Ok(plan)
}

/// Checks every field of a plan.
#[pyfunction]
fn validate_plan(json: &str) -> PyResult<()> {
    read_plan(json).map(drop)
}

/// A fingerprint of what a plan's participants must agree on.
#[pyfunction]
fn plan_digest(json: &str) -> PyResult<u64> {
    Ok(read_plan(json)?.digest())
}
