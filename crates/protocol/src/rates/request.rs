//! The child's side of a negotiation in one tree: telling the parent what it needs to know until it has heard, and keeping
//! the latest rate.

use std::time::Duration;

use wiresum_wire::Round;
use wiresum_wire::control::{Demand, double_word, rate, ready, set_double_word, set_word, word};

use super::latest::{Epoch, Latest, Novelty};
use crate::Time;

/// First pause before a notification is repeated: several round trips of a data centre, and beyond what a busy host's scheduler takes.
const REPEAT_AFTER: Duration = Duration::from_millis(5);
/// Longest pause between repetitions; each doubles the one before.
const MAX_REPEAT_AFTER: Duration = Duration::from_millis(80);
/// A child that sends says so anew this often, so that a lost rate, or a node that has forgotten, costs no more than this.
const REFRESH_AFTER: Duration = Duration::from_millis(100);
/// How long a child waits for its first rate before it goes ahead without one: an order of magnitude above what it takes
/// (XAgg §VI-C measures 12 ms), so that only a lost or silent parent is not waited for.
pub const ANSWER_BOUND: Duration = Duration::from_millis(50);

/// What a child tells its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is sending.
    pub demand: Demand,
    /// The oldest round of which values are still to be sent; between collectives, the next one.
    pub round: Round,
    /// Most that it can send, in bit/s.
    pub most_bps: u64,
}

/// What made a child lower its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// What was delivered, in bit/s.
    pub delivered_bps: u64,
    /// Packets lost, in parts per million of those sent.
    pub loss_ppm: u32,
}

/// The two periods of a negotiation (XAgg §IV-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A child begins to send: rate initialization.
    Initialization,
    /// It says something else while it sends: rate update.
    Update,
}

/// Answers and the time that they took, in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latencies {
    initializations: u64,
    initialization_us: u64,
    updates: u64,
    update_us: u64,
}

impl Latencies {
    pub(super) fn note(&mut self, period: Period, latency: Duration) {
        let (count, sum_us) = match period {
            Period::Initialization => (&mut self.initializations, &mut self.initialization_us),
            Period::Update => (&mut self.updates, &mut self.update_us),
        };
        *count += 1;
        *sum_us += latency.as_micros() as u64;
    }

    /// Together with those of another tree.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.initializations += other.initializations;
        self.initialization_us += other.initialization_us;
        self.updates += other.updates;
        self.update_us += other.update_us;
        self
    }

    /// Counters by name: how many, and microseconds of all together.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("rate_initializations", self.initializations),
            ("rate_initialization_us", self.initialization_us),
            ("rate_updates", self.updates),
            ("rate_update_us", self.update_us),
        ]
    }
}

/// A child's negotiation with its parent in one tree.
#[derive(Clone, Debug, Default)]
pub struct Request {
    notice: Option<Notice>,
    congestion: Congestion,
    epoch: Epoch,
    /// Number of the latest notification; 0 before the first.
    sequence: u32,
    /// When to say it (again).
    send_at: Option<Time>,
    pause: Duration,
    /// The parent has taken the latest notification into account.
    is_acknowledged: bool,
    /// When the child began to send without a rate.
    waiting_since: Option<Time>,
    granted_bps: Option<u64>,
    latest_rate: Latest,
    /// When the latest notification was due first, and what it is part of, until it is acknowledged.
    asked: Option<(Time, Period)>,
    /// How long answers took.
    pub latencies: Latencies,
    /// Answers that took their bound.
    pub unanswered: u64,
    /// Rates taken over.
    pub rates: u64,
}

impl Request {
    /// The requests of a child that has begun at `epoch`.
    #[must_use]
    pub fn of(epoch: Epoch) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Forgets what was said and granted. What was counted stays, and notifications are counted on, as the parent may remember them.
    pub fn restart(&mut self) {
        let Self { unanswered, rates, latencies, epoch, sequence, .. } = *self;
        *self = Self { unanswered, rates, latencies, epoch, sequence, ..Self::default() };
    }

