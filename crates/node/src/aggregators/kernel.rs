//! The aggregator in the kernel beside the daemon's socket: the XDP program sums, and learns from here who takes part.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use thiserror::Error;
use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::{Plan, Quota, Verdict};
use wiresum_wire::{Contributor, JobId, NodeId, SubModelId};
use wiresum_xdp::{Estate, Options, Slots, XdpAggregator, XdpError};

use crate::takeover::KernelLegacy;

/// A loaded and attached XDP program, and what it has been told.
pub struct Kernel {
    xdp: XdpAggregator,
    told: BTreeMap<JobId, Membership>,
}

/// Why the program does not run, or does not know a peer.
#[derive(Debug, Error)]
#[error("{action}: {cause}")]
pub struct KernelError {
    /// What was attempted.
    pub action: String,
    /// The reason, with its remedy.
    #[source]
    pub cause: XdpError,
}

pub(crate) fn failed(action: impl Into<String>) -> impl FnOnce(XdpError) -> KernelError {
    move |cause| KernelError { action: action.into(), cause }
}

impl Kernel {
    /// Loads the program for `node` of each plan and attaches it to the interfaces, until this is dropped or the
    /// process dies.
    ///
    /// # Errors
    /// [`KernelError`] with the remedy.
    pub fn load(
        plans: &[Plan],
        node: NodeId,
        interfaces: &[String],
        options: Options,
    ) -> Result<Self, KernelError> {
        XdpAggregator::check_support().map_err(failed("the engine `xdp` is not available"))?;
        let placed: Vec<_> = plans.iter().map(|plan| (plan.clone(), node)).collect();
        let mut xdp = XdpAggregator::load(&placed, &options)
            .map_err(failed("the XDP program cannot be loaded"))?;
        for interface in interfaces {
            let action = format!("the XDP program cannot be attached to `{interface}`");
            xdp.attach(interface).map_err(failed(action))?;
        }
        Ok(Self { xdp, told: BTreeMap::new() })
    }

    /// Goes on with what another process has begun, on the interfaces where that has put the program.
    ///
    /// # Errors
    /// [`KernelError`] with the remedy.
    pub fn take_over(
        plans: &[Plan],
        node: NodeId,
        estate: Estate,
        options: Options,
    ) -> Result<Self, KernelError> {
        let placed: Vec<_> = plans.iter().map(|plan| (plan.clone(), node)).collect();
        let xdp = XdpAggregator::take_over(&placed, estate, &options)
            .map_err(failed("the XDP program cannot be taken over"))?;
        Ok(Self { xdp, told: BTreeMap::new() })
    }

    /// The program knows this of a job already, from the process before this one.
    pub fn remember(&mut self, job: JobId, membership: Membership) {
        self.xdp.remember_vacancies(job, &membership.vacant);
        self.told.insert(job, membership);
    }

    /// Takes back what a successor that has failed may have changed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn reattach(&self) -> Result<(), KernelError> {
        self.xdp.reattach().map_err(failed("the XDP program cannot be put back"))
    }

    /// Maps, links and counters for a successor.
    #[must_use]
    pub fn descriptors(&self) -> KernelLegacy<'_> {
        let (maps, links) = self.xdp.descriptors();
        KernelLegacy { maps, links, retired: self.xdp.retired() }
    }

    /// Tells the program what has changed in a job. What it has been told already is not repeated.
    ///
    /// # Errors
    /// The first peer that the program cannot serve; it and those after it are told again at the next call.
    pub fn tell(&mut self, job: JobId, now: &Membership) -> Result<(), KernelError> {
        let Self { xdp, told } = self;
        let told = told.entry(job).or_default();
        if told.key != now.key {
            let told_key = match now.key {
                Some(key) => xdp.start_incarnation(job, key),
                None => xdp.end_incarnation(job),
            };
            told_key.map_err(failed(format!("incarnation of job {job}")))?;
            *told = Membership { key: now.key, ..Membership::default() };
        }
        for (&sub_model, &vacant) in &now.vacant {
            if told.vacant.get(&sub_model) != Some(&vacant) {
                let action = format!("seats of sub-model {sub_model} that nobody fills");
                xdp.vacate(job, sub_model, vacant).map_err(failed(action))?;
                told.vacant.insert(sub_model, vacant);
            }
        }
        for (&sub_model, &keys) in &now.keys {
            if told.keys.get(&sub_model) != Some(&keys) {
                let action = format!("keys of sub-model {sub_model}");
                xdp.renew(job, sub_model, keys).map_err(failed(action))?;
                told.keys.insert(sub_model, keys);
            }
        }
        let is_gone = |id: &&(SubModelId, Contributor)| !now.children.contains_key(id);
        for (sub_model, child) in told.children.keys().filter(is_gone).copied().collect::<Vec<_>>()
        {
            let action = format!("child {child} of sub-model {sub_model}, which has gone");
            xdp.dismiss_child(job, sub_model, child).map_err(failed(action))?;
            told.children.remove(&(sub_model, child));
        }
        for (&(sub_model, child), &address) in &now.children {
            if told.children.get(&(sub_model, child)) != Some(&address) {
                let action = format!("child {child} of sub-model {sub_model} at {address}");
                xdp.admit_child(job, sub_model, child, address).map_err(failed(action))?;
                told.children.insert((sub_model, child), address);
            }
        }
        for (&sub_model, &address) in &now.parents {
            if told.parents.get(&sub_model) != Some(&address) {
                let action = format!("parent of sub-model {sub_model} at {address}");
                xdp.set_parent(job, sub_model, address).map_err(failed(action))?;
                told.parents.insert(sub_model, address);
            }
        }
        Ok(())
    }

    /// Serves one more job.
    ///
    /// # Errors
    /// What the plan or the slot memory lacks; then nothing has changed.
    pub fn add_job(&mut self, plan: &Plan, node: NodeId) -> Result<(), KernelError> {
        let job = plan.job_id();
        self.xdp.add_job(plan, node).map_err(failed(format!("job {job} cannot be added")))
    }

    /// Serves a job no more.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove_job(&mut self, job: JobId) -> Result<(), KernelError> {
        self.told.remove(&job);
        self.xdp.remove_job(job).map_err(failed(format!("job {job} cannot be removed")))
    }

    /// Bounds what the children of a job may send.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), KernelError> {
        self.xdp.set_quota(job, quota).map_err(failed(format!("quota of job {job}")))
    }

    /// Bytes of slot memory that a job takes here.
    #[must_use]
    pub fn memory_for(&self, plan: &Plan, node: NodeId) -> usize {
        self.xdp.memory_for(plan, node)
    }

    /// Packets that named a job by verdict, and their bytes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn job_counters(&self, job: JobId) -> Result<(Vec<(Verdict, u64)>, u64), KernelError> {
        self.xdp.job_counters(job).map_err(failed("the program's counters cannot be read"))
    }

    /// Packets by verdict that the program has dealt with.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Vec<(Verdict, u64)>, KernelError> {
        self.xdp.counters().map_err(failed("the program's counters cannot be read"))
    }

    /// The slots of a job, for its transmitter.
    #[must_use]
    pub fn slots(&self, job: JobId) -> Slots<'_> {
        self.xdp.slots(job)
    }

    /// Readable while the program has noted something for a transmitter.
    #[must_use]
    pub fn check_descriptor(&self) -> BorrowedFd<'_> {
        self.xdp.check_descriptor()
    }

    /// Bytes of slot memory in the kernel.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.xdp.memory_bytes()
    }
}
