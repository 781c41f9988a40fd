//! The jobs of a node: which aggregator a packet belongs to, and who gets what it leaves behind. How packets travel is for
//! the servers that share this.

use std::net::SocketAddr;

use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::{Aggregator, Outcome, Plan, Recipients, Verdict};
use wiresum_wire::{Header, JobId, NodeId};
use zerocopy::FromBytes;

/// One aggregator for each job, in the order of their plans.
pub struct Jobs(Vec<(JobId, Aggregator)>);

impl Jobs {
    /// Allocates the memory of all jobs.
    ///
    /// # Panics
    /// If `plans` is empty, or `node` is not in one of them.
    #[must_use]
    pub fn new(plans: &[Plan], node: NodeId) -> Self {
        assert!(!plans.is_empty(), "an aggregator serves at least one job");
        Self(plans.iter().map(|plan| (plan.job_id(), Aggregator::new(plan, node))).collect())
    }

    /// Jobs served.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Bytes of slot memory of all jobs; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.iter().map(|(_, aggregator)| aggregator.memory_bytes()).sum()
    }

    /// Packets by verdict, of all jobs.
    #[must_use]
    pub fn verdicts(&self) -> [(Verdict, u64); Verdict::ALL.len()] {
        let mut verdicts = Verdict::ALL.map(|verdict| (verdict, 0));
        for (verdict, count) in self.0.iter().flat_map(|(_, aggregator)| aggregator.counters()) {
            verdicts[verdict as usize].1 += count;
        }
        verdicts
    }

    /// The index of the job that a packet names; the first one counts what names none of them.
    #[must_use]
    pub fn index_of(&self, packet: &[u8]) -> usize {
        let header = Header::ref_from_prefix(packet);
        let id = header.map_or(JobId(0), |(header, _)| JobId(header.job.get()));
        self.0.iter().position(|(job, _)| *job == id).unwrap_or(0)
    }

    /// The id of a job, and who takes part in it now.
    #[must_use]
    pub fn membership(&self, index: usize) -> (JobId, Membership) {
        let (job, aggregator) = &self.0[index];
        (*job, aggregator.membership())
    }

    /// Gives the packet in `buffer[..len]` to a job's aggregator, which may leave another in its place.
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
        self.0[index].1.handle_datagram(source, buffer, len)
    }

    /// Passes the packet that [`Self::handle`] left in `buffer` to `push`, once for each recipient and addressed to it; `true`
    /// if one of the calls returned `true`.
    pub fn deliver(
        &self,
        index: usize,
        outcome: Outcome,
        buffer: &mut [u8],
        mut push: impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        let aggregator = &self.0[index].1;
        let packet = &mut buffer[..outcome.len];
        match outcome.recipients {
            Recipients::None => false,
            Recipients::One(destination) => push(destination, packet),
            Recipients::Children => (0..aggregator.child_count()).fold(false, |due, child| {
                let destination = aggregator.address_to_child(child, packet);
                due | destination.is_some_and(|destination| push(destination, packet))
            }),
        }
    }
}
