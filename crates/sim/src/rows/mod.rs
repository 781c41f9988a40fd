//! Sparse jobs, datagram by datagram: workers, servers of tables and switches of hot rows are the machines of
//! `crates/sparse` that run live. [`packets`](crate::packets) carries what they send, beside the packets of a dense
//! gradient if the job has one.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `party` | who takes part |
//! | `player` | a worker that replays what a trace says it touches |
//!
//! What nodes can add is not simulated: live, it is a matter of processors, not of links.

pub(crate) mod party;
pub(crate) mod player;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use wiresum_sparse::live::Job;

use crate::{Fidelity, Scenario, SimulationError};

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

    /// Whether the scenario is one of this job.
    ///
    /// # Errors
    /// [`SimulationError`]: what does not fit.
    pub(crate) fn validate(&self, scenario: &Scenario) -> Result<(), SimulationError> {
        if scenario.fidelity != Fidelity::Packets {
            let problem = "rows are simulated as packets or flows; set `fidelity` to one of them";
            return Err(SimulationError::Unsupported(problem.to_owned()));
        }
        let nodes = self.job.servers.len() + self.job.switches.len();
        let workers = self.job.workers as usize;
        let is_placed = self.hosts.len() == nodes && self.workers.len() == workers;
        let mut sites = self.hosts.iter().chain(&self.workers);
        if !is_placed || sites.any(|site| *site >= scenario.sites.len()) {
            return Err(self.wrong("each server, switch and worker needs a site that there is"));
        }
        let (rounds, tables) = (self.rounds(), self.job.tables.len());
        let fits = |of: &Vec<Vec<Vec<u64>>>| {
            of.len() == rounds as usize + 1 && of.iter().all(|round| round.len() == tables)
        };
        if rounds == 0 || self.touched.len() != workers || !self.touched.iter().all(fits) {
            let problem = "each worker touches rows of each table in each round, and in one more";
            return Err(self.wrong(problem));
        }
        let is_beside = |dense: &crate::scenario::Job| {
            dense.workers.len() == workers
                && dense.rounds == rounds
                && dense.workers.len() == dense.plan.workers.len()
        };
        if scenario.jobs.len() > 1 || !scenario.jobs.iter().all(is_beside) {
            return Err(
                self.wrong("one dense job may be beside the rows, of the same workers and rounds")
            );
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, problem: impl Into<String>) -> SimulationError {
        SimulationError::Job { job: self.name.clone(), problem: problem.into() }
    }
}
