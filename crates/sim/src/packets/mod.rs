//! Every datagram, by the state machines that run live: [`Session`](wiresum_worker::Session),
//! [`Aggregator`](wiresum_protocol::Aggregator), [`Transmitter`](wiresum_protocol::Transmitter) and
//! [`Negotiator`](wiresum_protocol::rates::Negotiator); in networks of switches [`Station`](wiresum_switch::live::Station).
//! Those of a sparse job are in [`rows`](crate::rows).
//!
//! | file | what it holds |
//! | --- | --- |
//! | `world` | the loop of events |
//! | `passage` | how packets get from place to place |
//! | `peers` | whom a sender sends to, and what it sends at once |
//! | `work` | what workers do, and when |
//! | `disturbances` | what breaks, and what else is on the links |
//! | `rows` | a sparse job, and its rounds |
//! | `report` | what a run says |
//! | `host` | a worker and its collectives |
//! | `daemon` | a summing node |
//! | `switch` | one in a network of switches |
//! | `buffer` | the values |
//! | `checks` | what must be true in the end |

mod buffer;
mod checks;
#[cfg(test)]
mod collective_tests;
mod daemon;
mod disturbances;
mod host;
mod passage;
mod peers;
mod report;
mod rows;
mod switch;
#[cfg(test)]
mod tests;
mod work;
mod world;

use crate::{Scenario, SimulationError, Sink};

/// Simulates a scenario packet by packet.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn run(scenario: &Scenario, sink: &mut Sink) -> Result<(), SimulationError> {
    world::World::new(scenario)?.run(sink)
}
