//! The slots in the kernel, as a node's transmitter sees them.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{MapFlags, RingBuffer, RingBufferBuilder};
use wiresum_protocol::transmitter::{DataPlane, Sum, Survey};
use wiresum_wire::control::EntryState;
use wiresum_wire::{Flags, FragmentId, JobId, LaneType, SubModelId};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::XdpError;
use crate::engine::XdpAggregator;
use crate::kernel::{self, Kernel};
use crate::layout::{Check, Entry, SurveyFrame};

/// The reading end of the check queue.
pub struct CheckQueue {
    ring: RingBuffer<'static>,
    /// Taken out of the ring, for whichever job asks first.
    notes: Arc<Mutex<Vec<Check>>>,
}

impl CheckQueue {
    /// The slots of the loaded program.
    pub fn of(kernel: &Kernel) -> Result<Self, XdpError> {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&notes);
        let take = move |bytes: &[u8]| {
            if let Ok((check, _)) = Check::read_from_prefix(bytes) {
                taken.lock().unwrap_or_else(PoisonError::into_inner).push(check);
            }
            0
        };
        let failed = |error| kernel::refused("opening the check queue".to_owned(), &error);
        let map = kernel.map("checks");
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, take).map_err(failed)?;
        Ok(Self { ring: builder.build().map_err(failed)?, notes })
    }

    /// Readable while there are notes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's own, which lives as long as what is returned.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Adds a note, as the program would.
    pub fn note(&self, check: Check) {
        self.notes().push(check);
    }

    /// The notes so far.
    fn notes(&self) -> MutexGuard<'_, Vec<Check>> {
        // A failure leaves the notes where they are; the transmitter's alarms do without.
        let _ = self.ring.consume_raw();
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next note about one of the streams that `is_wanted` says.
    pub(crate) fn take(&self, is_wanted: impl Fn(u32) -> bool) -> Option<Check> {
        let mut notes = self.notes();
        let index = notes.iter().position(|check| is_wanted(check.stream))?;
        Some(notes.swap_remove(index))
    }

    /// Drops the notes about streams that are gone: nobody would take them, and a stream that comes in their place is another.
    pub(crate) fn forget(&self, streams: &[usize]) {
        self.notes().retain(|check| !streams.contains(&(check.stream as usize)));
    }
}

/// The slots of one job. What the kernel refuses to tell is as if it were not there: the transmitter asks again.
pub struct Slots<'a> {
    aggregator: &'a XdpAggregator,
    job: JobId,
}

impl XdpAggregator {
    /// The slots of a job, for its transmitter.
    #[must_use]
    pub fn slots(&self, job: JobId) -> Slots<'_> {
        Slots { aggregator: self, job }
    }

    /// Readable while the program has noted something for a transmitter.
    #[must_use]
    pub fn check_descriptor(&self) -> BorrowedFd<'_> {
        self.checks().descriptor()
    }
}

impl Slots<'_> {
    fn stream(&self, sub_model: SubModelId) -> Option<u32> {
        self.aggregator.streams().index(self.job, sub_model).map(|index| index as u32)
    }

    /// The sub-model of a stream, if it is this job's.
    fn sub_model(&self, stream: u32) -> Option<SubModelId> {
        let (job, sub_model) = self.aggregator.streams().owner(stream as usize)?;
        (job == self.job).then_some(sub_model)
    }

    fn run_survey(&self, stream: u32, first: FragmentId) -> Option<Survey> {
        let mut question = SurveyFrame::new_zeroed();
        (question.stream, question.first) = (stream, first.0);
        question.job_key = self.aggregator.running_key(self.job)?.0;
        let run = self.aggregator.kernel().test_run("survey", question.as_bytes(), 1).ok()?;
        let (answer, _) = SurveyFrame::read_from_prefix(&run.frame).ok()?;
        Some(Survey { forwarded: answer.forwarded, finals: answer.finals })
    }

    /// The entry of a position that waits for its result, if no CPU is at it.
    fn entry(&self, index: u32, position: FragmentId) -> Option<Entry> {
        let key = self.aggregator.running_key(self.job)?;
        let bytes = self.aggregator.kernel().read("entries", index, MapFlags::ANY).ok()??;
        let entry = Entry::read_from_bytes(&bytes).ok()?;
        let waits = entry.lock == 0
            && entry.state == EntryState::Forwarded as u8
            && entry.position == position.0
            && entry.job_key == key.0;
        waits.then_some(entry)
    }
}

impl DataPlane for Slots<'_> {
    fn next_check(&mut self) -> Option<(SubModelId, FragmentId)> {
        let check = self.aggregator.checks().take(|stream| self.sub_model(stream).is_some())?;
        Some((self.sub_model(check.stream)?, FragmentId(check.position)))
    }

    fn arm(&mut self, sub_model: SubModelId) {
        if let Some(stream) = self.stream(sub_model) {
            // If it fails, there is no note, and the alarms have to do.
            let _ = self.aggregator.kernel().put("armed", &stream, &1u32);
        }
    }

    fn survey(&mut self, sub_model: SubModelId, first: FragmentId) -> Survey {
        let stream = self.stream(sub_model);
        stream.and_then(|stream| self.run_survey(stream, first)).unwrap_or(Survey::EMPTY)
    }

    fn sum(
        &mut self,
        sub_model: SubModelId,
        position: FragmentId,
        payload: &mut [u8],
    ) -> Option<Sum> {
        let stream = self.aggregator.streams().stream(self.stream(sub_model)? as usize);
        let index = stream.first_entry + (position.0 & stream.entry_mask);
        let entry = self.entry(index, position)?;
        let format = Flags(entry.format);
        let payload_len = usize::from(entry.value_count) * LaneType::of(format).width();
        let values = self.aggregator.kernel().read("values", index, MapFlags::ANY).ok()??;
        payload.get_mut(..payload_len)?.copy_from_slice(values.get(..payload_len)?);
        // Whatever changes values, or an entry, leaves another state behind: what is as it was, was not changed meanwhile.
        self.entry(index, position).filter(|again| *again == entry)?;
        let lane_mask = if format.contains(Flags::LANES16) { 0xffff } else { u32::MAX };
        let (round, exponent, lane_sum) = (entry.round, entry.exponent, entry.lane_sum & lane_mask);
        Some(Sum { round, exponent, format, payload_len, lane_sum })
    }
}
