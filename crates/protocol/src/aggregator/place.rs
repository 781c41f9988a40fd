//! A node's place in the tree of one sub-model: its children, its parent, its slots.

use std::net::SocketAddr;

use wiresum_keys::{SeatKey, ValueHash, is_authentic};
use wiresum_wire::control::KeyAge;
use wiresum_wire::{
    Contributor, Flags, FragmentId, Header, Kind, LaneType, NodeId, Packet, SubModelId,
};
use zerocopy::FromBytes;

use super::plane::CheckQueue;
use super::slots::SlotMemory;
use crate::compose::put_proof;
use crate::plan::{Child, PlanStream, Seat};
use crate::policy::{self, SlotPolicy};
use crate::{Association, Plan};

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
    /// The age of keys that it knows of.
    pub age: KeyAge,
    /// The key of this node's seat there; absent from a plan without it.
    pub key: Option<SeatKey>,
    /// Numbers of the first and the last hello that it was sent in the running incarnation.
    pub asked: Option<(u32, u32)>,
}

impl Parent {
    /// The number of the next hello: the tick of the clock, so that it is new to a parent that knows one from before this
    /// process began. `None` if this tick has had its hello. Without a clock they are counted.
    pub fn next_attempt(&mut self, tick: Option<u32>) -> Option<u32> {
        let last = self.asked.map(|(_, last)| last);
        let next = tick.unwrap_or_else(|| last.map_or(1, |last| last.wrapping_add(1)));
        if last.is_some_and(|last| next.wrapping_sub(last) as i32 <= 0) {
            return None;
        }
        self.asked = Some((self.asked.map_or(next, |(first, _)| first), next));
        Some(next)
    }

    /// Whether a hello with this number was sent in the running incarnation.
    pub fn was_asked(&self, attempt: u32) -> bool {
        let within =
            |(first, last): (u32, u32)| attempt.wrapping_sub(first) <= last.wrapping_sub(first);
        self.asked.is_some_and(within)
    }
}

/// What is known of a child in the running incarnation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChildState {
    /// Where it said hello from.
    pub address: Option<SocketAddr>,
    /// It has said goodbye.
    pub has_left: bool,
    /// It was told to go to the parent; what it sends here is dropped until it is welcome again.
    pub is_dismissed: bool,
    /// Number of the last hello or goodbye that was believed: older ones are of no use to whoever recorded them.
    pub attempt: Option<u32>,
}

impl ChildState {
    /// Whether it takes part here, from this address.
    pub fn is_at(&self, source: SocketAddr) -> bool {
        self.address == Some(source) && !self.is_dismissed
    }

    /// Whether a hello or goodbye is no older than the last one; the same one again is believed from its address alone, or,
    /// of a child that `calls`, from any.
    pub fn is_news(&self, attempt: u32, source: SocketAddr, calls: bool) -> bool {
        self.attempt.is_none_or(|last| match attempt.wrapping_sub(last) as i32 {
            0 => self.is_at(source) || calls && self.address.is_some() && !self.is_dismissed,
            later => later > 0,
        })
    }
}

