//! The interface of the engine where the BPF programs could not be built.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

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

    /// Names and descriptors of maps, and links, for a successor.
    #[must_use]
    pub fn descriptors(&self) -> Descriptors<'_> {
        match self.0 {}
    }

    /// Packets by verdict of jobs that are gone.
    #[must_use]
    pub fn retired(&self) -> Vec<u64> {
        match self.0 {}
    }

    /// Takes everything back that a successor which has failed may have changed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn reattach(&self) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Serves one more job, while the program runs.
    ///
    /// # Errors
    /// [`XdpError`] says what the pool or the plan lacks.
    pub fn add_job(&mut self, _plan: &Plan, _node: NodeId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Serves a job no more.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn remove_job(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Bounds what the children of a job may send in values and probes; `None` for no bound.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn set_quota(&mut self, _job: JobId, _quota: Option<Quota>) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, _interface: &str) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Begins an incarnation of a job: what the slots hold of older ones counts as empty, and its children and parents are
    /// to be admitted anew.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`].
    pub fn start_incarnation(&mut self, _job: JobId, _key: JobKey) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Ends the job's incarnation: every further packet of it is foreign.
    ///
    /// # Errors
    /// As [`Self::start_incarnation`].
    pub fn end_incarnation(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Admits the child or substitute that said hello from `address` as a contributor to a sub-model, or moves it there.
    ///
    /// # Errors
    /// [`XdpError::NotHeard`] if its hello did not come through the program; [`XdpError::UnknownPeer`].
    pub fn admit_child(
        &mut self,
        _job: JobId,
        _sub_model: SubModelId,
        _contributor: Contributor,
        _address: SocketAddr,
    ) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Takes back [`Self::admit_child`]: what the child sends from now on is dropped, and it gets no results. Harmless when
    /// repeated.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`], or the kernel's refusal.
    pub fn dismiss_child(
        &mut self,
        _job: JobId,
        _sub_model: SubModelId,
        _contributor: Contributor,
    ) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Sets the parent, whose welcome came from `address`.
    ///
    /// # Errors
    /// As [`Self::admit_child`].
    pub fn set_parent(
        &mut self,
        _job: JobId,
        _sub_model: SubModelId,
        _address: SocketAddr,
    ) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Packets by verdict, summed over CPUs; [`Verdict::Control`] are those passed up to the daemon's socket.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Vec<(Verdict, u64)>, XdpError> {
        match self.0 {}
    }

    /// As [`Self::counters`], of the packets that name one job, and their bytes.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn job_counters(&self, _job: JobId) -> Result<(Vec<(Verdict, u64)>, u64), XdpError> {
        match self.0 {}
    }

    /// Bytes of slot memory that a job takes here.
    #[must_use]
    pub fn memory_for(&self, _plan: &Plan, _node: NodeId) -> usize {
        match self.0 {}
    }

    /// Bytes of slot memory in the kernel, fixed at load.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self.0 {}
    }

    /// The slots of a job, for its transmitter.
    #[must_use]
    pub fn slots(&self, _job: JobId) -> Slots<'_> {
        match self.0 {}
    }

    /// Readable while the program has noted something for a transmitter.
    #[must_use]
    pub fn check_descriptor(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
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
