//! The jobs of a node: which aggregator a packet belongs to, and who gets what it leaves behind. How packets travel is for
//! the servers that share this.

use std::net::SocketAddr;

use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::{Aggregator, Outcome, Plan, Recipients, Verdict};
use wiresum_wire::{Header, JobId, NodeId};
use zerocopy::FromBytes;

use crate::control::Control;

/// One aggregator for each job, in the order of their plans, and what acts by the clock beside them.
pub struct Jobs {
    aggregators: Vec<(JobId, Aggregator)>,
    /// The node's control halves. A server gives them their turn ([`Control::handle_timeouts`], then
    /// [`Control::poll_transmit`] until it is exhausted) after each batch of packets and after [`Control::idle_time`].
    pub control: Control,
}

impl Jobs {
    /// Allocates the memory of all jobs.
    ///
    /// # Panics
    /// If `plans` is empty, or `node` is not in one of them.
    #[must_use]
    pub fn new(plans: &[Plan], node: NodeId) -> Self {
        assert!(!plans.is_empty(), "an aggregator serves at least one job");
        let aggregator = |plan: &Plan| (plan.job_id(), Aggregator::new(plan, node));
        Self { aggregators: plans.iter().map(aggregator).collect(), control: Control::default() }
    }

    /// Jobs served.
    #[must_use]
    pub fn count(&self) -> usize {
        self.aggregators.len()
    }

    /// Bytes of slot memory of all jobs; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.aggregators.iter().map(|(_, aggregator)| aggregator.memory_bytes()).sum()
    }

    /// Packets by verdict, of all jobs.
    #[must_use]
    pub fn verdicts(&self) -> [(Verdict, u64); Verdict::ALL.len()] {
        let mut verdicts = Verdict::ALL.map(|verdict| (verdict, 0));
        for (verdict, count) in
            self.aggregators.iter().flat_map(|(_, aggregator)| aggregator.counters())
        {
            verdicts[verdict as usize].1 += count;
        }
        verdicts
    }

    /// The index of the job that a packet names; the first one counts what names none of them.
    #[must_use]
    pub fn index_of(&self, packet: &[u8]) -> usize {
        let header = Header::ref_from_prefix(packet);
        let id = header.map_or(JobId(0), |(header, _)| JobId(header.job.get()));
        self.aggregators.iter().position(|(job, _)| *job == id).unwrap_or(0)
    }

    /// The id of a job, and who takes part in it now.
    #[must_use]
    pub fn membership(&self, index: usize) -> (JobId, Membership) {
        let (job, aggregator) = &self.aggregators[index];
        (*job, aggregator.membership())
    }

    /// The aggregator of a job.
    pub fn aggregator(&mut self, index: usize) -> &mut Aggregator {
        &mut self.aggregators[index].1
    }

    /// The id of a job.
    #[must_use]
    pub fn id(&self, index: usize) -> JobId {
        self.aggregators[index].0
    }

    /// Gives the packet in `buffer[..len]` to a job's aggregator, which may leave another in its place. The control halves learn
    /// what concerns them.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`wiresum_wire::MAX_PACKET`] bytes or than `len`.
    pub fn handle(
        &mut self,
        index: usize,
        source: SocketAddr,
        buffer: &mut [u8],
        len: usize,
    ) -> Outcome {
        let (job, aggregator) = &mut self.aggregators[index];
        let outcome = aggregator.handle_datagram(source, buffer, len);
        if outcome.recipients == Recipients::ControlHalf {
            self.control.handle_packet(source, &buffer[..outcome.len]);
        } else if outcome.verdict == Verdict::Control && !self.control.is_empty() {
            self.control.handle_membership(*job, &aggregator.membership());
        }
        outcome
    }

    /// Passes the packet that [`Self::handle`] left in `buffer` to `push`, once for each recipient and addressed to it; `true`
    /// if one of the calls returned `true`. So does the aggregator's notice, if it has one.
    pub fn deliver(
        &mut self,
        index: usize,
        outcome: Outcome,
        buffer: &mut [u8],
        mut push: impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        let aggregator = &mut self.aggregators[index].1;
        let packet = &mut buffer[..outcome.len];
        let due = match outcome.recipients {
            Recipients::None | Recipients::ControlHalf => false,
            Recipients::One(destination) => push(destination, packet),
            Recipients::Children => (0..aggregator.child_count()).fold(false, |due, child| {
                let destination = aggregator.address_to_child(child, packet);
                due | destination.is_some_and(|destination| push(destination, packet))
            }),
        };
        let notice = aggregator.poll_notice(buffer);
        notice.map_or(due, |(destination, len)| due | push(destination, &buffer[..len]))
    }
}
