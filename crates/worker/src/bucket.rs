//! Lets bytes through at a rate, in bursts.

use std::time::Duration;

use wiresum_protocol::Time;

/// A stream's bucket, as time: the most that is sent at once, and what a late wake-up may cost without loss of rate.
/// Sending resumes at half of it, so that a wake-up (60 µs on a busy host) is worth a millisecond of packets and the
/// engine never spins.
const BURST: Duration = Duration::from_millis(2);

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    burst: Duration,
    /// When it would be full, in nanoseconds, if nothing more were taken.
    full_at_ns: u64,
    is_drained: bool,
}

impl Default for Bucket {
    fn default() -> Self {
        Self::of(BURST)
    }
}

impl Bucket {
    /// A bucket that holds what passes in this time.
    pub const fn of(burst: Duration) -> Self {
        Self { burst, full_at_ns: 0, is_drained: false }
    }

    /// When sending resumes; `None` if it may go on.
    pub fn resumes_at(&self, now: Time) -> Option<Time> {
        let half = self.burst.as_nanos() as u64 / 2;
        let at = Time(self.full_at_ns.saturating_sub(half).div_ceil(1000));
        (self.is_drained && at > now).then_some(at)
    }

    pub fn take(&mut self, bytes: usize, rate_bps: u64, now: Time) {
        let now_ns = now.0 * 1000;
        let cost_ns = bytes as u128 * 8_000_000_000 / u128::from(rate_bps.max(1));
        self.full_at_ns = self.full_at_ns.max(now_ns).saturating_add(cost_ns.min(1 << 40) as u64);
        self.is_drained = self.full_at_ns > now_ns + self.burst.as_nanos() as u64;
    }

    /// When it would be full if nothing more were taken.
    pub fn full_at(&self) -> Time {
        Time(self.full_at_ns / 1000)
    }
}
