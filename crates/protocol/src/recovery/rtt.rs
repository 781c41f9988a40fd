//! The retransmission timeout, from the round trips of probes. Results are no measure: they take as long as the slowest worker.
//!
//! The form is that of RFC 6298. Its gains suit a sample per packet; probes are rare, and the queue that they measure
//! empties between two of them, so old samples are forgotten faster here. A timeout that is too short costs a probe.

use std::time::Duration;

/// Before the first sample: longer than most paths take, and no more than what a first packet that is lost may cost.
const INITIAL_TIMEOUT: Duration = Duration::from_millis(5);
/// A probe is small and changes nothing, so it may be sent early; below this the scheduler of a busy host is what is measured.
const MIN_TIMEOUT: Duration = Duration::from_millis(2);
/// Longest pause between probes: what a lost packet may cost after a long wait for a late worker.
pub const MAX_TIMEOUT: Duration = Duration::from_millis(200);

/// A smoothed round-trip time.
#[derive(Clone, Debug)]
pub struct Rtt {
    /// Shortest timeout.
    least: Duration,
    /// Longest timeout, doublings included.
    most: Duration,
    /// Mean and mean deviation.
    estimate: Option<(Duration, Duration)>,
    /// Doublings since something new was heard.
    backoff: u32,
}

impl Default for Rtt {
    fn default() -> Self {
        Self { least: MIN_TIMEOUT, most: MAX_TIMEOUT, estimate: None, backoff: 0 }
    }
}

impl Rtt {
    /// The timeouts of a sender that cannot measure round trips: `timeout` is the first of a row, which ends at
    /// [`MAX_TIMEOUT`], or at itself if that is longer.
    #[must_use]
    pub fn fixed(timeout: Duration) -> Self {
        let most = timeout.max(MAX_TIMEOUT);
        Self { least: timeout, most, estimate: Some((timeout, Duration::ZERO)), backoff: 0 }
    }

    /// A probe was answered after this time.
    pub fn sample(&mut self, rtt: Duration) {
        self.estimate = Some(match self.estimate {
            None => (rtt, rtt / 2),
            Some((mean, deviation)) => ((mean + rtt) / 2, (deviation + mean.abs_diff(rtt)) / 2),
        });
    }

    /// Time after which a probe, or what it asked for, is taken as lost.
    pub fn timeout(&self) -> Duration {
        let timeout =
            self.estimate.map_or(INITIAL_TIMEOUT, |(mean, deviation)| mean + 2 * deviation);
        timeout.clamp(self.least, self.most)
    }

    /// [`Self::timeout`], doubled for each repetition.
    pub fn patience(&self) -> Duration {
        self.timeout().saturating_mul(1 << self.backoff).min(self.most)
    }

    /// Nothing new was heard for [`Self::patience`].
    pub fn back_off(&mut self) {
        // 2 µs doubled 17 times is beyond the longest pause.
        self.backoff = (self.backoff + 1).min(17);
    }

    /// Whether nothing new has been heard for a timeout.
    pub fn is_backing_off(&self) -> bool {
        self.backoff > 0
    }

    /// Something new was heard.
    pub fn reset(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_samples_within_its_bounds() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(), INITIAL_TIMEOUT);
        (0..50).for_each(|_| rtt.sample(Duration::from_millis(10)));
        assert!((10..12).contains(&rtt.timeout().as_millis()));
        (0..50).for_each(|_| rtt.sample(Duration::from_micros(50)));
        assert_eq!(rtt.timeout(), MIN_TIMEOUT);
    }

    #[test]
    fn patience_doubles_until_its_bound_and_starts_again() {
        let mut rtt = Rtt::default();
        let first = rtt.patience();
        rtt.back_off();
        assert_eq!(rtt.patience(), 2 * first);
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.patience(), MAX_TIMEOUT);
        rtt.reset();
        assert_eq!(rtt.patience(), first);
    }

    #[test]
    fn a_fixed_timeout_may_be_longer_than_those_that_are_measured() {
        let mut rtt = Rtt::fixed(2 * MAX_TIMEOUT);
        assert_eq!(rtt.patience(), 2 * MAX_TIMEOUT);
        rtt.back_off();
        assert_eq!(rtt.patience(), 2 * MAX_TIMEOUT);
        let mut short = Rtt::fixed(MAX_TIMEOUT / 2);
        (0..9).for_each(|_| short.back_off());
        assert_eq!(short.patience(), MAX_TIMEOUT);
    }
}
