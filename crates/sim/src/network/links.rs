//! The directions of a scenario's links, and a picture of what they send over time.

use std::ops::{Deref, DerefMut};

use wiresum_netem::{Carried, Conditions};

use super::picoseconds;
use crate::scenario::{Direction, Scenario};
use crate::timeline::Loads;

/// Set apart from other uses of a scenario's seed.
const SALT: u64 = 0x11_4b5;

/// All directions of all links.
pub struct Links {
    links: wiresum_netem::Links,
    timeline: Option<Loads>,
}

impl Links {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut links = wiresum_netem::Links::new(scenario.seed ^ SALT);
        for link in &scenario.links {
            let ends = [(link.source, link.target), (link.target, link.source)];
            for ((from, to), direction) in ends.into_iter().zip([link.forward, link.backward]) {
                // A host's own queue holds its sender back and never drops, as a socket does.
                let is_own = !scenario.sites[from].forwards;
                let queue_bytes = if is_own { u64::MAX } else { direction.queue_bytes };
                links.add(to, &Conditions { queue_bytes, ..conditions(direction) });
            }
        }
        let timeline = scenario.timeline.then(|| Loads::new(2 * scenario.links.len()));
        Self { links, timeline }
    }

    /// Adds what a site does as one more direction, from the site to itself; its number.
    pub fn add_inner(&mut self, site: usize, rate_bps: f64) -> u32 {
        let conditions = Conditions { rate_bps: Some(rate_bps), ..Conditions::PERFECT };
        self.links.add(site, &conditions)
    }

    /// What was sent over time, if that is kept.
    pub(crate) fn timeline(&self) -> Option<&Loads> {
        self.timeline.as_ref()
    }

    /// Puts `bytes` on a direction: [`wiresum_netem::Links::carry`].
    #[inline]
    pub fn carry(&mut self, direction: u32, now_ps: u64, bytes: u64) -> Carried {
        let Some(timeline) = &mut self.timeline else {
            return self.links.carry(direction, now_ps, bytes);
        };
        let note = |from, until| timeline.note(direction, from, until, bytes as f64);
        self.links.carry_noting(direction, now_ps, bytes, note)
    }
}

impl Deref for Links {
    type Target = wiresum_netem::Links;

    fn deref(&self) -> &Self::Target {
        &self.links
    }
}

impl DerefMut for Links {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.links
    }
}

fn conditions(direction: Direction) -> Conditions {
    let jitter_ps = picoseconds(direction.jitter_s);
    Conditions {
        rate_bps: direction.rate_bps,
        delay_ps: picoseconds(direction.delay_s),
        queue_bytes: direction.queue_bytes,
        ecn_bytes: direction.ecn_bytes,
        loss: direction.loss,
        duplication: direction.duplication,
        late_ps: jitter_ps,
        reordering: direction.reordering,
        jitter_ps,
        ..Conditions::PERFECT
    }
}
