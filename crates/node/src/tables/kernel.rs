//! The switch in the kernel beneath hosts that sum hot rows: the XDP program adds rows and acknowledges them, and learns from
//! here who takes part, which round is open, which positions have a row, and how many packets there are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use wiresum_protocol::association::ValueKeys;
use wiresum_protocol::{Quota, Verdict};
use wiresum_sparse::live::{Host, Job};
use wiresum_wire::{Contributor, JobId, JobKey, NodeId, SubModelId};
use wiresum_xdp::{AttachMode, HotStream, RowRoom, RowsProgram, XdpAggregator, XdpError};

use crate::aggregators::kernel::{KernelError, failed};

/// Hot rows of a job are one stream.
const STREAM: SubModelId = SubModelId(0);

/// The XDP program of a node's jobs, and what it has been told.
pub struct KernelRows {
    program: RowsProgram,
    node: u16,
    told: BTreeMap<JobId, Told>,
}

/// What the program knows of a job.
#[derive(Default)]
struct Told {
    key: Option<JobKey>,
    /// What packets of rows may carry, by round.
    keys: Option<(u8, ValueKeys)>,
    workers: BTreeMap<u8, SocketAddr>,
    /// The open round, and the version of its map.
    round: Option<(u32, u32)>,
    /// Workers whose end of the round it knows.
    ends: Vec<u8>,
}

impl KernelRows {
    /// Loads the program with memory for the hot rows of these jobs, or as many as fit `memory` bytes, and attaches it to
    /// the interfaces until this is dropped or the process dies.
    ///
    /// # Errors
    /// [`KernelError`] with the remedy.
    pub fn load(
        jobs: &[&Job],
        node: u16,
        address: SocketAddr,
        interfaces: &[String],
        mode: AttachMode,
        memory: Option<usize>,
    ) -> Result<Self, KernelError> {
        XdpAggregator::check_support().map_err(failed("the engine `xdp` is not available"))?;
        let streams: Vec<HotStream> = jobs.iter().map(|job| stream(job, node)).collect();
        let room = RowRoom::of(&streams);
        let room = memory.map_or(room, |bytes| room.within(bytes));
        let mut program = RowsProgram::load(address, room, true)
            .map_err(failed("the XDP program for hot rows cannot be loaded"))?;
        for interface in interfaces {
            let action = format!("the XDP program cannot be attached to `{interface}`");
            program.attach(interface, mode).map_err(failed(action))?;
        }
        Ok(Self { program, node, told: BTreeMap::new() })
    }

    /// Bytes that the rows of a job take here.
    #[must_use]
    pub fn memory_for(&self, job: &Job) -> u64 {
        RowRoom::of(&[stream(job, self.node)]).bytes() as u64
    }

    /// Adds the rows of one more job.
    ///
    /// # Errors
    /// What there is too little of; then nothing has changed.
    pub fn add(&mut self, job: &Job) -> Result<(), KernelError> {
        let action = format!("the hot rows of job {} cannot be summed in the kernel", job.id);
        self.program.add(&stream(job, self.node)).map_err(failed(action))?;
        self.told.insert(job.job_id(), Told::default());
        Ok(())
    }

