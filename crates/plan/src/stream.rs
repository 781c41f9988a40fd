//! A stream of a plan: the nodes that sum it, and the legs that its values take from one to the next.
//!
//! The legs are the edges of a tree. Whoever needs parents, children or contributor numbers asks for them here.

use serde::{Deserialize, Deserializer, Serialize};
use wiresum_wire::{Contributor, GROUP_FRAGMENTS, NodeId, Policy, SubModelId};

use crate::ways::Site;
use crate::{Child, Plan, Role};

/// Fewest positions between two notes on a check queue.
const MIN_CHECK_FRAGMENTS: u32 = 16;

/// An ordered part of a job's values, with slots of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanStream {
    /// Its number in packets.
    pub id: u16,
    /// Its name, for people.
    pub name: String,
    /// What it carries.
    pub role: Role,
    /// Fraction that it carries of each collective of its role; 0 for exponents and acknowledgements.
    pub share: f64,
    /// How fragments find their slots, and what acknowledges them.
    pub policy: Policy,
    /// Most fragments that a worker has sent without an acknowledgement.
    pub window: u32,
    /// Urgency, where the policy preempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
    /// The nodes that sum it.
    pub places: Vec<StreamPlace>,
    /// One from each worker, and one from each place but the root.
    pub legs: Vec<StreamLeg>,
}

/// A node's part in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPlace {
    /// The node.
    pub node: u16,
    /// The first of its slots, at a switch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub base: u32,
    /// Fragments that it keeps; absent at a parameter server, which completes sums without slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
}

/// The part of a way from a worker, or from a node that sums, to the next node that sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamLeg {
    /// Where it begins.
    pub child: Child,
    /// The node that sums what it brings. Among the legs to the same parent, its index is the [`Contributor`].
    pub parent: u16,
    /// Ids of the topology's links that it takes, and results back; empty where the network chooses.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
}

/// A list, or none.
fn or_empty<'de, D: Deserializer<'de>>(document: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(document).map(Option::unwrap_or_default)
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl PlanStream {
    /// Its id as a new-type.
    #[must_use]
    pub fn id(&self) -> SubModelId {
        SubModelId(self.id)
    }

    /// A node's place.
    #[must_use]
    pub fn place(&self, node: NodeId) -> Option<&StreamPlace> {
        self.places.iter().find(|place| place.node == node.0)
    }

    /// Whether a site is one of the nodes that sum it.
    pub(crate) fn sums_at(&self, site: Site) -> bool {
        matches!(site, Site::Node(node) if self.place(node).is_some())
    }

    /// Where its sums are complete: the place without a leg to another.
    #[must_use]
    pub fn root(&self) -> Option<NodeId> {
        let ids = self.places.iter().map(|place| NodeId(place.node));
        ids.into_iter().find(|id| self.leg(Child::Node(id.0)).is_none())
    }

    /// The leg that begins at a worker or node.
    #[must_use]
    pub fn leg(&self, child: Child) -> Option<&StreamLeg> {
        self.legs.iter().find(|leg| leg.child == child)
    }

    /// Who sends to a node; the index is the [`Contributor`].
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = Child> + '_ {
        self.legs.iter().filter(move |leg| leg.parent == node.0).map(|leg| leg.child)
    }

    /// How many send to a node.
    #[must_use]
    pub fn fan_in(&self, node: NodeId) -> usize {
        self.children(node).count()
    }

    /// The node that a child sends to, and its index there.
    #[must_use]
    pub fn parent_of(&self, child: Child) -> Option<(NodeId, Contributor)> {
        let node = NodeId(self.leg(child)?.parent);
        let index = self.children(node).position(|other| other == child)?;
        Some((node, Contributor(index as u8)))
    }

    /// Slots at each of its places, where servers sum; 1 if none has any.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.places.iter().find_map(|place| place.slots).unwrap_or(1)
    }

    /// Most positions that a worker has begun and not done: as many as there are slots where results acknowledge, as
    /// many as there are entries where barriers do.
    #[must_use]
    pub fn most_begun(&self) -> u32 {
        match self.role {
            Role::Parts | Role::Copies => 2 * self.slots(),
            _ => self.slots(),
        }
    }

    /// The same stream with this many slots at each of its places.
    #[must_use]
    pub fn with_slots(mut self, slots: u32) -> Self {
        self.places.iter_mut().for_each(|place| place.slots = Some(slots));
        self
    }

    /// Whether its children ask for rates: a bandwidth is known at one of its nodes.
    /// Exponents are few and never ask; TCP has a congestion control of its own.
    #[must_use]
    pub fn is_negotiated(&self, plan: &Plan) -> bool {
        let is_bounded = |place: &StreamPlace| {
            let node = plan.node(NodeId(place.node));
            node.is_some_and(|node| node.ingress_bps.is_some() || node.egress_bps.is_some())
        };
        let is_ours = self.role == Role::Values && !plan.is_over_tcp();
        is_ours && self.places.iter().any(is_bounded)
    }

    /// Fragments that one probe of this stream is about: no more than a window, or a probe would describe fragments
    /// that cannot have been sent.
    #[must_use]
    pub fn group_fragments(&self) -> u32 {
        self.window.min(GROUP_FRAGMENTS as u32)
    }

    /// Fragments between two notes on an inner node's check queue; a power of two. Half a window, so that the other
    /// half keeps the links busy while a loss is being found, but at most a group, and not so few that notes cost more
    /// than what they are about.
    #[must_use]
    pub fn check_interval(&self) -> u32 {
        let half = (self.window / 2).clamp(MIN_CHECK_FRAGMENTS, GROUP_FRAGMENTS as u32);
        1 << half.ilog2()
    }
}
