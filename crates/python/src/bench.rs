//! Measurements of the layers below Python, as plain data for `wiresum bench`.

use std::time::Instant;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use wiresum_codec::bench::{self, IN_CACHE, OUT_OF_CACHE};
use wiresum_node::bench::udp_aggregator;

/// Packet sizes of `bench_aggregator`, in int32 values.
const VALUES: [u16; 5] = [64, 128, 256, 512, 736];
/// Children of `bench_aggregator`.
const CHILDREN: u32 = 4;

/// Speed of the codec on one core, in and out of cache, beside memcpy and a first draft's loop.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_codec(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let start = Instant::now();
    let measured = py.detach(|| {
        [IN_CACHE, OUT_OF_CACHE].map(|bytes| bench::run(bytes, runs, &|| start.elapsed()))
    });
    let rows = PyList::empty(py);
    for m in measured.iter().flatten() {
        let row = PyDict::new(py);
        let kibibytes = m.working_set >> 10;
        let (step, element, lanes, set) = (m.step, m.element, m.lanes.name(), m.instructions);
        row.set_item("name", format!("{step} {element} {lanes} {kibibytes} KiB {set}"))?;
        row.set_item("step", step)?;
        row.set_item("element", m.element)?;
        row.set_item("lanes", m.lanes.name())?;
        row.set_item("instructions", m.instructions)?;
        row.set_item("working_set_bytes", m.working_set)?;
        row.set_item("unit", "GB/s")?;
        row.set_item("runs", &m.gigabytes_per_second)?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// What one packet costs the user-space aggregator, its socket included.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_aggregator(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let rows = PyList::empty(py);
    for values in VALUES {
        let measured: Result<Vec<_>, _> =
            py.detach(|| (0..runs).map(|_| udp_aggregator(values, CHILDREN)).collect());
        let mut nanoseconds = measured.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        nanoseconds.sort_by(f64::total_cmp);
        let row = PyDict::new(py);
        row.set_item("name", format!("udp {values} values"))?;
        row.set_item("engine", "udp")?;
        row.set_item("values", values)?;
        row.set_item("working_set", 0)?;
        row.set_item("children", CHILDREN)?;
        row.set_item("unit", "ns")?;
        row.set_item("runs", nanoseconds)?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn require_runs(runs: usize) -> PyResult<()> {
    match runs {
        0 => Err(PyValueError::new_err("a measurement takes at least one run")),
        _ => Ok(()),
    }
}
