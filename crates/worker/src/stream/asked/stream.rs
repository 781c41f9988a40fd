//! One stream to a server: which position may be sent next, and which have their results.

use std::net::SocketAddr;

use wiresum_keys::{Seat, SeatKey};
use wiresum_wire::{Contributor, FragmentId, IpVersion, NodeId, Round, SubModelId};

use super::barriers::Barriers;
use super::failover::Absence;
use super::pacing::Pace;
use crate::session::Positions;
use wiresum_protocol::plan::{BARRIER_FRAGMENTS, Child, PlanStream};
use wiresum_protocol::recovery::{Duty, Probe, Recovery, SILENCE};
use wiresum_protocol::{Association, Plan, Time};

/// A node as one of its children sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub node: NodeId,
    pub address: SocketAddr,
    /// The child's index there, and the node's fan-in.
    pub contributor: Contributor,
    pub fan_in: u8,
    /// The key of the child's seat there; absent from a plan without the secret.
    pub key: Option<SeatKey>,
}

impl Parent {
    fn of(plan: &Plan, sub_model: &PlanStream, seat: (NodeId, Contributor)) -> Option<Self> {
        let (node, contributor) = seat;
        let fan_in = sub_model.fan_in(node) as u8;
        let key = plan.keys().seat(Seat::new(node, sub_model.id(), contributor));
        Some(Self { node, address: plan.node(node)?.address, contributor, fan_in, key })
    }
}

/// Where the worker goes when a node above it is gone.
#[derive(Clone, Debug)]
pub(super) struct Refuge {
    /// The node that is gone.
    pub removed: NodeId,
    /// Its parent.
    pub parent: Parent,
    /// Who goes there, this worker among them.
    pub team: Vec<u32>,
}

impl Refuge {
    fn all(plan: &Plan, sub_model: &PlanStream, rank: u32) -> Vec<Self> {
        let refuges = sub_model.refuges(rank).into_iter();
        let refuge = |r: wiresum_protocol::plan::Refuge| {
            let parent = Parent::of(plan, sub_model, (r.node, r.contributor))?;
            Some(Self { removed: r.removed, parent, team: r.team })
        };
        refuges.filter_map(refuge).collect()
    }
}

/// What a stream sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The contribution to a position.
    Contribute { position: FragmentId, is_repetition: bool },
    /// A request for the result of a position to which this worker contributes nothing.
    Request(FragmentId),
    /// A question.
    Ask(Probe),
}

/// A position that nothing is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// Its result is due.
    Due,
    /// It is others' business.
    Done(FragmentId),
}

/// What was lost is `recovery`'s to find.
pub(super) struct Stream {
    pub sub_model: SubModelId,
    pub node: NodeId,
    pub address: SocketAddr,
    /// This worker's index at the node, and the node's fan-in.
    pub contributor: Contributor,
    pub fan_in: u8,
    /// The key of this worker's seat there.
    pub key: Option<SeatKey>,
    /// What values carry.
    pub association: Association,
    /// When that is to be renewed, from joining on.
    pub renew_at: Time,
    /// When the node may be asked again what values carry.
    pub ask_at: Time,
    pub most_begun: u32,
    window: u32,
    /// The node whose child the worker is by the plan.
    pub home: Parent,
    /// Where it goes when that, or a node above, is gone; from the home upwards.
    pub refuges: Vec<Refuge>,
    /// While it is not at home.
    pub absence: Option<Absence>,
    /// A node above that cannot be removed is silent, as its node says, and since when.
    pub silent_above: Option<(NodeId, Time)>,
    /// Nothing of this round and later ones is sent.
    pub held_from: Option<Round>,
    /// The node has welcomed the worker.
    pub is_open: bool,
    /// When to take leave of the refuge again, if that has not heard it.
    pub farewell_at: Time,
    pub recovery: Recovery,
    /// Where not all give and take.
    pub barriers: Option<Barriers>,
    /// Where rates are negotiated.
    pub pace: Option<Pace>,
}

