//! Zebra's program in the kernel beneath its station: it adds pairs and acknowledges them, and learns from here who takes
//! part and which iteration is open.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use wiresum_protocol::Quota;
use wiresum_protocol::association::ValueKeys;
use wiresum_sparse::live::keyed::{KeyedJob, KeyedNode, MAP_VERSION, SWITCH};
use wiresum_wire::{JobId, JobKey, NodeId};
use wiresum_xdp::{AttachMode, KeyedOptions, KeyedProgram, XdpAggregator};

use crate::aggregators::kernel::{KernelError, failed};

/// The job's table in the program.
const INDEX: usize = 0;

/// The XDP program of a job of pairs, and what it has been told.
pub struct KernelPairs {
    program: KeyedProgram,
    key: Option<JobKey>,
    /// What packets of pairs may carry, by iteration.
    keys: Option<(u8, ValueKeys)>,
    admitted: BTreeSet<u8>,
    /// The open iteration; 0 before the first one.
    round: u32,
}

impl KernelPairs {
    /// Loads the program for a job and attaches it to the interfaces, until this is dropped or the process dies.
    ///
    /// # Errors
    /// [`KernelError`] with the remedy.
    pub fn load(
        job: &KeyedJob,
        interfaces: &[String],
        mode: AttachMode,
    ) -> Result<Self, KernelError> {
        XdpAggregator::check_support().map_err(failed("the engine `xdp` is not available"))?;
        let (address, node) = (job.switch, NodeId(SWITCH));
        let options = KeyedOptions { address, node, keys: job.keys(), lock_tables: true };
        let mut program = KeyedProgram::load(&options, job.arrangement())
            .map_err(failed("the XDP program for pairs cannot be loaded"))?;
        for interface in interfaces {
            let action = format!("the XDP program cannot be attached to `{interface}`");
            program.attach(interface, mode).map_err(failed(action))?;
        }
        Ok(Self { program, key: None, keys: None, admitted: BTreeSet::new(), round: 0 })
    }

    /// Brings station and program to the same state: the program learns what has changed, and the station has the sums of
    /// the iteration that is complete.
    ///
    /// # Errors
    /// The kernel's refusal, or that a worker's hello did not come through the program.
    pub fn follow(&mut self, node: &mut KeyedNode) -> Result<(), KernelError> {
        let Some(key) = node.key() else { return Ok(()) };
        let job = node.job().job_id();
        let of_job = |what: &str| format!("{what} of job {job}");
        if self.key != Some(key) {
            self.program.run(job, key).map_err(failed(of_job("the incarnation")))?;
            (self.key, self.keys, self.round) = (Some(key), None, 0);
            self.admitted.clear();
            // What is noted now was complete in an earlier incarnation.
            while self.program.next_completion().is_some() {}
        }
        if let Some((round_shift, keys)) = node.pair_keys().filter(|keys| self.keys != Some(*keys))
        {
            let renewed = self.program.renew(job, round_shift, keys);
            renewed.map_err(failed(of_job("the keys")))?;
            self.keys = Some((round_shift, keys));
        }
        for (worker, address) in node.members() {
            if !self.admitted.contains(&worker) {
                let admitted = self.program.admit(INDEX, worker, address);
                admitted.map_err(failed(of_job(&format!("worker {worker} at {address}"))))?;
                self.admitted.insert(worker);
            }
        }
        self.open(node)?;
        while let Some((_, round)) = self.program.next_completion() {
            if round == self.round && round == node.round() {
                let sums = self.program.sums(INDEX).map_err(failed(of_job("the sums")))?;
                node.completed(&sums);
                self.open(node)?;
            }
        }
        Ok(())
    }

    /// Opens the station's iteration at the program.
    fn open(&mut self, node: &KeyedNode) -> Result<(), KernelError> {
        let round = node.round();
        if self.round != round {
            let opened = self.program.open(INDEX, round, MAP_VERSION);
            opened.map_err(failed(format!("iteration {round} of job {}", node.job().id)))?;
            self.round = round;
        }
        Ok(())
    }

    /// Bounds what the workers of the job may send in pairs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), KernelError> {
        self.program.set_quota(job, quota).map_err(failed(format!("quota of job {job}")))
    }

    /// Packets by verdict that the program has dealt with, by name; none, and a line in the log, if the kernel refuses.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counted = self.program.counters().unwrap_or_else(|error| {
            eprintln!("wiresum-node: the program's counters cannot be read: {error}");
            Vec::new()
        });
        counted.into_iter().map(|(verdict, count)| (verdict.name(), count)).collect()
    }

    /// Readable while the program has noted that an iteration is complete.
    #[must_use]
    pub fn note_descriptor(&self) -> BorrowedFd<'_> {
        self.program.note_descriptor()
    }
}
