//! A worker's gate, where jobs have turns.

use wiresum_netem::{PS_PER_SECOND, PS_PER_US};
use wiresum_protocol::Time;

use crate::network::picoseconds;

/// What a gate makes up for: windows that opened late, and alarms that ring in whole microseconds. As for live gates.
const LATE_PS: u64 = 8_000_000_000;

/// Whether a worker may send, and how fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// On the cable; nothing is let out if it is 0.
    pub rate_bps: f64,
    /// When what was let out will have left at that rate.
    free_at_ps: u64,
    /// When the next train may leave, if it has to wait.
    pub resumes: Option<Time>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate_bps: f64::INFINITY, free_at_ps: 0, resumes: None }
    }
}

impl Pace {
    /// Whether a train may leave now.
    pub fn lets_out(&mut self, now_ps: u64) -> bool {
        let waits = self.rate_bps > 0.0 && self.free_at_ps > now_ps;
        self.resumes = waits.then(|| Time(self.free_at_ps.div_ceil(PS_PER_US)));
        self.rate_bps > 0.0 && !waits
    }

    /// Packets of a train at most: what the gate makes up for, as more at once would be ahead of the rate.
    pub fn longest(&self, packets: usize, packet_bytes: u64) -> usize {
        let at_once = LATE_PS as f64 / PS_PER_SECOND * self.rate_bps / 8.0 / packet_bytes as f64;
        packets.min((at_once as usize).max(1))
    }

    /// A train leaves. One that could have left up to [`LATE_PS`] before does not cost its successor that time.
    pub fn note_sent(&mut self, bytes: u64, now_ps: u64) {
        let since_ps = self.free_at_ps.max(now_ps.saturating_sub(LATE_PS));
        self.free_at_ps = since_ps + picoseconds(8.0 * bytes as f64 / self.rate_bps);
    }
}