impl Stream {
    /// The stream of worker `rank` in an incarnation, whose first position is `first`.
    pub fn new(
        plan: &Plan,
        sub_model: &PlanStream,
        rank: u32,
        (incarnation, first): (u64, FragmentId),
    ) -> Option<Self> {
        let home = Parent::of(plan, sub_model, sub_model.parent_of(Child::Worker(rank))?)?;
        Some(Self {
            sub_model: sub_model.id(),
            node: home.node,
            address: home.address,
            contributor: home.contributor,
            fan_in: home.fan_in,
            key: home.key,
            home,
            refuges: Refuge::all(plan, sub_model, rank),
            absence: None,
            silent_above: None,
            held_from: None,
            is_open: true,
            farewell_at: Time::default(),
            association: Association::starting_at(plan, incarnation, first),
            renew_at: Time::default(),
            ask_at: Time::default(),
            most_begun: sub_model.most_begun(),
            window: sub_model.window,
            recovery: Recovery::new(sub_model, first),
            barriers: None,
            pace: Pace::of(plan, sub_model, rank),
        })
    }

    /// The node that contributions go to.
    pub fn parent(&self) -> Parent {
        let Self { node, address, contributor, fan_in, key, .. } = *self;
        Parent { node, address, contributor, fan_in, key }
    }

    /// From now on contributions go to this node.
    pub fn settle(&mut self, parent: Parent) {
        let Parent { node, address, contributor, fan_in, key } = parent;
        (self.node, self.address, self.contributor, self.fan_in, self.key) =
            (node, address, contributor, fan_in, key);
    }

    /// Version of the packets to the stream's node.
    pub fn ip_version(&self) -> IpVersion {
        if self.address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
    }

    /// Whether contributions go where the plan says.
    pub fn is_home(&self) -> bool {
        self.absence.is_none()
    }

    /// When the node is given up unless something is heard; `None` if nothing is wrong, or nothing can be done.
    pub fn silence_ends(&self) -> Option<Time> {
        let unwelcome = self.absence.and_then(|absence| absence.unwelcome_since);
        let unwelcome = unwelcome.map(|since| since.plus(SILENCE));
        let end = unwelcome.or_else(|| self.recovery.silence_ends());
        end.filter(|_| self.refuge_from(self.node).is_some())
    }

    /// The refuge, if there is one, for when this node is gone: beyond the one where the worker is.
    pub fn refuge_from(&self, removed: NodeId) -> Option<usize> {
        let first = self.absence.map_or(0, |absence| absence.refuge + 1);
        let index = self.refuges.iter().position(|refuge| refuge.removed == removed)?;
        (index >= first).then_some(index)
    }

    /// The round of the next position; `None` if no round has one.
    pub fn next_round(&self, positions: &Positions) -> Option<Round> {
        positions.round_of(self.recovery.next())
    }

    /// The round of the last position that was sent, unless that is over.
    pub fn last_round(&self, positions: &Positions) -> Option<Round> {
        positions.round_of(self.recovery.next().plus(u32::MAX))
    }

    /// What to send next: what was lost, then a question that is due, then new positions as the invariant and the
    /// window allow. `may_contribute`: whether values may be sent at all.
    pub fn next_action(
        &mut self,
        positions: &Positions,
        duty: impl Fn(FragmentId) -> Duty,
        may_contribute: bool,
        now: Time,
    ) -> Option<Action> {
        if !self.is_open {
            return None;
        }
        let again = if may_contribute { self.recovery.next_again() } else { None };
        if let Some(position) = again {
            let only_takes = self.recovery.only_takes(position);
            self.recovery.note_sent(position, now);
            if only_takes {
                return Some(Action::Request(position));
            }
            return Some(Action::Contribute { position, is_repetition: true });
        }
        let gives = |position| matches!(duty(position), Duty::Both | Duty::Gives);
        let can_send_new = self.can_send_new(positions) && gives(self.recovery.next());
        if let Some(probe) = self.recovery.next_probe(can_send_new, now) {
            return Some(Action::Ask(probe));
        }
        (may_contribute && can_send_new).then(|| {
            let position = self.recovery.next();
            match duty(position) {
                Duty::Gives => self.recovery.note_given(position, now),
                _ => self.recovery.note_sent(position, now),
            }
            Action::Contribute { position, is_repetition: false }
        })
    }

    /// Begins the next position if nothing is sent for it, and the invariant and the window allow it. What others give
    /// takes a place in the window until it has come; what others take as well is done at once.
    pub fn begin_unsent(
        &mut self,
        positions: &Positions,
        duty: impl Fn(FragmentId) -> Duty,
        now: Time,
    ) -> Option<Unsent> {
        let position = self.recovery.next();
        if !self.is_open || !self.can_send_new(positions) {
            return None;
        }
        match duty(position) {
            Duty::Takes => {
                self.recovery.note_due(position, now);
                Some(Unsent::Due)
            }
            Duty::Neither if self.may_pass() => {
                self.recovery.note_passed();
                Some(Unsent::Done(position))
            }
            _ => None,
        }
    }

