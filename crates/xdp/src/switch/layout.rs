//! The structs of `bpf/switch/maps.h`, in Rust. A test compares their fields with those that the objects' BTF tells of.

use wiresum_protocol::association::{GENERATIONS, RENEWALS};
use wiresum_switch::{Cohort, Contributors, Place};
use wiresum_wire::{
    Flags, HEADER_LEN, JobId, NodeId, SWITCH_HEADER_LEN, SubModelId, VERDICT_RANGE,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::layout::{Endpoint, MAX_ENDPOINTS, stream_key};

/// Streams of one switch.
pub const MAX_PLACES: usize = 64;
/// Jobs of one switch.
pub const MAX_JOBS: usize = 16;

mirrored! {
    /// Constants of the program.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct SwitchConfig as "switch_config" {
        pub payload_len: u32,
        pub node: u16,
        pub reserved: u16,
    }
}

mirrored! {
    /// A stream that is summed here.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct PlaceEntry as "place" {
        pub members: u64,
        pub base: u32,
        pub slots: u32,
        pub window: u32,
        pub job: u16,
        pub sub_model: u16,
        pub parent: u16,
        pub is_root: u8,
        pub member_count: u8,
        pub number_sum: u16,
        pub lanes: u16,
    }
}

/// Where a place's key has the cohort.
const COHORT_SHIFT: u32 = 33;

/// Key of a place in use; that of a free one is 0.
pub fn place_key(place: &Place) -> u64 {
    stream_key(place.job, place.sub_model) | u64::from(place.cohort.0) << COHORT_SHIFT
}

impl From<&Place> for PlaceEntry {
    fn from(place: &Place) -> Self {
        Self {
            members: place.members.0,
            base: place.base,
            slots: place.slots,
            window: place.window,
            job: place.job.0,
            sub_model: place.sub_model.0,
            parent: place.parent.map_or(0, |node| node.0),
            is_root: place.parent.is_none().into(),
            member_count: place.members.count(),
            number_sum: place.members.iter().map(|worker| u16::from(worker) + 1).sum(),
            lanes: place.lanes.0,
        }
    }
}

impl PlaceEntry {
    /// The place, with the cohort that its key has.
    pub fn place(&self, key: u64) -> Place {
        Place {
            job: JobId(self.job),
            sub_model: SubModelId(self.sub_model),
            cohort: Cohort((key >> COHORT_SHIFT) as u8),
            members: Contributors(self.members),
            parent: (self.is_root == 0).then_some(NodeId(self.parent)),
            base: self.base,
            slots: self.slots,
            window: self.window,
            lanes: Flags(self.lanes),
        }
    }
}

mirrored! {
    /// A job, in the incarnation that runs, if one does.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Running as "running" {
        pub key: u64,
        pub job: u16,
        pub is_running: u8,
        /// Whether the index is a job's.
        pub is_admitted: u8,
        pub reserved: [u8; 4],
    }
}

mirrored! {
    /// What a stream's values carry.
    #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
    pub struct StreamKeys as "stream_keys" {
        pub stream: u64,
        pub keys: [[u64; GENERATIONS]; RENEWALS],
    }
}

mirrored! {
    /// The table of streams.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct TableEntry as "table" {
        pub place_count: u32,
        pub endpoint_count: u32,
        pub stream_count: u32,
        pub reserved: u32,
        /// By place: what is sent again goes past the slots.
        pub forgotten: u64,
        pub endpoints: [Endpoint; MAX_ENDPOINTS],
        pub jobs: [Running; MAX_JOBS],
        pub streams: [StreamKeys; MAX_PLACES],
        pub keys: [u64; MAX_PLACES],
        pub places: [PlaceEntry; MAX_PLACES],
    }
}

mirrored! {
    /// A slot's registers.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Slot as "slot" {
        pub lock: u32,
        pub lane_sum: u32,
        pub key: u64,
        pub contributors: u64,
        pub shadow_key: u64,
        pub scale: u64,
        pub job_key: u64,
        pub count: u32,
        pub shadow_lane_sum: u32,
        pub payload_len: u16,
        pub shadow_len: u16,
        pub congestion: u8,
        pub is_final: u8,
        pub bank: u8,
        pub reserved: u8,
    }
}

impl Slot {
    /// A register, by the name that the reference's layout gives its array.
    ///
    /// # Panics
    /// If no array has this name.
    pub fn register(&self, array: &str) -> u64 {
        match array {
            "key" => self.key,
            "contributors" => self.contributors,
            "congestion" => self.congestion.into(),
            "final" => self.is_final.into(),
            "round, exponent" => self.scale,
            "count" => self.count.into(),
            "shadow key" => self.shadow_key,
            _ => panic!("no policy in the kernel has an array {array}"),
        }
    }
}

/// Neighbours of one switch.
pub const MAX_NEIGHBOURS: usize = 64;
/// Streams that are forwarded.
pub const MAX_FORWARDED: usize = 256;
/// The broadcast group that no stream has.
pub const SPARE_GROUP: u32 = MAX_FORWARDED as u32;
/// In place of a worker: anyone of whom nothing else is known.
pub const ANY_WORKER: u16 = u16::MAX;

mirrored! {
    /// Key of the map `ups`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable)]
    pub struct WayKey as "way" {
        pub job: u16,
        pub sub_model: u16,
        pub node: u16,
        pub worker: u16,
    }
}

mirrored! {
    /// Key of the map `downs`.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct StreamName as "stream_name" {
        pub job: u16,
        pub sub_model: u16,
        pub cohort: u16,
        pub reserved: u16,
    }
}

mirrored! {
    /// The way down of a stream.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Down as "down" {
        pub group: u32,
        pub neighbour_count: u32,
        pub behind: [u64; MAX_NEIGHBOURS],
        pub neighbours: [u32; MAX_NEIGHBOURS],
        pub ifindices: [u32; MAX_NEIGHBOURS],
    }
}

mirrored! {
    /// The frame that tells the program `forget` which slots to free.
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct Forgetting as "forgetting" {
        /// 0: whatever they hold.
        pub number: u32,
        pub first: u32,
        pub end: u32,
        pub reserved: u32,
    }
}

mirrored! {
    /// What has become of packets, on one CPU.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Tally as "tally" {
        pub verdicts: [u64; VERDICT_RANGE],
        pub bytes: u64,
    }
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.verdicts.iter_mut().zip(other.verdicts).for_each(|(sum, count)| *sum += count);
        self.bytes += other.bytes;
    }
}

/// Index of what is counted of no job.
pub const NO_JOB: u32 = MAX_JOBS as u32;
/// Index of the budget of those who are not next to the switch.
pub const STRANGERS_BUDGET: u32 = MAX_JOBS as u32;

mirrored! {
    /// What the benchmark's program makes packets from.
    #[doc(hidden)]
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct Feed as "feed" {
        /// Worker of the packet before the first.
        pub worker: u32,
        pub workers: u32,
        pub position: u32,
        pub slot_mask: u32,
        pub header: [u8; HEADER_LEN + SWITCH_HEADER_LEN],
        pub reserved: [u8; 2],
    }
}
