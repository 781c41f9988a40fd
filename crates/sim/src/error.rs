//! How a simulation can fail.

use thiserror::Error;

/// Waiting workers that an error names.
const NAMED: usize = 8;

/// Why there is no result.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SimulationError {
    /// Two sites are not connected.
    #[error(
        "{source_name} does not reach {target}: link them by switches; workers and servers do not forward"
    )]
    Unreachable {
        /// Who sends.
        source_name: String,
        /// Who should receive.
        target: String,
    },
    /// A name, an address or an index is not there.
    #[error("job {job}: {problem}")]
    Job {
        /// Name of the job.
        job: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Nothing goes on any more.
    #[error("no progress since {at_s:.6} s: {}", listed(waits))]
    Stuck {
        /// Virtual time.
        at_s: f64,
        /// Who waits for what.
        waits: Vec<String>,
    },
    /// The fidelity does not know something that the scenario has.
    #[error("{0}")]
    Unsupported(String),
    /// The simulation contradicts itself.
    #[error("the simulation broke its own rule, please report this scenario: {0}")]
    Invariant(String),
    /// The caller asked for no more.
    #[error("stopped")]
    Stopped,
}

fn listed(waits: &[String]) -> String {
    let rest = waits.len().saturating_sub(NAMED);
    let named = waits[..waits.len() - rest].join("; ");
    if rest > 0 { format!("{named}; and {rest} more") } else { named }
}
