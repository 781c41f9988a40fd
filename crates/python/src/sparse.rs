//! Sparse models: a worker's client, what layouts of hot rows cost a switch, and what a row's optimizer keeps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wiresum_node::tables::{ClientError, RowClient, Submitted};
use wiresum_sparse::hot::HotRows;
use wiresum_sparse::keyed::{KeyedReport, KeyedSpec, Setting};
use wiresum_sparse::layout::{Pushes, compare};
use wiresum_sparse::live::Job;
use wiresum_sparse::optimizer::{Optimizer, Step};
use wiresum_sparse::table::TableId;
use wiresum_wire::{HEADER_LEN, PAGE_PAYLOAD, ROW_HEADER_LEN, RowKind, RowValue};

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

/// What the switch program of pairs takes of a switch, as JSON.
#[pyfunction]
pub fn keyed_report(
    hot: u32,
    registers: u32,
    pairs: u32,
    workers: u8,
    packets: u32,
) -> PyResult<String> {
    let spec = KeyedSpec { registers, pairs, recirculations: 1 };
    let setting = Setting { hot, spec, workers, packets };
    let report = KeyedReport::of(setting).map_err(errors::sparse_error)?;
    Ok(serde_json::to_string(&report).expect("it serialises"))
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

/// Rows of the fullest packet of a kind within a datagram, and the bytes of that datagram; of 16-bit values, where the kind
/// may have them and it is asked for.
#[pyfunction]
#[pyo3(signature = (kind, dim, packet_bytes, is_narrow = false))]
pub fn row_packet(
    kind: u8,
    dim: usize,
    packet_bytes: usize,
    is_narrow: bool,
) -> PyResult<(usize, usize)> {
    let value = if is_narrow { RowValue::Float16 } else { RowValue::Float32 };
    let headers = HEADER_LEN + ROW_HEADER_LEN;
    let room = packet_bytes.saturating_sub(headers).min(PAGE_PAYLOAD - ROW_HEADER_LEN) / 4 * 4;
    let kind = RowKind::from_wire(kind);
    let rows = kind.map_or(0, |kind| kind.rows_of(room, dim, value));
    let kind = kind.filter(|_| rows > 0).ok_or_else(|| {
        errors::row_error(format!(
            "{packet_bytes} bytes hold no row of {dim} values; allow longer packets"
        ))
    })?;
    Ok((rows, headers + kind.payload_len_of(rows, dim, value)))
}

/// An optimizer (JSON) with all its hyperparameters: those that are left out are the usual ones.
#[pyfunction]
pub fn whole_optimizer(optimizer_json: &str) -> PyResult<String> {
    let optimizer: Optimizer =
        serde_json::from_str(optimizer_json).map_err(errors::sparse_error)?;
    Ok(serde_json::to_string(&optimizer).expect("it serialises"))
}

/// A worker of a sparse job.
#[pyclass(name = "SparseEngine", module = "wiresum._native", frozen)]
pub struct PySparseEngine {
    /// None once it is closed.
    client: Mutex<Option<RowClient>>,
    /// By name: number and values of a row.
    tables: BTreeMap<String, (u16, u16)>,
    /// By name: numbers that are stored of a row.
    stored: BTreeMap<String, usize>,
}

#[pymethods]
impl PySparseEngine {
    #[new]
    fn new(
        py: Python<'_>,
        job_json: &str,
        rank: u32,
        incarnation: u64,
        address: Option<&str>,
        timeout_s: f64,
    ) -> PyResult<Self> {
        let job = Arc::new(Job::from_json(job_json).map_err(errors::job_error)?);
        let address = address.map(str::parse).transpose().map_err(|_| {
            errors::row_error(format!("{address:?} is no address: write it as 10.0.0.1:0"))
        })?;
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| errors::row_error(format!("a timeout of {timeout_s} s makes no sense")))?;
        let join = || RowClient::join(&job, rank, incarnation, address, timeout, has_signal);
        let client = py.detach(join).map_err(|error| row_error(py, &error))?;
        let table = |table: &wiresum_sparse::table::TableSpec| {
            (table.name.clone(), (table.id.0, table.dim))
        };
        let tables = job.tables.iter().map(table).collect();
        let stored = job.tables.iter().map(|table| (table.name.clone(), table.stride())).collect();
        Ok(Self { client: Mutex::new(Some(client)), tables, stored })
    }

    #[getter]
    fn tables(&self) -> BTreeMap<String, (u16, u16)> {
        self.tables.clone()
    }

    #[getter]
    fn stored(&self) -> BTreeMap<String, usize> {
        self.stored.clone()
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |client| Ok(client.version()))
    }

    fn pull(
        &self,
        py: Python<'_>,
        table: u16,
        keys: &Bound<'_, PyAny>,
        weights: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.fill(py, keys, weights, |client, keys, rows| client.pull(TableId(table), keys, rows))
    }

    fn pull_stored(
        &self,
        py: Python<'_>,
        table: u16,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.fill(py, keys, values, |client, keys, rows| {
            client.pull_stored(TableId(table), keys, rows)
        })
    }

    fn put(
        &self,
        py: Python<'_>,
        table: u16,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = (read::<u64>(py, keys)?, read::<f32>(py, values)?);
        self.with(py, |client| client.put(TableId(table), &keys, &values))
    }

    fn push(
        &self,
        py: Python<'_>,
        table: u16,
        keys: &Bound<'_, PyAny>,
        grads: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, grads) = (read::<u64>(py, keys)?, read::<f32>(py, grads)?);
        self.with(py, |client| client.push(TableId(table), &keys, &grads))
    }

    fn finish_round(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, RowClient::finish_round)
    }

    fn ask(
        &self,
        py: Python<'_>,
        table: u16,
        keys: &Bound<'_, PyAny>,
    ) -> PyResult<PySparseSubmitted> {
        let keys = read::<u64>(py, keys)?;
        self.with(py, |client| client.ask(TableId(table), &keys)).map(PySparseSubmitted)
    }

    fn end_round(&self, py: Python<'_>) -> PyResult<PySparseSubmitted> {
        self.with(py, RowClient::end_round).map(PySparseSubmitted)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in self.with(py, |client| Ok(client.statistics()))? {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    fn close(&self) {
        self.lock().take();
    }
}

/// Rows that were asked for, or a round that was ended.
#[pyclass(name = "SparseSubmitted", module = "wiresum._native", frozen)]
pub struct PySparseSubmitted(Submitted);

#[pymethods]
impl PySparseSubmitted {
    #[getter]
    fn done(&self) -> bool {
        self.0.is_done()
    }

    fn wait(&self, py: Python<'_>, weights: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let rows = py.detach(|| self.0.wait()).map_err(|error| row_error(py, &error))?;
        match weights {
            Some(place) => contiguous(place)?.copy_from_slice(py, &rows),
            None => Ok(()),
        }
    }
}

impl PySparseEngine {
    fn lock(&self) -> MutexGuard<'_, Option<RowClient>> {
        // A panic of another call is that call's problem: the client says itself whether it can go on.
        self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Copies what the client finds for keys into an array.
    fn fill(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
        find: impl FnOnce(&mut RowClient, &[u64], &mut [f32]) -> Result<(), ClientError> + Send,
    ) -> PyResult<()> {
        let (keys, array) = (read::<u64>(py, keys)?, contiguous::<f32>(array)?);
        let mut rows = vec![0.0; array.item_count()];
        self.with(py, |client| find(client, &keys, &mut rows))?;
        array.copy_from_slice(py, &rows)
    }

    /// Does something with the client, without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut RowClient) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.lock().as_mut().map(act));
        let done = done.ok_or_else(|| errors::row_error("the client was closed"))?;
        done.map_err(|error| row_error(py, &error))
    }
}

/// Whether the user has pressed Ctrl-C. What the handler raises is raised again by the call that is given up.
fn has_signal() -> bool {
    Python::attach(|py| py.check_signals().map_err(|error| error.restore(py)).is_err())
}

/// The client's error, or what a signal has raised.
fn row_error(py: Python<'_>, error: &ClientError) -> PyErr {
    let raised = matches!(error, ClientError::Interrupted).then(|| PyErr::take(py)).flatten();
    raised.unwrap_or_else(|| errors::row_error(error))
}

fn read<T: Element>(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    contiguous(array)?.to_vec(py)
}

fn contiguous<T: Element>(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<T>> {
    let buffer = PyBuffer::<T>::get(object)?;
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(errors::row_error("the array is not contiguous: pass a contiguous copy"))
}
