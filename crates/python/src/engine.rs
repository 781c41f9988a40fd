//! The worker's engine as a Python class.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use wiresum_codec::Operation;
use wiresum_node::abi::{CAPSULE_NAME, EngineAbi};
use wiresum_node::engine::{CollectiveError, DEFAULT_JOIN_TIMEOUT, Engine, Options};
use wiresum_node::tensor::Elements;
use wiresum_wire::control::Absent;
use wiresum_worker::{Kind, Members, Participation};

use crate::array::Array;
use crate::errors;
use crate::plan::read_whole_plan;

/// Default of `all_reduce(timeout_s)`: PyTorch's default for process groups other than NCCL, in seconds.
const DEFAULT_TIMEOUT_S: f64 = 1800.0;
/// How often a waiting call looks whether the user has pressed Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A worker that has joined its job.
#[pyclass(name = "Engine", module = "wiresum._native", frozen)]
pub struct PyEngine {
    engine: SharedEngine,
}

/// An engine that is closed without Python's lock, which completions on its thread may need in order to end.
struct SharedEngine(Arc<Engine>);

impl Drop for SharedEngine {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) == 1 {
            // When the interpreter is gone there is no lock to release.
            let closed = Python::try_attach(|py| py.detach(|| self.0.close()));
            closed.unwrap_or_else(|| self.0.close());
        }
    }
}

/// What a capsule points to: the interface first, then what keeps it alive.
#[repr(C)]
struct CapsuleContents {
    abi: EngineAbi,
    _engine: SharedEngine,
}

#[pymethods]
impl PyEngine {
    #[new]
    #[pyo3(signature = (plan_json, rank, incarnation, timeout_s = DEFAULT_JOIN_TIMEOUT.as_secs_f64(), shut_for_s = None, transport = "auto", dead_after_s = 0.0, gone_after_s = 0.0, absent = Vec::new(), outlives_workers = false, members = None))]
    #[expect(clippy::too_many_arguments, reason = "in Python they have names and defaults")]
    fn new(
        py: Python<'_>,
        plan_json: &str,
        rank: u32,
        incarnation: u64,
        timeout_s: f64,
        shut_for_s: Option<f64>,
        transport: &str,
        dead_after_s: f64,
        gone_after_s: f64,
        absent: Vec<u32>,
        outlives_workers: bool,
        members: Option<Vec<u32>>,
    ) -> PyResult<Self> {
        let plan = read_whole_plan(plan_json)?;
        let (timeout, shut_for) = (duration(timeout_s)?, shut_for_s.map(duration).transpose()?);
        let transport = transport.parse().map_err(PyValueError::new_err::<String>)?;
        let dead_after = Some(duration(dead_after_s)?).filter(|after| !after.is_zero());
        let gone_after = Some(duration(gone_after_s)?).filter(|after| !after.is_zero());
        let most = Absent::MOST_RANKS;
        let too_large = || PyValueError::new_err(format!("ranks from {most} on cannot be absent"));
        let absent = Absent::of(absent).ok_or_else(too_large)?;
        let members = members.map(|seats| members_of(&seats)).transpose()?;
        let options = Options {
            timeout,
            shut_for,
            transport,
            dead_after,
            gone_after,
            absent,
            members,
            outlives_workers,
            ..Options::default()
        };
        let engine = py
            .detach(|| Engine::join(&plan, rank, incarnation, options))
            .map_err(errors::join_error)?;
        Ok(Self { engine: SharedEngine(Arc::new(engine)) })
    }

    #[getter]
    fn transport(&self) -> &str {
        self.engine.0.transport()
    }

    /// A capsule with the C interface of `engine_abi.h`; it keeps the engine alive.
    fn abi<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let engine = SharedEngine(Arc::clone(&self.engine.0));
        let contents = CapsuleContents { abi: EngineAbi::new(&engine.0), _engine: engine };
        PyCapsule::new_with_value(py, contents, CAPSULE_NAME)
    }

    #[pyo3(signature = (array, op = "sum", timeout_s = DEFAULT_TIMEOUT_S))]
    fn all_reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        op: &str,
        timeout_s: f64,
    ) -> PyResult<()> {
        let (operation, timeout) = (operation(op)?, duration(timeout_s)?);
        let Array { data, len, element_type, .. } = &Array::new(array)?;
        let engine = &self.engine.0;
        let encoding = engine.encoding(*element_type, operation);
        // SAFETY: the array is pinned, and this call does not end before the engine has dropped all parts.
        let elements = unsafe { Elements::new(*data, *data, *len, encoding) };
        let (ended, mut when_ended) = mpsc::channel();
        let done = move |outcome| {
            let _ = ended.send(outcome);
        };
        let submitted = engine.submit_sum(Kind::AllReduce, 0, elements, timeout, Box::new(done));
        submitted.map_err(errors::collective_error)?;
        self.wait(py, &mut when_ended)
    }

    fn gone(&self) -> Option<&str> {
        self.engine.0.gone()
    }

    fn lost(&self) -> Option<(u32, &str)> {
        self.engine.0.lost()
    }

    fn await_children(&self, k: u32) {
        self.engine.0.await_children(k);
    }

    fn shut(&self, period_s: f64) -> PyResult<()> {
        self.engine.0.shut(duration(period_s)?);
        Ok(())
    }

    #[pyo3(signature = (rate_bps = None))]
    fn open(&self, rate_bps: Option<u64>) {
        self.engine.0.open(rate_bps);
    }

    #[pyo3(signature = (why, elsewhere = false))]
    fn stop(&self, why: String, elsewhere: bool) {
        self.engine.0.stop(why, elsewhere);
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = py.detach(|| self.engine.0.statistics());
        let dict = PyDict::new(py);
        for (name, count) in statistics.counts() {
            dict.set_item(name, count)?;
        }
        for (name, seconds) in statistics.seconds() {
            dict.set_item(name, seconds)?;
        }
        Ok(dict)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.engine.0.close());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }
}

impl PyEngine {
    /// Waits for the end of a collective. An interrupt closes the engine: nobody may touch the array afterwards.
    fn wait(
        &self,
        py: Python<'_>,
        when_ended: &mut Receiver<Result<Participation, CollectiveError>>,
    ) -> PyResult<()> {
        loop {
            let receiver = &mut *when_ended;
            match py.detach(move || receiver.recv_timeout(SIGNAL_CHECK_INTERVAL)) {
                Ok(outcome) => {
                    return outcome.map(drop).map_err(errors::collective_error);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(errors::collective_error(CollectiveError::Closed));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                    self.close(py);
                })?,
            }
        }
    }
}

fn members_of(seats: &[u32]) -> PyResult<Members> {
    let most = Absent::MOST_RANKS;
    let unfit = || {
        PyValueError::new_err(format!(
            "seats {seats:?} are not one or more different ones below {most}"
        ))
    };
    Members::of(seats).ok_or_else(unfit)
}

fn operation(op: &str) -> PyResult<Operation> {
    match op {
        "sum" => Ok(Operation::Sum),
        "avg" => Ok(Operation::Average),
        _ => Err(PyValueError::new_err(format!("unknown operation `{op}`: use `sum` or `avg`"))),
    }
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("a timeout of {seconds} s makes no sense")))
}
