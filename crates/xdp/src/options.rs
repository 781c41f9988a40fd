//! How the programs are loaded.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use wiresum_keys::Keyring;
use wiresum_protocol::Plan;
use wiresum_switch::policy::Policy;
use wiresum_wire::{JobId, NodeId, SubModelId};

use crate::XdpError;

/// Where in a device's receive path the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel allocates a socket buffer.
    #[default]
    Native,
    /// After it: slower, but any driver will do.
    Generic,
}

/// What an aggregator or switch in the kernel leaves to the process that takes over from its own.
#[derive(Debug, Default)]
pub struct Estate {
    /// The program's maps by name.
    pub maps: Vec<(String, OwnedFd)>,
    /// Its links to interfaces.
    pub links: Vec<OwnedFd>,
    /// Packets by verdict of jobs that are gone.
    pub retired: Vec<u64>,
}

/// Load-time choices; the defaults are right for most machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Take a lock for each entry while adding. May be switched off where the network card steers flows so that all
    /// contributions to a fragment arrive on one CPU.
    pub lock_entries: bool,
    /// Where the program runs.
    pub mode: AttachMode,
    /// Bytes of slot memory for jobs that come and go; absent: what the plans need that it is loaded with, and no more.
    pub memory: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { lock_entries: true, mode: AttachMode::default(), memory: None }
    }
}

/// What a switch has, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchOptions {
    /// Its number in plans and packets.
    pub node: NodeId,
    /// What it does with a fragment.
    pub policy: Policy,
    /// Fragments that its memory has room for.
    pub slots: u32,
    /// Values of the longest packet that it sums.
    pub values_per_packet: usize,
    /// Where packets for it arrive.
    pub address: SocketAddr,
    /// Take a lock for each slot; see [`Options::lock_entries`].
    pub lock_slots: bool,
}

/// A stream of hot rows that a switch sums, as its plan says.
#[derive(Clone, PartialEq, Eq)]
pub struct HotStream {
    /// The job.
    pub job: JobId,
    /// The stream's number among those of the job.
    pub sub_model: SubModelId,
    /// The switch's number.
    pub node: NodeId,
    /// Those of its workers' seats, at least.
    pub keys: Keyring,
    /// The job's workers, 64 at most.
    pub workers: u8,
    /// Those of them whose rows it sums, a bit for each rank.
    pub contributors: u64,
    /// Positions: rows that there is memory for.
    pub positions: u32,
    /// Values of a row, 256 at most.
    pub dim: u16,
    /// Whether values are float32, which are summed as 64-bit fixed point; else they are int32.
    pub is_float: bool,
}

/// Checks that packets of a plan lie in one page, as all that see frames need it.
///
/// # Errors
/// [`XdpError::LongPackets`].
pub fn require_a_page(plan: &Plan) -> Result<(), XdpError> {
    let values = plan.job.values_per_packet.into();
    let refusal = XdpError::LongPackets { job: plan.job_id(), values };
    if plan.packet_pages() > 1 { Err(refusal) } else { Ok(()) }
}
