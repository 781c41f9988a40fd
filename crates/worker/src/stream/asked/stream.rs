//! One sub-model as a worker sees it: which position may be sent next, and which have their results.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use wiresum_wire::{Contributor, FragmentId, IpVersion, NodeId, Round, SubModelId};

use super::failover::Absence;
use super::pacing::Pace;
use wiresum_protocol::plan::{Child, SubModel};
use wiresum_protocol::recovery::{Probe, Recovery, SILENCE};
use wiresum_protocol::{Plan, Time};

/// The fragments of one round in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub round: Round,
    /// Position of the first.
    pub start: FragmentId,
    /// What the round calls them.
    pub fragments: Range<u32>,
}

/// A node as one of its children sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub node: NodeId,
    pub address: SocketAddr,
    /// The child's index there, and the node's fan-in.
    pub contributor: Contributor,
    pub fan_in: u8,
}

impl Parent {
    fn of(plan: &Plan, sub_model: &SubModel, seat: (NodeId, Contributor)) -> Option<Self> {
        let (node, contributor) = seat;
        let fan_in = sub_model.place(node)?.children.len() as u8;
        Some(Self { node, address: plan.node(node)?.address, contributor, fan_in })
    }
}

/// Where the worker goes when a node above it is gone.
#[derive(Clone, Debug)]
pub(crate) struct Refuge {
    /// The node that is gone.
    pub removed: NodeId,
    /// Its parent.
    pub parent: Parent,
    /// Who goes there, this worker among them.
    pub team: Vec<u32>,
}