    /// Forgets a job.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove(&mut self, job: JobId) -> Result<(), KernelError> {
        self.told.remove(&job);
        self.program.remove(job).map_err(failed(format!("job {job} cannot be removed")))
    }

    /// Bounds what the workers of a job may send in rows.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), KernelError> {
        self.program.set_quota(job, quota).map_err(failed(format!("quota of job {job}")))
    }

    /// Takes all notes: whatever comes from here on, there will be another one.
    pub fn take_notes(&self) {
        while self.program.next_note().is_some() {}
    }

    /// Brings host and program to the same state: the program learns what has changed, and the host has the sums that are
    /// complete.
    ///
    /// # Errors
    /// The kernel's refusal, or that a worker's hello did not come through the program.
    pub fn follow(&mut self, host: &mut Host) -> Result<(), KernelError> {
        if host.key().is_none() {
            return Ok(());
        }
        loop {
            self.tell(host)?;
            let (job, Self { program, .. }) = (host.job().job_id(), &*self);
            let Some(summer) = host.summer_mut() else { return Ok(()) };
            let round = summer.round();
            let mut moved = || {
                let progress = program.progress(job, STREAM)?;
                program.set_left(job, STREAM, progress.reached)?;
                let mut read = Ok(());
                summer.handle_reached(progress.reached, progress.is_complete, |positions, show| {
                    read = program.visit_sums(job, STREAM, positions, show);
                });
                read
            };
            moved().map_err(failed(format!("hot rows of job {job}")))?;
            if summer.round() == round {
                return Ok(());
            }
        }
    }

    /// What has been told already is not repeated.
    fn tell(&mut self, host: &mut Host) -> Result<(), KernelError> {
        let (job, key) = (host.job().job_id(), host.key());
        let Self { program, told, .. } = self;
        let told = told.entry(job).or_default();
        if let Some(key) = key.filter(|key| told.key != Some(*key)) {
            program.run(job, key).map_err(failed(format!("incarnation of job {job}")))?;
            *told = Told { key: Some(key), ..Told::default() };
        }
        if let Some((round_shift, keys)) = host.row_keys().filter(|keys| told.keys != Some(*keys)) {
            let renewed = program.renew(job, round_shift, keys);
            renewed.map_err(failed(format!("keys of job {job}")))?;
            told.keys = Some((round_shift, keys));
        }
        for (worker, address) in host.workers() {
            if told.workers.get(&worker) != Some(&address) {
                let action = format!("worker {worker} of job {job} at {address}");
                let admitted = program.admit(job, STREAM, Contributor(worker), address);
                admitted.map_err(failed(action))?;
                told.workers.insert(worker, address);
            }
        }
        told.follow_rounds(program, host).map_err(failed(format!("rounds of job {job}")))
    }

    /// Packets by verdict that the program has dealt with.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Vec<(Verdict, u64)>, KernelError> {
        self.program.counters().map_err(failed("the program's counters cannot be read"))
    }

    /// Packets that named a job by verdict, and their bytes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn job_counters(&self, job: JobId) -> Result<(Vec<(Verdict, u64)>, u64), KernelError> {
        self.program.job_counters(job).map_err(failed("the program's counters cannot be read"))
    }

    /// Readable while the program has noted that more has come.
    #[must_use]
    pub fn note_descriptor(&self) -> BorrowedFd<'_> {
        self.program.note_descriptor()
    }

    /// Bytes of rows in the kernel.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.program.memory_bytes()
    }
}

impl Told {
    /// Opens the host's round at the program, and announces ends of it.
    fn follow_rounds(
        &mut self,
        program: &mut RowsProgram,
        host: &mut Host,
    ) -> Result<(), XdpError> {
        let job = host.job().job_id();
        let Some(summer) = host.summer_mut() else { return Ok(()) };
        let (round, version) = (summer.round(), summer.map().version());
        if self.round != Some((round, version)) {
            if self.round.is_none_or(|(_, before)| before != version) {
                let map = summer.map();
                let positions = 0..map.document().positions;
                let in_map = positions.map(|position| (position, map.row(position).is_some()));
                program.set_in_map(job, STREAM, in_map)?;
            }
            program.open(job, STREAM, round, version)?;
            (self.round, self.ends) = (Some((round, version)), Vec::new());
        }
        for (worker, packets) in summer.announced().collect::<Vec<_>>() {
            let worker = worker as u8;
            if self.ends.contains(&worker) {
                continue;
            }
            let announced =
                program.announce(job, STREAM, Contributor(worker), round, version, packets)?;
            if announced.verdict == Verdict::Wrong {
                summer.handle_wrong_end(worker.into(), packets);
            }
            self.ends.push(worker);
        }
        Ok(())
    }
}

fn stream(job: &Job, node: u16) -> HotStream {
    let map = job.map();
    HotStream {
        job: job.job_id(),
        sub_model: STREAM,
        node: NodeId(node),
        keys: job.keys(),
        workers: job.workers as u8,
        contributors: job.contributors(node),
        positions: map.document().positions,
        dim: map.document().dim,
        is_float: true,
    }
}
