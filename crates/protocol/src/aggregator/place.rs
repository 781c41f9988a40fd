//! A node's place in the tree of one sub-model: its children, its parent, its slots.

use std::net::SocketAddr;

use wiresum_wire::{Contributor, Flags, FragmentId, Header, Kind, NodeId, SubModelId};

use super::plane::CheckQueue;
use super::slots::SlotMemory;
use crate::Plan;
use crate::plan::{Child, PlanStream, Seat};
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
    /// It was told to go to the parent; what it sends here is dropped until it says hello again.
    pub is_dismissed: bool,
}

impl ChildState {
    /// Whether it takes part here, from this address.
    pub fn is_at(&self, source: SocketAddr) -> bool {
        self.address == Some(source) && !self.is_dismissed
    }
}

pub(super) struct Place {
    pub sub_model: SubModelId,
    /// By contributor: the children, then their substitutes.
    pub children: Vec<ChildState>,
    /// What the plan says about each of them.
    pub seats: Vec<Seat>,
    /// Children, without substitutes.
    pub fan_in: u8,
    pub parent: Option<Parent>,
    pub policy: &'static dyn SlotPolicy,
    pub slots: SlotMemory,
    pub checks: CheckQueue,
    slot_count: u32,
}

impl Place {
    /// The place of `node` in `sub_model`; `None` if it is not in that tree.
    pub fn new(plan: &Plan, sub_model: &PlanStream, node: NodeId) -> Option<Self> {
        sub_model.place(node)?;
        let seats = sub_model.seats(node);
        Some(Self {
            sub_model: sub_model.id(),
            children: vec![ChildState::default(); seats.len()],
            seats,
            fan_in: sub_model.fan_in(node) as u8,
            parent: parent(plan, sub_model, node),
            policy: policy::of(sub_model.policy),
            slots: SlotMemory::new(sub_model.slots(), plan.payload_len()),
            checks: CheckQueue::new(sub_model.check_interval()),
            slot_count: sub_model.slots(),
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
        u64::MAX >> (64 - self.fan_in)
    }

    /// Whether all children have said goodbye, themselves or through all their substitutes.
    pub fn has_everyone_left(&self) -> bool {
        let gone = self.children.iter().enumerate().filter(|(_, child)| child.has_left);
        let gone = gone.fold(0, |bits, (index, _)| bits | 1 << index);
        let left = self.seats.iter().fold(gone, |bits, seat| seat.complete(bits));
        left & self.everyone() == self.everyone()
    }

    /// Whether the packet names us as a packet of this kind has to.
    pub fn is_addressed_by(&self, header: &Header, kind: Kind, node: NodeId) -> bool {
        match kind {
            Kind::Contribution | Kind::Probe | Kind::Goodbye | Kind::Hello | Kind::Ready => {
                header.node.get() == node.0
            }
            Kind::Result | Kind::Status | Kind::Welcome | Kind::Refusal | Kind::Rate => {
                self.parent.is_some_and(|parent| header.node.get() == parent.node.0)
            }
        }
    }

    /// Whether `source` is who the packet says it comes from.
    pub fn is_sent_by(&self, header: &Header, kind: Kind, source: SocketAddr) -> bool {
        let is_downward = matches!(
            kind,
            Kind::Result | Kind::Status | Kind::Welcome | Kind::Refusal | Kind::Rate
        );
        if is_downward {
            let is_parent =
                |p: Parent| p.address == source && p.contributor.0 == header.contributor;
            return self.parent.is_some_and(is_parent);
        }
        let child = self.children.get(usize::from(header.contributor));
        child.is_some_and(|child| child.is_at(source))
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
        header.expected = self.fan_in;
        header.priority = 0;
        header.flags.set(flags.0);
    }
}

fn parent(plan: &Plan, sub_model: &PlanStream, node: NodeId) -> Option<Parent> {
    let (above, contributor) = sub_model.parent_of(Child::Node(node.0))?;
    Some(Parent {
        node: above,
        address: plan.node(above)?.address,
        contributor,
        fan_in: sub_model.fan_in(above) as u8,
        has_welcomed: false,
    })
}
