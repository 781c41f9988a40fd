//! The interface of a switch where the BPF programs could not be built.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use wiresum_protocol::Quota;
use wiresum_switch::{Forwarding, Neighbour, Place};
use wiresum_wire::{JobId, JobKey};

use crate::engine::Descriptors;
use crate::{AttachMode, Estate, SwitchOptions, XdpAggregator, XdpError};

/// A switch in the kernel; cannot exist in this build.
pub struct SwitchProgram(Infallible);

impl SwitchProgram {
    /// Loads the policy's program, and allocates its slots.
    ///
    /// # Errors
    /// What the build lacks.
    pub fn load(_options: SwitchOptions) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }

    /// Sums a stream from now on.
    ///
    /// # Errors
    /// [`XdpError`] says why it cannot.
    pub fn install(&mut self, _place: &Place) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Forgets a job, and frees the slots that it holds.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// What is sent again of a job goes past its slots.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn bypass(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Takes packets of a job in this incarnation.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn run(&mut self, _job: JobId, _key: JobKey) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Takes no packets of a job any more.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn stop(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Takes packets that come from this address.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn expect(&mut self, _address: SocketAddr) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Takes no packets from this address any more.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn unexpect(
        &mut self,
        _neighbour: Neighbour,
        _address: SocketAddr,
    ) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Learns how a neighbour is reached.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn meet(&mut self, _neighbour: Neighbour, _address: SocketAddr) -> Result<bool, XdpError> {
        match self.0 {}
    }

    /// Forwards by these tables from now on.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn forward(&mut self, _forwarding: &Forwarding) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Runs the program on a network interface.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(&mut self, _interface: &str, _mode: AttachMode) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Gives a job an index of its own.
    ///
    /// # Errors
    /// [`XdpError::TooMany`].
    pub fn admit(&mut self, _job: JobId) -> Result<usize, XdpError> {
        match self.0 {}
    }

    /// Takes a job's index back.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn release(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Bounds what a job's workers contribute.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_quota(&mut self, _job: JobId, _quota: Option<Quota>) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Packets of a job by fate, and their bytes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn job_counters(&self, _job: JobId) -> Result<(Vec<(&'static str, u64)>, u64), XdpError> {
        match self.0 {}
    }

    /// Packets by the names of their fates.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, XdpError> {
        match self.0 {}
    }

    /// What a successor needs.
    #[must_use]
    pub fn descriptors(&self) -> Descriptors<'_> {
        match self.0 {}
    }

    /// Packets by verdict of jobs that are gone.
    #[must_use]
    pub fn retired(&self) -> Vec<u64> {
        match self.0 {}
    }

    /// Goes on with what another process has begun.
    ///
    /// # Errors
    /// What the build lacks.
    pub fn take_over(
        _options: SwitchOptions,
        _estate: Estate,
        _neighbours: &BTreeMap<SocketAddr, Neighbour>,
    ) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }

    /// Another policy or memory on the same links.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn replace(&mut self, _options: SwitchOptions) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Whether packets are sent to a neighbour.
    #[must_use]
    pub fn reaches(&self, _neighbour: Neighbour) -> bool {
        match self.0 {}
    }

    /// Puts this process's programs on every link.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn reattach(&self) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Bytes of slot memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self.0 {}
    }
}
