//! One sub-model as a worker sees it: which position may be sent next, and which have their results.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use wiresum_wire::{Contributor, FragmentId, NodeId, Round, SubModelId};

use super::flight::{Flight, Queue};
use super::recovery::{Asking, LastStatus, Probe};
use super::rtt::Rtt;
use crate::plan::{Child, SubModel};
use crate::policy::{self, Acknowledgement};
use crate::{Plan, Time};

/// The fragments of one round in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub round: Round,
    /// Position of the first.
    pub start: FragmentId,
    /// What the round calls them.
    pub fragments: Range<u32>,
}

/// What a stream sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The contribution to a position.
    Contribute { position: FragmentId, is_repetition: bool },
    /// A question.
    Ask(Probe),
}

/// See the module. Recovery is in `recovery`.
pub(super) struct Stream {
    pub sub_model: SubModelId,
    pub node: NodeId,
    pub address: SocketAddr,
    /// This worker's index at the node, and the node's fan-in.
    pub contributor: Contributor,
    pub fan_in: u8,
    pub(super) slots: u32,
    pub(super) window: u32,
    /// Positions that a probe is about.
    pub(super) group: u32,
    pub(super) acknowledgement: Acknowledgement,

    /// Lowest position that is not done.
    pub(super) oldest: FragmentId,
    /// Next position to send for the first time.
    pub(super) next: FragmentId,
    /// End of the positions that rounds own.
    pub(super) limit: FragmentId,
    segments: VecDeque<Segment>,
    /// Sent, and not acknowledged as the policy has it.
    pub(super) outstanding: u32,
    pub(super) flight: Flight,
    pub(super) again: VecDeque<FragmentId>,

    /// Transmissions so far.
    pub(super) ordinal: u32,
    /// Highest ordinal of a transmission whose result has come.
    pub(super) answered_ordinal: u32,
    /// When that was sent.
    pub(super) answered_sent_at: Time,
    /// Highest position whose result has come.
    pub(super) top: FragmentId,
    pub(super) rtt: Rtt,
    pub(super) asking: Asking,
    /// When to ask if nothing is heard.
    pub(super) alarm: Option<Time>,
    pub(super) last_heard: Option<Time>,
    pub(super) last_status: Option<LastStatus>,
}

impl Stream {
    /// The stream of worker `rank`, whose first position is `first`.
    pub fn new(plan: &Plan, sub_model: &SubModel, rank: u32, first: FragmentId) -> Option<Self> {
        let (node, contributor) = sub_model.parent_of(Child::Worker(rank))?;
        Some(Self {
            sub_model: sub_model.id(),
            node,
            address: plan.node(node)?.address,
            contributor,
            fan_in: sub_model.place(node)?.children.len() as u8,
            slots: sub_model.slots,
            window: sub_model.window,
            group: sub_model.group_fragments(),
            acknowledgement: policy::of(sub_model.policy).acknowledgement(),
            oldest: first,
            next: first,
            limit: first,
            segments: VecDeque::new(),
            outstanding: 0,
            flight: Flight::new(sub_model.slots),
            again: VecDeque::new(),
            ordinal: 0,
            answered_ordinal: 0,
            answered_sent_at: Time(0),
            top: first.plus(u32::MAX),
            rtt: Rtt::default(),
            asking: Asking::default(),
            alarm: None,
            last_heard: None,
            last_status: None,
        })
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

    /// Whether some position was sent and is not done.
    pub fn is_busy(&self) -> bool {
        self.oldest != self.next
    }

    /// Whether a position was sent and has no result.
    pub fn is_pending(&self, position: FragmentId) -> bool {
        position.since(self.oldest) >= 0
            && position.since(self.next) < 0
            && !self.flight.is_done(position)
    }

    /// What to send next: what was lost, then a question that is due, then new positions as the invariant and the window allow.
    pub fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(position) = self.next_again() {
            return Some(self.contribute(position, true, now));
        }
        if let Some(probe) = self.next_probe(now) {
            return Some(Action::Ask(probe));
        }
        self.can_send_new().then(|| {
            let position = self.next;
            self.next = position.plus(1);
            self.outstanding += 1;
            self.contribute(position, false, now)
        })
    }

    fn next_again(&mut self) -> Option<FragmentId> {
        while let Some(position) = self.again.pop_front() {
            if self.is_pending(position) {
                return Some(position);
            }
        }
        None
    }

    /// Whether the invariant and the window allow another position, and a round has one.
    pub fn can_send_new(&self) -> bool {
        // All before `next - slots` are done, as each was the condition of one that has been sent.
        let is_invariant_kept = (self.next.since(self.oldest) as u32) < self.slots;
        self.next != self.limit && is_invariant_kept && self.outstanding < self.window
    }

    fn contribute(&mut self, position: FragmentId, is_repetition: bool, now: Time) -> Action {
        self.ordinal = self.ordinal.wrapping_add(1);
        self.flight.note_sent(position, self.ordinal, now);
        if self.alarm.is_none() {
            self.alarm = Some(now.plus(self.rtt.patience()));
        }
        Action::Contribute { position, is_repetition }
    }

    /// The result of a pending position has come.
    pub fn complete(&mut self, position: FragmentId, now: Time) {
        let Some(record) = self.flight.get(position).copied() else { return };
        let was_acknowledged = self.acknowledgement == Acknowledgement::Held && record.held != 0;
        self.outstanding -= u32::from(!was_acknowledged);
        self.note_answer(
            position,
            &record,
            self.flight.queue_of(position) == Some(Queue::Unreported),
        );
        self.flight.remove(position);
        while self.oldest != self.next && self.flight.is_done(self.oldest) {
            self.oldest = self.oldest.plus(1);
        }
        self.rtt.reset();
        self.hear(now);
    }

    /// Whether the node leaves question after question unanswered.
    pub fn is_silent(&self) -> bool {
        self.asking.is_ignored()
    }

    /// Something came from the node: the alarm starts anew.
    pub fn hear(&mut self, now: Time) {
        self.last_heard = Some(now);
        self.alarm = self.is_busy().then(|| now.plus(self.rtt.patience()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1);

    fn stream() -> Stream {
        let plan = Plan::from_json(include_str!("../../tests/plans/tree.json")).expect("valid");
        let mut pooled = plan.sub_models[1].clone();
        (pooled.slots, pooled.window) = (4, 3);
        Stream::new(&plan, &pooled, 0, FragmentId(u32::MAX)).expect("rank 0 is placed")
    }

    fn sent(stream: &mut Stream) -> Vec<u32> {
        let mut positions = Vec::new();
        while let Some(action) = stream.next_action(NOW) {
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
        stream.complete(FragmentId(0), NOW);
        assert_eq!(sent(&mut stream), [2]);
    }

    #[test]
    fn no_position_is_sent_before_the_result_of_the_one_a_slot_count_before() {
        let mut stream = stream();
        stream.allocate(Round(0), 0..10);
        sent(&mut stream);
        for position in [0, 1] {
            stream.complete(FragmentId(position), NOW);
        }
        assert_eq!(sent(&mut stream), [2], "3 shares a slot with the first, which has no result");
        stream.complete(FragmentId(u32::MAX), NOW);
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