pub(super) struct Place {
    pub sub_model: SubModelId,
    /// By contributor: the children, then their substitutes.
    pub children: Vec<ChildState>,
    /// What the plan says about each of them, but for those that nobody fills.
    pub seats: Vec<Seat>,
    /// Those that nobody fills in the running incarnation, as a bitmap of contributors.
    pub vacant: u64,
    /// Children, without substitutes.
    pub fan_in: u8,
    pub parent: Option<Parent>,
    /// By contributor: the keys by which they prove that they are who they say.
    pub keys: Vec<Option<SeatKey>>,
    /// What values are hashed by, where they are proven.
    pub hash: Option<ValueHash>,
    /// Children call from ports that change, as over TCP, where a new connection begins with the last hello again.
    pub is_called: bool,
    pub policy: &'static dyn SlotPolicy,
    pub slots: SlotMemory,
    pub checks: CheckQueue,
    /// What values of the running incarnation carry.
    pub association: Association,
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
            vacant: 0,
            fan_in: sub_model.fan_in(node) as u8,
            parent: parent(plan, sub_model, node),
            keys: seat_keys(plan, sub_model, node),
            hash: plan.value_hash(),
            is_called: plan.is_over_tcp(),
            policy: policy::of(sub_model.policy),
            slots: SlotMemory::new(sub_model.slots(), plan.payload_len()),
            checks: CheckQueue::new(sub_model.check_interval()),
            association: Association::default(),
            slot_count: sub_model.slots(),
        })
    }

    /// Forgets everyone of an older incarnation; slots forget by themselves. These are the node's seats in the new one,
    /// and of them those that nobody fills.
    pub fn reset(&mut self, association: Association, seats: &[Seat], vacant: u64) {
        self.association = association;
        self.seats = seats.iter().map(|seat| seat.without(vacant)).collect();
        self.vacant = vacant;
        self.children.fill(ChildState::default());
        if let Some(parent) = &mut self.parent {
            (parent.has_welcomed, parent.age, parent.asked) = (false, KeyAge::default(), None);
        }
    }

    /// The parent knows the running incarnation, and of keys of this age. Children take its word for how often they were
    /// renewed, so this node has to know it too.
    pub fn be_welcomed(&mut self, plan: &Plan, age: KeyAge) {
        if let Some(parent) = &mut self.parent {
            (parent.has_welcomed, parent.age) = (true, parent.age.max(age));
            self.association.learn(plan, KeyAge { generation: 0, ..age });
        }
    }

    /// Whether a control packet carries the proof of its seat; a goodbye or an answer to a hello has to be new besides.
    pub fn is_proven(
        &self,
        header: &Header,
        kind: Kind,
        source: SocketAddr,
        payload: &[u8],
    ) -> bool {
        let (attempt, contributor) = (header.round.get(), usize::from(header.contributor));
        let is_new = match kind {
            Kind::Goodbye => self.children[contributor].is_news(attempt, source, false),
            Kind::Welcome | Kind::Refusal => self.parent.is_some_and(|p| p.was_asked(attempt)),
            _ => true,
        };
        let key = self.key_of(header, kind);
        is_new && key.is_some_and(|key| key.is_proven(header, payload))
    }

    /// Whether values carry the proof of their seat, or none where none is asked for.
    pub fn is_authentic(&self, packet: &Packet) -> bool {
        is_authentic(self.hash.as_ref(), || self.key_of(packet.header, packet.kind), packet)
    }

    /// The key of the seat that a packet names.
    fn key_of(&self, header: &Header, kind: Kind) -> Option<SeatKey> {
        if is_downward(kind) {
            return self.parent.and_then(|parent| parent.key);
        }
        self.keys[usize::from(header.contributor)]
    }

    /// Writes the proof of values whose header is complete behind them, where they have to have one. For all children
    /// it is written as each is addressed.
    pub fn prove(&self, key: Option<SeatKey>, buffer: &mut [u8], payload_len: usize) {
        if let Some((hash, key)) = self.hash.as_ref().zip(key) {
            put_proof(hash, &key, buffer, payload_len);
        }
    }

    /// Replaces the proof of a result by that for another child.
    pub fn prove_again(&self, child: usize, packet: &mut [u8]) {
        let Ok((header, _)) = Header::ref_from_prefix(packet) else { return };
        let width = LaneType::of(Flags(header.flags.get())).width();
        let payload_len = usize::from(header.value_count.get()) * width;
        self.prove(self.keys[child], packet, payload_len);
    }

    /// What packets of values have set besides.
    pub fn proof_flags(&self) -> Flags {
        if self.hash.is_some() { Flags::PROVEN } else { Flags(0) }
    }

    /// Index of a position's entry.
    pub fn entry_index(&self, position: FragmentId) -> usize {
        self.policy.entry(position, self.slot_count)
    }

    /// The bitmap with every child in it that takes part.
    pub fn everyone(&self) -> u64 {
        u64::MAX >> (64 - self.fan_in) & !self.vacant
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
        if is_downward(kind) {
            return self.parent.is_some_and(|parent| header.node.get() == parent.node.0);
        }
        header.node.get() == node.0
    }

    /// Whether `source` is who the packet says it comes from.
    pub fn is_sent_by(&self, header: &Header, kind: Kind, source: SocketAddr) -> bool {
        if is_downward(kind) {
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
        header.flags.set(flags.with(self.proof_flags()).0);
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
        header.flags.set(flags.with(self.proof_flags()).0);
    }
}

/// Whether packets of this kind come from the parent.
fn is_downward(kind: Kind) -> bool {
    match kind {
        Kind::Contribution | Kind::Probe | Kind::Goodbye | Kind::Hello | Kind::Ready => false,
        Kind::Result | Kind::Status | Kind::Welcome | Kind::Refusal | Kind::Rate => true,
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
        age: KeyAge::default(),
        key: plan.keys().seat(wiresum_keys::Seat::new(above, sub_model.id(), contributor)),
        asked: None,
    })
}

/// The keys of a node's seats in a stream, those of substitutes included.
pub(crate) fn seat_keys(plan: &Plan, sub_model: &PlanStream, node: NodeId) -> Vec<Option<SeatKey>> {
    let (keys, count) = (plan.keys(), sub_model.seats(node).len());
    let seat = |index| wiresum_keys::Seat::new(node, sub_model.id(), Contributor(index));
    (0..count).map(|index| keys.seat(seat(index as u8))).collect()
}
