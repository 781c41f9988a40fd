//! Zebra's switch program in the kernel: `bpf/keyed`, loaded, and what its station tells it (`spec/keyed.md`).
//!
//! The program adds and acknowledges pairs by itself. When an iteration is complete its station reads the sums and opens
//! the next one.

pub mod layout;
mod load;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::MapFlags;
use wiresum_keys::Keyring;
use wiresum_protocol::Quota;
use wiresum_protocol::association::{GENERATIONS, RENEWALS, ValueKeys};
use wiresum_switch::keyed::{Arrangement, Home, MAX_WORKERS};
use wiresum_wire::{JobId, JobKey, NodeId, Verdict};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::engine::{DIRECTORY, child_index};
use crate::kernel::{self, Image, Kernel};
use crate::layout::{
    Budget, Directory, Endpoint, Hearing, NO_JOB, Peer, STRANGERS_BUDGET, Stream, Tally,
    control_budget, values_budget,
};
use crate::rows::RowJudgement;
use crate::slots::CheckQueue;
use crate::{AttachMode, XdpAggregator, XdpError, peers};
use layout::{Cell, Opening, TableEntry};

pub(crate) const PROGRAM: Image =
    Image(include_bytes!(concat!(env!("OUT_DIR"), "/keyed-program.bpf.o")));

/// Where a switch for pairs listens, and as whom.
pub struct KeyedOptions {
    /// Its address.
    pub address: SocketAddr,
    /// Its number.
    pub node: NodeId,
    /// Those of its workers' seats, at least.
    pub keys: Keyring,
    /// Whether a table is locked while a packet is added; without, frames must come to one CPU only.
    pub lock_tables: bool,
}

/// A loaded switch for pairs, with all the memory that it will ever have.
pub struct KeyedProgram {
    kernel: Kernel,
    arrangement: Arrangement,
    /// As the program reads it.
    directory: Directory,
    /// Jobs by index.
    jobs: Vec<JobId>,
    /// By job index.
    keys: Vec<JobKey>,
    /// By table: that of its open iteration.
    tags: Vec<u32>,
    /// That of the iteration that was opened last; each has one of its own.
    tag: u32,
    completions: CheckQueue,
    links: Vec<OwnedFd>,
}

impl KeyedProgram {
    /// Loads the program for tables of jobs, and allocates their memory. No job runs yet.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel lacks, or the tables.
    pub fn load(options: &KeyedOptions, arrangement: Arrangement) -> Result<Self, XdpError> {
        XdpAggregator::check_support()?;
        let jobs = load::jobs(&arrangement);
        let directory = load::directory(options, &arrangement, &jobs)?;
        let kernel = load::load(&PROGRAM, options, &arrangement, &directory)?;
        let completions = CheckQueue::of(&kernel)?;
        kernel.put("budgets", &STRANGERS_BUDGET, &Budget::from(Quota::strangers()))?;
        for job in 0..jobs.len() {
            kernel.put("budgets", &control_budget(job), &Budget::from(Quota::control()))?;
        }
        let (keys, tags) = (vec![JobKey(0); jobs.len()], vec![0; arrangement.tables.len()]);
        let links = Vec::new();
        let tag = 0;
        Ok(Self { kernel, arrangement, directory, jobs, keys, tags, tag, completions, links })
    }

    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<(), XdpError> {
        self.links.push(kernel::link(self.kernel.program("sum_pairs").as_fd(), interface, mode)?);
        Ok(())
    }