    /// Says something new; what is said already is not repeated.
    pub fn announce(&mut self, notice: Notice, now: Time) {
        if self.notice != Some(notice) {
            self.notify(notice, Congestion::default(), now);
        }
    }

    /// Says that the rate was lowered, and why.
    pub fn report(&mut self, notice: Notice, congestion: Congestion, now: Time) {
        self.notify(notice, congestion, now);
    }

    fn notify(&mut self, notice: Notice, congestion: Congestion, now: Time) {
        let was_sending = self.is_sending();
        (self.notice, self.congestion) = (Some(notice), congestion);
        self.sequence = self.sequence.wrapping_add(1).max(1);
        (self.send_at, self.pause, self.is_acknowledged) = (Some(now), REPEAT_AFTER, false);
        let period = if was_sending { Period::Update } else { Period::Initialization };
        self.asked = self.is_sending().then_some((now, period));
        if period == Period::Initialization && self.is_sending() {
            self.waiting_since = Some(now);
        }
    }

    /// What was said last.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        self.notice
    }

    fn is_sending(&self) -> bool {
        self.notice.is_some_and(|notice| notice.demand == Demand::Sending)
    }

    /// Whether the answer to the beginning is still worth waiting for.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.is_sending() && self.waiting_since.is_some()
    }

    /// The rate that the parent has granted; `None` if it never said.
    #[must_use]
    pub fn granted_bps(&self) -> Option<u64> {
        self.granted_bps
    }

    /// When [`Self::handle_timeout`] or [`Self::poll_ready`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let bound = self.waiting_since.filter(|_| self.is_sending());
        self.send_at.into_iter().chain(bound.map(|since| since.plus(ANSWER_BOUND))).min()
    }

    /// Gives up an answer that does not come. Whether it did so now.
    pub fn handle_timeout(&mut self, now: Time) -> bool {
        let is_due = |since: Time| now.since(since) >= ANSWER_BOUND;
        if !self.is_waiting() || !self.waiting_since.is_some_and(is_due) {
            return false;
        }
        (self.waiting_since, self.granted_bps) = (None, None);
        self.unanswered += 1;
        true
    }

    /// Writes the payload of a notification if one is due, and says for which round.
    pub fn poll_ready(&mut self, now: Time, payload: &mut [u8]) -> Option<Round> {
        let notice = self.notice.filter(|_| self.send_at.is_some_and(|at| at <= now))?;
        let (pause, next) = (self.pause, (2 * self.pause).min(MAX_REPEAT_AFTER));
        self.send_at = if self.is_acknowledged {
            self.is_sending().then(|| now.plus(REFRESH_AFTER))
        } else {
            Some(now.plus(pause))
        };
        self.pause = next;
        payload.fill(0);
        set_word(payload, ready::SEQUENCE_WORD, self.sequence);
        set_word(payload, ready::DEMAND_WORD, notice.demand as u32);
        set_double_word(payload, ready::MOST_BPS_WORD, notice.most_bps);
        set_double_word(payload, ready::DELIVERED_BPS_WORD, self.congestion.delivered_bps);
        set_word(payload, ready::LOSS_PPM_WORD, self.congestion.loss_ppm);
        set_word(payload, ready::EPOCH_WORD, self.epoch.0);
        Some(notice.round)
    }

    /// Takes a rate over, unless a later one is here.
    pub fn handle_rate(&mut self, payload: &[u8], now: Time) {
        let sequence = word(payload, rate::SEQUENCE_WORD);
        let epoch = Epoch(word(payload, rate::EPOCH_WORD));
        if self.latest_rate.take(epoch, sequence, now) == Novelty::Late {
            return;
        }
        self.rates += 1;
        if word(payload, rate::ACKNOWLEDGED_WORD) == self.sequence {
            self.is_acknowledged = true;
            self.waiting_since = None;
            if let Some((since, period)) = self.asked.take() {
                self.latencies.note(period, now.since(since));
            }
            self.send_at = self.is_sending().then(|| now.plus(REFRESH_AFTER));
        }
        self.granted_bps = Some(double_word(payload, rate::GRANTED_BPS_WORD));
    }
}
