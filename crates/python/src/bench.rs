//! Measurements of the layers below Python, as plain data for `wiresum bench`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use wiresum_bench::codec::{self, IN_CACHE, OUT_OF_CACHE};
use wiresum_bench::live::{Load, generate, udp_aggregator};
use wiresum_bench::packets::{Parameters, measure, proofs, scaling, switch};
use wiresum_bench::sparse::{self, PATIENCE, Touched};
use wiresum_bench::{packaging, rows, seal, tables, tracking, worker};
use wiresum_node::pairs::PairClient;
use wiresum_node::tables::{ClientError, RowClient};
use wiresum_sparse::live::Job;
use wiresum_sparse::live::keyed::{KeyedJob, Pair};
use wiresum_wire::{LaneType, PAGE_PAYLOAD, SEAL_LEN};

use crate::errors::{job_error, row_error, support_error};

/// Packet sizes of `bench_aggregator`, in int32 values.
const VALUES: [u16; 5] = [64, 128, 256, 512, 736];
/// Children of `bench_aggregator`.
const CHILDREN: u32 = 4;
/// Packets of a run of `bench_proofs`.
const PROVEN_PACKETS: u32 = 100_000;

/// Speed of the codec on one core, in and out of cache, beside memcpy and a first draft's loop.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_codec(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let start = Instant::now();
    let measured = py.detach(|| {
        [IN_CACHE, OUT_OF_CACHE].map(|bytes| codec::run(bytes, runs, &|| start.elapsed()))
    });
    let rows = PyList::empty(py);
    for m in measured.iter().flatten() {
        let row = PyDict::new(py);
        let kibibytes = m.working_set >> 10;
        let (step, element, lanes, set) = (m.step, m.element, m.lanes, m.instructions);
        row.set_item("name", format!("{step} {element} {lanes} {kibibytes} KiB {set}"))?;
        row.set_item("step", step)?;
        row.set_item("element", m.element)?;
        row.set_item("lanes", m.lanes)?;
        row.set_item("instructions", m.instructions)?;
        row.set_item("working_set_bytes", m.working_set)?;
        row.set_item("unit", "GB/s")?;
        row.set_item("runs", &m.gigabytes_per_second)?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// What sealing and opening a packet costs a rank on one core, beside encoding it.
#[pyfunction]
#[pyo3(signature = (values, runs = 7))]
pub fn bench_seal(py: Python<'_>, values: Vec<usize>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let start = Instant::now();
    let rows = PyList::empty(py);
    for (lanes, count) in [LaneType::I32Le, LaneType::I16Le]
        .into_iter()
        .flat_map(|lanes| values.iter().map(move |count| (lanes, *count)))
    {
        let bytes = 4 * count;
        if bytes == 0 || !bytes.is_multiple_of(SEAL_LEN) || bytes + SEAL_LEN > PAGE_PAYLOAD {
            return Err(PyValueError::new_err(format!(
                "values: {count}; use multiples of 8 from 8 to {}",
                (PAGE_PAYLOAD - SEAL_LEN) / 4
            )));
        }
        for m in py.detach(|| seal::run(lanes, bytes, runs, &|| start.elapsed())) {
            let row = PyDict::new(py);
            row.set_item("name", format!("{} {} {count} values", m.step, lanes.name()))?;
            row.set_item("step", m.step)?;
            row.set_item("lanes", lanes.name())?;
            row.set_item("values", count)?;
            row.set_item("unit", "ns")?;
            row.set_item("runs", &m.nanoseconds)?;
            rows.append(row)?;
        }
    }
    Ok(rows)
}

/// What proofs of values cost the XDP program, and what other codes would, in the kernel's test-run.
#[pyfunction]
#[pyo3(signature = (values, runs = 7))]
pub fn bench_proofs(
    py: Python<'_>,
    values: Vec<usize>,
    runs: usize,
) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let fits = |count: &usize| *count > 0 && count.is_multiple_of(8) && *count <= PAGE_PAYLOAD / 4;
    if let Some(count) = values.iter().find(|count| !fits(count)) {
        let most = PAGE_PAYLOAD / 4;
        let problem = format!("values: {count}; use multiples of 8 from 8 to {most}");
        return Err(PyValueError::new_err(problem));
    }
    let measured = py.detach(|| proofs::measure(&values, PROVEN_PACKETS, runs));
    let rows = PyList::empty(py);
    for m in measured.map_err(|e| support_error(&e))? {
        let row = PyDict::new(py);
        row.set_item("name", format!("{}, {} values", m.step.name(), m.values))?;
        row.set_item("step", m.step.name())?;
        row.set_item("values", m.values)?;
        row.set_item("unit", "ns")?;
        row.set_item("runs", &m.nanoseconds)?;
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
        let nanoseconds = measured.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        rows.append(aggregator_row(py, "udp", values.into(), 0, CHILDREN as usize, nanoseconds)?)?;
    }
    Ok(rows)
}

