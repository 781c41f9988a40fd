//! Taking over from a running daemon, without a lost packet: the successor gets its sockets, the kernel's maps and links, and what
//! its aggregators know.
//!
//! ```text
//! successor ── request `take_over`, with its versions ──▶ running daemon, which stops reading its socket
//!           ◀── descriptors, [`Head`], slots ──
//!              (loads its program over the same maps, puts it on the same links)
//!           ── "ready" ──▶
//!           ◀── "yours" ──      and ends
//! ```
//!
//! Until the running daemon has said `yours`, any failure of the successor, its death included, leaves everything as it was: the
//! running daemon goes on, and what came meanwhile waits in the socket's buffer. ADR 0021 says why it is done so.

mod client;
mod descriptors;
mod offer;
mod upgrade;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wiresum_protocol::Plan;
use wiresum_protocol::aggregator::{SNAPSHOT_VERSION, Snapshot};
use wiresum_xdp::LAYOUT_VERSION;

use crate::service::JobQuota;

pub use client::{Inheritance, TakeoverError, take_over};
pub use offer::{Failed, Successor};
pub use upgrade::Upgrade;

/// How long a successor may take from the offer to `ready`: the verifier takes a second or two on a busy machine. Packets wait so
/// long at most, and workers much longer (their deadline is a minute).
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(10);
/// What the successor says once it has everything.
const READY: &[u8] = b"ready\n";
/// The answer: from here on the node is the successor's.
const YOURS: &[u8] = b"yours\n";
/// Largest [`Head`] that is read: 16 jobs whose plans are 4 MiB each, and their states.
const MAX_HEAD_BYTES: u64 = 128 << 20;

/// What two daemons have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Of the aggregators' state.
    pub state: u32,
    /// Of the structs in the kernel's maps.
    pub layout: u32,
}

impl Versions {
    /// Of this daemon.
    pub const OURS: Self = Self { state: SNAPSHOT_VERSION, layout: LAYOUT_VERSION };
}

/// All that is handed over, except descriptors and slots.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    node: u16,
    engine: String,
    jobs: Vec<JobState>,
    /// Packets by verdict of jobs that are gone.
    retired: Vec<u64>,
    /// Whether the descriptors of the metrics' listener, and of the kernel's maps and links, come after those of the sockets.
    has_metrics: bool,
    kernel: Option<KernelState>,
}

/// A job that is served.
#[derive(Debug, Serialize, Deserialize)]
pub struct JobState {
    /// Its plan.
    pub plan: Plan,
    /// Its bounds.
    pub quota: JobQuota,
    /// Bytes of slot memory that it has.
    pub memory_bytes: u64,
    /// Bytes of the packets that named it.
    pub bytes: u64,
    /// What its aggregator knows.
    pub snapshot: Snapshot,
}

/// What belongs to the XDP program.
#[derive(Debug, Serialize, Deserialize)]
struct KernelState {
    /// Names of the maps, in the order of their descriptors.
    maps: Vec<String>,
    /// Descriptors of links, after those of the maps.
    links: usize,
    /// What jobs counted there that are gone.
    retired: Vec<u64>,
}
