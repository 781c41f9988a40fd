//! The loop of events.

use std::collections::VecDeque;

use super::current::{Pattern, Template, Weaver};
use super::leftover::Leftover;
use super::sharing::Sharing;
use super::timers::Timers;
use crate::network::{Network, picoseconds, seconds};
use crate::record::tell;
use crate::rounds::Rounds;
use crate::timeline::Loads;
use crate::trace::Trace;
use crate::{Scenario, SimulationError, Sink};

/// Relative to a current's bytes: a smaller remainder or lead is rounding, and gets no event of its own.
pub(super) const TOLERANCE: f64 = 1e-9;
/// Stands for a link without a rate: faster than any that has one.
const UNLIMITED_BPS: f64 = 1e15;
/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 12;

/// Where a current stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Open,
    Ended,
}

/// A current of a round.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub job: u32,
    pub round: u32,
    /// In the job's pattern; `base` is the number of the round's first.
    pub template: u32,
    pub base: u32,
    pub stage: Stage,
    pub sent_bytes: f64,
}

/// A round that has currents.
pub(super) struct Running {
    pub base: u32,
    pub begun: usize,
    pub ended: usize,
    /// By rank: currents that have to end before it has everything.
    pub missing: Vec<u32>,
}

/// See the module.
pub(super) struct Fluid<'a> {
    pub scenario: &'a Scenario,
    pub network: Network,
    pub patterns: Vec<Pattern>,
    pub sharing: Sharing,
    /// What directions leave to the jobs.
    pub leftover: Leftover,
    pub currents: Vec<Current>,
    /// Numbers of rounds that have ended, by job: their currents are used again.
    pub spare: Vec<Vec<u32>>,
    pub open: Vec<u32>,
    /// By job, from the oldest round that has not ended.
    pub running: Vec<VecDeque<Running>>,
    pub first_running: Vec<u32>,
    pub timers: Timers,
    pub rounds: Rounds,
    /// By direction: what has crossed it, counted as it flows.
    pub carried_bytes: Vec<f64>,
    pub timeline: Option<Loads>,
    /// By job: bytes that its roots have received.
    pub ingress_bytes: Vec<f64>,
    pub now_s: f64,
    pub events: u64,
    pub trace: Trace,
}

