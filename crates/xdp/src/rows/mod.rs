//! A switch in the kernel that sums hot rows: `bpf/rows`, loaded, and what its station tells it.
//!
//! The program adds and acknowledges rows by itself. Ends of rounds, and rows that are wrong, come up to the station's
//! socket. The station says which round is open ([`RowsProgram::open`]) and how many packets a worker had
//! ([`RowsProgram::announce`]); where all workers have sent the rows before some position, it reads their sums and sends them
//! on.

mod answers;
pub mod layout;
mod place;
mod progress;
mod room;
mod sums;

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use wiresum_keys::Seat;
use wiresum_protocol::Quota;
use wiresum_protocol::association::{GENERATIONS, RENEWALS, ValueKeys};
use wiresum_wire::{Contributor, JobId, JobKey, MAX_CONTRIBUTORS, SubModelId, Verdict};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::engine::{DIRECTORY, child_index};
use crate::kernel::{self, Image, Kernel};
use crate::layout::{
    Budget, Endpoint, Hearing, MAX_JOBS, NO_JOB, Peer, STRANGERS_BUDGET, SeatKeyEntry, Tally,
    control_budget, values_budget,
};
use crate::slots::CheckQueue;
use crate::{AttachMode, HotStream, XdpAggregator, XdpError, peers};
use layout::{Announcement, Opening};
use place::Places;
use progress::Rounds;
use sums::Rows;

pub use answers::{Announced, Progress};
pub use room::RowRoom;

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

impl RowJudgement {
    /// What the program `judge` of an object says of a frame: of rows, or of pairs.
    pub(crate) fn of(kernel: &Kernel, frame: &[u8]) -> Result<Self, XdpError> {
        let run = kernel.test_run("judge", frame, 1)?;
        let verdict = Verdict::from_wire((run.action >> 8) as u8).expect("a verdict");
        Ok(Self { verdict, action: run.action & 0xff, frame: run.frame })
    }
}

/// A loaded switch for hot rows, with all the memory that it will ever have.
pub struct RowsProgram {
    kernel: Kernel,
    places: Places,
    rows: Rows,
    rounds: Rounds,
    /// By job index.
    keys: [JobKey; MAX_JOBS],
    /// Generation of the round that was opened last; each round has one of its own.
    generation: u32,
    notes: CheckQueue,
    links: Vec<OwnedFd>,
    /// Packets of jobs that are gone.
    retired: Tally,
    memory_bytes: usize,
}

impl RowsProgram {
    /// Loads the program for jobs that listen at this address, and allocates all its memory. There is no job yet.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel lacks.
    pub fn load(address: SocketAddr, room: RowRoom, lock_streams: bool) -> Result<Self, XdpError> {
        Self::load_image(&PROGRAM, address, room, lock_streams)
    }

    /// Loads these streams, with the programs that tests and the benchmark need.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::add`].
    #[doc(hidden)]
    pub fn load_for_tests(
        address: SocketAddr,
        streams: &[HotStream],
        lock_streams: bool,
    ) -> Result<Self, XdpError> {
        let mut program = Self::load_image(&BENCH, address, RowRoom::of(streams), lock_streams)?;
        streams.iter().try_for_each(|stream| program.add(stream))?;
        Ok(program)
    }

    fn load_image(
        image: &Image,
        address: SocketAddr,
        room: RowRoom,
        lock_streams: bool,
    ) -> Result<Self, XdpError> {
        XdpAggregator::check_support()?;
        let places = Places::new(address, room);
        let kernel = place::load(image, &places, lock_streams)?;
        let program = Self {
            rows: Rows::of(&kernel)?,
            rounds: Rounds::of(&kernel)?,
            notes: CheckQueue::of(&kernel)?,
            kernel,
            places,
            keys: [JobKey(0); MAX_JOBS],
            generation: 0,
            links: Vec::new(),
            retired: Tally::new_zeroed(),
            memory_bytes: room.bytes(),
        };
        program.kernel.put("budgets", &STRANGERS_BUDGET, &Budget::from(Quota::strangers()))?;
        Ok(program)
    }

    /// Gives a stream its memory. Its packets are foreign until its job runs and a round is open.
    ///
    /// # Errors
    /// [`XdpError`] says what there is too little of; then nothing has changed.
    pub fn add(&mut self, stream: &HotStream) -> Result<(), XdpError> {
        let index = self.places.add(stream)?;
        let job = self.places.job(stream.job)?;
        self.kernel.put("budgets", &values_budget(job), &Budget::default())?;
        self.kernel.put("budgets", &control_budget(job), &Budget::from(Quota::control()))?;
        let has_seat = |worker: &u8| stream.contributors >> worker & 1 == 1;
        for worker in (0..stream.workers).filter(has_seat) {
            let seat = Seat { node: stream.node.0, stream: 0, contributor: worker };
            let key = stream.keys.seat(seat).map(SeatKeyEntry::from).unwrap_or_default();
            self.kernel.put("seat_keys", &child_index(index, worker.into()), &key)?;
        }
        let entry = *self.places.entry(index);
        (0..entry.positions).for_each(|row| self.rows.set_in_map(entry.first_row + row, false));
        self.kernel.put("hot_streams", &(index as u32), &entry)?;
        self.publish()
    }

