//! How fast what a flow sends is delivered, and how long it waits in queues: from pulses, small questions that travel
//! behind the values and are answered at once. A pulse does not wait for other workers, so a late one does not look
//! like a slow link.
//!
//! The delivery rate is that of Cheng et al., "Delivery Rate Estimation" (IETF draft, 2022): what was sent between
//! two pulses over the time between their answers. It is the flow's share of the narrowest link for as long as
//! something waits there, which a round trip above the least one shows.

use std::collections::VecDeque;
use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_protocol::recovery::PULSE;

/// Bytes between two pulses: often enough to see a queue before it overflows, and less than 1 % of what is sent.
pub(super) const PULSE_BYTES: u64 = 64 << 10;
/// Least time between two pulses: that of a burst, within which nothing new is to be seen.
const PULSE_PAUSE: Duration = Duration::from_millis(1);
/// Pulses that may still be answered: those of 4 MiB, more than a flow keeps in a queue.
const OPEN_PULSES: usize = 64;
/// How long the least round trip is remembered, twice: a route may change, and a queue does not stand that long.
const MEMORY: Duration = Duration::from_secs(5);
/// Delay that the bursts of a link's flows explain, of 2 ms at most.
pub(super) const CLEAR: Duration = Duration::from_millis(2);
/// Delay beyond which something waits because the link is slower than its flows, if the answer before was as late as
/// this.
const CONGESTED: Duration = Duration::from_millis(5);
const LATE: Duration = Duration::from_millis(3);
/// Longest time over which a delivery rate is a mean, and how much of it must have passed before it is one again.
const SPAN: Duration = Duration::from_millis(50);
const LEAST_SPAN: Duration = Duration::from_millis(20);

/// A question on its way.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    echo: u32,
    at: Time,
    /// Sent before it.
    bytes: u64,
    /// For how long, before it, nothing was sent.
    paused: Duration,
}

/// A moment at which so much had been delivered, after this delay.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    at: Time,
    bytes: u64,
    paused: Duration,
    delay: Duration,
}

/// A queue that a flow keeps filled.
#[derive(Clone, Copy, Debug)]
struct Backlog {
    began: Delivered,
    /// Since when the present mean is taken.
    since: Delivered,
    bps: u64,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Nothing waits but bursts.
    Clear {
        /// What was delivered while a backlog was there that is over now, in bit/s. If a host had stopped for a
        /// moment, that is more than it seemed to be in the midst of it.
        delivered_bps: Option<u64>,
    },
    /// Something waits, or a host was busy.
    Unclear {
        /// How much longer than the least round trip the answer took.
        waiting: Duration,
    },
    /// The link delivers less than is sent.
    Backlog {
        /// What it delivers of this flow, in bit/s.
        bps: u64,
        /// How long what is on its way takes at that rate, beyond the least round trip.
        waiting: Duration,
        /// The first answer that shows it.
        is_new: bool,
    },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    sent_bytes: u64,
    /// For how long there was nothing to send, in all.
    paused: Duration,
    asked: u32,
    last: Option<Pulse>,
    open: VecDeque<Pulse>,
    /// Least round trip of the present memory and of the one before, and when the present one began.
    least: (Option<Duration>, Option<Duration>),
    remembered_since: Time,
    /// The answer before, if it came late.
    late: Option<Delivered>,
    backlog: Option<Backlog>,
}

impl Delivery {
    /// Notes that values are sent; `bytes` on the wire.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// There was nothing to send for so long: no link is slow for that.
    pub fn note_pause(&mut self, pause: Duration) {
        self.paused += pause;
    }

