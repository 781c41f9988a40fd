//! The interface of a switch for pairs where the BPF programs could not be built.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use wiresum_keys::Keyring;
use wiresum_protocol::Quota;
use wiresum_protocol::association::ValueKeys;
use wiresum_switch::keyed::Arrangement;
use wiresum_wire::{JobId, JobKey, NodeId, Verdict};

use crate::{AttachMode, XdpAggregator, XdpError};

/// Where a switch for pairs listens, and as whom.
pub struct KeyedOptions {
    /// Its address.
    pub address: SocketAddr,
    /// Its number.
    pub node: NodeId,
    /// Those of its workers' seats, at least.
    pub keys: Keyring,
    /// Whether a table is locked while a packet is added.
    pub lock_tables: bool,
}

/// A switch for pairs in the kernel; cannot exist in this build.
pub struct KeyedProgram(Infallible);

impl KeyedProgram {
    /// Loads the program.
    ///
    /// # Errors
    /// What the build lacks.
    pub fn load(_options: &KeyedOptions, _arrangement: Arrangement) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }
}

absent! {
    KeyedProgram:
    mut attach(&str, AttachMode) -> Result<(), XdpError>;
    mut run(JobId, JobKey) -> Result<(), XdpError>;
    mut renew(JobId, u8, ValueKeys) -> Result<(), XdpError>;
    mut stop(JobId) -> Result<(), XdpError>;
    mut set_quota(JobId, Option<Quota>) -> Result<(), XdpError>;
    mut admit(usize, u8, SocketAddr) -> Result<(), XdpError>;
    mut open(usize, u32, u32) -> Result<(), XdpError>;
    ref note_descriptor() -> BorrowedFd<'_>;
    ref next_completion() -> Option<(usize, u32)>;
    ref sums(usize) -> Result<BTreeMap<u64, i32>, XdpError>;
    ref counters() -> Result<Vec<(Verdict, u64)>, XdpError>;
}
