//! The jobs of a node: which aggregator a packet belongs to, and who gets what it leaves behind. How packets travel is
//! for the servers that share this.

use std::net::SocketAddr;

use wiresum_protocol::aggregator::{Membership, Unfit};
use wiresum_protocol::{Aggregator, Outcome, Plan, Quota, Recipients, Time, Verdict};
use wiresum_wire::{Header, JobId, Kind, NodeId, SubModelId};
use zerocopy::FromBytes;

use super::control::Control;
use super::{JobState, by_name};
use crate::clock::unix_us;
use crate::node::JobReport;
use crate::udp::Known;

/// A job, its aggregator, and what it may use.
pub struct Served {
    /// Its number.
    pub job: JobId,
    /// Its state machine.
    pub aggregator: Aggregator,
    /// Whether what its children send is bounded, so that it has to know the time.
    is_bounded: bool,
    /// Bytes of the packets that named it.
    pub bytes: u64,
}

impl Served {
    /// What there is to say of it; `memory_bytes` are what its slots take.
    #[must_use]
    pub fn report(&self, memory_bytes: u64) -> JobReport {
        let membership = self.aggregator.membership();
        JobReport {
            job: self.job,
            groups: self.aggregator.plan().jobs_of_groups().collect(),
            is_running: membership.key.is_some(),
            members: membership.children.len(),
            expected_members: self.aggregator.expected_members(),
            memory_bytes,
            bytes: self.bytes,
            verdicts: by_name(self.aggregator.counters()),
            streams: Vec::new(),
            tables: Vec::new(),
        }
    }
}

/// One aggregator for each job, and what acts by the clock beside them.
pub struct Jobs {
    served: Vec<Served>,
    /// What jobs counted that are served no more, and what came while there were none.
    retired: [u64; Verdict::AGGREGATOR.len()],
    /// The node's control halves. A server gives them their turn ([`Control::handle_timeouts`], then
    /// [`Control::poll_transmit`] until it is exhausted) after each batch of packets and after [`Control::idle_time`].
    pub control: Control,
}

impl Jobs {
    /// Allocates the memory of all jobs.
    ///
    /// # Panics
    /// If `node` is not in one of the plans.
    #[must_use]
    pub fn new(plans: &[Plan], node: NodeId) -> Self {
        let mut jobs = Self {
            served: Vec::new(),
            retired: [0; Verdict::AGGREGATOR.len()],
            control: Control::default(),
        };
        for plan in plans {
            jobs.add(plan.job_id(), Aggregator::new(plan, node));
        }
        jobs
    }

    /// Serves one more job.
    pub fn add(&mut self, job: JobId, aggregator: Aggregator) {
        self.served.push(Served { job, aggregator, is_bounded: false, bytes: 0 });
    }

