//! What the control halves of the whole node learn, from the threads that have the jobs: links are shared by all jobs, so
//! one negotiator has to hear of all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::{ControlHalf, Time, Transmit};
use wiresum_wire::{JobId, Packet};
use zerocopy::IntoBytes;

use crate::engine::Wake;

/// Events that may wait: control packets are some thousand a second at most, by their quota. Of more, packets are lost,
/// and asked for again.
pub(crate) const MOST_EVENTS: usize = 1024;
/// How long a relay waits before it tries again to say who takes part.
const PAUSE: Duration = Duration::from_millis(1);

/// What a thread has seen.
pub(crate) enum Event {
    /// Who takes part in a job now.
    Members(JobId, Membership),
    /// A packet that has passed its aggregator's gate.
    Packet(SocketAddr, Vec<u8>),
}

/// A thread's control half that only tells.
#[derive(Clone)]
pub(crate) struct Relay {
    events: SyncSender<Event>,
    wake: Wake,
    /// What there was no room for; of each job the last, as only that counts.
    owed: BTreeMap<JobId, Membership>,
    due: Option<Time>,
}

impl Relay {
    /// Tells `events`, and wakes who reads them.
    pub fn new(events: SyncSender<Event>, wake: Wake) -> Self {
        Self { events, wake, owed: BTreeMap::new(), due: None }
    }

    fn settle(&mut self, now: Time) {
        self.owed.retain(|job, members| {
            self.events.try_send(Event::Members(*job, members.clone())).is_err()
        });
        self.due = (!self.owed.is_empty()).then(|| now.plus(PAUSE));
        self.wake.wake();
    }
}

impl ControlHalf for Relay {
    fn handle_membership(&mut self, job: JobId, membership: &Membership, now: Time) {
        self.owed.insert(job, membership.clone());
        self.settle(now);
    }

    fn handle_packet(&mut self, source: SocketAddr, packet: &Packet, _now: Time) {
        let bytes = [packet.header.as_bytes(), packet.payload].concat();
        if self.events.try_send(Event::Packet(source, bytes)).is_ok() {
            self.wake.wake();
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    fn poll_transmit(&mut self, _now: Time, _buffer: &mut [u8]) -> Option<Transmit> {
        None
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
