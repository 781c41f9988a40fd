//! What breaks, and what else is on the links.

use super::content::Content;
use super::summer::Summer;
use super::yard::{Event, Yard};
use crate::SimulationError;
use crate::network::{picoseconds, seconds};
use crate::scenario::Broken;

impl<V: Content> Yard<'_, V> {
    pub(super) fn plan_disturbances(&mut self) {
        for (index, failure) in (0..).zip(&self.scenario.failures) {
            let broken = Event::Break { failure: index, is_back: false };
            self.queue.push(picoseconds(failure.at_s), broken);
            if let Some(until_s) = failure.until_s {
                let back = Event::Break { failure: index, is_back: true };
                self.queue.push(picoseconds(until_s), back);
            }
        }
        for (index, background) in (0..).zip(&self.scenario.background) {
            self.queue.push(picoseconds(background.from_s), Event::Background { index });
        }
    }

    /// A link, or what runs at a site: a switch goes on forwarding. What is back has forgotten everything; a worker does not come back.
    pub(super) fn break_down(
        &mut self,
        failure: usize,
        is_back: bool,
    ) -> Result<(), SimulationError> {
        let site = match self.scenario.failures[failure].what {
            Broken::Link(link) => {
                self.network.links.fail(link, is_back);
                return Ok(());
            }
            Broken::Site(site) => site,
        };
        if is_back && !self.is_worker(site) {
            self.failures[site] = self.failures[site].saturating_sub(1);
        } else if !is_back {
            self.failures[site] += 1;
        }
        self.summers[site] = if self.failures[site] > 0 {
            Summer::Nobody
        } else {
            Summer::at(site, self.scenario, &self.jobs)?
        };
        Ok(())
    }

    /// Whether what runs at a site does not run.
    #[inline]
    pub(super) fn is_broken(&self, site: usize) -> bool {
        self.failures[site] > 0
    }

    fn is_worker(&self, site: usize) -> bool {
        self.jobs.iter().any(|job| job.rank_at(site).is_some())
    }

    /// Others send a train, and the next one when this one's rate allows.
    pub(super) fn send_background(&mut self, index: u32) {
        let background = self.scenario.background[index as usize];
        self.pass_on(index, 0);
        let bits = 8.0 * self.stray_bytes(index) as f64;
        let next_ps = self.now_ps + picoseconds(bits / background.rate_bps).max(1);
        if seconds(next_ps) < background.until_s {
            self.queue.push(next_ps, Event::Background { index });
        }
    }

    /// A train of others goes on to its next hop.
    pub(super) fn pass_on(&mut self, index: u32, hop: usize) {
        let bytes = self.stray_bytes(index);
        if let Some(before) = hop.checked_sub(1) {
            self.network.links.arrive(self.ways[index as usize][before], bytes);
        }
        let Some(&direction) = self.ways[index as usize].get(hop) else { return };
        let carried = self.network.links.carry(direction, self.now_ps, bytes);
        self.hops += self.scenario.train as u64;
        for at_ps in [carried.again_ps, carried.at_ps].into_iter().flatten() {
            self.queue.push(at_ps, Event::Stray { index, hop: hop as u32 + 1 });
        }
    }

    /// Bytes of a train of others.
    pub(super) fn stray_bytes(&self, index: u32) -> u64 {
        self.scenario.background[index as usize].packet_bytes * self.scenario.train as u64
    }
}
