//! How fast a stream of values sends: at what its parent grants (see [`crate::rates`]), in bursts of about a
//! millisecond.

use std::time::Duration;

use wiresum_wire::control::{Demand, ready, status};
use wiresum_wire::{HEADER_LEN, Kind, Round, cable_len};

use super::Asked;
use super::ceiling::Ceiling;
use super::delivery::{Delivery, Sign};
use super::stream::Stream;
use crate::bucket::Bucket;
use crate::session::rounds::Rounds;
use wiresum_protocol::Time;
use wiresum_protocol::compose::{Draft, Transmit};
use wiresum_protocol::plan::PlanStream;
use wiresum_protocol::rates::{Congestion, Latencies, Notice, Request, UNLIMITED_BPS};
use wiresum_protocol::recovery::{PULSE, Tally};

/// Fewest fragments that are worth asking for: less than a queue anywhere holds, and sent before an answer could
/// come.
const WORTH_ASKING: u32 = 64;
/// Loss beyond which a rate is too high (XAgg §IV-C: "such as 1 %").
const LOSS_THRESHOLD: f64 = 0.01;
/// Time, and packets whose fate has become known, over which loss is counted: enough that one of them is not yet
/// beyond the threshold.
const PERIOD: Duration = Duration::from_millis(20);
const PERIOD_PACKETS: u64 = 200;
/// Silence that is not a rate but the want of something to send.
const PAUSE: Duration = Duration::from_millis(5);
/// Periods after the rate was lowered in which what is sent again was mostly lost before.
const PERIODS_OF_AFTERMATH: u32 = 4;
/// Periods over which loss is averaged: a few hundred packets say little about two of a hundred.
const AVERAGED_PERIODS: f64 = 4.0;
/// Part of what was sent that counts as delivered at least: a rate falls by no more than half at once, as a node that
/// has lost its memory looks like a link that loses everything.
const LEAST_DELIVERED: f64 = 0.5;
/// How much more than the loss that no lower rate cures is taken for chance.
const CHANCE: f64 = 2.0;

/// What was sent since a moment, and what has become known since. Repetitions are no measure of loss: at the end of a
/// round, nothing else is sent.
#[derive(Clone, Debug, Default)]
struct Period {
    /// Later by the pauses since.
    began: Time,
    sent_bytes: u64,
    before: Tally,
}

impl Period {
    /// What has become of how many packets, and the part of them that was lost.
    fn outcome(&self, now: Tally) -> (u64, f64) {
        let lost = now.lost - self.before.lost;
        let known = lost + now.arrived - self.before.arrived;
        (known, lost as f64 / known.max(1) as f64)
    }
}

/// What is known about loss from having lowered the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    /// Part of the packets that is lost, over some periods.
    mean: f64,
    /// Part of the packets that is lost at any rate.
    incurable: f64,
    /// For what loss the rate was lowered, and periods since.
    treated: Option<(f64, u32)>,
}

/// What a period's loss says about the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// Nothing new.
    Acceptable,
    /// It is too high.
    TooHigh,
    /// To lower it was of no use.
    LoweredInVain,
}

impl Losses {
    fn judge(&mut self, latest: f64) -> Judgement {
        self.mean += (latest - self.mean) / AVERAGED_PERIODS;
        let loss = self.mean;
        if loss <= LOSS_THRESHOLD {
            *self = Self { mean: loss, ..Self::default() };
            return Judgement::Acceptable;
        }
        match &mut self.treated {
            _ if loss <= CHANCE * self.incurable => Judgement::Acceptable,
            Some((_, periods)) if *periods < PERIODS_OF_AFTERMATH => {
                *periods += 1;
                Judgement::Acceptable
            }
            Some((before, _)) if loss > *before / CHANCE => {
                *self = Self { incurable: loss.max(*before), treated: None, mean: loss };
                Judgement::LoweredInVain
            }
            _ => {
                self.treated = Some((loss, 0));
                Judgement::TooHigh
            }
        }
    }
}

/// The pace of one negotiated stream.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub request: Request,
    bucket: Bucket,
    /// Most that the worker can send in this stream.
    most_bps: u64,
    /// What congestion has lowered the rate to.
    ceiling: Option<Ceiling>,
    delivery: Delivery,
    /// When something was sent last.
    latest: Time,
    period: Period,
    losses: Losses,
    /// Times that the rate was lowered.
    pub congestions: u64,
}

impl Pace {
    /// The pacing of a stream with this share of what the worker can send; `None` if no one negotiates there.
    pub fn of(plan: &wiresum_protocol::Plan, sub_model: &PlanStream, rank: u32) -> Option<Self> {
        let most = plan.workers[rank as usize].egress_bps.unwrap_or(UNLIMITED_BPS);
        let most_bps = (most as f64 * sub_model.share) as u64;
        sub_model.is_negotiated(plan).then(|| Self {
            request: Request::default(),
            bucket: Bucket::default(),
            most_bps,
            ceiling: None,
            delivery: Delivery::default(),
            latest: Time::default(),
            period: Period::default(),
            losses: Losses::default(),
            congestions: 0,
        })
    }