/// What one packet costs in the kernel's test-run, beside the reference in user space and a plain addition.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_xdp(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let parameters = Parameters { runs, ..Parameters::default() };
    let measured = py.detach(|| measure(&parameters)).map_err(|e| support_error(&e))?;
    let rows = PyList::empty(py);
    for m in measured {
        let row = aggregator_row(
            py,
            m.engine.name(),
            m.values,
            m.working_set,
            m.children,
            m.nanoseconds,
        )?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// What one contribution costs the kernel's switch under each policy, in the kernel's test-run.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_switch(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let parameters = switch::Parameters { runs, ..switch::Parameters::default() };
    let measured = py.detach(|| switch::measure(&parameters)).map_err(|e| support_error(&e))?;
    let rows = PyList::empty(py);
    for m in &measured {
        let (policy, values, workers) = (m.subject.name(), m.values, m.workers);
        let row = PyDict::new(py);
        row.set_item("name", format!("{policy}, {values} values, {workers} workers"))?;
        row.set_item("policy", policy)?;
        row.set_item("values", values)?;
        row.set_item("workers", workers)?;
        row.set_item("unit", "ns")?;
        row.set_item("runs", &m.nanoseconds)?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// What one hot row costs the kernel's switch, in the kernel's test-run, beside the engine in user space.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_rows(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let parameters = rows::Parameters { runs, ..rows::Parameters::default() };
    let measured = py.detach(|| rows::measure(&parameters)).map_err(|e| support_error(&e))?;
    let list = PyList::empty(py);
    for m in &measured {
        let (engine, lanes, spacing) =
            (m.engine.name(), m.shape.lanes.name(), m.shape.spacing.name());
        let row = PyDict::new(py);
        row.set_item("name", format!("{engine}, {lanes}, {spacing}, {} rows", m.shape.touched))?;
        row.set_item("engine", engine)?;
        row.set_item("lanes", lanes)?;
        row.set_item("spacing", spacing)?;
        row.set_item("rows_of_a_round", m.shape.touched)?;
        row.set_item("values", m.shape.dim)?;
        row.set_item("rows_of_a_packet", m.shape.rows)?;
        row.set_item("workers", m.shape.workers)?;
        row.set_item("unit", "ns")?;
        row.set_item("runs", &m.nanoseconds)?;
        list.append(row)?;
    }
    Ok(list)
}

/// Pairs a second that each way of packing puts into packets for a switch with registers.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_packaging(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let measured = py.detach(|| packaging::measure(runs));
    let list = PyList::empty(py);
    for m in &measured {
        let (layout, packaging) = (m.layout, m.packaging.name());
        let row = PyDict::new(py);
        row.set_item("name", format!("packing, {packaging}, registers by {layout}"))?;
        row.set_item("layout", layout)?;
        row.set_item("packaging", packaging)?;
        row.set_item("recirculations", m.recirculations)?;
        row.set_item("packets", m.packets)?;
        row.set_item("unit", "pairs/s")?;
        row.set_item("runs", &m.pairs_per_second)?;
        list.append(row)?;
    }
    Ok(list)
}