    /// The echo of the pulse to send now, if one is due.
    pub fn poll_pulse(&mut self, now: Time) -> Option<u32> {
        let is_recent = |last: &Pulse| {
            self.sent_bytes - last.bytes < PULSE_BYTES || now.since(last.at) < PULSE_PAUSE
        };
        if self.sent_bytes == 0 || self.last.as_ref().is_some_and(is_recent) {
            return None;
        }
        self.asked = self.asked.wrapping_add(1) | PULSE;
        let (bytes, paused) = (self.sent_bytes, self.paused);
        let pulse = Pulse { echo: self.asked, at: now, bytes, paused };
        if self.open.len() == OPEN_PULSES {
            self.open.pop_front();
        }
        self.open.push_back(pulse);
        self.last = Some(pulse);
        Some(pulse.echo)
    }

    /// Takes the answer to a pulse; `None` if it is not the first, or was given up.
    pub fn handle_answer(&mut self, echo: u32, now: Time) -> Option<Sign> {
        let index = self.open.iter().position(|pulse| pulse.echo == echo)?;
        let pulse = self.open.drain(..=index).next_back()?;
        let round_trip = now.since(pulse.at);
        let delay = round_trip.saturating_sub(self.least(round_trip, now));
        let Pulse { bytes, paused, .. } = pulse;
        Some(self.judge(Delivered { at: now, bytes, paused, delay }))
    }

    /// The least round trip of late, this one included.
    fn least(&mut self, round_trip: Duration, now: Time) -> Duration {
        if now.since(self.remembered_since) >= MEMORY {
            (self.least, self.remembered_since) = ((None, self.least.0), now);
        }
        let present = self.least.0.map_or(round_trip, |least| least.min(round_trip));
        self.least.0 = Some(present);
        self.least.1.map_or(present, |before| before.min(present))
    }

    /// A queue that fills delays every answer more than the one before. A host that was busy answers, or hears,
    /// several at once, the later ones after less time.
    fn judge(&mut self, now: Delivered) -> Sign {
        if now.delay < CLEAR {
            self.late = None;
            let ended = self.backlog.take();
            return Sign::Clear { delivered_bps: ended.map(|backlog| rate(backlog.began, now)) };
        }
        let late = (now.delay > LATE).then_some(now);
        let before = std::mem::replace(&mut self.late, late).filter(|_| now.delay > CONGESTED);
        let began = before.filter(|late| late.delay <= now.delay && late.at < now.at);
        let is_new = self.backlog.is_none();
        let known = self.backlog.or(began.map(|since| Backlog { began: since, since, bps: 0 }));
        let Some(mut backlog) = known else { return Sign::Unclear { waiting: now.delay } };
        backlog.measure(now);
        self.backlog = Some(backlog);
        let on_its_way = (self.sent_bytes - now.bytes) as f64 * 8.0;
        let waiting = Duration::from_secs_f64(on_its_way / backlog.bps.max(1) as f64);
        let least = self.least.0.unwrap_or_default();
        Sign::Backlog { bps: backlog.bps, waiting: waiting.saturating_sub(least), is_new }
    }
}

impl Backlog {
    /// Delivery rate since the backlog began, or of late if it lasts.
    fn measure(&mut self, now: Delivered) {
        let span = self.since.span_to(now);
        if self.bps == 0 || span >= LEAST_SPAN {
            self.bps = rate(self.since, now);
        }
        if span >= SPAN {
            self.since = now;
        }
    }
}

impl Delivered {
    /// Time up to a later moment in which there was something to deliver.
    fn span_to(self, to: Self) -> Duration {
        to.at.since(self.at).saturating_sub(to.paused - self.paused)
    }
}

