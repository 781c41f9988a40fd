//! The reliable transmitters of a node's jobs, beside whatever sums.

use std::time::Duration;

use wiresum_protocol::transmitter::{Counters, DataPlane};
use wiresum_protocol::{Aggregator, Outcome, Plan, Recipients, Transmit, Transmitter, Verdict};
use wiresum_wire::{NodeId, SubModelId};

use crate::clock::Clock;

/// One for each job, in the order of their plans, driven by one clock.
pub struct Transmitters {
    clock: Clock,
    by_job: Vec<Transmitter>,
}

impl Transmitters {
    /// The transmitters of a node, one for each plan.
    #[must_use]
    pub fn new(plans: &[Plan], node: NodeId) -> Self {
        let by_job = plans.iter().map(|plan| Transmitter::new(plan, node)).collect();
        Self { clock: Clock::default(), by_job }
    }

    /// Serves one more job, the last.
    pub fn add(&mut self, plan: &Plan, node: NodeId) {
        self.by_job.push(Transmitter::new(plan, node));
    }

    /// Serves a job no more; those behind it move up.
    pub fn remove(&mut self, index: usize) {
        self.by_job.remove(index);
    }

    /// A job's aggregator, which sums itself, has left a packet with this outcome.
    pub fn observe(
        &mut self,
        index: usize,
        outcome: Outcome,
        packet: &[u8],
        aggregator: &mut Aggregator,
    ) {
        self.follow(index, outcome, aggregator);
        self.hear(index, outcome, packet, aggregator);
    }

    /// A job's incarnation has begun in another process.
    pub fn resume(&mut self, index: usize, aggregator: &Aggregator) {
        self.by_job[index].follow(aggregator);
    }

    /// The running incarnation of a job, or its parents, may have changed.
    pub fn follow(&mut self, index: usize, outcome: Outcome, aggregator: &Aggregator) {
        if outcome.verdict == Verdict::Control {
            self.by_job[index].follow(aggregator);
        }
    }

    /// A job's aggregator has left a packet with this outcome; `plane` is what sums.
    pub fn hear(
        &mut self,
        index: usize,
        outcome: Outcome,
        packet: &[u8],
        plane: &mut dyn DataPlane,
    ) {
        if outcome.recipients == Recipients::ControlHalf {
            let now = self.clock.now();
            self.by_job[index].handle_status(&packet[..outcome.len], plane, now);
        }
    }

    /// Lets a job's transmitter do what is due, and passes each packet that it sends to `push`.
    pub fn advance(
        &mut self,
        index: usize,
        plane: &mut dyn DataPlane,
        buffer: &mut [u8],
        mut push: impl FnMut(Transmit, &[u8]),
    ) {
        let now = self.clock.now();
        let transmitter = &mut self.by_job[index];
        transmitter.advance(plane, now);
        while let Some(transmit) = transmitter.poll_transmit(plane, now, buffer) {
            push(transmit, &buffer[..transmit.len]);
        }
    }

    /// The next sub-model of a job whose parent is silent.
    pub fn next_orphan(&mut self, index: usize) -> Option<SubModelId> {
        self.by_job[index].next_orphan()
    }

    /// How long none of them has anything to do; `None` until something moves.
    #[must_use]
    pub fn idle_time(&self) -> Option<Duration> {
        let due = self.by_job.iter().filter_map(Transmitter::poll_timeout).min();
        due.map(|due| due.since(self.clock.now()))
    }

    /// What all of them count, by name.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.by_job.iter().for_each(|transmitter| sum.add(transmitter.counters()));
        sum
    }
}
