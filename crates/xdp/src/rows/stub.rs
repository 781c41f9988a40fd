//! The interface of a switch for hot rows where the BPF programs could not be built.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use wiresum_protocol::Quota;
use wiresum_protocol::association::ValueKeys;
use wiresum_wire::{Contributor, JobId, JobKey, SubModelId, Verdict};

use crate::{AttachMode, HotStream, XdpAggregator, XdpError};

#[path = "answers.rs"]
mod answers;
#[path = "room.rs"]
mod room;

pub use answers::{Announced, Progress};
pub use room::RowRoom;

/// A switch for hot rows in the kernel; cannot exist in this build.
pub struct RowsProgram(Infallible);

impl RowsProgram {
    /// Loads the program.
    ///
    /// # Errors
    /// What the build lacks.
    pub fn load(
        _address: SocketAddr,
        _room: RowRoom,
        _lock_streams: bool,
    ) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }

    /// Shows the sums of the open round.
    ///
    /// # Errors
    /// None, as there is no such switch.
    pub fn visit_sums(
        &self,
        _job: JobId,
        _sub_model: SubModelId,
        _positions: Range<u32>,
        _visit: impl FnMut(u32, u64, &[i64]),
    ) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Says which positions have a row.
    ///
    /// # Errors
    /// None, as there is no such switch.
    pub fn set_in_map(
        &mut self,
        _job: JobId,
        _sub_model: SubModelId,
        _positions: impl IntoIterator<Item = (u32, bool)>,
    ) -> Result<(), XdpError> {
        match self.0 {}
    }
}

absent! {
    RowsProgram:
    mut add(&HotStream) -> Result<(), XdpError>;
    mut remove(JobId) -> Result<(), XdpError>;
    mut attach(&str, AttachMode) -> Result<(), XdpError>;
    mut run(JobId, JobKey) -> Result<(), XdpError>;
    mut renew(JobId, u8, ValueKeys) -> Result<(), XdpError>;
    mut stop(JobId) -> Result<(), XdpError>;
    mut set_quota(JobId, Option<Quota>) -> Result<(), XdpError>;
    mut admit(JobId, SubModelId, Contributor, SocketAddr) -> Result<(), XdpError>;
    mut open(JobId, SubModelId, u32, u32) -> Result<(), XdpError>;
    mut announce(JobId, SubModelId, Contributor, u32, u32, u32) -> Result<Announced, XdpError>;
    ref note_descriptor() -> BorrowedFd<'_>;
    ref next_note() -> Option<(JobId, SubModelId)>;
    ref progress(JobId, SubModelId) -> Result<Progress, XdpError>;
    ref set_left(JobId, SubModelId, u32) -> Result<(), XdpError>;
    ref counters() -> Result<Vec<(Verdict, u64)>, XdpError>;
    ref job_counters(JobId) -> Result<(Vec<(Verdict, u64)>, u64), XdpError>;
    ref memory_bytes() -> usize;
}
