//! How much of what a worker sends may wait at its own link.

use std::time::{Duration, Instant};

use wiresum_worker::link_queue_len;

/// A rate is measured for at least so long.
const MEASURED: Duration = Duration::from_millis(2);
/// After so long without a full buffer something else than the link held the worker up.
const PAUSE: Duration = Duration::from_millis(10);

/// The send buffer of a socket, by the rate at which it empties.
pub(super) struct Backlog {
    allowed: usize,
    /// When the buffer was last seen full.
    full_at: Option<Instant>,
    /// When the rate began to be measured, and what had been sent by then.
    since: (Instant, u64),
}

impl Backlog {
    /// Nothing is known of the link.
    pub fn new(now: Instant) -> Self {
        Self { allowed: link_queue_len(0.0), full_at: None, since: (now, 0) }
    }

    /// Bytes that may wait.
    pub fn allowed(&self) -> usize {
        self.allowed
    }

    /// The buffer is full after so many bytes in all. Whether another amount is allowed from now on.
    pub fn note_full(&mut self, sent: u64, now: Instant) -> bool {
        let last = self.full_at.replace(now);
        if last.is_none_or(|last| now.duration_since(last) > PAUSE) {
            self.since = (now, sent);
            return false;
        }
        let (since, before) = self.since;
        let elapsed = now.duration_since(since);
        if elapsed < MEASURED {
            return false;
        }
        self.since = (now, sent);
        let wanted = link_queue_len((sent - before) as f64 / elapsed.as_secs_f64());
        // Anything less is not worth a call.
        let changes = wanted.abs_diff(self.allowed) > self.allowed / 4;
        if changes {
            self.allowed = wanted;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: usize = 128 << 10;

    /// What is allowed after the buffer was full once a millisecond, between which so many bytes left.
    fn after(backlog: &mut Backlog, start: Instant, bytes_per_ms: u64, count: u64) -> usize {
        for at in 0..count {
            backlog.note_full(at * bytes_per_ms, start + Duration::from_millis(at));
        }
        backlog.allowed()
    }

    #[test]
    fn what_may_wait_grows_with_the_link() {
        let start = Instant::now();
        let at = |bytes_per_ms| after(&mut Backlog::new(start), start, bytes_per_ms, 20);
        assert_eq!(at(31_250), LEAST, "250 Mbit/s");
        assert_eq!(at(250_000), 500_000, "2 Gbit/s");
        assert_eq!(at(12_500_000), 2 << 20, "100 Gbit/s");
    }

    #[test]
    fn a_pause_is_no_rate() {
        let start = Instant::now();
        let mut backlog = Backlog::new(start);
        let grown = after(&mut backlog, start, 250_000, 20);
        let (later, sent) = (start + Duration::from_secs(1), 20 * 250_000);
        assert!(!backlog.note_full(sent, later), "of the second before it nothing is known");
        assert!(
            backlog.note_full(sent, later + Duration::from_millis(5)),
            "nothing has left since"
        );
        assert_eq!((grown, backlog.allowed()), (500_000, LEAST));
    }
}
