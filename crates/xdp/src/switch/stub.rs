//! The interface of a switch where the BPF programs could not be built.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use wiresum_protocol::Quota;
use wiresum_protocol::association::ValueKeys;
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
}

absent! {
    SwitchProgram:
    mut install(&Place) -> Result<(), XdpError>;
    mut remove(JobId) -> Result<(), XdpError>;
    mut bypass(JobId) -> Result<(), XdpError>;
    mut run(JobId, JobKey) -> Result<(), XdpError>;
    mut renew(JobId, SubModelId, ValueKeys) -> Result<(), XdpError>;
    mut stop(JobId) -> Result<(), XdpError>;
    mut expect(SocketAddr) -> Result<(), XdpError>;
    mut unexpect(Neighbour, SocketAddr) -> Result<(), XdpError>;
    mut meet(Neighbour, SocketAddr) -> Result<bool, XdpError>;
    mut forward(&Forwarding) -> Result<(), XdpError>;
    mut attach(&str, AttachMode) -> Result<(), XdpError>;
    mut admit(JobId) -> Result<usize, XdpError>;
    mut release(JobId) -> Result<(), XdpError>;
    mut set_quota(JobId, Option<Quota>) -> Result<(), XdpError>;
    ref job_counters(JobId) -> Result<(Vec<(&'static str, u64)>, u64), XdpError>;
    ref counters() -> Result<Vec<(&'static str, u64)>, XdpError>;
    ref descriptors() -> Descriptors<'_>;
    ref retired() -> Vec<u64>;
    mut replace(SwitchOptions) -> Result<(), XdpError>;
    ref reaches(Neighbour) -> bool;
    ref reattach() -> Result<(), XdpError>;
    ref memory_bytes() -> usize;
}
