//! `wiresum._native`. Nothing else knows PyO3; `python/wiresum/_native.pyi` is this module's documentation.

mod array;
mod bench;
mod codec;
mod engine;
mod errors;
mod plan;
mod schedule;
mod simulate;
mod sparse;

use pyo3::prelude::*;

/// Native part of Wiresum.
#[pymodule]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::bench::{
        bench_aggregator, bench_codec, bench_load, bench_packaging, bench_pairs_worker,
        bench_proofs, bench_push_pull_server, bench_push_pull_worker, bench_rows, bench_scaling,
        bench_seal, bench_sparse_worker, bench_switch, bench_tables, bench_tracking, bench_worker,
        bench_xdp,
    };
    #[pymodule_export]
    use super::codec::{codec_decode, codec_encode, codec_exponents};
    #[pymodule_export]
    use super::engine::PyEngine;
    #[pymodule_export]
    use super::plan::{
        codec_agrees, convert_plan, derive_plan, gate_key, group_of_plan, node_keys, plan_digest,
        validate_plan, validate_schedule,
    };
    #[pymodule_export]
    use super::schedule::{
        PyOnlineScheduler, schedule, schedule_bound, schedule_problem, schedule_refuses,
        schedule_relaxation, schedule_times, schedulers, validate_timetable,
    };
    #[pymodule_export]
    use super::simulate::{predict_flows, simulate};
    #[pymodule_export]
    use super::sparse::{
        PySparseEngine, PySparseSubmitted, hot_map_digest, keyed_report, optimizer_state_len,
        row_packet, sparse_layout, whole_optimizer,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
