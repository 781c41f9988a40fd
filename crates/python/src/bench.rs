//! Measurements of the layers below Python, as plain data for `wiresum bench`.

use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use wiresum_codec::bench::{self, IN_CACHE, OUT_OF_CACHE};

/// Speed of the codec on one core, in and out of cache, beside memcpy and a first draft's loop.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_codec(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    if runs == 0 {
        return Err(PyValueError::new_err("a measurement takes at least one run"));
    }
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
