//! What a plan with a fabric means for one site: what a node sums, for whom, in which slots and where to; and how a
//! worker sends.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_wire::{Flags, JobId, LaneType, NodeId, SubModelId};

use crate::ways::{ANY_NODE, Site, Way, WayError, Ways};
use crate::{Child, Contributors, Fabric, Forwarding, Plan, PlanStream, Policy, Role, StreamPlace};

/// What a switch knows of a stream that it sums: an entry of its table, written by the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// Workers whose sum is complete here.
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
    pub members: Contributors,
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
    /// The worker: its bit among the contributors.
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
                Some(StreamPlace { base, slots: Some(slots), .. }) => {
                    duties.places.push(self.place(stream, &ways, node, (*base, *slots)));
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
    pub fn everyone(&self) -> Contributors {
        Contributors::first(self.workers.len() as u8)
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

    fn place(
        &self,
        stream: &PlanStream,
        ways: &Ways,
        node: NodeId,
        (base, slots): (u32, u32),
    ) -> Place {
        Place {
            job: ways.job,
            sub_model: ways.sub_model,
            members: ways.members(node),
            parent: ways.parent(node),
            base,
            slots,
            window: stream.window,
            lanes: self.lanes(stream),
        }
    }

    fn serving(&self, stream: &PlanStream) -> Serving {
        let (job, sub_model) = (self.job_id(), stream.id());
        let (window, lanes) = (stream.window, self.lanes(stream));
        Serving { job, sub_model, members: self.everyone(), window, lanes }
    }

    fn sending(&self, stream: &PlanStream, ways: &Ways, rank: u8) -> Sending {
        let way = &ways.of[usize::from(rank)];
        let timeout_s = self.fabric.as_ref().map_or(0.0, |fabric| fabric.timeout_s);
        let (base, slots) = stream.first_slots(rank.into());
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
            Role::Values => LaneType::from(self.job.lanes).flags().only(Flags::LANES),
            Role::Exponents if self.job.codec == "block" => Flags::MAXIMUM,
            Role::Exponents => Flags(0),
        }
    }
}

impl PlanStream {
    /// First slot and number of slots that a worker may choose from: those where it is summed first.
    fn first_slots(&self, rank: u32) -> (u32, u32) {
        let first = self.leg(Child::Worker(rank)).and_then(|leg| self.place(NodeId(leg.parent)));
        first.map_or((0, 1), |place| (place.base, place.slots.unwrap_or(1)))
    }
}