    /// Goes on with a job of another process.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn inherit(&mut self, plan: &Plan, state: &JobState, node: NodeId) -> Result<(), Unfit> {
        let mut aggregator = Aggregator::new(plan, node);
        aggregator.restore(&state.snapshot)?;
        let (job, bytes) = (plan.job_id(), state.bytes);
        self.served.push(Served { job, aggregator, is_bounded: false, bytes });
        Ok(())
    }

    /// Tells the control halves who takes part.
    pub fn announce(&mut self) {
        for Served { job, aggregator, .. } in &self.served {
            self.control.handle_membership(*job, &aggregator.membership());
        }
    }

    /// What was counted by jobs that are gone, in the order of [`Verdict::AGGREGATOR`].
    #[must_use]
    pub fn retired(&self) -> &[u64] {
        &self.retired
    }

    /// Goes on counting where another process has stopped.
    pub fn set_retired(&mut self, counts: &[u64]) {
        self.retired.iter_mut().zip(counts).for_each(|(sum, count)| *sum = *count);
    }

    /// All jobs, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Served> {
        self.served.iter()
    }

    /// Serves a job no more; those behind it move up.
    pub fn remove(&mut self, index: usize) {
        let served = self.served.remove(index);
        for (verdict, count) in served.aggregator.counters() {
            self.retired[verdict as usize] += count;
        }
        self.control.handle_membership(served.job, &Membership::default());
    }

    /// Bounds a job anew.
    pub fn set_quota(&mut self, index: usize, quota: Option<Quota>) {
        self.served[index].is_bounded = quota.is_some();
        self.served[index].aggregator.set_quota(quota);
    }

    /// Tells the jobs that have quotas the time.
    pub fn set_time(&mut self, now: Time) {
        let limited = self.served.iter_mut().filter(|job| job.is_bounded);
        limited.for_each(|job| job.aggregator.set_time(now));
    }

    /// The index of a job.
    #[must_use]
    pub fn index_of_job(&self, job: JobId) -> Option<usize> {
        self.served.iter().position(|served| served.job == job)
    }

    /// Jobs served.
    #[must_use]
    pub fn count(&self) -> usize {
        self.served.len()
    }

    /// Bytes of slot memory of all jobs.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.served.iter().map(|job| job.aggregator.memory_bytes()).sum()
    }

    /// Packets by verdict, of all jobs.
    #[must_use]
    pub fn verdicts(&self) -> [(Verdict, u64); Verdict::AGGREGATOR.len()] {
        let mut verdicts = Verdict::AGGREGATOR.map(|verdict| (verdict, 0));
        for (verdict, count) in self.served.iter().flat_map(|job| job.aggregator.counters()) {
            verdicts[verdict as usize].1 += count;
        }
        verdicts.iter_mut().zip(self.retired).for_each(|(sum, count)| sum.1 += count);
        verdicts
    }

    /// The index of the job that a packet names; the first one counts what names none of them.
    #[must_use]
    pub fn index_of(&self, packet: &[u8]) -> usize {
        let header = Header::ref_from_prefix(packet);
        let id = header.map_or(JobId(0), |(header, _)| JobId(header.job.get()));
        self.index_of_job(id).unwrap_or(0)
    }

    /// Counts a packet that is no job's matter.
    pub fn count_unclaimed(&mut self, verdict: Verdict) {
        self.retired[verdict as usize] += 1;
    }

    /// What tells the packets of all jobs from others.
    #[must_use]
    pub fn known(&self) -> Vec<Known> {
        let known = |Served { job, aggregator, .. }: &Served| {
            let members = aggregator.membership();
            let keys = members.keys.into_values().flatten().flatten().chain(members.key);
            Known { job: *job, keys: keys.collect(), greeters: None }
        };
        self.served.iter().map(known).collect()
    }

    /// The id of a job, and who takes part in it now.
    #[must_use]
    pub fn membership(&self, index: usize) -> (JobId, Membership) {
        let served = &self.served[index];
        (served.job, served.aggregator.membership())
    }

    /// The aggregator of a job.
    pub fn aggregator(&mut self, index: usize) -> &mut Aggregator {
        &mut self.served[index].aggregator
    }

    /// The id of a job.
    #[must_use]
    pub fn id(&self, index: usize) -> JobId {
        self.served[index].job
    }

    /// Gives the packet in `buffer[..len]` to a job's aggregator, which may leave another in its place. The control
    /// halves learn what concerns them.
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
        let Served { job, aggregator, bytes, .. } = &mut self.served[index];
        *bytes += len as u64;
        if Header::ref_from_prefix(buffer).is_ok_and(|(h, _)| h.kind == Kind::Hello as u8) {
            aggregator.set_clock(unix_us());
        }
        let outcome = aggregator.handle_datagram(source, buffer, len);
        if outcome.recipients == Recipients::ControlHalf {
            self.control.handle_packet(source, &buffer[..outcome.len]);
        } else if outcome.verdict == Verdict::Control && !self.control.is_empty() {
            self.control.handle_membership(*job, &aggregator.membership());
        }
        outcome
    }

    /// A job's parent in a sub-model is silent: what tells the children is left in `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`wiresum_wire::MAX_PACKET`] bytes.
    pub fn lose_parent(
        &mut self,
        index: usize,
        sub_model: SubModelId,
        buffer: &mut [u8],
    ) -> Outcome {
        let Served { job, aggregator, .. } = &mut self.served[index];
        let outcome = aggregator.lose_parent(sub_model, buffer);
        self.control.handle_membership(*job, &aggregator.membership());
        outcome
    }

    /// Passes the packet that [`Self::handle`] left in `buffer` to `push`, once for each recipient and addressed to it;
    /// `true` if one of the calls returned `true`. So does the aggregator's notice, if it has one.
    pub fn deliver(
        &mut self,
        index: usize,
        outcome: Outcome,
        buffer: &mut [u8],
        mut push: impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        let aggregator = &mut self.served[index].aggregator;
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
