//! How much may be under way to one receiver, and how long an answer may take: by the round trips of what was answered.
//!
//! The window grows until a queue of [`TARGET_US`] stands on the way, then shrinks by what the queue is longer, once a round
//! trip (as in Swift, SIGCOMM 2020), so that many senders to one server neither fill its link's queue nor take each other's
//! packets for lost. A loss takes a third of it. After a round trip and more without an answer there is a probe.

use wiresum_netem::Time;

/// Timeout before the first answer: longer than the first windows of all workers take on slow links.
pub(crate) const INITIAL_TIMEOUT_US: u64 = 200_000;
/// Longest time between probes, doublings included: what a loss may cost after a long silence.
pub(crate) const LONGEST_TIMEOUT_US: u64 = 400_000;
/// Probes wait twice as long each, so many times: then the longest timeout is reached from the shortest.
pub(crate) const MOST_DOUBLINGS: u32 = 6;
/// Longest time between ends, whose answer takes as long as the slowest worker: few bytes, and what a lost answer may
/// cost.
pub(crate) const LONGEST_END_TIMEOUT_US: u64 = 100_000;
/// Longest wait of acknowledgements for others, to be sent with them: short beside [`TARGET_US`].
pub(crate) const LONGEST_WAIT_US: u64 = 2_000;
/// Shortest timeout: a thread may have to wait as long for a processor.
const LEAST_TIMEOUT_US: u64 = 10_000;
/// Until a question is repeated that a server says it holds: its answer may be lost, which shows at the round's end else.
pub(crate) const HELD_TIMEOUT_US: u64 = 1_000_000;
/// Round trips may be longer than the shortest by this: enough to keep a link busy in both directions, and short beside a
/// round.
const TARGET_US: u64 = 26_000;
/// First window: those of 64 workers fit the queues of most links.
const INITIAL_WINDOW: f64 = 4.0;
/// Least window: with one packet, a lost one would always cost a timeout.
const LEAST_WINDOW: f64 = 2.0;
/// What is left of a window that shrinks, at least.
const MOST_SHRINKING: f64 = 0.5;
/// What a loss leaves of it, as in CUBIC (RFC 9438): queues that are full show in round trips before.
const LEFT_BY_LOSS: f64 = 0.7;
/// Largest window: packets of 1.4 KB that fill 10 Gbit/s for a millisecond.
const MOST_WINDOW: f64 = 1024.0;

/// Window and timeout of what is under way to one receiver.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    window: f64,
    /// Below it every answer makes room for one packet more, above it every window of answers.
    threshold: f64,
    shortest_us: u64,
    /// Mean and mean deviation.
    round_trip_us: Option<(u64, u64)>,
    /// Losses until then were answered already.
    heeded_until: Time,
    /// It never shrinks below.
    least: f64,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            window: INITIAL_WINDOW,
            threshold: MOST_WINDOW,
            shortest_us: u64::MAX,
            round_trip_us: None,
            heeded_until: Time(0),
            least: LEAST_WINDOW,
        }
    }
}

impl Flow {
    /// One that takes the share of several flows.
    pub(crate) fn of(flows: f64) -> Self {
        let (window, least) = (INITIAL_WINDOW * flows, LEAST_WINDOW * flows);
        Self { window, least, ..Self::default() }
    }

    /// Whether one more packet may be under way.
    pub(crate) fn has_room(&self, under_way: usize) -> bool {
        (under_way as f64) < self.window
    }

    /// How long to wait for any answer before a probe (RFC 9002, section 6.2.1).
    pub(crate) fn probe_us(&self) -> u64 {
        let timeout = self
            .round_trip_us
            .map_or(INITIAL_TIMEOUT_US, |(mean, dev)| mean + 4 * dev + LONGEST_WAIT_US);
        timeout.clamp(LEAST_TIMEOUT_US, LONGEST_TIMEOUT_US)
    }

    /// How long to wait for the news before an end is sent again.
    pub(crate) fn end_timeout_us(&self) -> u64 {
        self.probe_us().min(LONGEST_END_TIMEOUT_US)
    }

    /// How much later than others a packet may come that was sent before them (RFC 9002, section 6.1.2).
    pub(crate) fn reordering_us(&self) -> u64 {
        self.round_trip_us.map_or(INITIAL_TIMEOUT_US, |(mean, _)| mean) / 8
    }

