//! What flows, from one event to the next: between events rates are constant.

use super::current::{Pattern, Template};
use super::sharing::Sharing;
use crate::SimulationError;

/// Relative to a current's bytes: a smaller remainder or lead is rounding, and gets no event of its own.
pub(super) const TOLERANCE: f64 = 1e-9;

/// Where a current stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Open,
    Ended,
}

/// A current of a collective.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub job: u32,
    pub round: u32,
    /// Number of the collective among all of its job.
    pub call: u64,
    /// What it is like.
    pub pattern: u32,
    pub template: u32,
    /// Number of the collective's first current.
    pub base: u32,
    pub stage: Stage,
    pub sent_bytes: f64,
}

/// Currents, those of them that are open, and how they share capacities.
pub(super) struct Flowing {
    /// Those of all jobs' collectives.
    pub patterns: Vec<Pattern>,
    pub sharing: Sharing,
    pub currents: Vec<Current>,
    pub open: Vec<u32>,
    pub now_s: f64,
}

impl Flowing {
    /// No currents yet, over capacities of these rates.
    pub fn new(patterns: Vec<Pattern>, full_bps: &[f64]) -> Self {
        let sharing = Sharing::new(full_bps);
        Self { patterns, sharing, currents: Vec::new(), open: Vec::new(), now_s: 0.0 }
    }

    pub fn template(&self, current: &Current) -> &Template {
        &self.patterns[current.pattern as usize].currents[current.template as usize]
    }

    pub fn template_of(&self, number: u32) -> &Template {
        self.template(&self.currents[number as usize])
    }

    /// Whether a current has something to send on that this one of its feeds has brought.
    pub fn lags(&self, current: &Current, feed: &Current) -> bool {
        let wire_bytes = self.template(current).wire_bytes;
        feed.sent_bytes - current.sent_bytes > TOLERANCE * wire_bytes
    }

    /// Computes the rates.
    pub fn share(&mut self) -> Result<(), SimulationError> {
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

    /// When something ends, or catches up with what feeds it, or `timer_s`; None: never.
    pub fn next_event_s(&self, timer_s: Option<f64>) -> Option<f64> {
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
        let next_s = timer_s.map_or(next_s, |timer_s| next_s.min(timer_s.max(self.now_s)));
        next_s.is_finite().then_some(next_s)
    }

    /// Lets time pass at the rates that were computed.
    pub fn flow_until(&mut self, next_s: f64) {
        let step_s = next_s - self.now_s;
        for &number in &self.open {
            let bytes = self.sharing.rate_bps(number) / 8.0 * step_s;
            self.currents[number as usize].sent_bytes += bytes;
        }
        self.now_s = next_s;
    }

    /// Takes the currents that have sent everything out of the open ones, in the order of their numbers.
    pub fn close(&mut self) -> Vec<u32> {
        let is_done = |number: &u32| {
            let current = &self.currents[*number as usize];
            let wire_bytes = self.template(current).wire_bytes;
            wire_bytes - current.sent_bytes <= TOLERANCE * wire_bytes
        };
        let mut done: Vec<u32> = self.open.iter().copied().filter(is_done).collect();
        if !done.is_empty() {
            done.sort_unstable();
            self.open.retain(|number| done.binary_search(number).is_err());
        }
        done
    }
}
