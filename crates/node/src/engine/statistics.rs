//! What an engine has done, for people and metrics.

use std::time::Duration;

use wiresum_worker::Failure;
use wiresum_xdp::FrameCounters;

use super::CollectiveError;
use super::completion::Outcome;
use crate::udp::SendCounters;

/// How collectives have ended.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Those that ended in the sum.
    pub summed: u64,
    /// Those among them without this rank's values, which were late.
    pub missed: u64,
    /// Ranks whose values are in the sums, over all of these.
    pub ranks_summed: u64,
    /// Those in which some rank's values were not finite.
    pub not_finite: u64,
    /// Those whose exponents were not those expected.
    pub unforeseen: u64,
    /// Those that the network does not serve, as it was told before anything was sent.
    pub not_served: u64,
    /// Those that failed in any other way.
    pub failed: u64,
}

impl Outcomes {
    /// Counts the end of a collective.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        let counter = match outcome {
            Ok(participation) => {
                self.missed += u64::from(!participation.is_own_in);
                self.ranks_summed += u64::from(participation.ranks);
                &mut self.summed
            }
            Err(CollectiveError::Protocol { failure, .. }) => match failure {
                Failure::NotFinite => &mut self.not_finite,
                Failure::Unforeseen => &mut self.unforeseen,
                Failure::NotServed { .. } => &mut self.not_served,
                _ => &mut self.failed,
            },
            Err(_) => &mut self.failed,
        };
        *counter += 1;
    }
}

/// Counters since the engine joined.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// How collectives have ended.
    pub collectives: Outcomes,
    /// Number of threads.
    pub threads: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Their bytes, without IP and UDP headers.
    pub bytes_received: u64,
    /// What was sent.
    pub sent: SendCounters,
    /// What of it, and of what came, went past the network stack.
    pub frames: FrameCounters,
    /// Times that a thread slept.
    pub sleeps: u64,
    /// Time in which at least one collective was open.
    pub busy: Duration,
    /// CPU time of the threads.
    pub cpu: Duration,
    /// The protocol's own counters.
    pub protocol: Vec<(&'static str, u64)>,
}

impl Statistics {
    /// Adds those of another thread. Each is busy while it has a part of a collective.
    pub(super) fn add(&mut self, other: &Self) {
        self.threads += other.threads;
        self.datagrams_received += other.datagrams_received;
        self.bytes_received += other.bytes_received;
        self.sent.add(&other.sent);
        self.frames.add(&other.frames);
        self.sleeps += other.sleeps;
        self.busy = self.busy.max(other.busy);
        self.cpu += other.cpu;
        for ((_, count), (_, more)) in self.protocol.iter_mut().zip(&other.protocol) {
            *count += more;
        }
    }

    /// Every whole number by name, in a fixed order.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let Outcomes { summed, missed, ranks_summed, not_finite, unforeseen, not_served, failed } =
            self.collectives;
        let mut counts = vec![
            ("collectives_summed", summed),
            ("collectives_missed", missed),
            ("ranks_summed", ranks_summed),
            ("collectives_not_finite", not_finite),
            ("collectives_unforeseen", unforeseen),
            ("collectives_not_served", not_served),
            ("collectives_failed", failed),
            ("threads", self.threads),
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
