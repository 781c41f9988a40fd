//! The control halves of a node: the clock, and whoever acts by it. Shared by all servers, whatever they move packets
//! with.

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::{ControlHalf, Plan, Transmit};
use wiresum_wire::{JobId, Packet};

use crate::clock::Clock;

/// Everything at a node that has timers, driven by one clock.
#[derive(Default)]
pub struct Control {
    clock: Clock,
    halves: Vec<Box<dyn ControlHalf>>,
}

impl Control {
    /// Lets one more take part.
    pub fn add(&mut self, half: Box<dyn ControlHalf>) {
        self.halves.push(half);
    }

    /// Whether no one is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.halves.is_empty()
    }

    /// Tells everyone that the node serves one more job.
    pub fn handle_job(&mut self, plan: &Plan) {
        self.halves.iter_mut().for_each(|half| half.handle_job(plan));
    }

    /// Tells everyone who takes part in a job now.
    pub fn handle_membership(&mut self, job: JobId, members: &Membership) {
        let now = self.clock.now();
        self.halves.iter_mut().for_each(|half| half.handle_membership(job, members, now));
    }

    /// Gives everyone a packet that has passed an aggregator's gate.
    pub fn handle_packet(&mut self, source: SocketAddr, datagram: &[u8]) {
        let now = self.clock.now();
        // The gate has read it already, so it is well-formed.
        let Ok(packet) = Packet::parse_unchecked(datagram) else { return };
        self.halves.iter_mut().for_each(|half| half.handle_packet(source, &packet, now));
    }

    /// Lets everyone act whose time has come.
    pub fn handle_timeouts(&mut self) {
        let now = self.clock.now();
        for half in &mut self.halves {
            if half.poll_timeout().is_some_and(|due| due <= now) {
                half.handle_timeout(now);
            }
        }
    }

    /// Writes the next datagram of anyone to `buffer` (at least [`wiresum_wire::MAX_PACKET`] bytes).
    pub fn poll_transmit(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let now = self.clock.now();
        self.halves.iter_mut().find_map(|half| half.poll_transmit(now, buffer))
    }

    /// How long no one has anything to do; `None` until something arrives.
    #[must_use]
    pub fn idle_time(&self) -> Option<Duration> {
        let due = self.halves.iter().filter_map(|half| half.poll_timeout()).min();
        due.map(|due| due.since(self.clock.now()))
    }

    /// What everyone counts, by name.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.halves.iter().flat_map(|half| half.counters()).collect()
    }
}