    /// The worker is home again: what was measured and granted before says nothing.
    pub fn begin_anew(&mut self) {
        self.request.restart();
        (self.bucket, self.ceiling) = (Bucket::default(), None);
        (self.delivery, self.period) = (Delivery::default(), Period::default());
        self.losses = Losses::default();
    }

    /// What it sends at now; `None` without a limit.
    fn rate_bps(&self, now: Time) -> Option<u64> {
        let ceiling = self.ceiling.map(|ceiling| ceiling.rate_bps(now));
        self.granted_bps().into_iter().chain(ceiling).min()
    }

    /// [`Self::rate_bps`] when nothing has to wait.
    fn limit_bps(&self) -> Option<u64> {
        let ceiling = self.ceiling.map(|ceiling| ceiling.bps);
        self.granted_bps().into_iter().chain(ceiling).min()
    }

    fn granted_bps(&self) -> Option<u64> {
        self.request.granted_bps().filter(|bps| (1..UNLIMITED_BPS).contains(bps))
    }

    /// When values may be sent; `None` if now.
    fn resumes_at(&self, now: Time) -> Option<Time> {
        if self.request.is_waiting() {
            return self.request.poll_timeout();
        }
        self.limit_bps().and_then(|_| self.bucket.resumes_at(now))
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
        self.ceiling.map_or(self.most_bps, |ceiling| ceiling.bps.min(self.most_bps))
    }

    /// Takes bytes out of the bucket. Whether there is a limit.
    fn take(&mut self, bytes: usize, now: Time) -> bool {
        let rate = self.rate_bps(now);
        rate.into_iter().for_each(|bps| self.bucket.take(bytes, bps, now));
        rate.is_some()
    }

    fn note_sent(&mut self, bytes: usize, tally: Tally, now: Time) {
        let pause = self.pause(now);
        self.period.began = self.period.began.plus(pause);
        self.delivery.note_pause(pause);
        self.latest = now;
        if self.take(bytes, now) {
            self.delivery.note_sent(bytes);
        }
        self.period.sent_bytes += bytes as u64;
        let (known, loss) = self.period.outcome(tally);
        if known >= PERIOD_PACKETS && now.since(self.period.began) >= PERIOD {
            self.judge(loss, now);
            self.period = Period { began: now, sent_bytes: 0, before: tally };
        }
    }

    /// How long nothing has been sent for want of something to send; what the rate had forbidden is no pause.
    fn pause(&self, now: Time) -> Duration {
        let might_have = self.latest.max(self.bucket.full_at());
        let pause = now.since(might_have.min(now));
        if pause > PAUSE { pause } else { Duration::ZERO }
    }

    /// Lowers the rate after a period with loss; where that is of no use, it is as before.
    fn judge(&mut self, loss: f64, now: Time) {
        match self.losses.judge(loss) {
            Judgement::Acceptable => {}
            Judgement::LoweredInVain => self.ceiling = None,
            Judgement::TooHigh => self.lower(loss, now),
        }
    }

    fn lower(&mut self, loss: f64, now: Time) {
        let seconds = now.since(self.period.began).as_secs_f64();
        let sent_bps = self.period.sent_bytes as f64 * 8.0 / seconds;
        let granted = self.request.granted_bps().unwrap_or(self.most_bps).min(self.most_bps);
        let delivered = sent_bps * (1.0 - loss).max(LEAST_DELIVERED);
        self.ceiling = Some(Ceiling::after_loss(delivered, granted as f64, now));
        let loss_ppm = (loss * 1e6) as u32;
        self.report(Congestion { delivered_bps: delivered as u64, loss_ppm }, now);
    }

