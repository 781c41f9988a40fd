//! The plan: its rules, its digest, and what follows from it.

use pyo3::prelude::*;
use wiresum_codec::{Codec, FormatError};
use wiresum_keys::Secret;
use wiresum_node::tensor::Formats;
use wiresum_plan::{Plan, PlanError, Schedule};
use wiresum_wire::NodeId;

use crate::errors;

/// A plan that this job's participants can run.
fn parse_plan(json: &str) -> Result<Plan, PlanError> {
    let plan = Plan::from_json(json)?;
    Formats::new(&plan).map_err(unfit)?;
    Ok(plan)
}

/// As [`parse_plan`], with Python's exception.
pub fn read_plan(json: &str) -> PyResult<Plan> {
    parse_plan(json).map_err(errors::plan_error)
}

/// A plan that can be joined: it has its secret.
pub fn read_whole_plan(json: &str) -> PyResult<Plan> {
    read_plan(json)?.with_secret(None).map_err(errors::plan_error)
}

/// The engine's objection, as one to a field.
fn unfit(error: FormatError) -> PlanError {
    let field = if matches!(error, FormatError::Workers { .. }) { "lanes" } else { "codec" };
    PlanError::Field { field: format!("job.{field}"), problem: error.to_string() }
}

/// A field, and what is wrong with it; the field is empty if the text has another shape.
type Wrong = (String, String);

fn wrong(error: PlanError) -> Wrong {
    match error {
        PlanError::Field { field, problem } => (field, problem),
        PlanError::Json(error) => (String::new(), error.to_string()),
    }
}

/// The first wrong field of a plan.
#[pyfunction]
pub fn validate_plan(json: &str) -> Option<Wrong> {
    parse_plan(json).err().map(wrong)
}

/// Whether ranks agree on exponents before values flow; false where there is no such codec.
#[pyfunction]
pub fn codec_agrees(codec: &str) -> bool {
    codec.parse().is_ok_and(Codec::agrees)
}

/// The first wrong field of a schedule.
#[pyfunction]
pub fn validate_schedule(json: &str) -> Option<Wrong> {
    Schedule::from_json(json).err().map(wrong)
}

/// The key file of a node; nothing where the plan has no secret, or no such node.
#[pyfunction]
pub fn node_keys(json: &str, node: u16) -> PyResult<Option<String>> {
    Ok(read_plan(json)?.keys_of(NodeId(node)).and_then(|keys| keys.to_text()))
}

/// The plan of a group of another plan's workers, as JSON.
#[pyfunction]
pub fn group_of_plan(json: &str, number: u16) -> PyResult<String> {
    let group = read_plan(json)?.group(number).map_err(errors::plan_error)?;
    Ok(serde_json::to_string(&group).expect("it serialises"))
}

/// The key of the line between a rank and its driver of turns; nothing where the secret is not 64 hexadecimal digits.
#[pyfunction]
pub fn gate_key(secret: &str, rank: u8) -> Option<Vec<u8>> {
    Some(Secret::from_digits(secret)?.gate(rank).to_vec())
}

/// A plan of any format that can be read, as JSON in the present format.
#[pyfunction]
pub fn convert_plan(json: &str) -> PyResult<String> {
    let plan = read_plan(json)?;
    Ok(serde_json::to_string(&plan).expect("it serialises"))
}

/// A fingerprint of what a plan's participants must agree on.
#[pyfunction]
pub fn plan_digest(json: &str) -> PyResult<u64> {
    Ok(read_plan(json)?.digest())
}

/// What follows from a plan's fabric, as JSON.
#[pyfunction]
pub fn derive_plan(json: &str) -> PyResult<String> {
    let derived = read_plan(json)?.derived();
    Ok(serde_json::to_string(&derived).expect("it serialises"))
}
