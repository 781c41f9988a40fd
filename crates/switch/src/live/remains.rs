//! What a station knows, as plain data, so that another process can go on where this one stops.
//!
//! Plans, quotas and the clock are not in it: whoever resumes has them already.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_plan::MAX_COHORTS;

use crate::rmt::MemoryState;
use crate::server::EntryState;

/// Why a state does not fit the plans that came with it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the state that was handed over does not fit its plans: restart the daemon instead")]
pub struct Unfit;

/// What a station knows, but for plans, quotas and the clock.
#[derive(Debug, Serialize, Deserialize)]
pub struct StationState {
    pub(super) jobs: Vec<JobState>,
    pub(super) plane: PlaneState,
    /// What the server did with packets, by verdict.
    pub(super) served: Vec<u64>,
    /// Malformed, strangers, unrouted, through the process.
    pub(super) others: [u64; 4],
}

/// What it knows of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobState {
    pub job: u16,
    pub incarnation: Option<u64>,
    pub known: [u64; MAX_COHORTS],
    pub has_forgotten: bool,
    /// Stream, the oldest generation of its values that counts, and how often their keys were renewed.
    pub ages: Vec<(u16, u32, u32)>,
    pub back: Vec<Option<(u32, SocketAddr)>>,
    pub served: Vec<u64>,
    pub over_quota: u64,
    pub bytes: u64,
    /// Stream, contributions that came, and that left.
    pub streams: Vec<(u16, u64, u64)>,
    /// Stream and what the server holds of it.
    pub entries: Vec<(u16, Vec<EntryState>)>,
}

/// What sums in the process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PlaneState {
    pub(super) switch: Option<SwitchState>,
    /// Packets of each job by verdict, and of jobs that are gone.
    pub(super) counters: Vec<(u16, Vec<u64>)>,
    pub(super) retired: Vec<u64>,
}

/// A switch's table, whose numbers are in its memory, and that.
#[derive(Debug, Serialize, Deserialize)]
pub struct SwitchState {
    /// Job, stream and cohort by number − 1.
    pub(crate) streams: Vec<Option<(u16, u16, u8)>>,
    pub(crate) memory: MemoryState,
}
