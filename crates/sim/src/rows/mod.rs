//! Sparse jobs, datagram by datagram: workers, servers of tables and switches of hot rows are the machines of
//! `crates/sparse` that run live.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `player` | a worker that replays what a trace says it touches |
//! | `world` | the loop of events |
//!
//! What nodes can add is not simulated: live, it is a matter of processors, not of links.

mod player;
#[cfg(test)]
mod tests;
mod world;

use serde::Deserialize;
use wiresum_sparse::live::Job;

use crate::{Scenario, SimulationError, Sink};
use world::World;

/// A sparse job, where its participants are, and what its workers touch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// For people.
    pub name: String,
    /// The job, as its participants read it.
    pub job: Job,
    /// By node, servers first: the site where it is.
    pub hosts: Vec<usize>,
    /// By rank: the site where it is.
    pub workers: Vec<usize>,
    /// By rank, round and table: the distinct keys that the worker touches. Those of the last round are pulled only.
    pub touched: Vec<Vec<Vec<Vec<u64>>>>,
}

impl Rows {
    /// Rounds that are played.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.touched.first().map_or(0, |rounds| rounds.len().saturating_sub(1)) as u32
    }

    fn validate(&self, scenario: &Scenario) -> Result<(), SimulationError> {
        let wrong = |problem: &str| {
            Err(SimulationError::Job { job: self.name.clone(), problem: problem.to_owned() })
        };
        let nodes = self.job.servers.len() + self.job.switches.len();
        let workers = self.job.workers as usize;
        let is_placed = self.hosts.len() == nodes && self.workers.len() == workers;
        let mut sites = self.hosts.iter().chain(&self.workers);
        if !is_placed || sites.any(|site| *site >= scenario.sites.len()) {
            return wrong("each server, switch and worker needs a site that there is");
        }
        let (rounds, tables) = (self.rounds(), self.job.tables.len());
        let fits = |of: &Vec<Vec<Vec<u64>>>| {
            of.len() == rounds as usize + 1 && of.iter().all(|round| round.len() == tables)
        };
        if rounds == 0 || self.touched.len() != workers || !self.touched.iter().all(fits) {
            return wrong("each worker touches rows of each table in each round, and in one more");
        }
        Ok(())
    }
}

/// Simulates a sparse job.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn run(scenario: &Scenario, rows: &Rows, sink: &mut Sink) -> Result<(), SimulationError> {
    rows.validate(scenario)?;
    World::new(scenario, rows)?.run(sink)
}
