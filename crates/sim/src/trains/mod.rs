//! Switch programs, a train of packets in one event: [`Switch`](wiresum_switch::Switch), [`Worker`](wiresum_switch::Worker) and
//! [`ParameterServer`](wiresum_switch::ParameterServer), packet by packet, over links that carry trains.
//!
//! A train is stored and forwarded whole, and what befalls it befalls all of it; trains of one packet are packets. Contributions take the
//! way that the scenario gives to their worker and stream, results the same way back, so they pass the switches that hold their slots.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `job` | a job's workers and streams |
//! | `pace` | whether a worker may send, and how fast, where jobs have turns |
//! | `ways` | where a stream's packets go |
//! | `yard` | the loop of events |
//! | `passage` | how trains get from place to place |
//! | `summer` | what sums at a site |
//! | `work` | what workers do, and when |
//! | `disturbances` | what breaks, and what else is on the links |
//! | `report` | what is checked, and what a run says |
//! | `content` | what packets carry |

mod content;
mod disturbances;
mod job;
mod pace;
mod passage;
mod report;
mod summer;
#[cfg(test)]
mod tests;
mod ways;
mod work;
mod yard;

use wiresum_switch::Values;

use crate::{Scenario, SimulationError, Sink};

/// Simulates a scenario's switch programs; with `check_sums` packets carry values, else nothing.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn run(scenario: &Scenario, sink: &mut Sink) -> Result<(), SimulationError> {
    if scenario.check_sums {
        yard::Yard::<Values>::new(scenario)?.run(sink)
    } else {
        yard::Yard::<()>::new(scenario)?.run(sink)
    }
}
