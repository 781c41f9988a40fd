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
    rate_bps: f64,
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
    /// Another rate. What was let out at the one before and has not left yet is waited for at the new one.
    pub fn open(&mut self, rate_bps: f64, now_ps: u64) {
        let owed_ps = self.free_at_ps.saturating_sub(now_ps);
        if owed_ps > 0 && self.rate_bps > 0.0 && rate_bps > 0.0 {
            self.free_at_ps = now_ps + (owed_ps as f64 * self.rate_bps / rate_bps) as u64;
        }
        self.rate_bps = rate_bps;
    }

    /// Whether a train may leave now.
    pub fn lets_out(&mut self, now_ps: u64) -> bool {
        let waits = self.rate_bps > 0.0 && self.free_at_ps > now_ps;
        self.resumes = waits.then(|| Time(self.free_at_ps.div_ceil(PS_PER_US)));
        self.rate_bps > 0.0 && !waits
    }

    /// Packets of a train at most, which is stored at each of so many hops to the root and back: in all that takes no longer
    /// than what the gate makes up for, as a round would end later by the rest.
    pub fn longest(&self, packets: usize, packet_bytes: u64, hops: usize) -> usize {
        let late_s = LATE_PS as f64 / PS_PER_SECOND / hops.max(1) as f64;
        let at_once = late_s * self.rate_bps / 8.0 / packet_bytes as f64;
        packets.min((at_once as usize).max(1))
    }

    /// A train leaves. One that could have left up to [`LATE_PS`] before does not cost its successor that time.
    pub fn note_sent(&mut self, bytes: u64, now_ps: u64) {
        let since_ps = self.free_at_ps.max(now_ps.saturating_sub(LATE_PS));
        self.free_at_ps = since_ps + picoseconds(8.0 * bytes as f64 / self.rate_bps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_PS: u64 = PS_PER_SECOND as u64;

    /// Ten packets of a hundredth of a second each wait for a tenth, for half of it at twice the rate, and for nothing
    /// where there is no limit.
    #[test]
    fn what_has_not_left_is_waited_for_at_the_rate_that_there_is() {
        for (rate_bps, waits_ps) in [(8e6, NOW_PS / 10), (16e6, NOW_PS / 20), (f64::INFINITY, 0)] {
            let mut pace = Pace::default();
            pace.open(8e6, 0);
            pace.note_sent(108_000, NOW_PS);
            pace.open(rate_bps, NOW_PS);
            assert_eq!(
                (pace.lets_out(NOW_PS), pace.free_at_ps),
                (waits_ps == 0, NOW_PS + waits_ps)
            );
        }
    }

    #[test]
    fn a_train_that_is_stored_at_more_hops_is_shorter() {
        let mut pace = Pace::default();
        pace.open(8e6, 0);
        assert_eq!([1, 2, 4, 100].map(|hops| pace.longest(64, 1_000, hops)), [8, 4, 2, 1]);
        assert_eq!(Pace::default().longest(64, 1_000, 6), 64, "a gate without a rate");
    }
}
