//! The aggregator, root or inner: purely reactive. It has no timer: whoever lacks something asks again.
//!
//! [`Aggregator::handle_datagram`] is the gate; `values` and `membership` hold the tables of `spec/aggregation.md` behind it.

mod lanes;
mod membership;
mod place;
mod plane;
mod slots;
mod snapshot;
#[cfg(test)]
mod tests;
mod values;
mod verdict;

use std::net::SocketAddr;

use wiresum_codec::sum_lanes;
use wiresum_keys::association::CLOCK_MARGIN_US;
use wiresum_wire::control::{Absent, status};
use wiresum_wire::{
    Contributor, FragmentId, HEADER_LEN, JobId, JobKey, Kind, NodeId, Packet, SubModelId,
    header_sum,
};

use crate::quota::{Budget, Quota};
use crate::{Association, Plan, Time};
pub use membership::Membership;
use place::Place;
pub(crate) use place::seat_keys;
pub use snapshot::{SNAPSHOT_VERSION, Snapshot, Unfit};
use values::Arrival;
pub use verdict::{Outcome, Recipients, Verdict};

/// A tick is 2¹⁶ µs: short beside the pause between hellos of all children, and 2³² of them are nine years.
const TICK_SHIFT: u32 = 16;

/// One node of the plan, for one job. Memory is allocated once, by the plan.
pub struct Aggregator {
    plan: Plan,
    plan_digest: u64,
    job: JobId,
    node: NodeId,
    /// One for each sub-model whose tree this node is in.
    places: Vec<Place>,
    /// The newest incarnation that a child has announced.
    incarnation: Option<u64>,
    /// Workers that it goes on without.
    absent: Absent,
    /// No incarnation above is believed.
    latest: u64,
    /// The wall clock, in ticks; absent if nobody tells it.
    tick: Option<u32>,
    key: JobKey,
    /// Counts incarnations, from 1; entries of slots carry it.
    epoch: u32,
    /// All children have left the incarnation.
    is_over: bool,
    /// A child, by place, that [`Self::poll_notice`] tells that it is out of the tree.
    notice: Option<(usize, Contributor)>,
    /// What children may still send; absent without a quota.
    budget: Option<Budget>,
    now: Time,
    counters: [u64; Verdict::AGGREGATOR.len()],
}

impl Aggregator {
    /// A node without children yet.
    ///
    /// # Panics
    /// If `node` is not in the plan.
    #[must_use]
    pub fn new(plan: &Plan, node: NodeId) -> Self {
        assert!(plan.node(node).is_some(), "node {node} is not in the plan");
        Self {
            plan: plan.clone(),
            plan_digest: plan.digest(),
            job: plan.job_id(),
            node,
            places: plan.streams.iter().filter_map(|s| Place::new(plan, s, node)).collect(),
            incarnation: None,
            absent: Absent::default(),
            latest: u64::MAX,
            tick: None,
            key: JobKey(0),
            epoch: 0,
            is_over: false,
            notice: None,
            budget: None,
            now: Time(0),
            counters: [0; Verdict::AGGREGATOR.len()],
        }
    }

    /// The plan that it was made for.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bounds what children may send in values and probes; `None` for no bound.
    pub fn set_quota(&mut self, quota: Option<Quota>) {
        self.budget = quota.map(Budget::new);
    }

