//! What a plan's fabric means for one site.

use std::time::Duration;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::fabric::FabricStream;
use wiresum_protocol::ways::{ANY_NODE, Site, Way, Ways};
use wiresum_wire::{JobId, NodeId, SubModelId};

use super::StationError;
use crate::policy::PolicyName;
use crate::{Contributors, Place, Sending, Serving};

/// A switch program and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The program.
    pub policy: PolicyName,
    /// Fragments.
    pub slots: u32,
    /// Values of a fragment.
    pub values: u32,
}

/// The policy of a plan's switches; `None` where servers sum.
#[must_use]
pub fn policy(plan: &Plan) -> Option<PolicyName> {
    plan.fabric.as_ref().and_then(|fabric| PolicyName::from_name(fabric.policy.name()))
}

/// What a switch needs for a job; `None` if it only forwards there.
#[must_use]
pub fn room(plan: &Plan, node: NodeId) -> Option<Room> {
    let slots = plan.fabric.as_ref()?.slots(node)?;
    Some(Room { policy: policy(plan)?, slots, values: plan.job.values_per_packet.into() })
}

/// What a switch needs for all jobs of its plans: it has one program. `None` if it only forwards.
///
/// # Errors
/// [`StationError::Programs`] if they want different ones.
pub fn common_room(plans: &[Plan], node: NodeId) -> Result<Option<Room>, StationError> {
    let rooms: Vec<Room> = plans.iter().filter_map(|plan| room(plan, node)).collect();
    if rooms.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(StationError::Programs(node));
    }
    Ok(rooms.first().copied())
}

/// The streams that a switch sums.
#[must_use]
pub fn places(plan: &Plan, node: NodeId) -> Vec<Place> {
    let of = |(stream, ways): (&FabricStream, &Ways)| {
        let slots = stream.place(node)?;
        Some(Place {
            job: ways.job,
            sub_model: ways.sub_model,
            members: members(ways, Site::Node(node)),
            parent: parent(ways, Site::Node(node)),
            base: slots.base,
            slots: slots.slots,
            window: window(plan, ways.sub_model),
        })
    };
    each(plan).iter().filter_map(|(stream, ways)| of((stream, ways))).collect()
}

/// The streams whose sums a server completes.
#[must_use]
pub fn servings(plan: &Plan, node: NodeId) -> Vec<Serving> {
    let is_served = |(stream, ways): &&(FabricStream, Ways)| {
        root(ways) == Some(Site::Node(node)) && stream.place(node).is_none()
    };
    let of = |(_, ways): &(FabricStream, Ways)| Serving {
        job: ways.job,
        sub_model: ways.sub_model,
        members: everyone(plan),
        window: window(plan, ways.sub_model),
    };
    each(plan).iter().filter(is_served).map(of).collect()
}

/// How a worker takes part in every stream.
#[must_use]
pub fn sendings(plan: &Plan, rank: u8) -> Vec<Sending> {
    let Some(fabric) = &plan.fabric else { return Vec::new() };
    let timeout = Duration::from_secs_f64(fabric.timeout_s);
    let of = |(stream, ways): &(FabricStream, Ways)| {
        let way = &ways.of[usize::from(rank)];
        let node = way.legs.first().map_or(ANY_NODE, |leg| leg.node);
        let slots = slots(stream, way, node);
        let window = window(plan, ways.sub_model);
        Sending {
            policy: policy(plan).unwrap_or(PolicyName::Pool),
            job: ways.job,
            sub_model: ways.sub_model,
            worker: rank,
            workers: plan.workers.len() as u8,
            node,
            window,
            initial_window: window,
            base: slots.0,
            slots: slots.1,
            priority: stream.priority,
            timeout,
        }
    };
    each(plan).iter().map(of).collect()
}

/// First slot and number of slots that a worker may choose from: those where it is summed first.
fn slots(stream: &FabricStream, way: &Way, node: NodeId) -> (u32, u32) {
    let on_the_way = way.legs.iter().flat_map(|leg| &leg.hops).map(|hop| hop.to);
    let is_place = |site: Site| match site {
        Site::Node(at) => stream.place(at),
        Site::Worker(_) => None,
    };
    let first = if node == ANY_NODE {
        on_the_way.into_iter().find_map(is_place)
    } else {
        stream.place(node)
    };
    first.map_or((0, 1), |place| (place.base, place.slots))
}

fn each(plan: &Plan) -> Vec<(FabricStream, Ways)> {
    let Some(fabric) = &plan.fabric else { return Vec::new() };
    let job = JobId(plan.job.id);
    fabric.streams.iter().map(|stream| (stream.clone(), fabric.ways(job, stream))).collect()
}

fn window(plan: &Plan, sub_model: SubModelId) -> u32 {
    let found = plan.sub_models.iter().find(|s| s.id == sub_model.0);
    found.map_or(1, |sub_model| sub_model.window)
}

/// Every worker of the job.
#[must_use]
pub fn everyone(plan: &Plan) -> Contributors {
    Contributors::first(plan.workers.len() as u8)
}

/// Where a stream's sums end.
#[must_use]
pub fn root(ways: &Ways) -> Option<Site> {
    ways.of.first().and_then(Way::root)
}

/// Workers that are summed at a site: those whose packets are addressed to it, or pass it with no address.
fn members(ways: &Ways, at: Site) -> Contributors {
    let is_summed = |way: &&Way| {
        let mut legs = way.legs.iter();
        legs.any(|leg| match leg.node {
            ANY_NODE => leg.hops.iter().any(|hop| hop.to == at),
            node => Site::Node(node) == at,
        })
    };
    let summed = ways.of.iter().filter(is_summed).map(|way| Contributors::one(way.worker));
    summed.fold(Contributors::NONE, Contributors::with)
}

/// Where the sum of a site goes: to the next address on its ways, or the root.
fn parent(ways: &Ways, at: Site) -> Option<NodeId> {
    let next = |way: &Way| {
        let index = way.legs.iter().position(|leg| Site::Node(leg.node) == at)?;
        way.legs.get(index + 1).map(|leg| leg.node)
    };
    let Some(Site::Node(root)) = root(ways).filter(|root| *root != at) else { return None };
    Some(ways.of.iter().find_map(next).unwrap_or(root))
}
