//! How far the open rounds of streams have come, where the program notes it.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use wiresum_wire::MAX_CONTRIBUTORS;

use super::answers::Progress;
use super::layout::{Reception, StreamEntry};
use crate::XdpError;
use crate::kernel::Kernel;
use crate::layout::MAX_STREAMS;
use crate::memory::Memory;

/// Rounds of all streams, in memory that is shared with the program.
pub struct Rounds {
    streams: Memory,
    receptions: Memory,
}

impl Rounds {
    /// Those of a loaded program.
    pub fn of(kernel: &Kernel) -> Result<Self, XdpError> {
        let receptions = MAX_STREAMS * MAX_CONTRIBUTORS * size_of::<Reception>();
        Ok(Self {
            streams: shared(kernel, "hot_streams", MAX_STREAMS * size_of::<StreamEntry>())?,
            receptions: shared(kernel, "receptions", receptions)?,
        })
    }

    /// The station looks at a stream now: whatever comes from here on is worth a note.
    pub fn take_note(&self, stream: usize) {
        self.stream(stream, offset_of!(StreamEntry, is_noted)).store(0, Ordering::Relaxed);
        // The program writes what has come and then reads this word; here it is the other way round.
        fence(Ordering::SeqCst);
    }

    /// The sums before this position have left: rows with gradients for them are wrong.
    pub fn set_left(&self, stream: usize, left: u32) {
        self.stream(stream, offset_of!(StreamEntry, left)).store(left, Ordering::Relaxed);
    }

    /// What has come of the round with this generation.
    pub fn progress(&self, stream: usize, generation: u32) -> Progress {
        let unfinished = self.unfinished(stream);
        let waited_for = (0..MAX_CONTRIBUTORS).filter(|worker| unfinished >> worker & 1 == 1);
        let reached = |worker: usize| {
            let of = |offset| self.reception(stream * MAX_CONTRIBUTORS + worker, offset);
            let is_of_round = of(offset_of!(Reception, generation)) == generation;
            if is_of_round { of(offset_of!(Reception, reached)) } else { 0 }
        };
        let reached = waited_for.map(reached).min().unwrap_or(u32::MAX);
        Progress { reached, is_complete: unfinished == 0 }
    }

    fn unfinished(&self, stream: usize) -> u64 {
        let at = stream * size_of::<StreamEntry>() + offset_of!(StreamEntry, unfinished);
        // SAFETY: the place is aligned and within the mapping, which lives as long as `self`.
        unsafe { self.streams.place::<AtomicU64>(at).as_ref() }.load(Ordering::Acquire)
    }

    fn stream(&self, stream: usize, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe {
            self.streams.place::<AtomicU32>(stream * size_of::<StreamEntry>() + offset).as_ref()
        }
    }

    fn reception(&self, place: usize, offset: usize) -> u32 {
        let at = place * size_of::<Reception>() + offset;
        // SAFETY: as above.
        unsafe { self.receptions.place::<AtomicU32>(at).as_ref() }.load(Ordering::Acquire)
    }
}

/// An array map that is shared with the program.
pub fn shared(kernel: &Kernel, name: &'static str, len: usize) -> Result<Memory, XdpError> {
    let map = kernel.map(name);
    // SAFETY: the descriptor is the map's own, which is open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(map.as_fd().as_raw_fd()) };
    Memory::of_map(descriptor, len).map_err(|cause| XdpError::Kernel {
        action: format!("mapping the memory of `{name}`"),
        cause: cause.to_string(),
    })
}