    /// Takes packets of a job in this incarnation. Workers are to be admitted, and iterations to be opened, anew. Until
    /// [`Self::renew`], packets of pairs carry the incarnation's key in every iteration.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn run(&mut self, job: JobId, key: JobKey) -> Result<(), XdpError> {
        self.stop(job)?;
        let index = self.job(job)?;
        self.keys[index] = key;
        self.renew(job, 0, [[key; GENERATIONS]; RENEWALS])?;
        self.kernel.run_job(index, key)
    }

    /// From now on packets of pairs carry these keys, where an iteration stands for two to the power of `round_shift`
    /// positions.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn renew(&mut self, job: JobId, round_shift: u8, keys: ValueKeys) -> Result<(), XdpError> {
        let index = self.job(job)?;
        let value_keys = keys.map(|keys| keys.map(|JobKey(key)| key));
        let is_its = |stream: &&mut Stream| usize::from(stream.job_index) == index;
        for stream in self.directory.streams.iter_mut().filter(is_its) {
            (stream.value_keys, stream.round_shift) = (value_keys, round_shift);
        }
        self.kernel.put(DIRECTORY, &0u32, &self.directory)
    }

    /// Takes no packets of a job any more.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn stop(&mut self, job: JobId) -> Result<(), XdpError> {
        let index = self.job(job)?;
        self.kernel.stop_job(index)?;
        let tables = self.arrangement.tables.iter().enumerate();
        for (table, _) in tables.filter(|(_, table)| table.job == job) {
            for worker in 0..MAX_WORKERS {
                let seat = child_index(table, worker.into());
                self.kernel.put("children", &seat, &Peer::new_zeroed())?;
            }
        }
        Ok(())
    }

    /// Bounds what the workers of a job may send; `None` for no bound.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), XdpError> {
        let budget = quota.map(Budget::from).unwrap_or_default();
        self.kernel.put("budgets", &values_budget(self.job(job)?), &budget)
    }

    /// Takes pairs from the worker that said hello from `address`, and answers there.
    ///
    /// # Errors
    /// [`XdpError::NotHeard`] if its hello did not come through the program, or the kernel's refusal.
    ///
    /// # Panics
    /// If there is no table with this index, or it has no such worker.
    pub fn admit(&mut self, table: usize, worker: u8, address: SocketAddr) -> Result<(), XdpError> {
        let arranged = &self.arrangement.tables[table];
        assert!(worker < arranged.workers, "worker {worker} of {}", arranged.workers);
        let key = Endpoint { any_address: 0, ..Endpoint::from(address) };
        let hearing: Option<Hearing> = self.kernel.get("heard", &key)?;
        let hearing = hearing.ok_or(XdpError::NotHeard(address))?;
        let peer = peers::peer(address, self.keys[self.job(arranged.job)?], &hearing);
        self.kernel.put("children", &child_index(table, worker.into()), &peer)
    }

    /// Opens an iteration of a table: all its sums begin at zero.
    ///
    /// # Errors
    /// [`XdpError::SlotBusy`], or the kernel's refusal.
    ///
    /// # Panics
    /// If there is no table with this index.
    pub fn open(&mut self, table: usize, round: u32, map_version: u32) -> Result<(), XdpError> {
        let job = self.arrangement.tables[table].job;
        self.tag += 1;
        let opening = Opening {
            table: table as u32,
            job_key: self.keys[self.job(job)?].0,
            round,
            tag: self.tag,
            map_version,
        };
        self.tags[table] = self.tag;
        let run = self.kernel.test_run("open_iteration", opening.as_bytes(), 1)?;
        if run.action == Verdict::Control as u32 { Ok(()) } else { Err(XdpError::SlotBusy(job)) }
    }

    /// Readable while a packet has completed an iteration that was not asked for.
    #[must_use]
    pub fn note_descriptor(&self) -> BorrowedFd<'_> {
        self.completions.descriptor()
    }

    /// The next table whose open iteration a packet has completed, and the iteration.
    pub fn next_completion(&self) -> Option<(usize, u32)> {
        self.completions.take(|_| true).map(|check| (check.stream as usize, check.position))
    }

    /// The sums of a table's open iteration, by key: what the station reads when it is complete.
    ///
    /// # Errors
    /// The kernel's refusal.
    ///
    /// # Panics
    /// If there is no table with this index.
    pub fn sums(&self, table: usize) -> Result<BTreeMap<u64, i32>, XdpError> {
        let mut sums = BTreeMap::new();
        for (key, home) in &self.arrangement.tables[table].homes {
            let cell = self.cell("keyed_registers", cell_of(&self.arrangement, *home))?;
            if cell.tag == self.tags[table] {
                sums.insert(*key, cell.held as i32);
            }
        }
        Ok(sums)
    }

    fn cell(&self, map: &'static str, index: u32) -> Result<Cell, XdpError> {
        let bytes = self.kernel.read(map, index, MapFlags::ANY)?.expect("an array has all cells");
        Ok(Cell::read_from_bytes(&bytes).expect("sizes were compared at load"))
    }

    /// What a cell holds of a table's open iteration: of `keyed_numbers`, `keyed_missing` or `keyed_done`.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn held(&self, table: usize, map: &'static str, index: u32) -> Result<u32, XdpError> {
        let cell = self.cell(map, index)?;
        Ok(if cell.tag == self.tags[table] { cell.held } else { 0 })
    }

    /// Packets by verdict, summed over CPUs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Vec<(Verdict, u64)>, XdpError> {
        let mut sum = Tally::new_zeroed();
        (0..=NO_JOB).try_for_each(|index| self.kernel.tally(index).map(|tally| sum.add(&tally)))?;
        let count = |verdict: Verdict| (verdict, sum.verdicts[verdict as usize]);
        Ok(Verdict::ROWS.into_iter().map(count).collect())
    }

    /// Holds a table's lock, or lets go of it.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn hold_lock(&self, table: usize, lock: u32) -> Result<(), XdpError> {
        let entry: Option<TableEntry> = self.kernel.get("keyed_tables", &(table as u32))?;
        let entry = TableEntry { lock, ..entry.expect("a table of the program") };
        self.kernel.put("keyed_tables", &(table as u32), &entry)
    }

    /// The loaded object.
    #[doc(hidden)]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Runs the program on a frame.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn judge(&self, frame: &[u8]) -> Result<RowJudgement, XdpError> {
        RowJudgement::of(&self.kernel, frame)
    }

    fn job(&self, job: JobId) -> Result<usize, XdpError> {
        let index = self.jobs.iter().position(|known| *known == job);
        index.ok_or(XdpError::UnknownJob(job))
    }
}

/// The cell of a key among those of all registers.
fn cell_of(arrangement: &Arrangement, home: Home) -> u32 {
    home.register * arrangement.cells + home.cell
}