    /// How long after it was sent a packet is lost, if one that was sent later has been answered.
    pub(crate) fn overtaken_us(&self) -> u64 {
        let round_trip_us = self.round_trip_us.map_or(INITIAL_TIMEOUT_US, |(mean, _)| mean);
        round_trip_us + self.reordering_us()
    }

    /// A packet that was sent once was answered after this time.
    pub(crate) fn answered(&mut self, taken_us: u64, now: Time) {
        self.shortest_us = self.shortest_us.min(taken_us);
        self.round_trip_us = Some(match self.round_trip_us {
            None => (taken_us, taken_us / 2),
            Some((mean, dev)) => {
                ((7 * mean + taken_us) / 8, (3 * dev + mean.abs_diff(taken_us)) / 4)
            }
        });
        let target_us = self.shortest_us.saturating_add(TARGET_US + LONGEST_WAIT_US);
        if taken_us > target_us {
            self.shrink(now, 1.0 - (taken_us - target_us) as f64 / taken_us as f64);
        } else {
            let more = if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            self.window = (self.window + more).min(MOST_WINDOW);
        }
    }

    /// A packet was lost.
    pub(crate) fn lost(&mut self, now: Time) {
        self.shrink(now, LEFT_BY_LOSS);
    }

    /// Shrinks the window to a part of it, a half at least, once a round trip: what is under way was sent before.
    fn shrink(&mut self, now: Time, part: f64) {
        if now >= self.heeded_until {
            self.window = (self.window * part.max(MOST_SHRINKING)).max(self.least);
            self.threshold = self.window;
            let round_trip_us = self.round_trip_us.map_or(INITIAL_TIMEOUT_US, |(mean, _)| mean);
            self.heeded_until = Time(now.0 + round_trip_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that takes a packet a millisecond, with an endless queue and 5 ms of way: what is under way in the end.
    fn standing(flows: usize) -> f64 {
        let mut all = vec![Flow::default(); flows];
        // The first packet finds no queue.
        all.iter_mut().for_each(|flow| flow.answered(5_000, Time(5_000)));
        let under_way = |all: &[Flow]| all.iter().map(|flow| flow.window).sum::<f64>();
        let mut now = Time(5_000);
        for _ in 0..1_000 {
            let taken_us = 5_000.max(under_way(&all) as u64 * 1_000);
            now = Time(now.0 + taken_us);
            for flow in &mut all {
                (0..flow.window as u64).for_each(|_| flow.answered(taken_us, now));
            }
        }
        under_way(&all)
    }

    #[test]
    fn a_short_queue_stands_however_many_send() {
        let (one, eight) = (standing(1), standing(8));
        assert!((6.0..40.0).contains(&one), "{one}");
        assert!((6.0..50.0).contains(&eight), "{eight}");
        assert!(standing(32) <= 32.0 * LEAST_WINDOW + 1.0);
    }

    #[test]
    fn losses_of_a_round_trip_shrink_the_window_once() {
        let mut flow = Flow::default();
        (0..5).for_each(|_| flow.lost(Time(1_000)));
        assert!(flow.has_room(2) && !flow.has_room(3));
        (0..6).for_each(|_| flow.answered(100, Time(1_000)));
        assert!(flow.has_room(4) && !flow.has_room(5), "it grows slowly now");
        flow.lost(Time(1_000_000));
        assert!(flow.has_room(3) && !flow.has_room(4));
        (0..9).for_each(|n| flow.lost(Time(1_000_000 * n)));
        assert!(flow.has_room(1) && !flow.has_room(2), "it never closes");
    }

    #[test]
    fn the_timeout_follows_the_round_trips_within_its_bounds() {
        let mut flow = Flow::default();
        assert_eq!(flow.probe_us(), INITIAL_TIMEOUT_US);
        (0..100).for_each(|_| flow.answered(30_000, Time(1)));
        assert!((32_000..36_000).contains(&flow.probe_us()), "a round trip, and a wait");
        (0..100).for_each(|_| flow.answered(500_000, Time(1)));
        assert_eq!(flow.probe_us(), LONGEST_TIMEOUT_US);
        (0..100).for_each(|_| flow.answered(100, Time(1)));
        assert_eq!(flow.probe_us(), LEAST_TIMEOUT_US);
    }
}