/// Rows a second that one core of a server of tables sums, changes and looks up.
#[pyfunction]
#[pyo3(signature = (runs = 7, rows = 10_000_000))]
pub fn bench_tables(py: Python<'_>, runs: usize, rows: u64) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    if rows == 0 {
        return Err(PyValueError::new_err("rows is 0: a table has one at least"));
    }
    let parameters = tables::Parameters { runs, rows, ..tables::Parameters::default() };
    let measured = py.detach(|| tables::measure(&parameters));
    let list = PyList::empty(py);
    for m in &measured {
        let row = PyDict::new(py);
        row.set_item("name", format!("server, {}, {}", m.step.name(), m.ids))?;
        row.set_item("step", m.step.name())?;
        row.set_item("ids", m.ids)?;
        row.set_item("memory", m.memory)?;
        row.set_item("unit", "rows/s")?;
        row.set_item("runs", &m.rows_per_second)?;
        list.append(row)?;
    }
    Ok(list)
}

/// What the hot set gets of what the most popular rows get, while popularity drifts, however it is found.
#[pyfunction]
#[pyo3(signature = (rounds = 120, runs = 3))]
pub fn bench_tracking(py: Python<'_>, rounds: usize, runs: u64) -> PyResult<Bound<'_, PyList>> {
    if rounds <= tracking::LEAD_IN || runs == 0 {
        return Err(PyValueError::new_err(format!(
            "rounds: {rounds}, runs: {runs}; use more than {} rounds, and a run at least",
            tracking::LEAD_IN
        )));
    }
    let measured: Vec<_> =
        py.detach(|| (1..=runs).map(|seed| tracking::measure(rounds, seed)).collect());
    let list = PyList::empty(py);
    for (number, one) in measured[0].iter().enumerate() {
        let (drift, way) = (one.drift.name(), one.way.name());
        let row = PyDict::new(py);
        let percent = 100.0 * one.replaced;
        row.set_item("name", format!("{percent} % replaced, {drift}: {way}"))?;
        row.set_item("drift", drift)?;
        row.set_item("replaced", one.replaced)?;
        row.set_item("way", way)?;
        let exchanged = measured.iter().map(|run| run[number].exchanged);
        row.set_item("exchanged_in_ten_rounds", exchanged.collect::<Vec<_>>())?;
        row.set_item("unit", "of the most popular rows' share")?;
        let coverage = measured.iter().map(|run| run[number].coverage);
        row.set_item("runs", coverage.collect::<Vec<_>>())?;
        list.append(row)?;
    }
    Ok(list)
}

/// Processor seconds of an all-reduce of float32 elements at a worker and at the aggregator, without what carries packets.
#[pyfunction]
#[pyo3(signature = (workers, elements, values, window, keeps, runs = 7))]
pub fn bench_worker(
    py: Python<'_>,
    workers: u32,
    elements: usize,
    values: usize,
    window: usize,
    keeps: bool,
    runs: usize,
) -> PyResult<(Vec<f64>, Vec<f64>)> {
    require_runs(runs)?;
    let parameters = worker::Parameters { workers, elements, values, window, keeps, runs };
    let measured = py.detach(|| worker::measure(&parameters));
    Ok(measured.iter().map(|one| (one.worker_s, one.aggregator_s)).unzip())
}

/// How many packets the XDP aggregator sums in the kernel's test-run on one CPU, and on all at once.
#[pyfunction]
#[pyo3(signature = (runs = 7))]
pub fn bench_scaling(py: Python<'_>, runs: usize) -> PyResult<Bound<'_, PyList>> {
    require_runs(runs)?;
    let parameters = scaling::Parameters { runs, ..scaling::Parameters::default() };
    let measured = py.detach(|| scaling::measure(&parameters)).map_err(|e| support_error(&e))?;
    let rows = PyList::empty(py);
    for m in &measured {
        let (placement, values, batch, cpus) = (m.placement.name(), m.values, m.batch, m.cpus);
        let row = PyDict::new(py);
        row.set_item(
            "name",
            format!("{placement}, {values} values, batches of {batch}, {cpus} CPUs"),
        )?;
        row.set_item("placement", placement)?;
        row.set_item("values", values)?;
        row.set_item("batch", batch)?;
        row.set_item("cpus", cpus)?;
        row.set_item("unit", "packets/s")?;
        row.set_item("runs", &m.packets_per_second)?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// Load for the aggregator that runs at node 0 of a plan, as all of its children.
#[pyfunction]
#[pyo3(signature = (plan_json, window, rate, seconds))]
pub fn bench_load<'py>(
    py: Python<'py>,
    plan_json: &str,
    window: u32,
    rate: Option<f64>,
    seconds: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = crate::plan::read_plan(plan_json)?;
    let duration = Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
    let load = Load { window, rate, duration };
    let served = py.detach(|| generate(&plan, &load));
    let served = served.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let row = PyDict::new(py);
    row.set_item("contributions", served.contributions)?;
    row.set_item("results", served.results)?;
    row.set_item("seconds", served.seconds)?;
    row.set_item("round_trips_us", served.round_trips_us)?;
    Ok(row)
}

fn aggregator_row<'py>(
    py: Python<'py>,
    engine: &str,
    values: usize,
    working_set: usize,
    children: usize,
    nanoseconds: Vec<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let memory =
        if working_set == 0 { "hot".to_owned() } else { format!("{} MiB", working_set >> 20) };
    let row = PyDict::new(py);
    row.set_item("name", format!("{engine}, {values} values, {children} children, {memory}"))?;
    row.set_item("engine", engine)?;
    row.set_item("values", values)?;
    row.set_item("working_set", working_set)?;
    row.set_item("children", children)?;
    row.set_item("unit", "ns")?;
    row.set_item("runs", nanoseconds)?;
    Ok(row)
}

fn require_runs(runs: usize) -> PyResult<()> {
    match runs {
        0 => Err(PyValueError::new_err("a measurement takes at least one run")),
        _ => Ok(()),
    }
}

/// Plays a worker of a sparse job through a trace: seconds of each round, what it sent, and its processor time in them.
#[pyfunction]
pub fn bench_sparse_worker<'py>(
    py: Python<'py>,
    job_json: &str,
    rank: u32,
    incarnation: u64,
    touched: Touched,
) -> PyResult<(Vec<f64>, Bound<'py, PyDict>)> {
    let job = Arc::new(Job::from_json(job_json).map_err(job_error)?);
    let played = py.detach(|| {
        let mut client = RowClient::join(&job, rank, incarnation, None, PATIENCE, || false)?;
        sparse::rounds(&mut client, &touched).map(|played| (played, client.statistics()))
    });
    let (played, statistics) = played.map_err(row_error)?;
    let sent = PyDict::new(py);
    sent.set_item("cpu_seconds", played.cpu_seconds)?;
    for (name, count) in statistics {
        sent.set_item(name, count)?;
    }
    Ok((played.seconds, sent))
}

/// Plays a worker of a job of pairs, which pushes these keys in each iteration; seconds of each.
#[pyfunction]
pub fn bench_pairs_worker(
    py: Python<'_>,
    job_json: &str,
    rank: u8,
    incarnation: u64,
    pushed: Vec<Vec<u64>>,
) -> PyResult<Vec<f64>> {
    let job = Arc::new(KeyedJob::from_json(job_json).map_err(job_error)?);
    let play = || {
        let mut client = PairClient::join(&job, rank, incarnation, PATIENCE)?;
        let iterate = |keys: &Vec<u64>| {
            let pairs: Vec<Pair> = keys.iter().map(|&key| Pair { key, value: 1 }).collect();
            let begun = Instant::now();
            client.sum(&pairs).map(|_| begun.elapsed().as_secs_f64())
        };
        pushed.iter().map(iterate).collect::<Result<Vec<f64>, ClientError>>()
    };
    py.detach(play).map_err(row_error)
}

/// Plays a worker of the rival without sums through a trace: seconds of each round.
#[pyfunction]
pub fn bench_push_pull_worker(
    py: Python<'_>,
    job_json: &str,
    touched: Touched,
) -> PyResult<Vec<f64>> {
    let job = Job::from_json(job_json).map_err(job_error)?;
    py.detach(|| sparse::push_pull(&job, &touched)).map_err(row_error)
}

/// Serves a shard of the rival without sums, until all workers have left.
#[pyfunction]
pub fn bench_push_pull_server(py: Python<'_>, job_json: &str, shard: u16) -> PyResult<()> {
    let job = Job::from_json(job_json).map_err(job_error)?;
    py.detach(|| sparse::serve_push_pull(&job, shard)).map_err(row_error)
}