impl Refuge {
    fn all(plan: &Plan, sub_model: &SubModel, rank: u32) -> Vec<Self> {
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
pub(crate) enum Action {
    /// The contribution to a position.
    Contribute { position: FragmentId, is_repetition: bool },
    /// A question.
    Ask(Probe),
}

/// See the module. Recovery is in `recovery`.
pub(crate) struct Stream {
    pub sub_model: SubModelId,
    pub node: NodeId,
    pub address: SocketAddr,
    /// This worker's index at the node, and the node's fan-in.
    pub contributor: Contributor,
    pub fan_in: u8,
    slots: u32,
    window: u32,
    /// End of the positions that rounds own.
    limit: FragmentId,
    segments: VecDeque<Segment>,
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
    /// Where rates are negotiated.
    pub pace: Option<Pace>,
}

impl Stream {
    /// The stream of worker `rank`, whose first position is `first`.
    pub fn new(plan: &Plan, sub_model: &SubModel, rank: u32, first: FragmentId) -> Option<Self> {
        let home = Parent::of(plan, sub_model, sub_model.parent_of(Child::Worker(rank))?)?;
        Some(Self {
            sub_model: sub_model.id(),
            node: home.node,
            address: home.address,
            contributor: home.contributor,
            fan_in: home.fan_in,
            home,
            refuges: Refuge::all(plan, sub_model, rank),
            absence: None,
            silent_above: None,
            held_from: None,
            is_open: true,
            farewell_at: Time::default(),
            slots: sub_model.slots,
            window: sub_model.window,
            limit: first,
            segments: VecDeque::new(),
            recovery: Recovery::new(sub_model, first),
            pace: Pace::of(plan, sub_model, rank),
        })
    }

    /// The node that contributions go to.
    pub fn parent(&self) -> Parent {
        let Self { node, address, contributor, fan_in, .. } = *self;
        Parent { node, address, contributor, fan_in }
    }

    /// From now on contributions go to this node.
    pub fn settle(&mut self, parent: Parent) {
        let Parent { node, address, contributor, fan_in } = parent;
        (self.node, self.address, self.contributor, self.fan_in) =
            (node, address, contributor, fan_in);
    }

    /// Of the packets to its node.
    pub fn ip_version(&self) -> IpVersion {
        if self.address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
    }

    /// Whether contributions go where the plan says.
    pub fn is_home(&self) -> bool {
        self.absence.is_none()
    }

    /// When the node is given up unless something is heard; `None` if nothing is wrong, or nothing can be done.
    pub fn silence_ends(&self) -> Option<Time> {
        let unwelcome = self.absence.filter(|_| !self.is_open).map(|a| a.began.plus(SILENCE));
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
    pub fn next_round(&self) -> Option<Round> {
        self.locate(self.recovery.next()).map(|(round, _)| round)
    }

    /// The round of the last position that was sent, unless that is over.
    pub fn last_round(&self) -> Option<Round> {
        self.locate(self.recovery.next().plus(u32::MAX)).map(|(round, _)| round)
    }

    /// Gives a round the next positions of the stream, one for each of `fragments`.
    pub fn allocate(&mut self, round: Round, fragments: Range<u32>) {
        let count = fragments.end - fragments.start;
        if count > 0 {
            self.segments.push_back(Segment { round, start: self.limit, fragments });
            self.limit = self.limit.plus(count);
        }
    }

    /// The round that owns a position, and its fragment there.
    pub fn locate(&self, position: FragmentId) -> Option<(Round, u32)> {
        let after = self.segments.partition_point(|s| position.since(s.start) >= 0);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let fragment = segment.fragments.start + position.since(segment.start) as u32;
        segment.fragments.contains(&fragment).then_some((segment.round, fragment))
    }

    /// Forgets the positions of a finished round, which is the oldest.
    pub fn release(&mut self, round: Round) {
        while self.segments.front().is_some_and(|segment| segment.round == round) {
            self.segments.pop_front();
        }
    }

    /// What to send next: what was lost, then a question that is due, then new positions as the invariant and the window allow.
    /// `may_contribute`: whether values may be sent at all.
    pub fn next_action(&mut self, may_contribute: bool, now: Time) -> Option<Action> {
        if !self.is_open {
            return None;
        }
        let again = if may_contribute { self.recovery.next_again() } else { None };
        if let Some(position) = again {
            self.recovery.note_sent(position, now);
            return Some(Action::Contribute { position, is_repetition: true });
        }
        let can_send_new = self.can_send_new();
        if let Some(probe) = self.recovery.next_probe(can_send_new, now) {
            return Some(Action::Ask(probe));
        }
        (may_contribute && can_send_new).then(|| {
            let position = self.recovery.next();
            self.recovery.note_sent(position, now);
            Action::Contribute { position, is_repetition: false }
        })
    }

    /// End of the positions that rounds own.
    pub fn limit(&self) -> FragmentId {
        self.limit
    }

    /// Positions of rounds that have not been sent.
    pub fn unsent(&self) -> u32 {
        self.limit.since(self.recovery.next()) as u32
    }

    /// Whether there is something to send, at the latest when the pace allows.
    pub fn has_contributions(&self) -> bool {
        self.is_open && (self.recovery.owes_again() || self.can_send_new())
    }

    /// Whether the invariant and the window allow another position, and a round has one.
    fn can_send_new(&self) -> bool {
        let (oldest, next) = (self.recovery.oldest(), self.recovery.next());
        // All before `next - slots` are done, as each was the condition of one that has been sent.
        let is_invariant_kept = (next.since(oldest) as u32) < self.slots;
        let is_held = |from| self.next_round().is_none_or(|round: Round| !round.is_before(from));
        next != self.limit
            && is_invariant_kept
            && self.recovery.outstanding() < self.window
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
        let mut pooled = plan.sub_models[1].clone();
        (pooled.slots, pooled.window) = (4, 3);
        Stream::new(&plan, &pooled, 0, FragmentId(u32::MAX)).expect("rank 0 is placed")
    }

    fn sent(stream: &mut Stream) -> Vec<u32> {
        let mut positions = Vec::new();
        while let Some(action) = stream.next_action(true, NOW) {
            if let Action::Contribute { position, .. } = action {
                positions.push(position.0);
            }
        }
        positions
    }

    #[test]
    fn the_window_bounds_what_is_outstanding() {
        let mut stream = stream();
        stream.allocate(Round(0), 0..10);
        assert_eq!(sent(&mut stream), [u32::MAX, 0, 1]);
        stream.recovery.complete(FragmentId(0), NOW);
        assert_eq!(sent(&mut stream), [2]);
    }

    #[test]
    fn no_position_is_sent_before_the_result_of_the_one_a_slot_count_before() {
        let mut stream = stream();
        stream.allocate(Round(0), 0..10);
        sent(&mut stream);
        for position in [0, 1] {
            stream.recovery.complete(FragmentId(position), NOW);
        }
        assert_eq!(sent(&mut stream), [2], "3 shares a slot with the first, which has no result");
        stream.recovery.complete(FragmentId(u32::MAX), NOW);
        assert_eq!(sent(&mut stream), [3, 4]);
    }

    #[test]
    fn positions_are_found_in_their_rounds() {
        let mut stream = stream();
        stream.allocate(Round(0), 5..7);
        stream.allocate(Round(1), 0..0);
        stream.allocate(Round(2), 0..3);
        assert_eq!(stream.locate(FragmentId(u32::MAX)), Some((Round(0), 5)));
        assert_eq!(stream.locate(FragmentId(0)), Some((Round(0), 6)));
        assert_eq!(stream.locate(FragmentId(3)), Some((Round(2), 2)));
        assert_eq!(stream.locate(FragmentId(4)), None);
        stream.release(Round(0));
        assert_eq!(stream.locate(FragmentId(0)), None);
        assert_eq!(stream.locate(FragmentId(1)), Some((Round(2), 0)));
    }
}
