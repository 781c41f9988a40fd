//! Hello, welcome, refusal, goodbye: the joining tables of the spec.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wiresum_wire::control::{RefusalReason, double_word, hello, set_word, word};
use wiresum_wire::{
    Contributor, Flags, HEADER_LEN, Header, JobKey, Kind, LaneType, NodeId, SubModelId, seal,
};
use zerocopy::{FromBytes, IntoBytes};

use super::place::{ChildState, Place};
use super::{Aggregator, Outcome, Verdict};
use crate::compose::{Draft, hello_payload};
use crate::plan::{Child, PlanStream};

/// Who takes part in a job at a node: what a data plane has to know that sums in the node's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Key of the running incarnation; absent before the first and after the end of one.
    pub key: Option<JobKey>,
    /// Where each child is that has said hello.
    pub children: BTreeMap<(SubModelId, Contributor), SocketAddr>,
    /// Where each parent is that has welcomed the node.
    pub parents: BTreeMap<SubModelId, SocketAddr>,
}

impl Aggregator {
    /// Who takes part now. It changes only with datagrams of the verdict [`Verdict::Control`].
    #[must_use]
    pub fn membership(&self) -> Membership {
        let mut membership =
            Membership { key: self.is_running().then_some(self.key), ..Membership::default() };
        for place in &self.places {
            let welcomed = place.parent.filter(|parent| parent.has_welcomed);
            membership.parents.extend(welcomed.map(|parent| (place.sub_model, parent.address)));
            for (index, child) in place.children.iter().enumerate() {
                let id = (place.sub_model, Contributor(index as u8));
                let here = child.address.filter(|_| !child.is_dismissed);
                membership.children.extend(here.map(|address| (id, address)));
            }
        }
        membership
    }

    /// A child announces itself.
    pub(super) fn hello(
        &mut self,
        header: Header,
        source: SocketAddr,
        buffer: &mut [u8],
    ) -> Outcome {
        let payload = &buffer[HEADER_LEN..][..4 * hello::WORDS];
        let incarnation = double_word(payload, hello::INCARNATION_WORD);
        if let Some(reason) = self.reason_to_refuse(&header, payload) {
            return refuse(header, source, reason, buffer);
        }
        if self.plan.job_key(incarnation).0 != header.job_key.get() {
            return Outcome::silent(Verdict::Foreign);
        }
        if Some(incarnation) > self.incarnation {
            self.begin(incarnation);
        }
        let Some(index) = self.place_index(header.sub_model.get()).filter(|_| self.is_running())
        else {
            return Outcome::silent(Verdict::Control);
        };
        let place = &mut self.places[index];
        let child = &mut place.children[usize::from(header.contributor)];
        child.address = Some(source);
        child.is_dismissed = false;
        if header.contributor >= place.fan_in {
            let seat = place.seats[usize::from(header.contributor)];
            let stands_for = Contributor(seat.child.trailing_zeros() as u8);
            self.notice = Some((index, stands_for));
        }
        self.admit(index, header, source, buffer)
    }

    /// The packet to send besides the answer to the last datagram, if there is one: a child whose own children come here is
    /// told to send the others after them. To be called after every datagram of the verdict [`Verdict::Control`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`wiresum_wire::MAX_PACKET`] bytes.
    pub fn poll_notice(&mut self, buffer: &mut [u8]) -> Option<(SocketAddr, usize)> {
        let (index, child) = self.notice.take()?;
        let place = &self.places[index];
        let address = place.children[usize::from(child.0)].address?;
        let mut children = self.tree(index).children(self.node);
        let Child::Node(removed) = children.nth(child.0.into())? else { return None };
        Some((address, self.write_detachment(index, child, NodeId(removed), buffer)))
    }

    /// The parent in a sub-model is silent, as the node's transmitter says: leaves what tells the children that it is out of the
    /// tree, as its own parent would.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`wiresum_wire::MAX_PACKET`] bytes.
    pub fn lose_parent(&mut self, sub_model: SubModelId, buffer: &mut [u8]) -> Outcome {
        let index = self.place_index(sub_model.0).filter(|_| self.is_running());
        let lost = index.and_then(|index| Some((index, self.places[index].parent?.node)));
        let Some((index, removed)) = lost else { return Outcome::silent(Verdict::Control) };
        self.detach(index, removed);
        self.write_detachment(index, Contributor(0), removed, buffer);
        Outcome::to_children(Verdict::Control, HELLO_LEN)
    }

    /// This node, or one above, is out of the tree: whoever has a seat at its parent goes there. One above has to learn of this node
    /// again when it is back.
    fn detach(&mut self, index: usize, removed: NodeId) {
        let is_removable = self.tree(index).is_removable(removed);
        let place = &mut self.places[index];
        place.children.iter_mut().for_each(|child| child.is_dismissed |= is_removable);
        if let Some(parent) = &mut place.parent {
            parent.has_welcomed &= removed == self.node;
        }
    }

    fn tree(&self, index: usize) -> &PlanStream {
        let id = self.places[index].sub_model;
        self.plan.streams.iter().find(|s| s.id() == id).expect("its place is there")
    }

    /// Writes the refusal that tells a child that a node is out of the tree; its length.
    fn write_detachment(
        &self,
        index: usize,
        child: Contributor,
        removed: NodeId,
        buffer: &mut [u8],
    ) -> usize {
        let place = &self.places[index];
        let mut payload = hello_payload(&self.plan, self.incarnation.unwrap_or_default());
        set_word(&mut payload, hello::REASON_WORD, RefusalReason::Detached as u32);
        set_word(&mut payload, hello::REMOVED_NODE_WORD, u32::from(removed.0));
        buffer[HEADER_LEN..][..payload.len()].copy_from_slice(&payload);
        let draft = Draft {
            kind: Kind::Refusal,
            job: self.job,
            node: self.node,
            key: self.key,
            sub_model: place.sub_model,
            contributor: child.0,
            expected: place.fan_in,
            ..Draft::default()
        };
        draft.emit_summed(buffer, payload.len())
    }

