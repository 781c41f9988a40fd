//! What the kernel's switch counts and bounds for each job.

use libbpf_rs::{MapCore, MapFlags};
use wiresum_protocol::Quota;
use wiresum_switch::Verdict;
use wiresum_wire::JobId;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::SwitchProgram;
use super::layout::{MAX_JOBS, NO_JOB, Running, STRANGERS_BUDGET, Tally};
use crate::XdpError;
use crate::kernel;
use crate::layout::Budget;

/// Packets by the names of their fates.
pub type Counts = Vec<(&'static str, u64)>;

impl SwitchProgram {
    /// Gives a job an index of its own, if it has none.
    ///
    /// # Errors
    /// [`XdpError::TooMany`].
    pub fn admit(&mut self, job: JobId) -> Result<usize, XdpError> {
        if let Some(index) = self.numbers.get(&job) {
            return Ok(*index);
        }
        let is_free = |index: &usize| self.numbers.values().all(|taken| taken != index);
        let (what, have, most) = ("jobs of a switch", MAX_JOBS + 1, MAX_JOBS);
        let free = (0..MAX_JOBS).find(is_free).ok_or(XdpError::TooMany { what, have, most })?;
        self.table.jobs[free] = Running { job: job.0, is_admitted: 1, ..Running::new_zeroed() };
        self.publish()?;
        self.numbers.insert(job, free);
        Ok(free)
    }

    /// Takes a job's index back. What it has counted counts for the node. It does not run.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn release(&mut self, job: JobId) -> Result<(), XdpError> {
        let Some(index) = self.numbers.get(&job).copied() else { return Ok(()) };
        self.set_quota(job, None)?;
        self.retired.add(&self.tally(index as u32)?);
        self.kernel.put_by_cpu("tallies", &(index as u32), |_| Tally::new_zeroed())?;
        self.table.jobs[index] = Running::new_zeroed();
        self.publish()?;
        self.numbers.remove(&job);
        Ok(())
    }

    /// Bounds what a job's workers contribute through this switch; `None` for no bound. Nothing happens to a job without
    /// an index.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), XdpError> {
        let Some(index) = self.numbers.get(&job) else { return Ok(()) };
        let budget = quota.map(Budget::from).unwrap_or_default();
        self.kernel.put("budgets", &(*index as u32), &budget)
    }

    /// Bounds what those who are not next to the switch may say.
    pub(super) fn bound_strangers(&self) -> Result<(), XdpError> {
        self.kernel.put("budgets", &STRANGERS_BUDGET, &Budget::from(Quota::strangers()))
    }

    /// Packets of a job by fate, and bytes of those that did not go to the station.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn job_counters(&self, job: JobId) -> Result<(Counts, u64), XdpError> {
        let tally = match self.numbers.get(&job) {
            Some(index) => self.tally(*index as u32)?,
            None => Tally::new_zeroed(),
        };
        Ok((by_name(&tally), tally.bytes))
    }

    /// Packets with this fate.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counter(&self, verdict: Verdict) -> Result<u64, XdpError> {
        Ok(self.total()?.verdicts[verdict as usize])
    }

    /// Packets of all jobs, and of none, by the names of their fates.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Counts, XdpError> {
        Ok(by_name(&self.total()?))
    }

    pub(super) fn total(&self) -> Result<Tally, XdpError> {
        let mut sum = self.retired;
        for index in 0..=NO_JOB {
            sum.add(&self.tally(index)?);
        }
        Ok(sum)
    }

    /// What is counted at an index, on all CPUs.
    fn tally(&self, index: u32) -> Result<Tally, XdpError> {
        let read = self.kernel.map("tallies").lookup_percpu(index.as_bytes(), MapFlags::ANY);
        let cpus =
            read.map_err(|error| kernel::refused("reading the counters".to_owned(), &error))?;
        let mut sum = Tally::new_zeroed();
        for cpu in cpus.iter().flatten() {
            sum.add(&Tally::read_from_bytes(cpu).expect("sizes were compared at load"));
        }
        Ok(sum)
    }
}

fn by_name(tally: &Tally) -> Counts {
    let verdicts = Verdict::STATION.into_iter().chain([Verdict::OverQuota]);
    verdicts.map(|verdict| (verdict.name(), tally.verdicts[verdict as usize])).collect()
}
