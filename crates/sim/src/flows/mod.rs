//! Rates, from one change to the next: a fluid in which links are shared max-min fairly and sums are made on the way.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `sharing` | who gets how much of what |
//! | `current` | what flows: one edge of a tree, or a whole tree whose edges move in step |
//! | `copies` | results that switches copy |
//! | `leftover` | what links leave to the jobs |
//! | `fluid` | the loop of events |
//! | `timers` | what happens at times that are known beforehand |
//! | `work` | what begins and ends |
//! | `report` | what is checked, and what a run says |
//!
//! The same model as `python/wiresum/predict`, over many jobs and rounds: between events rates are constant; events are that something
//! begins, ends, or catches up with what feeds it, from where on it can be no faster. Delay and loss are not counted.

mod copies;
mod current;
mod fluid;
mod leftover;
mod report;
mod sharing;
#[cfg(test)]
mod tests;
mod timers;
mod work;

use crate::{Scenario, SimulationError, Sink};

pub use sharing::Sharing;

/// Simulates a scenario as flows.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn run(scenario: &Scenario, sink: &mut Sink) -> Result<(), SimulationError> {
    fluid::Fluid::new(scenario)?.run(sink)
}