    /// Lowers the rate when a queue builds up, and raises it again when nothing waits.
    fn handle_answer(&mut self, echo: u32, now: Time) {
        match (self.delivery.handle_answer(echo, now), &mut self.ceiling) {
            (Some(Sign::Backlog { bps, waiting, is_new }), ceiling) => {
                *ceiling = Some(Ceiling::after_backlog(bps, waiting, now));
                // What is lost now is lost to this queue.
                self.losses.treated = None;
                if is_new {
                    self.report(Congestion { delivered_bps: bps, loss_ppm: 0 }, now);
                }
            }
            (Some(Sign::Unclear { waiting }), Some(ceiling)) => ceiling.note_waiting(waiting),
            (Some(Sign::Clear { delivered_bps }), Some(ceiling)) => {
                delivered_bps.into_iter().for_each(|bps| ceiling.note_delivered(bps));
                let has_risen = ceiling.try_more(now);
                if has_risen && ceiling.bps >= self.most_bps {
                    self.ceiling = None;
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, congestion: Congestion, now: Time) {
        self.congestions += 1;
        if let Some(notice) = self.request.notice() {
            self.request.report(Notice { most_bps: self.most(), ..notice }, congestion, now);
        }
    }
}

impl Asked {
    /// Whether a stream may send values now. Away from home no one negotiates.
    pub(super) fn may_contribute(&mut self, index: usize, rounds: &Rounds, now: Time) -> bool {
        if self.streams[index].pace.is_none() || !self.streams[index].is_home() {
            return true;
        }
        let (unsent, round) = self.unsent(index, rounds);
        let Some(pace) = &mut self.streams[index].pace else { return true };
        pace.demand(unsent, round, now);
        pace.resumes_at(now).is_none()
    }

    /// Fragments of a stream that are still to be sent for the first time, at most, and the oldest round that has
    /// some; else the next.
    fn unsent(&self, index: usize, rounds: &Rounds) -> (u32, Round) {
        let (stream, positions) = (&self.streams[index], rounds.positions(index));
        let (count, first) = rounds.unplaced();
        let round = stream.next_round(positions).or(first);
        (stream.unsent(positions).saturating_add(count), round.unwrap_or(rounds.next()))
    }

    pub(super) fn note_pace(&mut self, index: usize, len: usize, now: Time) {
        let stream = &mut self.streams[index];
        let (version, is_home) = (stream.ip_version(), stream.is_home());
        let tally = stream.recovery.tally();
        // What is sent elsewhere is nothing that would have to be made up for at home.
        if let Some(pace) = stream.pace.as_mut().filter(|_| is_home) {
            pace.note_sent(cable_len(len - HEADER_LEN, version), tally, now);
        }
    }

    /// Writes the pulse of a stream if one is due.
    pub(super) fn transmit_pulse(
        &mut self,
        index: usize,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let version = self.streams[index].ip_version();
        let stream = &mut self.streams[index];
        let pace = stream.pace.as_mut().filter(|_| stream.absence.is_none())?;
        let echo = pace.delivery.poll_pulse(now)?;
        pace.take(cable_len(4 * status::WORDS, version), now);
        let (first, destination) = (stream.recovery.oldest(), stream.address);
        self.counters.pulses += 1;
        let len = self.write_question(index, first, echo, buffer)?;
        Some(Transmit { destination, len })
    }

    /// Takes the answer to a pulse. Whether it was one.
    pub(super) fn handle_pulse_answer(&mut self, index: usize, echo: u32, now: Time) -> bool {
        let is_pulse = echo & PULSE != 0;
        if let Some(pace) = self.streams[index].pace.as_mut().filter(|_| is_pulse) {
            pace.handle_answer(echo, now);
        }
        is_pulse
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
        let draft = Draft { round: round.0, ..self.draft(index, Kind::Ready) };
        let len = draft.emit_proven(buffer, 4 * ready::WORDS, &self.streams[index].key?);
        Some(Transmit { destination: self.streams[index].address, len })
    }

    pub(super) fn handle_rate_timeouts(&mut self, now: Time) {
        for pace in self.streams.iter_mut().filter_map(|stream| stream.pace.as_mut()) {
            pace.request.handle_timeout(now);
        }
    }

    /// When a stream may send again, or has to ask.
    pub(super) fn pace_timeout(&self, rounds: &Rounds) -> Option<Time> {
        let of_stream = |(index, stream): (usize, &Stream)| {
            let pace = stream.pace.as_ref().filter(|_| stream.is_home())?;
            let may_resume = pace.limit_bps().is_some() && !pace.request.is_waiting();
            let resumes_at = pace
                .bucket
                .resumes_at(Time(0))
                .filter(|_| may_resume && stream.has_contributions(rounds.positions(index)));
            pace.request.poll_timeout().into_iter().chain(resumes_at).min()
        };
        self.streams.iter().enumerate().filter_map(of_stream).min()
    }

    /// What was negotiated, for people and metrics; rates are the sum over the streams.
    pub(super) fn rate_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let paces = || self.streams.iter().filter_map(|stream| stream.pace.as_ref());
        let latencies = paces().map(|pace| pace.request.latencies);
        let latencies = latencies.reduce(Latencies::plus).unwrap_or_default();
        let rates = [
            ("rate_bps", paces().filter_map(Pace::limit_bps).sum()),
            ("rates_received", paces().map(|pace| pace.request.rates).sum()),
            ("rates_unanswered", paces().map(|pace| pace.request.unanswered).sum()),
            ("rates_lowered", paces().map(|pace| pace.congestions).sum()),
        ];
        rates.into_iter().chain(latencies.counters())
    }
}
