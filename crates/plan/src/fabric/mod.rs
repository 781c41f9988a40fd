//! The part of a plan that is about a network of switches: its links, and what each switch keeps.
//!
//! Who is summed at a switch, and where its sum goes, follow from the streams' legs over these links.

mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wiresum_wire::{JobId, NodeId};

use crate::ways::{ANY_NODE, Hop, Leg, Site, Way, Ways};
use crate::{Child, PlanStream, StreamLeg};

/// Default of [`Fabric::timeout_s`], in seconds: well above what full queues add to a round trip, as what is sent again
/// needlessly costs a link what it carries.
pub const DEFAULT_TIMEOUT_S: f64 = 0.2;

/// A network of switches that carries and sums a plan's streams, where no servers do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// How long a worker hears nothing before it sends its oldest fragment again, in seconds.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
    /// Links between neighbours.
    pub links: Vec<FabricLink>,
    /// The switches that sum.
    pub memory: Vec<Memory>,
}

fn default_timeout_s() -> f64 {
    DEFAULT_TIMEOUT_S
}

/// A link between two neighbours, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricLink {
    /// As in the topology.
    pub id: String,
    /// Its ends.
    pub ends: [FabricEnd; 2],
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricEnd {
    /// Who is there.
    pub at: Child,
    /// Where its neighbour sends to.
    pub address: SocketAddr,
}

/// What a switch keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Which.
    pub node: u16,
    /// Fragments.
    pub slots: u32,
}

impl Fabric {
    /// What all participants must agree on: who is linked to whom, and what switches keep, but no addresses.
    pub(crate) fn agreed(&self) -> impl Serialize + '_ {
        let ends = |link: &FabricLink| [link.ends[0].at, link.ends[1].at];
        let links: Vec<_> = self.links.iter().map(|link| (link.id.as_str(), ends(link))).collect();
        (links, &self.memory)
    }

    /// Slots of a switch that sums.
    #[must_use]
    pub fn slots(&self, node: NodeId) -> Option<u32> {
        self.memory.iter().find(|memory| memory.node == node.0).map(|memory| memory.slots)
    }

    /// The ways of a stream of a job, by rank: its legs from each worker to the root. Under a policy whose packets name
    /// no switch they are one. Broken ones end early.
    #[must_use]
    pub fn ways(&self, job: JobId, stream: &PlanStream) -> Ways {
        let names = self.by_id();
        let mut ranks: Vec<_> = stream.legs.iter().filter_map(|leg| rank_of(leg.child)).collect();
        ranks.sort_unstable();
        let of = ranks.into_iter().map(|rank| self.way(stream, &names, rank)).collect();
        Ways { job, sub_model: stream.id(), of }
    }

    /// Indices of the links.
    fn by_id(&self) -> BTreeMap<&str, u16> {
        self.links.iter().zip(0u16..).map(|(link, index)| (link.id.as_str(), index)).collect()
    }

    fn way(&self, stream: &PlanStream, names: &BTreeMap<&str, u16>, rank: u32) -> Way {
        let next = |leg: &&StreamLeg| stream.leg(Child::Node(leg.parent));
        let chain = std::iter::successors(stream.leg(Child::Worker(rank)), next);
        let legs = chain
            .take(stream.places.len())
            .map(|leg| Leg { node: NodeId(leg.parent), hops: self.hops(leg, names) });
        let worker = rank as u8;
        if stream.policy.is_addressed() {
            return Way { worker, legs: legs.collect() };
        }
        let hops = legs.flat_map(|leg| leg.hops).collect();
        Way { worker, legs: vec![Leg { node: ANY_NODE, hops }] }
    }

    fn hops(&self, leg: &StreamLeg, names: &BTreeMap<&str, u16>) -> Vec<Hop> {
        let mut at = site(leg.child);
        let hops = leg.links.iter().map_while(|link| {
            let hop = self.hop(at, *names.get(link.as_str())?)?;
            at = hop.to;
            Some(hop)
        });
        hops.collect()
    }

    /// A link as seen from one of its ends.
    fn hop(&self, from: Site, link: u16) -> Option<Hop> {
        let ends = &self.links.get(usize::from(link))?.ends;
        let [one, other] = [0, 1].map(|end| site(ends[end].at));
        let to = if from == one { other } else { one };
        (from == one || from == other).then_some(Hop { from, to, link })
    }

    /// Where the neighbour at the other end of a link receives.
    #[must_use]
    pub fn address(&self, to: Site, link: u16) -> Option<SocketAddr> {
        let ends = &self.links.get(usize::from(link))?.ends;
        ends.iter().find(|end| site(end.at) == to).map(|end| end.address)
    }

    /// Where packets for a site may come from: every address of everyone who has a link with it. The kernel of a
    /// neighbour with several addresses chooses one of them, and need not choose that of the link.
    #[must_use]
    pub fn neighbours(&self, of: Site) -> BTreeSet<SocketAddr> {
        let sites = |link: &FabricLink| [site(link.ends[0].at), site(link.ends[1].at)];
        let own = self.links.iter().map(sites).filter(|ends| ends.contains(&of));
        let near: BTreeSet<Site> = own.flatten().filter(|end| *end != of).collect();
        let ends = self.links.iter().flat_map(|link| &link.ends);
        ends.filter(|end| near.contains(&site(end.at))).map(|end| end.address).collect()
    }
}

/// A child as a site.
#[must_use]
pub fn site(child: Child) -> Site {
    match child {
        Child::Worker(rank) => Site::Worker(rank as u8),
        Child::Node(node) => Site::Node(NodeId(node)),
    }
}

fn rank_of(child: Child) -> Option<u32> {
    match child {
        Child::Worker(rank) => Some(rank),
        Child::Node(_) => None,
    }
}
