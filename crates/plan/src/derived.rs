//! What follows from a plan's fabric, as one document for those who do not speak Rust.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wiresum_wire::NodeId;

use crate::ways::{ANY_NODE, Hop, Site, Way, Ways};
use crate::{Child, Cohort, Plan, PlanStream};

/// What follows from a plan's fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Derived {
    /// Nodes that ways lead over, but for servers: those where sums of some stream end without slots.
    pub switches: BTreeSet<u16>,
    /// In the plan's order.
    pub streams: Vec<DerivedStream>,
}

/// What follows for one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DerivedStream {
    /// Which.
    pub id: u16,
    /// The nodes that sum it, a parameter server among them.
    pub places: Vec<DerivedPlace>,
    /// Each direction of a link that fragments cross, with how often each fragment does.
    pub crossings: Vec<Crossing>,
}

/// What follows for one node that sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DerivedPlace {
    /// The node.
    pub node: u16,
    /// Ranks of which its sum is made.
    pub members: Vec<u8>,
    /// Where that sum goes; absent if it is the result.
    pub parent: Option<u16>,
}

/// How often each fragment of a stream crosses a link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Crossing {
    /// The link, by index.
    pub link: u16,
    /// Where it leads to.
    pub to: Child,
    /// How often.
    pub times: u32,
}

impl Plan {
    /// What follows from its fabric; nothing where servers sum.
    #[must_use]
    pub fn derived(&self) -> Derived {
        let (mut passed, mut servers) = (BTreeSet::new(), BTreeSet::new());
        let mut streams = Vec::new();
        for (stream, ways) in self.fabric_streams() {
            passed.extend(ways.of.iter().flat_map(Way::hops).filter_map(|hop| node_of(hop.to)));
            let serving = stream.places.iter().filter(|place| place.slots.is_none());
            servers.extend(serving.map(|place| place.node));
            streams.push(DerivedStream::of(stream, &ways));
        }
        Derived { switches: &passed - &servers, streams }
    }
}

impl DerivedStream {
    fn of(stream: &PlanStream, ways: &Ways) -> Self {
        let place = |node: NodeId| DerivedPlace {
            node: node.0,
            members: ways.members(node).iter().collect(),
            parent: ways.parent(node).map(|parent| parent.0),
        };
        let places = stream.places.iter().map(|at| place(NodeId(at.node))).collect();
        Self { id: stream.id, places, crossings: crossings(stream, ways) }
    }
}

/// A worker's own packets count each; of each cohort, a sum counts once however many are in it, and a result once for all
/// behind a link.
fn crossings(stream: &PlanStream, ways: &Ways) -> Vec<Crossing> {
    let (mut up, mut down) = (BTreeSet::new(), BTreeSet::new());
    for way in &ways.of {
        let cohort = Cohort::of(way.worker);
        let mut origin = Site::Worker(way.worker);
        for leg in &way.legs {
            for hop in &leg.hops {
                up.insert((origin, cohort, *hop));
                if leg.node == ANY_NODE && stream.sums_at(hop.to) {
                    origin = hop.to;
                }
            }
            origin = leg.hops.last().map_or(origin, |hop| hop.to);
        }
        down.extend(way.down().into_iter().map(|hop| (cohort, hop)));
    }
    let mut times: BTreeMap<Hop, u32> = BTreeMap::new();
    let up = up.into_iter().map(|(_, _, hop)| hop);
    for hop in up.chain(down.into_iter().map(|(_, hop)| hop)) {
        *times.entry(hop).or_default() += 1;
    }
    times
        .into_iter()
        .map(|(Hop { link, to, .. }, times)| Crossing { link, to: child(to), times })
        .collect()
}

fn node_of(site: Site) -> Option<u16> {
    match site {
        Site::Node(node) => Some(node.0),
        Site::Worker(_) => None,
    }
}

fn child(site: Site) -> Child {
    match site {
        Site::Node(node) => Child::Node(node.0),
        Site::Worker(rank) => Child::Worker(rank.into()),
    }
}
