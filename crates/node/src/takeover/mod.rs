//! Taking over from a running daemon, without a lost packet: the successor gets its sockets, the kernel's maps and
//! links, and what its aggregators know.
//!
//! ```text
//! successor ── request `take_over`, with its versions ──▶ running daemon, which stops reading its socket
//!           ◀── descriptors, [`Head`], slots ──
//!              (loads its program over the same maps, puts it on the same links)
//!           ── "ready" ──▶
//!           ◀── "yours" ──      and ends
//! ```
//!
//! Until the running daemon has said `yours`, any failure of the successor, its death included, leaves everything as it
//! was: the running daemon goes on, and what came meanwhile waits in the socket's buffer. ADR 0021 says why it is done
//! so.

mod client;
mod descriptors;
mod offer;
mod upgrade;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wiresum_protocol::Plan;
use wiresum_protocol::aggregator::SNAPSHOT_VERSION;
use wiresum_xdp::LAYOUT_VERSION;

use crate::service::JobQuota;

pub use client::{Inheritance, TakeoverError, take_over};
pub use offer::{Failed, Successor};
pub use upgrade::Upgrade;

/// How long a successor may take from the offer to `ready`: the verifier takes a second or two on a busy machine.
/// Packets wait so long at most, and workers much longer (their deadline is a minute).
const SUCCESSOR_PATIENCE: Duration = Duration::from_secs(10);
/// What the successor says once it has everything.
const READY: &[u8] = b"ready\n";
/// The answer: from here on the node is the successor's.
const YOURS: &[u8] = b"yours\n";
/// Largest [`Head`] that is read: 16 jobs whose plans are 4 MiB each, and their states.
const MAX_HEAD_BYTES: u64 = 128 << 20;

/// Changes with [`Head`], and with what planes write into [`Remains`].
const HEAD_VERSION: u32 = 6;

/// What two daemons have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of a node's state, that of its aggregators included.
    pub state: u32,
    /// Version of the structs in the kernel's maps.
    pub layout: u32,
}

impl Versions {
    /// The versions that this daemon speaks.
    pub const OURS: Self =
        Self { state: HEAD_VERSION << 16 | SNAPSHOT_VERSION, layout: LAYOUT_VERSION };
}

/// What a plane leaves to the process that takes over.
pub struct Legacy<'a> {
    /// Where packets come, by thread.
    pub sockets: Vec<BorrowedFd<'a>>,
    /// What is in the kernel, if the program sums.
    pub kernel: Option<KernelLegacy<'a>>,
    /// The plans that it serves.
    pub plans: Vec<Plan>,
    /// What it knows.
    pub remains: Remains,
}

/// What is in the kernel.
pub struct KernelLegacy<'a> {
    /// Maps by name.
    pub maps: Vec<(String, BorrowedFd<'a>)>,
    /// Links to interfaces.
    pub links: Vec<BorrowedFd<'a>>,
    /// What jobs counted there that are gone.
    pub retired: Vec<u64>,
}

/// What a plane knows, as data that only the same kind of plane understands.
#[derive(Debug)]
pub struct Remains {
    /// What is small.
    pub facts: Value,
    /// Slots.
    pub memory: Vec<u8>,
}

impl Remains {
    /// # Panics
    /// If `facts` are no JSON: maps whose keys are structs, for example.
    #[must_use]
    pub fn new(facts: &impl Serialize, memory: Vec<u8>) -> Self {
        Self { facts: serde_json::to_value(facts).expect("plain data"), memory }
    }
}

/// All that is handed over, except descriptors and slots.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    node: u16,
    /// Descriptors where packets come, the first of all.
    sockets: usize,
    jobs: Vec<Job>,
    facts: Value,
    /// Whether the descriptors of the metrics' listener, and of the kernel's maps and links, come after those of the
    /// sockets.
    has_metrics: bool,
    kernel: Option<KernelState>,
}

/// A job that is served.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    plan: Plan,
    quota: JobQuota,
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
