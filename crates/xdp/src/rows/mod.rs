//! A switch in the kernel that sums hot rows: `bpf/rows`, loaded, and what its station tells it.
//!
//! The program adds and acknowledges rows by itself. Ends of rounds, and rows that are wrong, come up to the station's
//! socket. The station says which round is open ([`RowsProgram::open`]) and how many packets a worker had
//! ([`RowsProgram::announce`]); when a round is complete it reads the sums and sends them on.

pub mod layout;
mod place;
mod sums;

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use wiresum_keys::Seat;
use wiresum_protocol::Quota;
use wiresum_wire::{Contributor, JobId, JobKey, MAX_CONTRIBUTORS, SubModelId, Verdict};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::engine::child_index;
use crate::kernel::{self, Image, Kernel};
use crate::layout::{
    Budget, Endpoint, Hearing, Job, NO_JOB, Peer, STRANGERS_BUDGET, SeatKeyEntry, Tally,
    control_budget, values_budget,
};
use crate::slots::CheckQueue;
use crate::{AttachMode, HotStream, XdpAggregator, XdpError, peers};
use layout::{Announcement, Opening};
use place::Places;
use sums::Rows;

#[doc(hidden)]
pub use layout::Feed;

const PROGRAM: Image = Image(include_bytes!(concat!(env!("OUT_DIR"), "/rows-program.bpf.o")));
/// The program with what tests and the benchmark need.
pub(crate) const BENCH: Image =
    Image(include_bytes!(concat!(env!("OUT_DIR"), "/rows-bench.bpf.o")));

/// What has become of a packet in a test-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowJudgement {
    /// Its fate.
    pub verdict: Verdict,
    /// An XDP action.
    pub action: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
}

/// What an end of a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// [`Verdict::Control`] if it was news; `Duplicate`, `Stale`, `Early`, or `Wrong`.
    pub verdict: Verdict,
    /// Whether the round is complete, which it was not before.
    pub is_complete: bool,
}

/// A loaded switch for hot rows, with all the memory that it will ever have.
pub struct RowsProgram {
    kernel: Kernel,
    places: Places,
    rows: Rows,
    /// By job index.
    keys: Vec<JobKey>,
    /// Generation of the round that was opened last; each round has one of its own.
    generation: u32,
    completions: CheckQueue,
    links: Vec<OwnedFd>,
}

impl RowsProgram {
    /// Loads the program for streams of jobs that listen at this address, and allocates their rows. No job runs yet.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel lacks, or the streams.
    pub fn load(
        address: SocketAddr,
        streams: &[HotStream],
        lock_streams: bool,
    ) -> Result<Self, XdpError> {
        Self::load_image(&PROGRAM, address, streams, lock_streams)
    }

    /// As [`Self::load`], with the programs that tests and the benchmark need.
    ///
    /// # Errors
    /// As [`Self::load`].
    #[doc(hidden)]
    pub fn load_for_tests(
        address: SocketAddr,
        streams: &[HotStream],
        lock_streams: bool,
    ) -> Result<Self, XdpError> {
        Self::load_image(&BENCH, address, streams, lock_streams)
    }

    fn load_image(
        image: &Image,
        address: SocketAddr,
        streams: &[HotStream],
        lock_streams: bool,
    ) -> Result<Self, XdpError> {
        XdpAggregator::check_support()?;
        let places = Places::of(address, streams)?;
        let kernel = place::load(image, &places, lock_streams)?;
        let (rows, completions) = (Rows::of(&kernel)?, CheckQueue::of(&kernel)?);
        let keys = vec![JobKey(0); places.jobs.len()];
        let program =
            Self { rows, completions, kernel, places, keys, generation: 0, links: Vec::new() };
        program.kernel.put("budgets", &STRANGERS_BUDGET, &Budget::from(Quota::strangers()))?;
        for job in 0..program.places.jobs.len() {
            program.kernel.put("budgets", &control_budget(job), &Budget::from(Quota::control()))?;
        }
        for (index, entry) in (0u32..).zip(&program.places.entries) {
            program.kernel.put("hot_streams", &index, entry)?;
        }
        for (index, stream) in streams.iter().enumerate() {
            program.put_keys(index, stream)?;
        }
        Ok(program)
    }

    /// Tells the program the keys of a stream's seats.
    fn put_keys(&self, index: usize, stream: &HotStream) -> Result<(), XdpError> {
        (0..stream.workers).try_for_each(|worker| {
            let seat = Seat { node: stream.node.0, stream: 0, contributor: worker };
            let key = stream.keys.seat(seat).map(SeatKeyEntry::from).unwrap_or_default();
            self.kernel.put("seat_keys", &child_index(index, worker.into()), &key)
        })
    }

    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<(), XdpError> {
        self.links.push(kernel::link(self.kernel.program("sum_rows").as_fd(), interface, mode)?);
        Ok(())
    }

