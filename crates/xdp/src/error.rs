//! What can go wrong between the daemon and the kernel.

use std::net::SocketAddr;

use thiserror::Error;
use wiresum_switch::PlaceError;
use wiresum_wire::{Contributor, JobId, NodeId, PAGE_VALUES, SubModelId};

/// Why the kernel's aggregator could not do something.
#[derive(Debug, Error)]
pub enum XdpError {
    /// The crate was built without the BPF programs.
    #[error("{0}; until then use the engine `udp`")]
    NotBuilt(&'static str),
    /// The process may not load BPF programs.
    #[error(
        "the XDP aggregator needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: run as root, or \
         `setcap cap_bpf,cap_net_admin,cap_perfmon+ep` the daemon"
    )]
    NotPermitted,
    /// The kernel said no.
    #[error("{action}: {cause}")]
    Kernel {
        /// What was attempted, and on what.
        action: String,
        /// The kernel's words.
        cause: String,
    },
    /// Plans that one program cannot carry at once.
    #[error("{what}: {have}, at most {most}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        have: usize,
        /// How many there may be.
        most: usize,
    },
    /// Two plans with one job id, or a node that its plan does not know.
    #[error("plan of job {job}, node {node}: {problem}")]
    Plan {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// A frame has to lie in one page.
    #[error(
        "job {job} has packets of {values} values, and XDP and AF_XDP have room for {PAGE_VALUES}: plan it without `--jumbo`, \
         or use UDP"
    )]
    LongPackets {
        /// The job.
        job: JobId,
        /// Values of its packets.
        values: usize,
    },
    /// The slot memory that is left is too little.
    #[error(
        "job {job} needs {needed} bytes of slot memory at node {node}; {free} of {total} are free, {largest} of them in one \
         piece: plan it with fewer slots, remove another job, or start the daemon with more --memory"
    )]
    NoMemory {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that no job has.
        free: usize,
        /// Bytes of the largest range that no job has.
        largest: usize,
        /// Bytes in all.
        total: usize,
    },
    /// The memory for hot rows that is left is too little.
    #[error(
        "job {job} has {needed} positions of hot rows, and there is memory for {have} of all jobs: remove another job, or \
         start the daemon with more --memory"
    )]
    NoRows {
        /// The job.
        job: JobId,
        /// Positions that it needs.
        needed: u32,
        /// Positions that there are in all.
        have: u32,
    },
    /// The maps of another process are not this program's.
    #[error(
        "the running daemon's maps cannot be taken over ({0}): restart it instead, between two jobs"
    )]
    Layout(String),
    /// No plan has this job.
    #[error("no plan that this program was loaded with has job {0}")]
    UnknownJob(JobId),
    /// No plan places this child or parent here.
    #[error("job {job} has no contributor {contributor} to sub-model {sub_model} at this node")]
    UnknownPeer {
        /// The job.
        job: JobId,
        /// The sub-model.
        sub_model: SubModelId,
        /// The contributor; for a parent, this node's own index there.
        contributor: Contributor,
    },
    /// Nothing came from this address through an interface with the program.
    #[error(
        "no packet from {0} has passed the XDP program: is the program attached to the interface that it arrives on?"
    )]
    NotHeard(SocketAddr),
    /// A switch cannot sum this stream.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A slot's lock was held all the time.
    #[error("a slot of job {0} was not to be had while the job was removed: restart the switch")]
    SlotBusy(JobId),
    /// The tables of a switch lead to someone of whom it does not know how to reach them.
    #[error(
        "this switch has not been told how to reach {0}: give its address before the ways that lead there"
    )]
    UnknownNeighbour(String),
    /// Two neighbours behind one interface to whom a switch would have to send the same results.
    #[error(
        "the interface `{0}` leads to two neighbours that one stream's results go to: give each an interface of its own"
    )]
    SharedInterface(String),
    /// No such interface.
    #[error("there is no network interface `{0}` in this network namespace; `ip link` lists them")]
    NoInterface(String),
}