    /// The time at which the next datagrams count against the quota; never goes back. Nothing else here depends on time.
    pub fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Takes the datagram in `buffer[..len]` and may leave the packet to send in the same buffer, as a switch does.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`wiresum_wire::MAX_PACKET`] bytes or than `len`.
    pub fn handle_datagram(
        &mut self,
        source: SocketAddr,
        buffer: &mut [u8],
        len: usize,
    ) -> Outcome {
        let outcome = self.pass_gate(source, buffer, len).unwrap_or_else(Outcome::silent);
        self.counters[outcome.verdict as usize] += 1;
        outcome
    }

    /// The gate: the first test that fails names the verdict.
    fn pass_gate(
        &mut self,
        source: SocketAddr,
        buffer: &mut [u8],
        len: usize,
    ) -> Result<Outcome, Verdict> {
        let packet = Packet::parse_unchecked(&buffer[..len]).map_err(|_| Verdict::Malformed)?;
        let (header, kind, payload_len) = (*packet.header, packet.kind, packet.payload.len());
        let lane_sum = header.check.get().wrapping_sub(header_sum(&header));
        let is_whole = || sum_lanes(packet.lane_type(), packet.payload) == lane_sum;
        if kind == Kind::Hello {
            ensure(is_whole(), Verdict::Damaged)?;
            return Ok(self.hello(header, source, buffer));
        }
        let index = self.place_index(header.sub_model.get()).ok_or(Verdict::Foreign)?;
        let place = &mut self.places[index];
        let key = JobKey(header.job_key.get());
        let is_known = match kind.carries_values() {
            true => place.association.takes(FragmentId(header.fragment.get()), key),
            false => key == self.key,
        };
        let is_ours = header.job.get() == self.job.0
            && is_known
            && self.incarnation.is_some()
            && !self.is_over
            && place.is_addressed_by(&header, kind, self.node);
        let fits = !kind.carries_values() || payload_len <= self.plan.payload_len();
        ensure(is_ours && fits, Verdict::Foreign)?;
        ensure(place.is_sent_by(&header, kind, source), Verdict::BadContributor)?;
        if matches!(kind, Kind::Contribution | Kind::Probe) {
            let fits = self.budget.as_mut().is_none_or(|budget| budget.take(self.now, len));
            ensure(fits, Verdict::OverQuota)?;
        }
        if kind.carries_values() {
            ensure(place.is_authentic(&packet), Verdict::Forged)?;
        }
        ensure(is_whole(), Verdict::Damaged)?;
        if !kind.carries_values() {
            let is_proven = place.is_proven(&header, kind, source, packet.payload);
            ensure(is_proven, Verdict::BadContributor)?;
        }
        let proof_len = len - HEADER_LEN - payload_len;
        let arrival = Arrival { header, source, lane_sum, buffer, payload_len, proof_len };
        Ok(match kind {
            Kind::Contribution => place.contribution(self.node, self.epoch, arrival),
            Kind::Result => place.result(self.node, self.epoch, arrival),
            Kind::Probe => place.probe(self.epoch, arrival),
            Kind::Goodbye => self.goodbye(index, header, arrival.buffer),
            Kind::Status | Kind::Ready | Kind::Rate => Outcome::to_control_half(len),
            _ => self.verdict_of_parent(index, kind, header, arrival.buffer),
        })
    }

    /// Tells the time, in microseconds since 1970. Refuses incarnations that are far ahead of it from now on: as the
    /// newest wins, one of a clock that is ahead would lock the job out until that time has come.
    pub fn set_clock(&mut self, unix_us: u64) {
        self.latest = unix_us.saturating_add(CLOCK_MARGIN_US);
        self.tick = Some((unix_us >> TICK_SHIFT) as u32);
    }

    /// Starts an incarnation without these workers; the one before is forgotten, slot by slot, when its slots are next used.
    fn begin(&mut self, incarnation: u64, absent: Absent) {
        (self.incarnation, self.absent) = (Some(incarnation), absent);
        self.key = self.plan.job_key(incarnation);
        self.epoch += 1;
        self.is_over = false;
        let association = Association::new(&self.plan, incarnation);
        for index in 0..self.places.len() {
            let tree = self.tree(index);
            let vacant = tree.vacancies(self.node, |rank| absent.holds(rank));
            let seats = tree.seats(self.node);
            self.places[index].reset(association, &seats, vacant);
        }
    }

    /// Key of the running incarnation; `None` before the first and after the end of one.
    #[must_use]
    pub fn running_key(&self) -> Option<JobKey> {
        self.is_running().then_some(self.key)
    }

    /// The keys of a sub-model's values in the running incarnation.
    #[must_use]
    pub fn association(&self, sub_model: SubModelId) -> Association {
        self.place_index(sub_model.0)
            .map_or_else(Association::default, |i| self.places[i].association)
    }

    /// Whether the parent in a sub-model has welcomed this node in the running incarnation.
    #[must_use]
    pub fn is_welcome(&self, sub_model: SubModelId) -> bool {
        let place = self.place_index(sub_model.0).map(|index| &self.places[index]);
        place.and_then(|place| place.parent).is_some_and(|parent| parent.has_welcomed)
    }

    fn is_running(&self) -> bool {
        self.incarnation.is_some() && !self.is_over
    }

    fn place_index(&self, sub_model: u16) -> Option<usize> {
        self.places.iter().position(|place| place.sub_model.0 == sub_model)
    }

    /// Children and substitutes of the largest tree that this node is in; indices for [`Self::address_to_child`].
    #[must_use]
    pub fn child_count(&self) -> usize {
        self.places.iter().map(|place| place.children.len()).max().unwrap_or(0)
    }

    /// Children of all sub-models together, without substitutes: that many say hello before a round can end.
    #[must_use]
    pub fn expected_members(&self) -> usize {
        self.places.iter().map(|place| place.everyone().count_ones() as usize).sum()
    }

    /// Datagrams by verdict.
    #[must_use]
    pub fn counters(&self) -> Vec<(Verdict, u64)> {
        Verdict::AGGREGATOR
            .iter()
            .map(|verdict| (*verdict, self.counters[*verdict as usize]))
            .collect()
    }

    /// Bytes of slot memory that a node of a plan would take, so that it need not be built to know.
    #[must_use]
    pub fn bytes_for(plan: &Plan, node: NodeId) -> u64 {
        let placed = plan.streams.iter().filter(|stream| stream.place(node).is_some());
        placed.map(|stream| slots::SlotMemory::bytes_for(stream.slots(), plan.payload_len())).sum()
    }

    /// Bytes of slot memory, fixed at construction.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.places.iter().map(|place| place.slots.bytes()).sum()
    }
}

fn ensure(condition: bool, otherwise: Verdict) -> Result<(), Verdict> {
    if condition { Ok(()) } else { Err(otherwise) }
}

const _: () = assert!(wiresum_wire::MAX_PACKET >= HEADER_LEN + 4 * status::WORDS);