    /// Takes packets of a job in this incarnation. Workers are to be admitted, and rounds to be opened, anew.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn run(&mut self, job: JobId, key: JobKey) -> Result<(), XdpError> {
        self.stop(job)?;
        let index = self.places.job(job)?;
        self.keys[index] = key;
        // Running comes last, so that no packet is compared with half a key.
        self.kernel.put("jobs", &(index as u32), &Job { key: key.0, running: 0 })?;
        self.kernel.put("jobs", &(index as u32), &Job { key: key.0, running: 1 })
    }

    /// Takes no packets of a job any more.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn stop(&mut self, job: JobId) -> Result<(), XdpError> {
        let index = self.places.job(job)?;
        self.kernel.put("jobs", &(index as u32), &Job::default())?;
        for stream in self.places.of_job(index) {
            for worker in 0..MAX_CONTRIBUTORS {
                self.kernel.put("children", &seat(stream, worker), &Peer::new_zeroed())?;
            }
        }
        Ok(())
    }

    /// Bounds what the workers of a job may send in rows; `None` for no bound.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), XdpError> {
        let budget = quota.map(Budget::from).unwrap_or_default();
        self.kernel.put("budgets", &values_budget(self.places.job(job)?), &budget)
    }

    /// Takes rows from the worker that said hello from `address`, and answers there.
    ///
    /// # Errors
    /// [`XdpError::NotHeard`] if its hello did not come through the program; [`XdpError::UnknownPeer`].
    pub fn admit(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        worker: Contributor,
        address: SocketAddr,
    ) -> Result<(), XdpError> {
        let stream = self.places.stream(job, sub_model, worker)?;
        let key = Endpoint { any_address: 0, ..Endpoint::from(address) };
        let hearing: Option<Hearing> = self.kernel.get("heard", &key)?;
        let hearing = hearing.ok_or(XdpError::NotHeard(address))?;
        let peer = peers::peer(address, self.keys[self.places.job(job)?], &hearing);
        self.kernel.put("children", &seat(stream, worker.0.into()), &peer)
    }

    /// Says which positions of a stream have a row, by the map of the next round. The open round is complete.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`].
    ///
    /// # Panics
    /// If a position is beyond the stream's.
    pub fn set_in_map(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        positions: impl IntoIterator<Item = (u32, bool)>,
    ) -> Result<(), XdpError> {
        let entry = self.places.entries[self.places.stream(job, sub_model, Contributor(0))?];
        for (position, is_in_map) in positions {
            assert!(position < entry.positions, "position {position} of {}", entry.positions);
            self.rows.set_in_map(entry.first_row + position, is_in_map);
        }
        Ok(())
    }

    /// Opens a round: its rows begin at zero, and packets of the round before are acknowledged only.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`], [`XdpError::SlotBusy`], or the kernel's refusal.
    pub fn open(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        round: u32,
        map_version: u32,
    ) -> Result<(), XdpError> {
        let stream = self.places.stream(job, sub_model, Contributor(0))?;
        self.generation += 1;
        let opening = Opening {
            stream: stream as u32,
            job_key: self.keys[self.places.job(job)?].0,
            round,
            generation: self.generation,
            map_version,
            reserved: 0,
            contributors: self.places.directory.streams[stream].expected,
        };
        let run = self.kernel.test_run("open_round", opening.as_bytes(), 1)?;
        self.places.entries[stream].generation = self.generation;
        if run.action == Verdict::Control as u32 { Ok(()) } else { Err(XdpError::SlotBusy(job)) }
    }

    /// A worker's end of a round says how many packets there were.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn announce(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        worker: Contributor,
        round: u32,
        map_version: u32,
        packets: u32,
    ) -> Result<Announced, XdpError> {
        let stream = self.places.stream(job, sub_model, worker)?;
        let announcement = Announcement {
            stream: stream as u32,
            contributor: worker.0.into(),
            job_key: self.keys[self.places.job(job)?].0,
            round,
            map_version,
            packets,
            is_complete: 0,
            reserved: 0,
        };
        let run = self.kernel.test_run("announce", announcement.as_bytes(), 1)?;
        let answer = Announcement::read_from_bytes(&run.frame).expect("as long as the question");
        let verdict = u8::try_from(run.action).ok().and_then(Verdict::from_wire);
        match verdict {
            Some(verdict) if verdict != Verdict::Contended => {
                Ok(Announced { verdict, is_complete: answer.is_complete != 0 })
            }
            _ => Err(XdpError::SlotBusy(job)),
        }
    }

    /// The next stream whose open round a packet has completed, and the round.
    pub fn next_completion(&self) -> Option<(JobId, SubModelId, u32)> {
        let check = self.completions.take(|_| true)?;
        let (job, sub_model) = self.places.names[check.stream as usize];
        Some((job, sub_model, check.position))
    }

    /// Shows each row that has gradients of the open round, which is complete: its position, whose they are, its lanes. Those
    /// of float32 are in units of 2⁻⁴⁵.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`].
    pub fn visit_sums(
        &self,
        job: JobId,
        sub_model: SubModelId,
        mut visit: impl FnMut(u32, u64, &[i64]),
    ) -> Result<(), XdpError> {
        let entry = self.places.entries[self.places.stream(job, sub_model, Contributor(0))?];
        let mut lanes = vec![0; entry.dim.into()];
        for position in 0..entry.positions {
            let row = entry.first_row + position;
            let contributors = self.rows.contributors(row, entry.generation);
            if contributors != 0 {
                let read = |index| self.rows.lane(row, index, entry.lanes != 0);
                lanes.iter_mut().enumerate().for_each(|(index, lane)| *lane = read(index));
                visit(position, contributors, &lanes);
            }
        }
        Ok(())
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

    /// Bytes of rows in the kernel, fixed at load.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }

    /// The loaded object.
    #[doc(hidden)]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Runs the program on a frame; `None` if that is not for this switch.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn judge(&self, frame: &[u8]) -> Result<RowJudgement, XdpError> {
        let run = self.kernel.test_run("judge", frame, 1)?;
        let verdict = Verdict::from_wire((run.action >> 8) as u8).expect("a verdict");
        Ok(RowJudgement { verdict, action: run.action & 0xff, frame: run.frame })
    }
}

fn seat(stream: usize, worker: usize) -> u32 {
    (stream * MAX_CONTRIBUTORS + worker) as u32
}
