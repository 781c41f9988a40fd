//! How fast a stream of values sends: at what its parent grants (see [`crate::rates`]), in bursts of about a millisecond.

use std::time::Duration;

use wiresum_wire::control::{Demand, ready};
use wiresum_wire::{HEADER_LEN, IpVersion, Kind, Round, cable_len};

use super::{Transmit, Worker};
use crate::Time;
use crate::plan::SubModel;
use crate::rates::{Congestion, Notice, Request, UNLIMITED_BPS};

/// A bucket's worth of time: the most that is sent at once, and what a late wake-up may cost without loss of rate. Sending resumes at
/// half of it, so that a wake-up (60 µs on a busy host) is worth a millisecond of packets and the engine never spins.
const BURST: Duration = Duration::from_millis(2);
/// Fewest fragments that are worth asking for: less than a queue anywhere holds, and sent before an answer could come.
const WORTH_ASKING: u32 = 64;
/// Loss beyond which a rate is too high (XAgg §IV-C: "such as 1 %").
const LOSS_THRESHOLD: f64 = 0.01;
/// Time, and transmissions, over which loss is counted: enough packets that one of them is not yet beyond the threshold.
const PERIOD: Duration = Duration::from_millis(20);
const PERIOD_PACKETS: u32 = 200;
/// Part of what was delivered at which a stream goes on, so that the queue that overflowed drains.
const DRAIN: f64 = 0.95;
/// Least part of the granted rate that loss leaves: a link that loses packets at any rate is not made better by silence.
const LEAST_PART: f64 = 0.25;
/// Part of the granted rate by which a stream that has lost tries more, after each pause without loss.
const PROBE_STEP: f64 = 0.05;
const PROBE_PAUSE: Duration = Duration::from_millis(100);

/// Lets bytes through at a rate.
#[derive(Clone, Debug, Default)]
struct Bucket {
    /// When it would be full, in nanoseconds, if nothing more were taken.
    full_at_ns: u64,
    is_drained: bool,
}

impl Bucket {
    /// When sending resumes; `None` if it may go on.
    fn resumes_at(&self, now: Time) -> Option<Time> {
        let half = BURST.as_nanos() as u64 / 2;
        let at = Time(self.full_at_ns.saturating_sub(half).div_ceil(1000));
        (self.is_drained && at > now).then_some(at)
    }

    fn take(&mut self, bytes: usize, rate_bps: u64, now: Time) {
        let now_ns = now.0 * 1000;
        let cost_ns = bytes as u128 * 8_000_000_000 / u128::from(rate_bps.max(1));
        self.full_at_ns = self.full_at_ns.max(now_ns).saturating_add(cost_ns.min(1 << 40) as u64);
        self.is_drained = self.full_at_ns > now_ns + BURST.as_nanos() as u64;
    }
}

/// Transmissions since a moment.
#[derive(Clone, Debug, Default)]
struct Period {
    began: Time,
    sent: u32,
    repeated: u32,
}

/// The pace of one negotiated stream.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub request: Request,
    bucket: Bucket,
    /// Most that the worker can send in this stream.
    most_bps: u64,
    /// What loss has lowered the rate to, and when it may be tried to raise that.
    ceiling: Option<(u64, Time)>,
    period: Period,
    /// Times that the rate was lowered.
    pub congestions: u64,
}

impl Pace {
    /// Of a stream with this share of what the worker can send; `None` if no one negotiates there.
    pub fn of(plan: &crate::Plan, sub_model: &SubModel, rank: u32) -> Option<Self> {
        let most = plan.workers[rank as usize].egress_bps.unwrap_or(UNLIMITED_BPS);
        let most_bps = (most as f64 * sub_model.share) as u64;
        sub_model.is_negotiated(plan).then(|| Self {
            request: Request::default(),
            bucket: Bucket::default(),
            most_bps,
            ceiling: None,
            period: Period::default(),
            congestions: 0,
        })
    }

    /// What it sends at now; `None` without a limit.
    pub fn rate_bps(&self) -> Option<u64> {
        let granted = self.request.granted_bps().filter(|bps| (1..UNLIMITED_BPS).contains(bps));
        let ceiling = self.ceiling.map(|(bps, _)| bps);
        granted.into_iter().chain(ceiling).min()
    }

    /// When values may be sent; `None` if now.
    fn resumes_at(&self, now: Time) -> Option<Time> {
        if self.request.is_waiting() {
            return self.request.poll_timeout();
        }
        self.rate_bps().and_then(|_| self.bucket.resumes_at(now))
    }

    fn demand(&mut self, unsent: u32, round: Round, now: Time) {
        let is_sending = self.request.notice().is_some_and(|n| n.demand == Demand::Sending);
        let demand = match (is_sending, unsent) {
            (false, 0..WORTH_ASKING) => return,
            (true, 0) => Demand::Idle,
            _ => Demand::Sending,
        };
        self.request.announce(Notice { demand, round, most_bps: self.most() }, now);
    }

    fn most(&self) -> u64 {
        self.ceiling.map_or(self.most_bps, |(bps, _)| bps.min(self.most_bps))
    }

    fn note_sent(&mut self, bytes: usize, is_repetition: bool, now: Time) {
        if let Some(rate) = self.rate_bps() {
            self.bucket.take(bytes, rate, now);
        }
        self.period.sent += 1;
        self.period.repeated += u32::from(is_repetition);
        if self.period.sent >= PERIOD_PACKETS && now.since(self.period.began) >= PERIOD {
            self.judge(bytes, now);
            self.period = Period { began: now, ..Period::default() };
        }
    }

