//! Bounds on bytes per second. Whoever counts supplies the time, so an aggregator needs no clock; `bpf/quota.h` is the same in C.
//!
//! A packet takes time from its budget in proportion to its length. It is over if that time would be paid for only a burst
//! from now. This is a token bucket that counts what is missing instead of what is left (GCRA, ITU-T I.371 annex A): one word of
//! state, so that several CPUs can share it without a lock.

use wiresum_wire::{HEADER_LEN, PAGE_PACKET};

use crate::Time;

/// Fraction bits of [`Quota::byte_cost`].
const COST_SHIFT: u32 = 16;
const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;
const NANOSECONDS_PER_TIME: u64 = 1_000;
/// Least burst in packets: workers send their window's beginning at once, and offloads make bursts of some twenty.
const MIN_BURST_PACKETS: u64 = 64;
/// Least burst as a fraction of a second: a machine may be busy elsewhere that long, and then catches up.
const BURST_FRACTION: u64 = 100;
/// Control packets per second of one job. All 64 children of 16 sub-models may say hello ten times a second.
const CONTROL_RATE: u64 = 10_240;
/// Control packets per second of those who know no job's secret; each may cost an answer.
const STRANGERS_RATE: u64 = 1_000;
/// A control packet with its eight words.
const CONTROL_LEN: u64 = HEADER_LEN as u64 + 32;

/// Most bytes per second, with a bounded burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Nanoseconds × 2¹⁶ that a byte takes.
    pub byte_cost: u64,
    /// Nanoseconds that may be used in advance.
    pub burst: u64,
}

impl Quota {
    /// Control packets of one job: more are a flood or a bug.
    #[must_use]
    pub fn control() -> Self {
        Self::bytes_per_second(CONTROL_RATE * CONTROL_LEN)
    }

    /// Control packets of all who know no job's secret.
    #[must_use]
    pub fn strangers() -> Self {
        Self::bytes_per_second(STRANGERS_RATE * CONTROL_LEN)
    }

    /// At most so many bytes of datagrams per second, at least one; bursts of 10 ms, or of some packets if that is more.
    #[must_use]
    pub fn bytes_per_second(rate: u64) -> Self {
        let burst = (rate / BURST_FRACTION).max(MIN_BURST_PACKETS * PAGE_PACKET as u64);
        Self::with_burst(rate, burst)
    }

    /// As [`Self::bytes_per_second`], with bursts of so many bytes.
    #[must_use]
    pub fn with_burst(rate: u64, burst: u64) -> Self {
        let rate = u128::from(rate.max(1));
        let byte_cost = (NANOSECONDS_PER_SECOND << COST_SHIFT) / rate;
        let burst = (u128::from(burst) * byte_cost) >> COST_SHIFT;
        // Half the range is 292 years, and leaves room to add the time.
        let bounded = |x: u128| u64::try_from(x).unwrap_or(u64::MAX).clamp(1, u64::MAX / 2);
        Self { byte_cost: bounded(byte_cost), burst: bounded(burst) }
    }
}

/// What is left of a quota.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    quota: Quota,
    /// When all that was let through is paid for, in nanoseconds.
    due: u64,
}

impl Budget {
    /// A budget of which nothing is used.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        Self { quota, due: 0 }
    }

    /// Takes `len` bytes, unless they are more than is left.
    pub fn take(&mut self, now: Time, len: usize) -> bool {
        let now = now.0.saturating_mul(NANOSECONDS_PER_TIME);
        let cost = (len as u64).saturating_mul(self.quota.byte_cost) >> COST_SHIFT;
        let next = self.due.max(now).saturating_add(cost);
        let fits = next <= now.saturating_add(self.quota.burst);
        if fits {
            self.due = next;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// Bytes let through if `len` bytes are offered every `step` microseconds for a second, after one second of silence.
    fn offered(quota: Quota, len: usize, step: u64) -> usize {
        let mut budget = Budget::new(quota);
        let times = (SECOND..2 * SECOND).step_by(step as usize);
        times.filter(|now| budget.take(Time(*now), len)).count() * len
    }

    #[test]
    fn what_passes_is_the_rate_and_one_burst() {
        for rate in [1_000_000, 12_500_000, 1_250_000_000] {
            let passed =
                offered(Quota::with_burst(rate, 100_000), 1_000, 1).min(rate as usize + 100_000);
            let wanted = (rate + 100_000).min(1_000 * SECOND) as usize;
            assert!(
                passed.abs_diff(wanted) <= wanted / 100 + 2_000,
                "{rate}: {passed} of {wanted}"
            );
        }
    }

    #[test]
    fn below_the_rate_everything_passes() {
        assert_eq!(offered(Quota::bytes_per_second(1_000_000), 900, 1_000), 900_000);
    }

    #[test]
    fn an_exhausted_budget_comes_back_with_time() {
        let mut budget = Budget::new(Quota::with_burst(1_000, 3_000));
        assert!(budget.take(Time(0), 3_000));
        assert!(!budget.take(Time(0), 66));
        assert!(!budget.take(Time(65_000), 66), "65 bytes' worth of time");
        assert!(budget.take(Time(66_000), 66));
    }

    #[test]
    fn the_extremes_neither_overflow_nor_pass_nothing() {
        for rate in [0, 1, u64::MAX] {
            let mut budget = Budget::new(Quota::bytes_per_second(rate));
            assert!(budget.take(Time(0), PAGE_PACKET), "{rate}");
            assert!(budget.take(Time(u64::MAX), PAGE_PACKET), "{rate}");
        }
    }
}
