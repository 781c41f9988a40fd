//! What must be true when everything has ended.

use std::sync::atomic::Ordering;

use super::buffer::{Call, ELEMENT_BYTES};
use super::world::World;
use crate::SimulationError;
use crate::scenario::Job;
use wiresum_protocol::plan::{PlanStream, Role};
use wiresum_worker::Kind;

impl World<'_> {
    /// Sums were exact, links were what they are, and roots got what they sum.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub fn check(&self) -> Result<(), SimulationError> {
        self.network.links.check_arrivals().map_err(SimulationError::Invariant)?;
        self.check_sums()?;
        self.scenario
            .jobs
            .iter()
            .enumerate()
            .try_for_each(|(index, job)| self.check_job(index, job))
    }

    /// Values that were compared: of sums, and of rows.
    pub fn checked_values(&self) -> u64 {
        let weights: u64 = self.seen.values().map(|weights| weights.len() as u64).sum();
        self.summed_values() + weights
    }

    fn summed_values(&self) -> u64 {
        self.findings.as_ref().map_or(0, |findings| findings.decoded.load(Ordering::Relaxed))
    }

    fn check_sums(&self) -> Result<(), SimulationError> {
        let Some(findings) = &self.findings else { return Ok(()) };
        let wrong = findings.wrong.load(Ordering::Relaxed);
        let of_rank = |job: &Job, rank: usize| {
            let calls = Call::all(job, rank);
            job.begun().map(|collective| calls[collective].coming() as u64).sum::<u64>()
        };
        let values = |job: &Job| {
            let ranks = 0..job.workers.len();
            u64::from(job.rounds) * ranks.map(|rank| of_rank(job, rank)).sum::<u64>()
        };
        let expected: u64 = self.scenario.jobs.iter().map(values).sum();
        let decoded = self.summed_values();
        if wrong == 0 && decoded == expected {
            return Ok(());
        }
        let what = format!("{decoded} of {expected} values came, {wrong} of them wrong");
        Err(SimulationError::Invariant(what))
    }

    fn check_job(&self, index: usize, job: &Job) -> Result<(), SimulationError> {
        if job.collectives != [Kind::AllReduce] {
            return Ok(());
        }
        let values = job.plan.streams.iter().filter(|s| s.role == Role::Values);
        values.into_iter().try_for_each(|sub_model| self.check_root(index, job, sub_model))
    }

    /// A root cannot have summed what it did not get: at least the model, less the part of a packet that sharing rounds away.
    fn check_root(
        &self,
        index: usize,
        job: &Job,
        sub_model: &PlanStream,
    ) -> Result<(), SimulationError> {
        let Some(root) = sub_model.root() else { return Ok(()) };
        let lane_bytes = job.plan.job.lanes.widest().width() as u64;
        let model = (job.bytes / ELEMENT_BYTES as u64 * lane_bytes) as f64 * sub_model.share;
        let least = (model - job.plan.payload_len() as f64).max(0.0) * f64::from(job.rounds);
        let of_root = self.ingress.iter().filter(|((of, daemon, stream), _)| {
            let daemon = &self.daemons[*daemon];
            let name = &self.scenario.sites[daemon.site].name;
            let node = job.plan.nodes.iter().find(|node| node.id == root.0);
            *of == index && *stream == sub_model.id && node.is_some_and(|n| n.name == *name)
        });
        let got: u64 = of_root.map(|(_, bytes)| bytes).sum();
        if (got as f64) < least {
            let what = format!(
                "job {}: the root of {} got {got} bytes of {least}",
                job.name, sub_model.name
            );
            return Err(SimulationError::Invariant(what));
        }
        Ok(())
    }
}
