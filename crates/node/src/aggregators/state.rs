//! What aggregators know, for another process.

use std::io;

use serde::{Deserialize, Serialize};
use wiresum_protocol::aggregator::Snapshot;

use crate::takeover::Remains;

/// All that the aggregators of a node know.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// In the order of the plans.
    pub jobs: Vec<JobState>,
    /// Packets by verdict of jobs that are gone.
    pub retired: Vec<u64>,
    /// The thread of each job; empty where there is one thread.
    #[serde(default)]
    pub threads: Vec<usize>,
}

/// What one of them knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct JobState {
    /// Bytes of the packets that named it.
    pub bytes: u64,
    /// Everything else.
    pub snapshot: Snapshot,
}

impl State {
    /// As data. Slots are no JSON.
    #[must_use]
    pub fn write(self) -> Remains {
        let memory = self.jobs.iter().flat_map(|job| &job.snapshot.memory).copied().collect();
        Remains::new(&self, memory)
    }

    /// What each of `count` threads knows; the first goes on counting for jobs that are gone.
    #[must_use]
    pub fn by_thread(self, count: usize) -> Vec<Self> {
        let empty = || Self { jobs: Vec::new(), retired: Vec::new(), threads: Vec::new() };
        let mut states: Vec<_> = std::iter::repeat_with(empty).take(count).collect();
        for (job, thread) in self.jobs.into_iter().zip(self.threads) {
            states[thread].jobs.push(job);
        }
        states[0].retired = self.retired;
        states
    }

    /// What [`Self::write`] has written.
    ///
    /// # Errors
    /// What is missing.
    pub fn read(remains: Remains) -> io::Result<Self> {
        let mut state: Self = serde_json::from_value(remains.facts)?;
        let mut memory = remains.memory.as_slice();
        for job in &mut state.jobs {
            let of_job;
            (of_job, memory) = memory
                .split_at_checked(job.snapshot.memory_len())
                .ok_or_else(|| io::Error::other("the offer lacks slots"))?;
            job.snapshot.memory = of_job.to_vec();
        }
        Ok(state)
    }
}
