//! Rates, from one change to the next: a fluid in which links are shared max-min fairly and sums are made on the way.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `sharing` | who gets how much of what |
//! | `current` | what flows: one edge of a tree, or a whole tree whose edges move in step |
//! | `copies` | results that switches copy |
//! | `leftover` | what links leave to the jobs |
//! | `flowing` | what is open, how fast it is, and when that changes |
//! | `fluid` | the loop of events of a scenario |
//! | `prediction` | the same of one round of flows, for `wiresum predict` |
//! | `timers` | what happens at times that are known beforehand |
//! | `work` | what begins and ends |
//! | `report` | what is checked, and what a run says |
//!
//! Between events rates are constant; events are that something begins, ends, or catches up with what feeds it, from where
//! on it can be no faster. Delay and loss are not counted.

mod copies;
mod current;
mod flowing;
mod fluid;
mod leftover;
mod prediction;
mod report;
mod sharing;
#[cfg(test)]
mod tests;
mod timers;
mod work;

use crate::{Scenario, SimulationError, Sink};

pub use prediction::{Flow, FlowSpans, Span, predict};
pub use sharing::Sharing;

/// Simulates a scenario as flows.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn run(scenario: &Scenario, sink: &mut Sink) -> Result<(), SimulationError> {
    fluid::Fluid::new(scenario)?.run(sink)
}
