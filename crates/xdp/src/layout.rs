//! The structs of `bpf/maps.h` and `bpf/survey.h`, in Rust. A test compares their fields with those that the objects' BTF
//! tells of; [`super::kernel`] compares sizes with the maps' when it loads the program.

use std::net::{IpAddr, SocketAddr};

use wiresum_keys::{HASH_WORDS, SeatKey};
use wiresum_protocol::Quota;
use wiresum_protocol::association::{GENERATIONS, RENEWALS};
use wiresum_wire::{JobId, SubModelId, VERDICT_RANGE};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Changes with the meaning of anything in a map: two programs share maps only if they agree on it. Sizes are compared besides.
pub const LAYOUT_VERSION: u32 = 9;
/// Jobs of one program.
pub const MAX_JOBS: usize = 16;
/// Sub-models of all jobs at their nodes.
pub const MAX_STREAMS: usize = 64;
/// Addresses on which the nodes of these jobs listen.
pub const MAX_ENDPOINTS: usize = 4;
/// Bytes of Ethernet, IPv4 and UDP headers.
pub const V4_FRAME_LEN: usize = 42;
/// Bytes of Ethernet, IPv6 and UDP headers.
pub const V6_FRAME_LEN: usize = 62;

mirrored! {
    /// One side of a UDP flow; IPv4 addresses are mapped into IPv6.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    pub struct Endpoint as "endpoint" {
        pub address: [u8; 16],
        pub port: [u8; 2],
        pub any_address: u16,
        pub reserved: u32,
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(socket: SocketAddr) -> Self {
        let address = match socket.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Self {
            address: address.octets(),
            port: socket.port().to_be_bytes(),
            any_address: u16::from(socket.ip().is_unspecified()),
            reserved: 0,
        }
    }
}

mirrored! {
    /// A sub-model at this node, as the plan says.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct Stream as "stream" {
        pub expected: u64,
        pub parent_key: [u64; 2],
        pub value_keys: [[u64; GENERATIONS]; RENEWALS],
        pub node: u16,
        pub parent_node: u16,
        pub first_entry: u32,
        pub entry_mask: u32,
        pub max_payload: u16,
        pub job_index: u8,
        pub child_count: u8,
        pub is_root: u8,
        pub own_index: u8,
        pub parent_children: u8,
        pub seat_count: u8,
        pub check_shift: u8,
        pub is_proven: u8,
        pub round_shift: u8,
        pub reserved: u8,
    }
}

mirrored! {
    /// The key of a seat.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct SeatKeyEntry as "seat_key" {
        pub half: [u64; 2],
    }
}

impl From<SeatKey> for SeatKeyEntry {
    /// As SipHash reads it: two little-endian numbers.
    fn from(key: SeatKey) -> Self {
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| key.bytes()[8 * at + i]));
        Self { half: [half(0), half(1)] }
    }
}

mirrored! {
    /// What the values of a job are hashed by.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct ValueHashEntry as "value_hash" {
        pub words: [u32; HASH_WORDS],
    }
}

/// Key of a stream in use; that of a free one is 0.
pub fn stream_key(job: JobId, sub_model: SubModelId) -> u64 {
    1 << 32 | u64::from(job.0) << 16 | u64::from(sub_model.0)
}

mirrored! {
    /// Constants of the program.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct Config as "config" {
        pub max_payload: u32,
        pub lock_entries: u32,
    }
}

mirrored! {
    /// The streams of the jobs that are served now.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Directory as "directory" {
        pub stream_count: u32,
        pub endpoint_count: u32,
        pub endpoints: [Endpoint; MAX_ENDPOINTS],
        pub keys: [u64; MAX_STREAMS],
        pub streams: [Stream; MAX_STREAMS],
    }
}

mirrored! {
    /// A bound on bytes per second, of which nothing is used.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct Budget as "budget" {
        pub byte_cost: u64,
        pub burst: u64,
        pub due: u64,
    }
}

impl From<Quota> for Budget {
    fn from(quota: Quota) -> Self {
        Self { byte_cost: quota.byte_cost, burst: quota.burst, due: 0 }
    }
}

/// Index of the budget for the values of the job with this index.
pub fn values_budget(job: usize) -> u32 {
    job as u32
}

/// Index of the budget for the job's control packets.
pub fn control_budget(job: usize) -> u32 {
    (MAX_JOBS + job) as u32
}

/// Index of the budget for the control packets of those who have no job's key.
pub const STRANGERS_BUDGET: u32 = 2 * MAX_JOBS as u32;

/// Index of the counters of what names no job.
pub const NO_JOB: usize = MAX_JOBS;

mirrored! {
    /// What has become of a job's packets.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Tally as "tally" {
        pub verdicts: [u64; VERDICT_RANGE],
        pub bytes: u64,
    }
}

mirrored! {
    /// The running incarnation of a job.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct Job as "job" {
        pub key: u64,
        pub running: u64,
    }
}

mirrored! {
    /// A child or a parent: where packets come from, and what goes before a packet to it.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Peer as "peer" {
        pub source: Endpoint,
        pub job_key: u64,
        pub child: u64,
        pub team: u64,
        pub rivals: u64,
        pub ifindex: u32,
        pub frame_len: u16,
        pub address_sum: u16,
        pub frame: [u8; V6_FRAME_LEN],
        pub padding: [u8; 2],
    }
}

mirrored! {
    /// How a peer was heard.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    pub struct Hearing as "hearing" {
        pub local: Endpoint,
        pub ifindex: u32,
        pub peer_mac: [u8; 6],
        pub local_mac: [u8; 6],
    }
}

impl Tally {
    /// Counts what another one has counted.
    pub fn add(&mut self, other: &Self) {
        self.verdicts.iter_mut().zip(other.verdicts).for_each(|(sum, count)| *sum += count);
        self.bytes += other.bytes;
    }
}

mirrored! {
    /// Key of the map `ports`.
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct Port as "port" {
        pub stream: u32,
        pub ifindex: u32,
    }
}

/// An entry of a devmap.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct DevmapValue {
    pub ifindex: u32,
    pub program: i32,
}

mirrored! {
    /// A slot's entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    pub struct Entry as "entry" {
        pub lock: u32,
        pub position: u32,
        pub job_key: u64,
        pub contributors: u64,
        pub round: u32,
        pub lane_sum: u32,
        pub value_count: u16,
        pub format: u16,
        pub exponent: i8,
        pub state: u8,
        pub exchange: u8,
        pub reserved: [u8; 25],
    }
}

mirrored! {
    /// What the benchmark's program makes packets from.
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct Feed as "feed" {
        pub contributor: u32,
        pub first_child: u32,
        pub end_child: u32,
        pub position: u32,
        pub batch: u32,
        pub skip: u32,
        pub first_port: u16,
        pub frame: [u8; V4_FRAME_LEN],
        pub header: [u8; wiresum_wire::HEADER_LEN],
        pub padding: [u8; 2],
    }
}

mirrored! {
    /// A note on the check queue.
    #[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
    pub struct Check as "check" {
        pub stream: u32,
        pub position: u32,
    }
}

mirrored! {
    /// The frame that the program `survey` fills.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
    pub struct SurveyFrame as "survey_frame" {
        pub job_key: u64,
        pub stream: u32,
        pub first: u32,
        pub forwarded: [u32; wiresum_wire::BITMAP_WORDS],
        pub finals: [u32; wiresum_wire::BITMAP_WORDS],
    }
}
