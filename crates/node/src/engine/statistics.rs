//! What an engine has done, for people and metrics.

use std::time::Duration;

use wiresum_worker::{Failure, Participation};
use wiresum_xdp::FrameCounters;

use super::CollectiveError;
use crate::udp::SendCounters;

/// Counters since the engine joined.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Collectives that ended in the sum.
    pub collectives_summed: u64,
    /// Collectives among those without this rank's values, which were late.
    pub collectives_missed: u64,
    /// Ranks whose values are in the sums, over all of these.
    pub ranks_summed: u64,
    /// Collectives in which some rank's values were not finite.
    pub collectives_not_finite: u64,
    /// Collectives whose exponents were not those expected.
    pub collectives_unforeseen: u64,
    /// Collectives that the network does not serve, as it was told before anything was sent.
    pub collectives_not_served: u64,
    /// Collectives that failed in any other way.
    pub collectives_failed: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Their bytes, without IP and UDP headers.
    pub bytes_received: u64,
    /// What was sent.
    pub sent: SendCounters,
    /// What of it, and of what came, went past the network stack.
    pub frames: FrameCounters,
    /// Times that the thread slept.
    pub sleeps: u64,
    /// Time in which at least one collective was open.
    pub busy: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// The protocol's own counters.
    pub protocol: Vec<(&'static str, u64)>,
}

impl Statistics {
    /// Counts the end of a collective.
    pub(super) fn count(&mut self, outcome: &Result<Participation, CollectiveError>) {
        let counter = match outcome {
            Ok(participation) => {
                self.collectives_missed += u64::from(!participation.is_own_in);
                self.ranks_summed += u64::from(participation.ranks);
                &mut self.collectives_summed
            }
            Err(CollectiveError::Protocol { failure: Failure::NotFinite, .. }) => {
                &mut self.collectives_not_finite
            }
            Err(CollectiveError::Protocol { failure: Failure::Unforeseen, .. }) => {
                &mut self.collectives_unforeseen
            }
            Err(CollectiveError::Protocol { failure: Failure::NotServed { .. }, .. }) => {
                &mut self.collectives_not_served
            }
            Err(_) => &mut self.collectives_failed,
        };
        *counter += 1;
    }

    /// Every whole number by name, in a fixed order.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = vec![
            ("collectives_summed", self.collectives_summed),
            ("collectives_missed", self.collectives_missed),
            ("ranks_summed", self.ranks_summed),
            ("collectives_not_finite", self.collectives_not_finite),
            ("collectives_unforeseen", self.collectives_unforeseen),
            ("collectives_not_served", self.collectives_not_served),
            ("collectives_failed", self.collectives_failed),
            ("datagrams_sent", self.sent.datagrams),
            ("datagrams_received", self.datagrams_received),
            ("datagrams_refused", self.sent.refused),
            ("bytes_sent", self.sent.bytes),
            ("bytes_received", self.bytes_received),
            ("send_calls", self.sent.batches),
            ("frames_sent", self.frames.sent),
            ("frames_received", self.frames.received),
            ("frames_dropped", self.frames.dropped),
            ("frame_calls", self.frames.calls),
            ("sleeps", self.sleeps),
        ];
        counts.extend(self.protocol.iter().copied());
        counts
    }

    /// Every duration by name, in seconds.
    #[must_use]
    pub fn seconds(&self) -> [(&'static str, f64); 2] {
        [("busy_seconds", self.busy.as_secs_f64()), ("cpu_seconds", self.cpu.as_secs_f64())]
    }
}
