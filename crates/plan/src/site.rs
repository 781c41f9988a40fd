//! What a plan with a fabric means for one site: what a node sums, for whom, in which slots and where to; and how a
//! worker sends.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_wire::{Flags, JobId, NodeId, SubModelId};

use crate::ways::{ANY_NODE, Site, Way, WayError, Ways};
use crate::{
    Child, Cohort, Contributors, Fabric, Forwarding, Plan, PlanStream, Policy, Role, StreamPlace,
    Workers,
};

/// What a switch knows of a stream that it sums, for one cohort: an entry of its table, written by the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// The workers that its packets name.
    pub cohort: Cohort,
    /// Those of them whose sum is complete here.
    pub members: Contributors,
    /// Where that sum goes; `None` if it is the result.
    pub parent: Option<NodeId>,
    /// First slot that the stream may use.
    pub base: u32,
    /// Slots that it may use.
    pub slots: u32,
    /// A worker sends position p only after it has the result of p − window.
    pub window: u32,
    /// How its lanes are merged: none of [`Flags::LANES`], or some.
    pub lanes: Flags,
}

/// A stream that a server completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// Workers of which a result is the sum.
    pub members: Workers,
    /// A worker sends position p only after it has the result of p − window.
    pub window: u32,
    /// How its lanes are merged: none of [`Flags::LANES`], or some.
    pub lanes: Flags,
}

/// How long nothing is heard before something is sent again, unless a plan says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(2);

/// How a worker takes part in a stream that switches sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The policy of its switches.
    pub policy: Policy,
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// The worker's rank: which bit of its cohort's contributors it is.
    pub worker: u8,
    /// Workers of which a result is the sum.
    pub workers: u8,
    /// What its packets are addressed to, or [`ANY_NODE`].
    pub node: NodeId,
    /// It sends position p only after it has the result of p − window; at least 1.
    pub window: u32,
    /// Window to begin with, where the policy adapts it.
    pub initial_window: u32,
    /// First of the slots that it may choose from, at the switch that sums it first.
    pub base: u32,
    /// How many there are; at least 1.
    pub slots: u32,
    /// Urgency, where the policy preempts.
    pub priority: u8,
    /// How long it hears nothing before it sends its oldest fragment again; doubled in a row.
    pub timeout: Duration,
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            policy: Policy::Pool,
            job: JobId(0),
            sub_model: SubModelId(0),
            worker: 0,
            workers: 1,
            node: ANY_NODE,
            window: 1,
            initial_window: 1,
            base: 0,
            slots: 1,
            priority: 0,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// What a plan has one of its nodes do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duties {
    /// The streams that it sums in its slots.
    pub places: Vec<Place>,
    /// The streams whose sums it completes without slots.
    pub servings: Vec<Serving>,
    /// Where every packet goes next.
    pub forwarding: Forwarding,
}

impl Plan {
    /// What a node of the fabric does; nothing where servers sum.
    ///
    /// # Errors
    /// [`WayError`] of a plan that is not valid.
    pub fn site(&self, node: NodeId) -> Result<Duties, WayError> {
        let mut duties = Duties::default();
        for (stream, ways) in self.fabric_streams() {
            match stream.place(node) {
                Some(StreamPlace { slots: None, .. }) => {
                    duties.servings.push(self.serving(stream));
                }
                Some(StreamPlace { slots: Some(slots), .. }) => {
                    duties.places.extend(self.places(stream, &ways, node, *slots));
                }
                None => {}
            }
            duties.forwarding.install(Site::Node(node), &ways)?;
        }
        Ok(duties)
    }

    /// How a worker takes part in every stream of the fabric, in their order.
    #[must_use]
    pub fn sendings(&self, rank: u8) -> Vec<Sending> {
        let streams = self.fabric_streams();
        streams.map(|(stream, ways)| self.sending(stream, &ways, rank)).collect()
    }

    /// Where a node hands on what is for every node on a worker's ways, by worker: to its neighbours on them, away from
    /// the worker. Empty where servers sum.
    #[must_use]
    pub fn onward(&self, node: NodeId) -> Vec<Vec<SocketAddr>> {
        let Some(fabric) = &self.fabric else { return Vec::new() };
        let ways = self.ways();
        let next = |rank: usize| {
            let its = ways.iter().filter_map(|ways| ways.of.get(rank)).flat_map(Way::hops);
            let here = its.filter(|hop| hop.from == Site::Node(node));
            let next = here.filter_map(|hop| fabric.address(hop.to, hop.link));
            next.collect::<BTreeSet<_>>().into_iter().collect()
        };
        (0..self.workers.len()).map(next).collect()
    }

