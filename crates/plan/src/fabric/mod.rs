//! The part of a plan that is about a network of switches: its links, what each switch keeps, and the way of each worker's values.
//!
//! What can be derived is not in the document: who is summed at a switch, and where its sum goes, follow from the ways.

mod validate;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
pub use wiresum_wire::Policy as SwitchPolicy;
use wiresum_wire::{JobId, NodeId, SubModelId};

use crate::Child;
use crate::ways::{ANY_NODE, Hop, Leg, Site, Way, Ways};

/// Default of [`Fabric::timeout_s`], in seconds: well above what full queues add to a round trip, as what is sent again needlessly costs a
/// link what it carries.
pub const DEFAULT_TIMEOUT_S: f64 = 0.2;

/// How switches carry and sum a plan's streams, instead of the nodes of their trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// What its switches do with fragments.
    pub policy: SwitchPolicy,
    /// How long a worker hears nothing before it sends its oldest fragment again, in seconds.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
    /// Links between neighbours.
    pub links: Vec<FabricLink>,
    /// The switches that sum.
    pub memory: Vec<Memory>,
    /// One for each sub-model, in their order. What the exponents' stream carries here is one check of each collective.
    pub streams: Vec<FabricStream>,
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

/// How one stream is carried and summed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricStream {
    /// Which.
    pub sub_model: u16,
    /// Urgency, where the policy preempts.
    #[serde(default)]
    pub priority: u8,
    /// Where it is summed below its root, and at the root if that is a switch.
    pub places: Vec<FabricPlace>,
    /// In rank order.
    pub ways: Vec<FabricWay>,
}

/// A stream's part of a switch's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricPlace {
    /// Which switch.
    pub node: u16,
    /// The first of its slots.
    pub base: u32,
    /// How many.
    pub slots: u32,
}

/// The links that a worker's values take, alone and in sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricWay {
    /// Whose.
    pub worker: u32,
    /// To each node that sums them, in order.
    pub legs: Vec<FabricLeg>,
}

/// A part of a way, on which packets have one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricLeg {
    /// What packets are addressed to; absent: every switch on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// Indices into [`Fabric::links`].
    pub links: Vec<u16>,
}

impl FabricStream {
    /// A switch's part in it.
    #[must_use]
    pub fn place(&self, node: NodeId) -> Option<&FabricPlace> {
        self.places.iter().find(|place| place.node == node.0)
    }
}

impl Fabric {
    /// What all participants must agree on: ways name links by index, so these count, without addresses.
    pub(crate) fn agreed(&self) -> impl Serialize + '_ {
        let ends = |link: &FabricLink| [link.ends[0].at, link.ends[1].at];
        let links: Vec<_> = self.links.iter().map(|link| (link.id.as_str(), ends(link))).collect();
        (self.policy, links, &self.memory, &self.streams)
    }

    /// Slots of a switch that sums.
    #[must_use]
    pub fn slots(&self, node: NodeId) -> Option<u32> {
        self.memory.iter().find(|memory| memory.node == node.0).map(|memory| memory.slots)
    }

    /// The ways of a stream of a job; broken ones end early.
    #[must_use]
    pub fn ways(&self, job: JobId, stream: &FabricStream) -> Ways {
        let of = stream.ways.iter().map(|way| self.way(way)).collect();
        Ways { job, sub_model: SubModelId(stream.sub_model), of }
    }

    fn way(&self, way: &FabricWay) -> Way {
        let worker = way.worker as u8;
        let mut at = Site::Worker(worker);
        let mut leg = |leg: &FabricLeg| {
            let hops = leg.links.iter().map_while(|&link| {
                let hop = self.hop(at, link)?;
                at = hop.to;
                Some(hop)
            });
            Leg { hops: hops.collect(), node: leg.node.map_or(ANY_NODE, NodeId) }
        };
        Way { worker, legs: way.legs.iter().map(&mut leg).collect() }
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
}

/// A child as a site.
#[must_use]
pub fn site(child: Child) -> Site {
    match child {
        Child::Worker(rank) => Site::Worker(rank as u8),
        Child::Node(node) => Site::Node(NodeId(node)),
    }
}