/// What was delivered between two moments, in bit/s.
fn rate(from: Delivered, to: Delivered) -> u64 {
    let bits = (to.bytes - from.bytes) as f64 * 8.0;
    (bits / from.span_to(to).as_secs_f64().max(1e-6)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow of 100 Mbit/s over a link with this rate from 100 ms on; the signs from then on, with their times.
    fn signs(link_bps: f64, stops_for_ms: f64) -> Vec<(Time, Sign)> {
        const SENT_BPS: f64 = 1e8;
        const PACKET: usize = 3000;
        let mut delivery = Delivery::default();
        let mut answers: VecDeque<(u64, u32)> = VecDeque::new();
        let (mut free_us, mut signs) = (0.0_f64, Vec::new());
        for packet in 0..1250 {
            let now_us = packet as f64 * PACKET as f64 * 8e6 / SENT_BPS;
            while answers.front().is_some_and(|(at, _)| *at <= now_us as u64) {
                let (at, echo) = answers.pop_front().expect("it is there");
                signs.extend(delivery.handle_answer(echo, Time(at)).map(|sign| (Time(at), sign)));
            }
            let is_changed = now_us >= 100_000.0;
            if is_changed && free_us < 100_000.0 {
                free_us = 100_000.0 + 1000.0 * stops_for_ms;
            }
            let bps = if is_changed { link_bps } else { 1.1 * SENT_BPS };
            free_us = free_us.max(now_us) + PACKET as f64 * 8e6 / bps;
            delivery.note_sent(PACKET);
            if let Some(echo) = delivery.poll_pulse(Time(now_us as u64)) {
                answers.push_back((free_us as u64 + 100, echo));
            }
        }
        signs
    }

    #[test]
    fn a_slower_link_shows_with_its_rate_before_much_waits() {
        let signs = signs(4e7, 0.0);
        let is_backlog = |(_, sign): &&(Time, Sign)| matches!(sign, Sign::Backlog { .. });
        let first = signs.iter().find(is_backlog).expect("a sign");
        let Sign::Backlog { bps, is_new, .. } = first.1 else { panic!("found as one") };
        assert!(is_new && first.0 < Time(140_000), "{first:?}");
        assert!((3.8e7..4.2e7).contains(&(bps as f64)), "{bps} bit/s");
        assert_eq!(
            signs.iter().filter(|(_, s)| matches!(s, Sign::Backlog { is_new: true, .. })).count(),
            1
        );
    }

    #[test]
    fn a_host_that_stops_for_a_moment_is_no_slower_link() {
        for stop_ms in [3.0, 8.0, 15.0] {
            let signs = signs(1e9, stop_ms);
            let is_backlog = |(_, sign): &(Time, Sign)| matches!(sign, Sign::Backlog { .. });
            assert!(!signs.iter().any(is_backlog), "{stop_ms} ms: {signs:?}");
        }
    }

    /// Two answers that were late, and between them a second with nothing to send.
    #[test]
    fn a_pause_is_no_slower_link() {
        let mut delivery = Delivery::default();
        let mut answer = |pause_us: u64, sent_at: u64, delay_us: u64| {
            delivery.note_pause(Duration::from_micros(pause_us));
            delivery.note_sent(PULSE_BYTES as usize);
            let echo = delivery.poll_pulse(Time(sent_at)).expect("due");
            delivery.handle_answer(echo, Time(sent_at + 100 + delay_us))
        };
        assert_eq!(answer(0, 0, 0), Some(Sign::Clear { delivered_bps: None }));
        answer(0, 10_000, 4_000);
        let Some(Sign::Backlog { bps, .. }) = answer(1_000_000, 1_020_000, 6_000) else {
            panic!("two in a row come later each");
        };
        assert!((4e7..5e7).contains(&(bps as f64)), "64 KiB in 12 ms, not in a second: {bps}");
    }

    #[test]
    fn answers_to_unknown_pulses_say_nothing() {
        let mut delivery = Delivery::default();
        assert_eq!(delivery.poll_pulse(Time(0)), None, "nothing is sent");
        delivery.note_sent(PULSE_BYTES as usize);
        let echo = delivery.poll_pulse(Time(0)).expect("due");
        assert_eq!(delivery.poll_pulse(Time(5000)), None, "nothing was sent since");
        assert_eq!(delivery.handle_answer(echo ^ 1, Time(100)), None);
        assert_eq!(
            delivery.handle_answer(echo, Time(100)),
            Some(Sign::Clear { delivered_bps: None })
        );
        assert_eq!(delivery.handle_answer(echo, Time(200)), None, "once");
    }
}