    /// Lowers the rate after a period with loss; raises it again after a pause without.
    fn judge(&mut self, bytes: usize, now: Time) {
        let loss = f64::from(self.period.repeated) / f64::from(self.period.sent);
        let seconds = now.since(self.period.began).as_secs_f64();
        let sent_bps = f64::from(self.period.sent) * bytes as f64 * 8.0 / seconds;
        let granted = self.request.granted_bps().unwrap_or(self.most_bps).min(self.most_bps) as f64;
        if loss > LOSS_THRESHOLD {
            let delivered = sent_bps * (1.0 - loss);
            let bps =
                (DRAIN * delivered).clamp(LEAST_PART * granted.min(delivered), granted.max(1.0));
            self.ceiling = Some((bps as u64, now.plus(PROBE_PAUSE)));
            self.congestions += 1;
            let congestion =
                Congestion { delivered_bps: delivered as u64, loss_ppm: (loss * 1e6) as u32 };
            self.report(congestion, now);
        } else if let Some((bps, _)) = self.ceiling.filter(|(_, at)| *at <= now) {
            let raised = bps as f64 + PROBE_STEP * granted;
            let is_moot = raised >= self.most_bps as f64;
            self.ceiling = (!is_moot).then(|| (raised as u64, now.plus(PROBE_PAUSE)));
            self.report(Congestion::default(), now);
        }
    }

    fn report(&mut self, congestion: Congestion, now: Time) {
        if let Some(notice) = self.request.notice() {
            self.request.report(Notice { most_bps: self.most(), ..notice }, congestion, now);
        }
    }
}

impl Worker {
    /// Whether a stream may send values now. Away from home no one negotiates.
    pub(super) fn may_contribute(&mut self, index: usize, now: Time) -> bool {
        if self.streams[index].pace.is_none() || !self.streams[index].is_home() {
            return true;
        }
        let (unsent, round) = self.unsent(index);
        let Some(pace) = &mut self.streams[index].pace else { return true };
        pace.demand(unsent, round, now);
        pace.resumes_at(now).is_none()
    }

    /// Fragments of a stream that are still to be sent for the first time, at most, and the oldest round that has some; else the next.
    fn unsent(&self, index: usize) -> (u32, Round) {
        let stream = &self.streams[index];
        let has_values = |round: &&super::OpenRound| round.layout.fragments() > 0;
        let mut unplaced =
            self.rounds.range(self.placed.min(self.rounds.len())..).filter(has_values);
        let first = unplaced.next();
        let count: u32 = first.into_iter().chain(unplaced).map(|r| r.layout.fragments()).sum();
        let round = stream.next_round().or(first.map(|round| round.round));
        (stream.unsent().saturating_add(count), round.unwrap_or(self.next_round))
    }

    pub(super) fn note_pace(&mut self, index: usize, len: usize, is_repetition: bool, now: Time) {
        let version =
            if self.streams[index].address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        if let Some(pace) = &mut self.streams[index].pace {
            pace.note_sent(cable_len(len - HEADER_LEN, version), is_repetition, now);
        }
    }

    /// The next ready that is due.
    pub(super) fn transmit_ready(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let payload = &mut buffer[HEADER_LEN..][..4 * ready::WORDS];
        let streams = self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.is_home());
        let mut due = streams.filter_map(|(index, stream)| {
            Some((index, stream.pace.as_mut()?.request.poll_ready(now, payload)?))
        });
        let (index, round) = due.next()?;
        drop(due);
        let draft = super::Draft { round: round.0, ..self.draft(index, Kind::Ready) };
        let len = draft.emit_summed(buffer, 4 * ready::WORDS);
        Some(Transmit { destination: self.streams[index].address, len })
    }

    pub(super) fn handle_rate_timeouts(&mut self, now: Time) {
        for pace in self.streams.iter_mut().filter_map(|stream| stream.pace.as_mut()) {
            pace.request.handle_timeout(now);
        }
    }

    /// When a stream may send again, or has to ask.
    pub(super) fn pace_timeout(&self) -> Option<Time> {
        let of_stream = |stream: &super::Stream| {
            let pace = stream.pace.as_ref().filter(|_| stream.is_home())?;
            let may_resume = pace.rate_bps().is_some() && !pace.request.is_waiting();
            let resumes_at = pace
                .bucket
                .resumes_at(Time(0))
                .filter(|_| may_resume && stream.has_contributions());
            pace.request.poll_timeout().into_iter().chain(resumes_at).min()
        };
        self.streams.iter().filter_map(of_stream).min()
    }

    /// What was negotiated, for people and metrics; rates are the sum over the streams.
    pub(super) fn rate_counters(&self) -> [(&'static str, u64); 4] {
        let paces = || self.streams.iter().filter_map(|stream| stream.pace.as_ref());
        [
            ("rate_bps", paces().filter_map(Pace::rate_bps).sum()),
            ("rates_received", paces().map(|pace| pace.request.rates).sum()),
            ("rates_unanswered", paces().map(|pace| pace.request.unanswered).sum()),
            ("rates_lowered", paces().map(|pace| pace.congestions).sum()),
        ]
    }
}
