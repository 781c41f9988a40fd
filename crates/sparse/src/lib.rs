//! Sparse models: embedding tables whose rows are summed on their way, exactly.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`layout`] | which register of a switch holds which hot row, and which pairs share a packet |
//! | [`keyed`] | Zebra's workers, station and server beside its switch program |
//! | [`hot`] | the map of hot rows, and the set of them while training |
//! | [`sum`] | exact sums of float32 gradients, the same bits in whatever order |
//! | [`optimizer`] | what a round's gradient does to a row |
//! | [`message`] | what workers, switches and servers tell each other |
//! | [`packet`] | the same as datagrams, there and back |
//! | [`server`] | a server of tables: rounds of pushes, a step for each row and round, rows for those who pull |
//! | [`summer`] | a switch in user space that sums hot rows by position |
//! | [`worker`] | a worker: gradients sorted into tiers, replicas of hot rows, weights from servers |
//! | [`live`] | the machines as participants of a job: datagrams in, datagrams out |
//! | [`coordinator`] | what servers have counted, and what is decided about the map, told to all servers |
//! | [`popularity`] | which rows are popular now: counts that decay, and a choice with hysteresis |
//! | [`tracking`] | how the hot set follows popularity: decaying counts, and the paper's two methods |
//! | [`table`] | a table's rows at one server |
//!
//! Everything here is sans-IO: what comes and what time it is are arguments, what is to be sent is returned.
//! `spec/sparse.md` has the formats and the state tables.

#![forbid(unsafe_code)]

pub mod coordinator;
mod flow;
pub mod hot;
pub mod keyed;
pub mod layout;
pub mod live;
pub mod message;
pub mod optimizer;
pub mod packet;
pub mod popularity;
mod reception;
mod sending;
pub mod server;
pub mod sum;
pub mod summer;
pub mod table;
pub mod tracking;
pub mod worker;

/// A number with nothing left of the pattern of `x`: the first one of SplitMix64 with this seed.
#[must_use]
#[inline]
pub(crate) fn mix(x: u64) -> u64 {
    wiresum_netem::Rng::new(x).next()
}

/// FNV-1a, 64 bits: not a defence, only a fingerprint.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    fingerprint_from(FINGERPRINT_OF_NOTHING, bytes)
}

/// The fingerprint of more bytes after those that have this one.
pub(crate) fn fingerprint_from(before: u64, bytes: &[u8]) -> u64 {
    let enter = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(before, enter)
}

/// Offset basis of FNV-1a.
pub(crate) const FINGERPRINT_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;
