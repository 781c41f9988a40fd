//! What breaks, and what else is on the links.

use super::world::{Endpoint, Event, World};
use crate::SimulationError;
use crate::network::{picoseconds, seconds};
use crate::scenario::Broken;

impl World<'_> {
    pub(super) fn plan_failures(&mut self) -> Result<(), SimulationError> {
        for (index, failure) in (0..).zip(&self.scenario.failures) {
            let broken = Event::Break { failure: index, is_back: false };
            self.queue.push(picoseconds(failure.at_s), broken);
            if let Some(until_s) = failure.until_s {
                let back = Event::Break { failure: index, is_back: true };
                self.queue.push(picoseconds(until_s), back);
            }
        }
        for (index, background) in (0..).zip(&self.scenario.background) {
            self.queue.push(picoseconds(background.from_s), Event::Background(index));
            let (source, target) = (background.source, background.target);
            let way = self.paths.way(&mut self.network, source, target);
            let unreachable = || self.network.routes.unreachable(source, target);
            self.ways.push(way.ok_or_else(unreachable)?);
        }
        Ok(())
    }

    pub(super) fn break_down(&mut self, failure: usize, is_back: bool) {
        match self.scenario.failures[failure].what {
            Broken::Link(link) => self.network.links.fail(link, is_back),
            Broken::Site(site) => {
                for host in self.hosts.iter_mut().filter(|host| host.site == site) {
                    host.is_dead = true;
                }
                for daemon in self.daemons.iter_mut().filter(|daemon| daemon.site == site) {
                    daemon.is_dead = !is_back;
                    daemon.restart();
                    daemon.is_dead = !is_back;
                }
            }
        }
    }

    pub(super) fn send_background(&mut self, index: usize) {
        let background = self.scenario.background[index];
        let (number, flying) = self.packets.take();
        flying.to = Endpoint::Nobody;
        flying.wire_bytes = background.packet_bytes as u32;
        flying.is_added = false;
        flying.datagram.clear();
        self.forward(number, self.ways[index], background.packet_bytes as u32);
        let next_s = 8.0 * background.packet_bytes as f64 / background.rate_bps;
        let next_ps = self.now_ps + picoseconds(next_s).max(1);
        if seconds(next_ps) < background.until_s {
            self.queue.push(next_ps, Event::Background(index as u32));
        }
    }
}
