//! What a child lowers its own rate to when the network delivers less than was granted, and how it tries more again.

use std::time::Duration;

use wiresum_protocol::Time;

use super::delivery::{CLEAR, PULSE_BYTES};

/// Part of what is delivered at which a flow goes on, so that a queue that nothing else empties does not stand.
const KEPT: f64 = 0.98;
/// The same after loss, when no delay has shown how long the queue is.
const KEPT_AFTER_LOSS: f64 = 0.95;
/// Part of its ceiling at which a flow sends until its queue has drained: not below half of what it will have.
const DRAINING: f64 = 0.55;
/// Delay by which a flow would be silent if it lowered its rate in proportion, as it does while no backlog is
/// certain: several bursts.
const INTOLERABLE: Duration = Duration::from_millis(25);
/// How much more than its ceiling a flow tries first, after each pause in which nothing had to wait; the step doubles
/// as long as that holds, so that a link that is free again is in use within a second, and a first step costs 2 ms of
/// queue.
const FIRST_STEP: f64 = 0.02;
const LARGEST_STEP: f64 = 0.5;
const PAUSE: Duration = Duration::from_millis(100);
/// Lowest ceiling: below it, a flow would not send so much as one pulse's worth in a pause, and would not find out
/// that it may send more.
const LEAST_BPS: f64 = 8.0 * PULSE_BYTES as f64 / 0.1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ceiling {
    pub bps: u64,
    /// Part of it that is tried beyond it next, and when.
    step: f64,
    raise_at: Time,
    /// When the queue will be empty.
    drains_until: Time,
    /// How long an answer waited that may not have been the link's fault.
    waiting: Duration,
}

impl Ceiling {
    /// The network delivers this, and so long a queue has built up.
    pub fn after_backlog(delivered_bps: u64, waiting: Duration, now: Time) -> Self {
        let drains_until = now.plus(waiting.saturating_sub(CLEAR).mul_f64(1.0 / (1.0 - DRAINING)));
        Self { drains_until, ..Self::new(KEPT * delivered_bps as f64, now) }
    }

    /// This was delivered of what was sent, under a grant.
    pub fn after_loss(delivered_bps: f64, granted_bps: f64, now: Time) -> Self {
        Self::new((KEPT_AFTER_LOSS * delivered_bps).min(granted_bps.max(1.0)), now)
    }

    fn new(bps: f64, now: Time) -> Self {
        let (drains_until, waiting) = (now, Duration::ZERO);
        let bps = bps.max(LEAST_BPS) as u64;
        Self { bps, step: FIRST_STEP, raise_at: now.plus(PAUSE), drains_until, waiting }
    }

    /// What to send at now, in bit/s: less than the ceiling while something waits.
    pub fn rate_bps(&self, now: Time) -> u64 {
        let excess = self.waiting.saturating_sub(CLEAR).as_secs_f64() / INTOLERABLE.as_secs_f64();
        let part = if now < self.drains_until { DRAINING } else { (1.0 - excess).max(DRAINING) };
        (self.bps as f64 * part) as u64
    }

    /// The backlog is over, and in all of it so much was delivered.
    pub fn note_delivered(&mut self, delivered_bps: u64) {
        self.bps = self.bps.max((KEPT * delivered_bps as f64) as u64);
    }

    /// What is sent waits so long, whatever the reason.
    pub fn note_waiting(&mut self, waiting: Duration) {
        self.waiting = waiting;
    }

    /// Nothing waits: after a pause, the ceiling rises. Whether it did.
    pub fn try_more(&mut self, now: Time) -> bool {
        (self.waiting, self.drains_until) = (Duration::ZERO, self.drains_until.min(now));
        let is_due = self.raise_at <= now;
        if is_due {
            self.bps = (self.bps as f64 * (1.0 + self.step)).ceil() as u64;
            self.step = (2.0 * self.step).min(LARGEST_STEP);
            self.raise_at = now.plus(PAUSE);
        }
        is_due
    }
}