    /// Every worker of the job, as a set; for plans with a fabric, which have few enough.
    #[must_use]
    pub fn everyone(&self) -> Workers {
        Workers::first(self.workers.len() as u8)
    }

    /// The ways of every stream; none where servers sum.
    #[must_use]
    pub fn ways(&self) -> Vec<Ways> {
        self.fabric_streams().map(|(_, ways)| ways).collect()
    }

    pub(crate) fn fabric_streams(&self) -> impl Iterator<Item = (&PlanStream, Ways)> {
        let of = |fabric: &'_ Fabric, stream| fabric.ways(self.job_id(), stream);
        self.fabric.iter().flat_map(move |fabric| {
            self.streams.iter().map(move |stream| (stream, of(fabric, stream)))
        })
    }

    /// A node's places in a stream: one for each cohort that is summed there.
    fn places(
        &self,
        stream: &PlanStream,
        ways: &Ways,
        node: NodeId,
        slots: u32,
    ) -> impl Iterator<Item = Place> {
        let all = ways.members(node);
        all.cohorts().map(move |(cohort, members)| Place {
            job: ways.job,
            sub_model: ways.sub_model,
            cohort,
            members,
            parent: ways.parent(node),
            base: stream.first_slot(node, all, cohort),
            slots,
            window: stream.window,
            lanes: self.lanes(stream),
        })
    }

    fn serving(&self, stream: &PlanStream) -> Serving {
        let (job, sub_model) = (self.job_id(), stream.id());
        let (window, lanes) = (stream.window, self.lanes(stream));
        Serving { job, sub_model, members: self.everyone(), window, lanes }
    }

    fn sending(&self, stream: &PlanStream, ways: &Ways, rank: u8) -> Sending {
        let way = &ways.of[usize::from(rank)];
        let timeout_s = self.fabric.as_ref().map_or(0.0, |fabric| fabric.timeout_s);
        let (base, slots) = stream.first_slots(ways, rank);
        Sending {
            policy: stream.policy,
            job: ways.job,
            sub_model: ways.sub_model,
            worker: rank,
            workers: self.workers.len() as u8,
            node: way.first_address(),
            window: stream.window,
            initial_window: stream.window,
            base,
            slots,
            priority: stream.priority,
            timeout: Duration::from_secs_f64(timeout_s),
        }
    }

    /// How switches merge a stream's lanes: values are summed, as wide as the job's lanes; exponents of the codec
    /// `block` are agreed on by maximum, and what a fixed codec has in their place, the check, is summed, both in 32
    /// bits.
    #[must_use]
    pub fn lanes(&self, stream: &PlanStream) -> Flags {
        match stream.role {
            Role::Values => self.job.lanes.widest().flags().only(Flags::LANES),
            Role::Exponents if self.job.agrees() => Flags::MAXIMUM,
            // Rows are no fabric's.
            Role::Exponents | Role::Hot => Flags(0),
            // These are no fabric's either.
            Role::Parts | Role::Copies | Role::Acknowledgements => Flags(0),
        }
    }
}

impl PlanStream {
    /// First slot and number of slots that a worker may choose from: those where it is summed first.
    fn first_slots(&self, ways: &Ways, rank: u8) -> (u32, u32) {
        let first = self.leg(Child::Worker(rank.into())).map(|leg| NodeId(leg.parent));
        let slots = first.and_then(|node| Some((node, self.place(node)?.slots?)));
        slots.map_or((0, 1), |(node, slots)| {
            (self.first_slot(node, ways.members(node), Cohort::of(rank)), slots)
        })
    }

    fn first_slot(&self, node: NodeId, members: Workers, cohort: Cohort) -> u32 {
        let region = self.place(node).map(|place| (place.base, place.slots.unwrap_or(0)));
        first_slot(self.policy, region.unwrap_or_default(), members, cohort)
    }

    /// Slots that a place with members takes, those of all its cohorts.
    pub(crate) fn slots_taken(&self, slots: u32, members: Workers) -> u64 {
        let cohorts = members.cohorts().count() as u64;
        u64::from(slots) * if self.policy.shares_slots() { cohorts.min(1) } else { cohorts }
    }
}

/// The first slot of a cohort at a place, from the place's first slot and the slots of each cohort, and the workers that
/// it sums: where slots are not shared, those of its cohorts follow each other.
#[must_use]
pub fn first_slot(
    policy: Policy,
    (base, slots): (u32, u32),
    members: Workers,
    cohort: Cohort,
) -> u32 {
    let before = members.cohorts().take_while(|(of, _)| *of < cohort).count() as u32;
    if policy.shares_slots() { base } else { base + before * slots }
}
