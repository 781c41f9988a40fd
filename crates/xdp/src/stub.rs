//! The interface of the engine where the BPF programs could not be built.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use wiresum_protocol::association::ValueKeys;
use wiresum_protocol::transmitter::{DataPlane, Sum, Survey};
use wiresum_protocol::{Plan, Quota, Verdict};
use wiresum_wire::{Contributor, FragmentId, JobId, JobKey, NodeId, SubModelId};

use crate::{Estate, Options, XdpError};

/// No maps, no layout.
pub const LAYOUT_VERSION: u32 = 0;

const REMEDY: XdpError = XdpError::NotBuilt(
    "this build has no XDP aggregator: build on Linux with clang (Debian: apt-get install clang-19 libelf-dev zlib1g-dev)",
);

/// Names and descriptors of maps, and links.
pub type Descriptors<'a> = (Vec<(String, BorrowedFd<'a>)>, Vec<BorrowedFd<'a>>);

/// The aggregator in the kernel; cannot exist in this build.
pub struct XdpAggregator(Infallible);

impl XdpAggregator {
    /// Whether [`Self::load`] may succeed here: built with the programs, and the process may load them.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check_support() -> Result<(), XdpError> {
        Err(REMEDY)
    }

    /// Loads the program for these plans, each as seen by one of its nodes, and allocates all memory they will ever need.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel or the plans lack.
    pub fn load(_plans: &[(Plan, NodeId)], _options: &Options) -> Result<Self, XdpError> {
        Err(REMEDY)
    }

    /// Goes on with what another process has begun.
    ///
    /// # Errors
    /// [`XdpError`] says why not.
    pub fn take_over(
        _plans: &[(Plan, NodeId)],
        _estate: Estate,
        _options: &Options,
    ) -> Result<Self, XdpError> {
        Err(REMEDY)
    }
}

absent! {
    XdpAggregator:
    ref descriptors() -> Descriptors<'_>;
    ref retired() -> Vec<u64>;
    ref reattach() -> Result<(), XdpError>;
    mut add_job(&Plan, NodeId) -> Result<(), XdpError>;
    mut remove_job(JobId) -> Result<(), XdpError>;
    mut set_quota(JobId, Option<Quota>) -> Result<(), XdpError>;
    mut attach(&str) -> Result<(), XdpError>;
    mut start_incarnation(JobId, JobKey) -> Result<(), XdpError>;
    mut renew(JobId, SubModelId, ValueKeys) -> Result<(), XdpError>;
    mut vacate(JobId, SubModelId, u64) -> Result<(), XdpError>;
    mut remember_vacancies(JobId, &BTreeMap<SubModelId, u64>) -> ();
    mut end_incarnation(JobId) -> Result<(), XdpError>;
    mut admit_child(JobId, SubModelId, Contributor, SocketAddr) -> Result<(), XdpError>;
    mut dismiss_child(JobId, SubModelId, Contributor) -> Result<(), XdpError>;
    mut set_parent(JobId, SubModelId, SocketAddr) -> Result<(), XdpError>;
    ref counters() -> Result<Vec<(Verdict, u64)>, XdpError>;
    ref job_counters(JobId) -> Result<(Vec<(Verdict, u64)>, u64), XdpError>;
    ref memory_for(&Plan, NodeId) -> usize;
    ref memory_bytes() -> usize;
    ref slots(JobId) -> Slots<'_>;
    ref check_descriptor() -> BorrowedFd<'_>;
}

/// The slots of one job; cannot exist in this build.
pub struct Slots<'a>(&'a Infallible);

impl DataPlane for Slots<'_> {
    fn next_check(&mut self) -> Option<(SubModelId, FragmentId)> {
        match *self.0 {}
    }

    fn arm(&mut self, _sub_model: SubModelId) {
        match *self.0 {}
    }

    fn survey(&mut self, _sub_model: SubModelId, _first: FragmentId) -> Survey {
        match *self.0 {}
    }

    fn sum(&mut self, _: SubModelId, _: FragmentId, _payload: &mut [u8]) -> Option<Sum> {
        match *self.0 {}
    }
}

/// Attaches a program that passes every packet; see the crate built with BPF.
///
/// # Errors
/// Always, in this build.
pub fn attach_pass_program(_interface: &str) -> Result<(), XdpError> {
    Err(REMEDY)
}