impl<'a> Fluid<'a> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = Network::new(scenario);
        let mut adders = Vec::new();
        for (index, site) in scenario.sites.iter().enumerate() {
            adders.push(site.adding_bps.map(|bps| network.links.add_inner(index, bps)));
        }
        let mut weaver = Weaver { scenario, network: &mut network, adders: &adders };
        let patterns: Result<Vec<_>, _> = scenario.jobs.iter().map(|j| weaver.pattern(j)).collect();
        let rate = |direction| network.links.rate_bps(direction).unwrap_or(UNLIMITED_BPS);
        let full_bps: Vec<f64> = (0..network.links.count()).map(rate).collect();
        let mut fluid = Self {
            scenario,
            patterns: patterns?,
            sharing: Sharing::new(&full_bps),
            carried_bytes: vec![0.0; full_bps.len()],
            timeline: scenario.timeline.then(|| Loads::new(full_bps.len())),
            ingress_bytes: vec![0.0; scenario.jobs.len()],
            leftover: Leftover::new(full_bps),
            network,
            currents: Vec::new(),
            spare: vec![Vec::new(); scenario.jobs.len()],
            open: Vec::new(),
            running: scenario.jobs.iter().map(|_| VecDeque::new()).collect(),
            first_running: vec![0; scenario.jobs.len()],
            timers: Timers::default(),
            rounds: Rounds::of_jobs(scenario),
            now_s: 0.0,
            events: 0,
            trace: Trace::default(),
        };
        fluid.plan_timers()?;
        Ok(fluid)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        while !self.rounds.are_over() {
            self.step(sink)?;
        }
        self.check()?;
        self.report(sink)
    }

    /// From one event to the next.
    pub fn step(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        self.share()?;
        let Some(next_s) = self.next_event_s() else { return Err(self.stuck()) };
        self.flow_until(next_s);
        self.events += 1;
        self.end_currents(sink)?;
        self.ring_timers();
        if self.events.is_multiple_of(PROGRESS_EVENTS) {
            self.check_rates()?;
            tell(sink, &self.progress())?;
        }
        Ok(())
    }

    pub fn template(&self, current: &Current) -> &Template {
        &self.patterns[current.job as usize].currents[current.template as usize]
    }

    /// Whether a current has something to send on that this one of its feeds has brought.
    pub fn lags(&self, current: &Current, feed: &Current) -> bool {
        let wire_bytes = self.template(current).wire_bytes;
        feed.sent_bytes - current.sent_bytes > TOLERANCE * wire_bytes
    }

    /// Computes the rates.
    fn share(&mut self) -> Result<(), SimulationError> {
        let mut stopped = Vec::new();
        for &number in &self.open {
            let current = &self.currents[number as usize];
            let mut feeds = self.template(current).feeds.iter();
            let is_dry = |feed: &u32| {
                let feed = &self.currents[(current.base + feed) as usize];
                feed.stage == Stage::Waiting && !self.lags(current, feed)
            };
            if feeds.any(is_dry) {
                stopped.push(number);
            }
        }
        let mut sharing = std::mem::take(&mut self.sharing);
        sharing.compute(&stopped, |number, followers| {
            let feed = &self.currents[number as usize];
            for fed in &self.template(feed).fed {
                let follower = &self.currents[(feed.base + fed) as usize];
                if follower.stage == Stage::Open && !self.lags(follower, feed) {
                    followers.push(feed.base + fed);
                }
            }
        });
        self.sharing = sharing;
        match self.sharing.overloaded() {
            None => Ok(()),
            Some(direction) => {
                let what = format!("direction {direction} carries more than its rate");
                Err(SimulationError::Invariant(what))
            }
        }
    }

    /// When something begins, ends, or catches up with what feeds it.
    fn next_event_s(&self) -> Option<f64> {
        let mut next_s = f64::INFINITY;
        for &number in &self.open {
            let rate_bps = self.sharing.rate_bps(number);
            if rate_bps == 0.0 {
                continue;
            }
            let current = &self.currents[number as usize];
            let template = self.template(current);
            let left_bytes = template.wire_bytes - current.sent_bytes;
            next_s = next_s.min(self.now_s + 8.0 * left_bytes / rate_bps);
            for feed in &template.feeds {
                let feed_number = current.base + feed;
                let feed = &self.currents[feed_number as usize];
                let gain_bps = rate_bps - self.sharing.rate_bps(feed_number);
                if feed.stage != Stage::Ended && gain_bps > 0.0 && self.lags(current, feed) {
                    let lead_bytes = feed.sent_bytes - current.sent_bytes;
                    next_s = next_s.min(self.now_s + 8.0 * lead_bytes / gain_bps);
                }
            }
        }
        let timer_s = self.timers.next_ps().map_or(f64::INFINITY, seconds);
        let next_s = next_s.min(timer_s.max(self.now_s));
        next_s.is_finite().then_some(next_s)
    }

    fn flow_until(&mut self, next_s: f64) {
        let step_s = next_s - self.now_s;
        for &number in &self.open {
            let bytes = self.sharing.rate_bps(number) / 8.0 * step_s;
            self.currents[number as usize].sent_bytes += bytes;
        }
        if let Some(timeline) = &mut self.timeline {
            let (from_ps, until_ps) = (picoseconds(self.now_s), picoseconds(next_s));
            for &number in &self.open {
                let bytes = self.sharing.rate_bps(number) / 8.0 * step_s;
                let current = &self.currents[number as usize];
                let pattern = &self.patterns[current.job as usize];
                for &(direction, times) in &pattern.currents[current.template as usize].uses {
                    timeline.note(direction, from_ps, until_ps, f64::from(times) * bytes);
                }
            }
        }
        self.now_s = next_s;
        self.trace.note(next_s.to_bits());
    }
}