    /// Positions of rounds that have not been sent.
    pub fn unsent(&self, positions: &Positions) -> u32 {
        positions.limit().since(self.recovery.next()) as u32
    }

    /// Whether there is something to send, at the latest when the pace allows.
    pub fn has_contributions(&self, positions: &Positions) -> bool {
        self.is_open && (self.recovery.owes_again() || self.can_send_new(positions))
    }

    /// Whether others are as far that their next position may be passed by. Who gives every n-th position to the same
    /// rank as others do is so kept from sending more, together with them, than that rank takes.
    fn may_pass(&self) -> bool {
        let ahead = |barriers: Barriers| self.recovery.next().since(barriers.covered) as u32;
        self.barriers.is_none_or(|barriers| ahead(barriers) < self.window + BARRIER_FRAGMENTS)
    }

    /// Whether the invariant and the window allow another position, and a round has one.
    fn can_send_new(&self, positions: &Positions) -> bool {
        let (oldest, next) = (self.recovery.oldest(), self.recovery.next());
        let is_invariant_kept = match self.barriers {
            Some(barriers) => (next.since(barriers.covered) as u32) < self.most_begun,
            // All before `next - slots` are done, as each was the condition of one that has been sent.
            None => (next.since(oldest) as u32) < self.most_begun,
        };
        let is_held =
            |from| self.next_round(positions).is_none_or(|round: Round| !round.is_before(from));
        next != positions.limit()
            && is_invariant_kept
            && self.recovery.outstanding() < self.window
            && self.recovery.due() < self.window
            && self.recovery.is_confirmed()
            && !self.held_from.is_some_and(is_held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1);

    fn stream() -> Stream {
        let plan = Plan::from_json(include_str!("../../../../protocol/tests/plans/tree.json"))
            .expect("valid");
        let pooled = PlanStream { window: 3, ..plan.streams[1].clone() }.with_slots(4);
        Stream::new(&plan, &pooled, 0, (1, FragmentId(u32::MAX))).expect("rank 0 is placed")
    }

    fn ten_positions() -> Positions {
        let mut positions = Positions::starting_at(FragmentId(u32::MAX));
        positions.allocate(Round(0), 0..10);
        positions
    }

    fn sent(stream: &mut Stream, owned: &Positions) -> Vec<u32> {
        let mut positions = Vec::new();
        while let Some(action) = stream.next_action(owned, |_| Duty::Both, true, NOW) {
            if let Action::Contribute { position, .. } = action {
                positions.push(position.0);
            }
        }
        positions
    }

    #[test]
    fn the_window_bounds_what_is_outstanding() {
        let mut stream = stream();
        let owned = ten_positions();
        assert_eq!(sent(&mut stream, &owned), [u32::MAX, 0, 1]);
        stream.recovery.complete(FragmentId(0), NOW);
        assert_eq!(sent(&mut stream, &owned), [2]);
    }

    #[test]
    fn what_is_others_business_is_passed_as_far_as_the_invariant_allows() {
        let (mut stream, owned) = (stream(), ten_positions());
        let position = |index: u32| FragmentId(u32::MAX).plus(index);
        // Everything but the position 1, which it takes, is others' business.
        let duty = |at| if at == position(1) { Duty::Takes } else { Duty::Neither };
        let mut begun = Vec::new();
        while let Some(unsent) = stream.begin_unsent(&owned, duty, NOW) {
            begun.push(unsent);
        }
        let done = |index| Unsent::Done(position(index));
        assert_eq!(begun, [done(0), Unsent::Due, done(2), done(3), done(4)]);
        assert_eq!((stream.recovery.oldest(), stream.recovery.next()), (position(1), position(5)));
        stream.recovery.complete(position(1), NOW);
        assert!(!stream.recovery.is_busy());
    }

    #[test]
    fn no_position_is_sent_before_the_result_of_the_one_a_slot_count_before() {
        let mut stream = stream();
        let owned = ten_positions();
        sent(&mut stream, &owned);
        for position in [0, 1] {
            stream.recovery.complete(FragmentId(position), NOW);
        }
        assert_eq!(
            sent(&mut stream, &owned),
            [2],
            "3 shares a slot with the first, which has no result"
        );
        stream.recovery.complete(FragmentId(u32::MAX), NOW);
        assert_eq!(sent(&mut stream, &owned), [3, 4]);
    }
}
