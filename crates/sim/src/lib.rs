//! One deterministic simulator for all methods: the state machines that run live, driven over links in virtual time. `docs/simulator.md`
//! is the prose of this crate.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`scenario`] | what is simulated |
//! | [`network`] | links and ways |
//! | [`packets`] | every datagram, by the protocol's own state machines |
//! | [`trains`] | switch programs, several packets in one event |
//! | [`flows`] | rates that change from event to event |
//! | [`circuits`] | the same over optical circuits that change, by a timetable or a scheduler |
//! | [`rows`] | sparse jobs, for [`packets`]: the machines of `crates/sparse`, and what their workers touch |
//! | [`record`] | what a run says |
//!
//! Nothing here touches a clock, a thread or a source of chance of its own: the same scenario gives the same run, to the last event.

#![forbid(unsafe_code)]

pub mod circuits;
mod course;
#[cfg(test)]
mod course_tests;
mod distribution;
mod error;
pub mod flows;
pub mod network;
pub mod packets;
pub mod record;
mod rounds;
pub mod rows;
pub mod scenario;
mod slab;
#[cfg(test)]
mod testing;
mod timeline;
mod trace;
pub mod trains;

pub use error::SimulationError;
pub use record::{Record, Sink};
pub use scenario::{Fidelity, Scenario};

/// Simulates a scenario; what happens goes to `sink` as it happens.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn simulate(scenario: &Scenario, sink: &mut Sink) -> Result<(), SimulationError> {
    if let Some(circuits) = &scenario.circuits {
        return circuits::run(circuits, sink);
    }
    if let Some(rows) = &scenario.rows {
        rows.validate(scenario)?;
    }
    match scenario.fidelity {
        Fidelity::Packets => packets::run(scenario, sink),
        Fidelity::Trains => trains::run(scenario, sink),
        Fidelity::Flows => flows::run(scenario, sink),
    }
}