    fn reason_to_refuse(&self, header: &Header, payload: &[u8]) -> Option<RefusalReason> {
        let incarnation = double_word(payload, hello::INCARNATION_WORD);
        let is_placed = || {
            let place = self.places.get(self.place_index(header.sub_model.get())?)?;
            place.children.get(usize::from(header.contributor))
        };
        if header.job.get() != self.job.0 {
            Some(RefusalReason::UnknownJob)
        } else if double_word(payload, hello::SECRET_WORD) != self.plan_secret {
            Some(RefusalReason::WrongSecret)
        } else if double_word(payload, hello::PLAN_DIGEST_WORD) != self.plan_digest {
            Some(RefusalReason::OtherPlan)
        } else if header.node.get() != self.node.0 || is_placed().is_none() {
            Some(RefusalReason::NotExpected)
        } else if Some(incarnation) < self.incarnation {
            Some(RefusalReason::Superseded)
        } else if incarnation > self.latest {
            Some(RefusalReason::AheadOfClock)
        } else {
            None
        }
    }

    /// Welcomes the child, or asks the parent first.
    fn admit(
        &self,
        index: usize,
        mut header: Header,
        source: SocketAddr,
        buffer: &mut [u8],
    ) -> Outcome {
        match self.places[index].parent {
            Some(parent) if !parent.has_welcomed => {
                header.node.set(parent.node.0);
                header.contributor = parent.contributor.0;
                header.expected = parent.fan_in;
                emit(header, buffer);
                Outcome::to_one(Verdict::Control, parent.address, HELLO_LEN)
            }
            _ => {
                header.kind = Kind::Welcome as u8;
                emit(header, buffer);
                Outcome::to_one(Verdict::Control, source, HELLO_LEN)
            }
        }
    }

    /// The parent admits or refuses this node; its children learn the same.
    pub(super) fn verdict_of_parent(
        &mut self,
        index: usize,
        kind: Kind,
        mut header: Header,
        buffer: &mut [u8],
    ) -> Outcome {
        if let Some(parent) = &mut self.places[index].parent {
            parent.has_welcomed |= kind == Kind::Welcome;
        }
        let reason = RefusalReason::from_wire(word(&buffer[HEADER_LEN..], hello::REASON_WORD));
        if kind == Kind::Refusal && reason == Some(RefusalReason::Detached) {
            let removed = word(&buffer[HEADER_LEN..], hello::REMOVED_NODE_WORD);
            self.detach(index, NodeId(removed as u16));
        }
        header.node.set(self.node.0);
        header.contributor = 0;
        header.expected = self.places[index].fan_in;
        emit(header, buffer);
        Outcome::to_children(Verdict::Control, HELLO_LEN)
    }

    /// A child has left; the last one ends the incarnation here. Or a substitute has gone home.
    pub(super) fn goodbye(
        &mut self,
        index: usize,
        mut header: Header,
        buffer: &mut [u8],
    ) -> Outcome {
        let place = &mut self.places[index];
        let child = &mut place.children[usize::from(header.contributor)];
        if Flags(header.flags.get()).contains(Flags::HOME) {
            *child = ChildState::default();
            return Outcome::silent(Verdict::Control);
        }
        child.has_left = true;
        let parent = place.parent.filter(|_| place.has_everyone_left());
        self.is_over = self.places.iter().all(Place::has_everyone_left);
        let Some(parent) = parent else {
            return Outcome::silent(Verdict::Control);
        };
        header.node.set(parent.node.0);
        header.contributor = parent.contributor.0;
        header.expected = parent.fan_in;
        seal(&mut header, 0);
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
        Outcome::to_one(Verdict::Control, parent.address, HEADER_LEN)
    }

    /// Readdresses the packet in `packet` (a result, welcome or refusal) to child `index`: contributor and check. Says where that
    /// child is; `None` if it has not said hello.
    pub fn address_to_child(&self, index: usize, packet: &mut [u8]) -> Option<SocketAddr> {
        let (header, _) = Header::mut_from_prefix(packet).ok()?;
        let place = &self.places[self.place_index(header.sub_model.get())?];
        let child = place.children.get(index)?;
        // Who is dismissed still has to learn it.
        let is_told = !child.is_dismissed || header.kind == Kind::Refusal as u8;
        let address = child.address.filter(|_| is_told)?;
        readdress(header, Contributor(index as u8));
        Some(address)
    }
}

/// Bytes of a hello, welcome or refusal.
const HELLO_LEN: usize = HEADER_LEN + 4 * hello::WORDS;

/// The contributor is the highest byte of its word in the header's sum, and the check is linear in it.
fn readdress(header: &mut Header, child: Contributor) {
    let shift = u32::from(child.0).wrapping_sub(u32::from(header.contributor)) << 24;
    header.contributor = child.0;
    header.check.set(header.check.get().wrapping_add(shift));
}

fn refuse(
    mut header: Header,
    source: SocketAddr,
    reason: RefusalReason,
    buffer: &mut [u8],
) -> Outcome {
    header.kind = Kind::Refusal as u8;
    set_word(&mut buffer[HEADER_LEN..], hello::REASON_WORD, reason as u32);
    emit(header, buffer);
    Outcome::to_one(Verdict::Control, source, HELLO_LEN)
}

fn emit(mut header: Header, buffer: &mut [u8]) {
    let lane_sum = LaneType::I32Be.sum(&buffer[HEADER_LEN..HELLO_LEN]);
    seal(&mut header, lane_sum);
    buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
}