    /// Forgets a job: its packets are foreign, and its memory is free for others.
    ///
    /// # Errors
    /// As [`Self::run`] and [`Self::open`].
    pub fn remove(&mut self, job: JobId) -> Result<(), XdpError> {
        self.stop(job)?;
        let index = self.places.job(job)?;
        let streams = self.places.of_job(index);
        self.keys[index] = JobKey(0);
        for stream in &streams {
            // The program compares the key once it has the stream's lock: nobody uses the stream's rows after this.
            self.open_stream(job, *stream, Opening::default())?;
        }
        self.places.remove(index);
        self.publish()?;
        self.notes.forget(&streams);
        self.retired.add(&self.kernel.tally(index)?);
        self.kernel.clear_tally(index)
    }

    fn publish(&self) -> Result<(), XdpError> {
        self.kernel.put(DIRECTORY, &0u32, &self.places.directory)
    }

    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<(), XdpError> {
        self.links.push(kernel::link(self.kernel.program("sum_rows").as_fd(), interface, mode)?);
        Ok(())
    }

    /// Takes packets of a job in this incarnation. Workers are to be admitted, and rounds to be opened, anew. Until
    /// [`Self::renew`], packets of rows carry the incarnation's key in every round.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn run(&mut self, job: JobId, key: JobKey) -> Result<(), XdpError> {
        self.stop(job)?;
        let index = self.places.job(job)?;
        self.keys[index] = key;
        self.renew(job, 0, [[key; GENERATIONS]; RENEWALS])?;
        self.kernel.run_job(index, key)
    }

    /// From now on packets of rows carry these keys, where a round stands for two to the power of `round_shift` positions.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn renew(&mut self, job: JobId, round_shift: u8, keys: ValueKeys) -> Result<(), XdpError> {
        let value_keys = keys.map(|keys| keys.map(|JobKey(key)| key));
        for stream in self.places.of_job(self.places.job(job)?) {
            let stream = &mut self.places.directory.streams[stream];
            (stream.value_keys, stream.round_shift) = (value_keys, round_shift);
        }
        self.publish()
    }

    /// Takes no packets of a job any more.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn stop(&mut self, job: JobId) -> Result<(), XdpError> {
        let index = self.places.job(job)?;
        self.kernel.stop_job(index)?;
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
        let entry = self.places.entry(self.places.stream(job, sub_model, Contributor(0))?);
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
        let opening = Opening {
            job_key: self.keys[self.places.job(job)?].0,
            round,
            map_version,
            contributors: self.places.directory.streams[stream].expected,
            ..Opening::default()
        };
        self.open_stream(job, stream, opening)
    }

    fn open_stream(&mut self, job: JobId, stream: usize, opening: Opening) -> Result<(), XdpError> {
        self.generation += 1;
        let generation = self.generation;
        let opening = Opening { stream: stream as u32, generation, ..opening };
        let run = self.kernel.test_run("open_round", opening.as_bytes(), 1)?;
        self.places.set_generation(stream, generation);
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

    /// Readable while there are notes.
    #[must_use]
    pub fn note_descriptor(&self) -> BorrowedFd<'_> {
        self.notes.descriptor()
    }

    /// The next stream of whose open round more has come than was seen before.
    pub fn next_note(&self) -> Option<(JobId, SubModelId)> {
        let note = self.notes.take(|_| true)?;
        self.rounds.take_note(note.stream as usize);
        self.places.name(note.stream as usize)
    }

    /// How far the open round of a stream has come.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`].
    pub fn progress(&self, job: JobId, sub_model: SubModelId) -> Result<Progress, XdpError> {
        let stream = self.places.stream(job, sub_model, Contributor(0))?;
        Ok(self.rounds.progress(stream, self.places.entry(stream).generation))
    }

    /// Says that the sums before this position have left: gradients for them are wrong from here on.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`].
    pub fn set_left(&self, job: JobId, sub_model: SubModelId, left: u32) -> Result<(), XdpError> {
        self.rounds.set_left(self.places.stream(job, sub_model, Contributor(0))?, left);
        Ok(())
    }

    /// Shows each row among these positions that has gradients of the open round: its position, whose they are, its lanes.
    /// Those of float32 are in units of 2⁻⁴⁵. More may come for a row that is not reached.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`].
    pub fn visit_sums(
        &self,
        job: JobId,
        sub_model: SubModelId,
        positions: Range<u32>,
        mut visit: impl FnMut(u32, u64, &[i64]),
    ) -> Result<(), XdpError> {
        let entry = self.places.entry(self.places.stream(job, sub_model, Contributor(0))?);
        let mut lanes = vec![0; entry.dim.into()];
        for position in positions.start..positions.end.min(entry.positions) {
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
        let mut sum = self.retired;
        (0..=NO_JOB).try_for_each(|index| self.kernel.tally(index).map(|tally| sum.add(&tally)))?;
        Ok(by_verdict(&sum))
    }

    /// As [`Self::counters`], of the packets that name one job, and their bytes.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn job_counters(&self, job: JobId) -> Result<(Vec<(Verdict, u64)>, u64), XdpError> {
        let tally = self.kernel.tally(self.places.job(job)?)?;
        Ok((by_verdict(&tally), tally.bytes))
    }

    /// Bytes of rows in the kernel, fixed at load.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
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
}

fn seat(stream: usize, worker: usize) -> u32 {
    (stream * MAX_CONTRIBUTORS + worker) as u32
}

fn by_verdict(tally: &Tally) -> Vec<(Verdict, u64)> {
    Verdict::ROWS.into_iter().map(|verdict| (verdict, tally.verdicts[verdict as usize])).collect()
}
