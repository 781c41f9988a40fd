//! Hello, welcome, refusal, goodbye: the joining tables of the spec.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wiresum_keys::SeatKey;
use wiresum_wire::control::{
    Absent, KeyAge, RefusalReason, double_word, hello, hello_payload, set_word, word,
};
use wiresum_wire::{
    Contributor, Exchange, Flags, HEADER_LEN, Header, JobKey, Kind, NodeId, SubModelId,
};
use zerocopy::{FromBytes, IntoBytes};

use super::place::{ChildState, Place};
use super::{Aggregator, Outcome, Verdict};
use crate::association::ValueKeys;
use crate::compose::{Draft, JOINING_LEN};
use crate::plan::{Child, PlanStream};

/// Who takes part in a job at a node: what a data plane has to know that sums in the node's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Key of the running incarnation; absent before the first and after the end of one.
    pub key: Option<JobKey>,
    /// By sub-model, the seats that nobody fills in it, as a bitmap of contributors; nothing where all are filled.
    pub vacant: BTreeMap<SubModelId, u64>,
    /// Keys of the values of each sub-model in it.
    pub keys: BTreeMap<SubModelId, ValueKeys>,
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
            let keys = membership.key.map(|_| (place.sub_model, place.association.keys()));
            membership.keys.extend(keys);
            let vacant = membership.key.and((place.vacant != 0).then_some(place.vacant));
            membership.vacant.extend(vacant.map(|vacant| (place.sub_model, vacant)));
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
        let Some((index, key)) = self.seat_of(&header, payload) else {
            return Outcome::silent(Verdict::Foreign);
        };
        let incarnation = double_word(payload, hello::INCARNATION_WORD);
        let (age, absent) = (KeyAge::read(payload), Absent::read(payload));
        if let Some(reason) = self.reason_to_refuse(index, header.contributor, payload) {
            return refuse(header, source, reason, &key, buffer);
        }
        if self.plan.job_key(incarnation).0 != header.job_key.get() {
            return Outcome::silent(Verdict::Foreign);
        }
        if Some(incarnation) > self.incarnation {
            self.begin(incarnation, absent);
        }
        if !self.is_running() {
            return Outcome::silent(Verdict::Control);
        }
        let place = &mut self.places[index];
        let child = &mut place.children[usize::from(header.contributor)];
        if !child.is_news(header.round.get(), source, place.is_called) {
            return Outcome::silent(Verdict::Foreign);
        }
        (child.address, child.attempt) = (Some(source), Some(header.round.get()));
        place.association.learn(&self.plan, age);
        // Who was dismissed must not stay with a node that waits itself for one above.
        child.is_dismissed &= place.parent.is_some_and(|parent| !parent.has_welcomed);
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
        Outcome::to_children(Verdict::Control, JOINING_LEN)
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

    pub(super) fn tree(&self, index: usize) -> &PlanStream {
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
        let mut words = self.words(index);
        set_word(&mut words, hello::REASON_WORD, RefusalReason::Detached as u32);
        set_word(&mut words, hello::REMOVED_NODE_WORD, u32::from(removed.0));
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
        buffer[HEADER_LEN..][..words.len()].copy_from_slice(&words);
        draft.emit_summed(buffer, words.len());
        self.prove_to(index, usize::from(child.0), &mut buffer[..JOINING_LEN]);
        JOINING_LEN
    }

    /// What the packets of joining of this incarnation say in a sub-model.
    fn words(&self, index: usize) -> [u8; 4 * hello::WORDS] {
        let age = self.places[index].association.age();
        let incarnation = self.incarnation.unwrap_or_default();
        hello_payload(incarnation, self.plan_digest, age, self.absent)
    }

    /// Makes a packet of joining one about a child's last hello, with the proof of its seat. Whether the seat has a key.
    fn prove_to(&self, index: usize, child: usize, packet: &mut [u8]) -> bool {
        let place = &self.places[index];
        let Some(Some(key)) = place.keys.get(child) else { return false };
        let Some(packet) = packet.get_mut(..JOINING_LEN) else { return false };
        let Ok((header, payload)) = Header::mut_from_prefix(packet) else { return false };
        header.contributor = child as u8;
        header.round.set(place.children[child].attempt.unwrap_or_default());
        key.prove(header, payload);
        true
    }

    /// The place of a hello of this job at this node, and the key of its seat; `None` for whoever does not prove that the
    /// seat is theirs, and gets no answer.
    fn seat_of(&self, header: &Header, payload: &[u8]) -> Option<(usize, SeatKey)> {
        let is_here = (header.job.get(), header.node.get()) == (self.job.0, self.node.0);
        let index = self.place_index(header.sub_model.get()).filter(|_| is_here)?;
        let key = (*self.places[index].keys.get(usize::from(header.contributor))?)?;
        key.is_proven(header, payload).then_some((index, key))
    }

    fn reason_to_refuse(
        &self,
        index: usize,
        contributor: u8,
        payload: &[u8],
    ) -> Option<RefusalReason> {
        let incarnation = double_word(payload, hello::INCARNATION_WORD);
        let absent = Absent::read(payload);
        let is_vacant = || {
            let vacant = self.tree(index).vacancies(self.node, |rank| absent.holds(rank));
            vacant >> contributor & 1 == 1
        };
        if double_word(payload, hello::PLAN_DIGEST_WORD) != self.plan_digest {
            Some(RefusalReason::OtherPlan)
        } else if Some(incarnation) < self.incarnation {
            Some(RefusalReason::Superseded)
        } else if incarnation > self.latest {
            Some(RefusalReason::AheadOfClock)
        } else if Some(incarnation) == self.incarnation && absent != self.absent || is_vacant() {
            Some(RefusalReason::OtherMembers)
        } else {
            None
        }
    }

    /// Welcomes the child, or asks the parent first, which has to know the incarnation and the age of keys.
    fn admit(
        &mut self,
        index: usize,
        mut header: Header,
        source: SocketAddr,
        buffer: &mut [u8],
    ) -> Outcome {
        let tick = self.tick;
        let place = &mut self.places[index];
        let age = place.association.age();
        match &mut place.parent {
            Some(parent) if !parent.has_welcomed || !parent.age.covers(age) => {
                match parent.next_attempt(tick) {
                    Some(attempt) => {
                        header.round.set(attempt);
                        self.send_up(index, header, buffer)
                    }
                    None => Outcome::silent(Verdict::Control),
                }
            }
            _ => {
                header.kind = Kind::Welcome as u8;
                buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
                // Which may be more than the child has said.
                age.write(&mut buffer[HEADER_LEN..]);
                self.prove_to(index, header.contributor.into(), &mut buffer[..JOINING_LEN]);
                Outcome::to_one(Verdict::Control, source, JOINING_LEN)
            }
        }
    }

    /// Says to the parent what a child has said: hello or goodbye.
    fn send_up(&self, index: usize, mut header: Header, buffer: &mut [u8]) -> Outcome {
        let parent = self.places[index].parent;
        let Some((parent, key)) = parent.and_then(|parent| Some((parent, parent.key?))) else {
            return Outcome::silent(Verdict::Control);
        };
        header.node.set(parent.node.0);
        header.contributor = parent.contributor.0;
        header.expected = parent.fan_in;
        emit(header, &mut self.words(index), &key, buffer);
        Outcome::to_one(Verdict::Control, parent.address, JOINING_LEN)
    }

    /// The parent admits or refuses this node; its children learn the same.
    pub(super) fn verdict_of_parent(
        &mut self,
        index: usize,
        kind: Kind,
        mut header: Header,
        buffer: &mut [u8],
    ) -> Outcome {
        if kind == Kind::Welcome {
            self.places[index].be_welcomed(&self.plan, KeyAge::read(&buffer[HEADER_LEN..]));
        }
        let reason = RefusalReason::from_wire(word(&buffer[HEADER_LEN..], hello::REASON_WORD));
        if kind == Kind::Refusal && reason == Some(RefusalReason::Detached) {
            let removed = word(&buffer[HEADER_LEN..], hello::REMOVED_NODE_WORD);
            self.detach(index, NodeId(removed as u16));
        }
        header.node.set(self.node.0);
        header.expected = self.places[index].fan_in;
        // Each child's copy gets a proof of its own.
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
        Outcome::to_children(Verdict::Control, JOINING_LEN)
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
        child.attempt = Some(header.round.get());
        if Flags(header.flags.get()).contains(Flags::HOME) {
            *child = ChildState { attempt: child.attempt, ..ChildState::default() };
            return Outcome::silent(Verdict::Control);
        }
        child.has_left = true;
        let has_everyone_left = place.has_everyone_left();
        let last = place.parent.and_then(|parent| parent.asked).map_or(0, |(_, last)| last);
        self.is_over = self.places.iter().all(Place::has_everyone_left);
        if !has_everyone_left {
            return Outcome::silent(Verdict::Control);
        }
        header.round.set(last);
        self.send_up(index, header, buffer)
    }

    /// Readdresses the packet in `packet` (a result, welcome or refusal) to child `index`: contributor and check. Says where that
    /// child is; `None` if it has not said hello.
    pub fn address_to_child(&self, index: usize, packet: &mut [u8]) -> Option<SocketAddr> {
        let (header, _) = Header::mut_from_prefix(packet).ok()?;
        let place = &self.places[self.place_index(header.sub_model.get())?];
        let child = place.children.get(index)?;
        // Who is dismissed still has to learn it.
        let is_told = !child.is_dismissed || header.kind == Kind::Refusal as u8;
        // Who gave a copy has it.
        let is_giver = header.kind == Kind::Result as u8
            && Exchange(header.priority).is_copy()
            && usize::from(header.expected) == index;
        let address = child.address.filter(|_| is_told && !is_giver)?;
        if Kind::from_wire(header.kind).is_some_and(Kind::is_joining) {
            let place = self.place_index(header.sub_model.get())?;
            return self.prove_to(place, index, packet).then_some(address);
        }
        readdress(header, Contributor(index as u8));
        place.prove_again(index, packet);
        Some(address)
    }
}

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
    key: &SeatKey,
    buffer: &mut [u8],
) -> Outcome {
    header.kind = Kind::Refusal as u8;
    let (place, payload) = buffer.split_at_mut(HEADER_LEN);
    let payload = &mut payload[..4 * hello::WORDS];
    set_word(payload, hello::REASON_WORD, reason as u32);
    key.prove(&mut header, payload);
    place.copy_from_slice(header.as_bytes());
    Outcome::to_one(Verdict::Control, source, JOINING_LEN)
}

fn emit(mut header: Header, words: &mut [u8], key: &SeatKey, buffer: &mut [u8]) {
    key.prove(&mut header, words);
    buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
    buffer[HEADER_LEN..JOINING_LEN].copy_from_slice(words);
}
