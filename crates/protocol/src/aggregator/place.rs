//! A node's place in the tree of one sub-model: its children, its parent, its slots.

use std::net::SocketAddr;

use wiresum_wire::{Contributor, Flags, FragmentId, Header, Kind, NodeId, SubModelId};

use super::slots::SlotMemory;
use crate::Plan;
use crate::plan::{Child, SubModel};
use crate::policy::{self, SlotPolicy};

/// The node above, in one sub-model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    pub node: NodeId,
    pub address: SocketAddr,
    /// This node's index there.
    pub contributor: Contributor,
    pub fan_in: u8,
    /// It has welcomed this node in the running incarnation.
    pub has_welcomed: bool,
}

/// What is known of a child in the running incarnation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChildState {
    /// Where it said hello from.
    pub address: Option<SocketAddr>,
    /// It has said goodbye.
    pub has_left: bool,
}

/// See the module.
pub(super) struct Place {
    pub sub_model: SubModelId,
    pub children: Vec<ChildState>,
    pub parent: Option<Parent>,
    pub policy: &'static dyn SlotPolicy,
    pub slots: SlotMemory,
    slot_count: u32,
}

impl Place {
    /// The place of `node` in `sub_model`; `None` if it is not in that tree.
    pub fn new(plan: &Plan, sub_model: &SubModel, node: NodeId) -> Option<Self> {
        let tree_node = sub_model.place(node)?;
        Some(Self {
            sub_model: sub_model.id(),
            children: vec![ChildState::default(); tree_node.children.len()],
            parent: parent(plan, sub_model, node),
            policy: policy::of(sub_model.policy),
            slots: SlotMemory::new(sub_model.slots, plan.payload_len()),
            slot_count: sub_model.slots,
        })
    }

    /// Forgets everyone of an older incarnation; slots forget by themselves.
    pub fn reset(&mut self) {
        self.children.fill(ChildState::default());
        if let Some(parent) = &mut self.parent {
            parent.has_welcomed = false;
        }
    }

    /// Index of a position's entry.
    pub fn entry_index(&self, position: FragmentId) -> usize {
        self.policy.entry(position, self.slot_count)
    }

    /// The bitmap with every child in it.
    pub fn everyone(&self) -> u64 {
        u64::MAX >> (64 - self.children.len())
    }

    /// Whether the packet names us as a packet of this kind has to.
    pub fn is_addressed_by(&self, header: &Header, kind: Kind, node: NodeId) -> bool {
        match kind {
            Kind::Contribution | Kind::Probe | Kind::Goodbye | Kind::Hello | Kind::Ready => {
                header.node.get() == node.0
            }
            Kind::Result | Kind::Welcome | Kind::Refusal | Kind::Rate => {
                self.parent.is_some_and(|parent| header.node.get() == parent.node.0)
            }
            Kind::Status => false,
        }
    }

    /// Whether `source` is who the packet says it comes from.
    pub fn is_sent_by(&self, header: &Header, kind: Kind, source: SocketAddr) -> bool {
        if matches!(kind, Kind::Result | Kind::Welcome | Kind::Refusal | Kind::Rate) {
            let is_parent =
                |p: Parent| p.address == source && p.contributor.0 == header.contributor;
            return self.parent.is_some_and(is_parent);
        }
        let child = self.children.get(usize::from(header.contributor));
        child.is_some_and(|child| child.address == Some(source))
    }

    /// Turns the header of values into that of the sum for the parent.
    pub fn address_up(&self, header: &mut Header, parent: Parent, flags: Flags) {
        header.kind = Kind::Contribution as u8;
        header.node.set(parent.node.0);
        header.contributor = parent.contributor.0;
        header.expected = parent.fan_in;
        header.priority = 0;
        header.flags.set(flags.0);
    }

    /// Turns the header of values into that of the result for a child.
    pub fn address_down(
        &self,
        header: &mut Header,
        node: NodeId,
        child: Contributor,
        flags: Flags,
    ) {
        header.kind = Kind::Result as u8;
        header.node.set(node.0);
        header.contributor = child.0;
        header.expected = self.children.len() as u8;
        header.priority = 0;
        header.flags.set(flags.0);
    }
}

fn parent(plan: &Plan, sub_model: &SubModel, node: NodeId) -> Option<Parent> {
    let (above, contributor) = sub_model.parent_of(Child::Node(node.0))?;
    Some(Parent {
        node: above,
        address: plan.node(above)?.address,
        contributor,
        fan_in: sub_model.place(above)?.children.len() as u8,
        has_welcomed: false,
    })
}
