//! Rust's errors as the exceptions of `python/wiresum/errors.py`.

use pyo3::PyErr;
use wiresum_node::abi::CollectiveOutcome;
use wiresum_node::engine::{CollectiveError, JoinError};
use wiresum_plan::PlanError;
use wiresum_schedule::ScheduleError;
use wiresum_sparse::live::JobError;
use wiresum_xdp::XdpError;

mod python {
    #![allow(missing_docs, reason = "the classes document themselves in errors.py")]
    use pyo3::import_exception;

    import_exception!(wiresum.errors, PlanError);
    import_exception!(wiresum.errors, ScheduleError);
    import_exception!(wiresum.errors, JoinError);
    import_exception!(wiresum.errors, SparseError);
    import_exception!(wiresum.errors, SimulationError);
    import_exception!(wiresum.errors, CollectiveError);
    import_exception!(wiresum.errors, NotFiniteError);
    import_exception!(wiresum.errors, UnforeseenError);
    import_exception!(wiresum.errors, NotServedError);
    import_exception!(wiresum.errors, MismatchError);
    import_exception!(wiresum.errors, CollectiveTimeoutError);
    import_exception!(wiresum.errors, WorkerLostError);
    import_exception!(wiresum.errors, ClosedError);
    import_exception!(wiresum.errors, SupportError);
}

/// This machine cannot do it; the message has the remedy.
pub fn support_error(error: &XdpError) -> PyErr {
    python::SupportError::new_err(error.to_string())
}

pub fn plan_error(error: PlanError) -> PyErr {
    python::PlanError::new_err(error.to_string())
}

/// A hot map, a layout or a table that cannot be.
pub fn sparse_error(error: impl std::error::Error) -> PyErr {
    python::PlanError::new_err(error.to_string())
}

/// A row that cannot be pulled or pushed, or a round that cannot end.
pub fn row_error(error: impl std::fmt::Display) -> PyErr {
    python::SparseError::new_err(error.to_string())
}

/// A sparse job that cannot be.
pub fn job_error(error: JobError) -> PyErr {
    row_error(format!("sparse job: {error}"))
}

/// An instance, a timetable or a request that makes no sense, or that cannot be served.
pub fn schedule_error(error: ScheduleError) -> PyErr {
    python::ScheduleError::new_err(error.to_string())
}

/// A scenario that Python resolved wrongly.
pub fn scenario_error(error: serde_json::Error) -> PyErr {
    python::SimulationError::new_err(format!("the resolved scenario cannot be read: {error}"))
}

pub fn simulation_error(error: &wiresum_sim::SimulationError) -> PyErr {
    python::SimulationError::new_err(error.to_string())
}

pub fn join_error(error: JoinError) -> PyErr {
    match error {
        JoinError::Rank { .. }
        | JoinError::Format(_)
        | JoinError::Keys
        | JoinError::MixedFamilies(_) => python::PlanError::new_err(error.to_string()),
        _ => python::JoinError::new_err(error.to_string()),
    }
}

pub fn collective_error(error: CollectiveError) -> PyErr {
    let message = error.to_string();
    if matches!(error, CollectiveError::Closed) {
        return python::ClosedError::new_err(message);
    }
    match CollectiveOutcome::of(&Err(error)) {
        CollectiveOutcome::NotFinite => python::NotFiniteError::new_err(message),
        CollectiveOutcome::Unforeseen => python::UnforeseenError::new_err(message),
        CollectiveOutcome::NotServed => python::NotServedError::new_err(message),
        CollectiveOutcome::Mismatch => python::MismatchError::new_err(message),
        CollectiveOutcome::TimedOut => python::CollectiveTimeoutError::new_err(message),
        CollectiveOutcome::WorkerLost => python::WorkerLostError::new_err(message),
        CollectiveOutcome::Summed | CollectiveOutcome::Missed | CollectiveOutcome::Failed => {
            python::CollectiveError::new_err(message)
        }
    }
}
