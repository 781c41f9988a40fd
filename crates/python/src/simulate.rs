//! The simulator.

use pyo3::prelude::*;
use wiresum_sim::flows::{Flow, Span};
use wiresum_sim::{Record, Scenario, SimulationError};

use crate::errors::{scenario_error, simulation_error};

/// A flow as Python tells it: capacities and how often, bytes on the wire, seconds of the start, feeds.
type ToldFlow = (Vec<(u32, u32)>, f64, f64, Vec<u32>);

/// The rates of one round of flows over time, and the flows that wait for each other for ever.
#[pyfunction]
pub fn predict_flows(
    py: Python<'_>,
    capacities_bps: Vec<f64>,
    flows: Vec<ToldFlow>,
) -> PyResult<(Vec<Vec<Span>>, Vec<u32>)> {
    let told = flows.into_iter();
    let flows: Vec<Flow> = told
        .map(|(uses, wire_bytes, start_s, feeds)| Flow { uses, wire_bytes, start_s, feeds })
        .collect();
    let outcome = py.detach(|| wiresum_sim::flows::predict(&capacities_bps, &flows));
    let outcome = outcome.map_err(|error| simulation_error(&error))?;
    Ok((outcome.spans, outcome.waiting))
}

/// Simulates a resolved scenario; `report` takes each record as a line of JSON.
#[pyfunction]
pub fn simulate(py: Python<'_>, scenario_json: &str, report: Py<PyAny>) -> PyResult<()> {
    let scenario: Scenario = serde_json::from_str(scenario_json).map_err(scenario_error)?;
    scenario
        .jobs
        .iter()
        .try_for_each(|job| job.plan.validate())
        .map_err(crate::errors::plan_error)?;
    let mut raised = None;
    let outcome = py.detach(|| {
        wiresum_sim::simulate(&scenario, &mut |record| match tell(&report, record) {
            Ok(()) => true,
            Err(error) => {
                raised = Some(error);
                false
            }
        })
    });
    match (raised, outcome) {
        (Some(error), _) => Err(error),
        (None, outcome) => outcome.map_err(|error: SimulationError| simulation_error(&error)),
    }
}

/// Passes a record on, and lets Python's signals through.
fn tell(report: &Py<PyAny>, record: &Record) -> PyResult<()> {
    let line = serde_json::to_string(record).map_err(scenario_error)?;
    Python::attach(|py| {
        py.check_signals()?;
        report.call1(py, (line,)).map(drop)
    })
}
