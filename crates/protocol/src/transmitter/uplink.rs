//! One sub-model's sums on their way to the parent.

use std::net::SocketAddr;

use wiresum_keys::{Seat, SeatKey};
use wiresum_wire::control::{status, word};
use wiresum_wire::{Contributor, FragmentId, Kind, NodeId, Packet, SubModelId};

use super::marks::Marks;
use super::watch::Watch;
use super::{Counters, DataPlane, Survey};
use crate::compose::Draft;
use crate::plan::{Child, PlanStream};
use crate::recovery::{PULSE, Recovery};
use crate::{Association, Plan, Time};

/// What an uplink sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A sum that was lost, or whose result was.
    SendAgain(FragmentId),
    /// A question about the positions from this one on.
    Ask { first: FragmentId, echo: u32 },
}

impl Action {
    pub fn position(&self) -> FragmentId {
        match self {
            Self::SendAgain(position) | Self::Ask { first: position, .. } => *position,
        }
    }
}

pub(super) struct Uplink {
    pub sub_model: SubModelId,
    pub address: SocketAddr,
    parent: NodeId,
    /// The node's index at the parent, and the parent's fan-in.
    contributor: Contributor,
    fan_in: u8,
    /// The key of the node's seat at the parent; absent from a plan without it.
    pub key: Option<SeatKey>,
    /// What sums carry.
    pub association: Association,
    plan: PlanStream,
    recovery: Recovery,
    first: FragmentId,
    /// Lowest position that is not known to be final here.
    base: FragmentId,
    /// From `base` on, less than a slot count ahead: known to be final.
    finals: Marks,
    /// Highest position that has been seen.
    top: FragmentId,
    /// Something has moved since the last look at the slots.
    is_awake: bool,
    /// The last look found sums that are new.
    is_moving: bool,
    is_armed: bool,
    /// Nothing has moved yet in this incarnation.
    is_fresh: bool,
    /// The parent leaves question after question unanswered, and no one has been told since the last one.
    pub is_orphaned: bool,
    /// Whether the parent is there while nothing is on its way.
    pub watch: Watch,
}

impl Uplink {
    /// The uplink of `node` in a sub-model; `None` if the node has no parent there.
    pub fn new(plan: &Plan, sub_model: &PlanStream, node: NodeId) -> Option<Self> {
        let (parent, contributor) = sub_model.parent_of(Child::Node(node.0))?;
        let first = FragmentId(0);
        Some(Self {
            sub_model: sub_model.id(),
            address: plan.node(parent)?.address,
            parent,
            contributor,
            fan_in: sub_model.fan_in(parent) as u8,
            key: plan.keys().seat(Seat::new(parent, sub_model.id(), contributor)),
            association: Association::default(),
            recovery: Recovery::new(sub_model, first),
            first,
            base: first,
            finals: Marks::new(sub_model.slots()),
            top: first.plus(u32::MAX),
            is_awake: false,
            is_moving: false,
            is_armed: false,
            is_fresh: true,
            is_orphaned: false,
            watch: Watch::default(),
            plan: sub_model.clone(),
        })
    }

    /// The stream begins with another position than 0.
    pub fn start_at(&mut self, first: FragmentId) {
        self.first = first;
        self.reset();
    }

    /// A new incarnation: its positions start anew.
    pub fn reset(&mut self) {
        self.recovery = Recovery::new(&self.plan, self.first);
        self.base = self.first;
        self.top = self.first.plus(u32::MAX);
        self.finals.clear();
        (self.is_awake, self.is_moving, self.is_armed) = (false, false, false);
        (self.is_fresh, self.is_orphaned) = (true, false);
        self.watch = Watch::default();
    }

    /// The data plane has noted that something moved at a position.
    pub fn wake(&mut self, position: FragmentId, now: Time) {
        self.is_awake = true;
        self.is_armed = false;
        // A node that has come back in the middle of an incarnation has nothing from before, however far that is.
        let is_beyond = position.since(self.base) as u32 >= self.plan.slots();
        if std::mem::take(&mut self.is_fresh) && is_beyond {
            self.base = position.plus((self.plan.slots() - 1).wrapping_neg());
            self.top = position;
        }
        self.reach(position, now);
    }

    /// When to look even if nothing is noted.
    pub fn alarm(&self) -> Option<Time> {
        self.recovery.alarm().into_iter().chain(self.watch.alarm()).min()
    }

    /// Looks at the slots if something has moved or is overdue.
    pub fn advance(&mut self, plane: &mut dyn DataPlane, counters: &mut Counters, now: Time) {
        let is_due = self.recovery.alarm().is_some_and(|alarm| alarm <= now);
        if self.is_awake || is_due {
            self.look(plane, counters, now);
        }
        if self.recovery.alarm().is_some_and(|alarm| alarm <= now) {
            counters.tail_checks += 1;
            self.is_orphaned |= self.recovery.silence_ends().is_some_and(|end| end <= now);
            self.recovery.handle_timeout(now);
        }
        if self.recovery.is_busy() {
            self.watch.rest(now);
        }
        self.is_orphaned |= self.watch.finds_silence(now);
        self.rest(plane, counters, now);
    }

    /// Where nothing is on its way, or nothing moves, the data plane is asked to note what does next.
    fn rest(&mut self, plane: &mut dyn DataPlane, counters: &mut Counters, now: Time) {
        let is_idle = !self.recovery.is_busy() || self.recovery.is_backing_off();
        if is_idle && !self.is_armed {
            self.is_armed = true;
            plane.arm(self.sub_model);
            // What has moved between the last look and now was not noted.
            self.look(plane, counters, now);
        }
    }

    /// Takes in what the slots say.
    fn look(&mut self, plane: &mut dyn DataPlane, counters: &mut Counters, now: Time) {
        self.is_awake = false;
        self.is_moving = false;
        let mut first = self.base;
        loop {
            counters.surveys += 1;
            let has_found = self.take_in(first, &plane.survey(self.sub_model, first), now);
            first = first.plus(Survey::POSITIONS);
            if !has_found && first.since(self.top) > 0 {
                return;
            }
        }
    }

    /// Takes in one survey. Whether it shows any sum or result.
    fn take_in(&mut self, first: FragmentId, survey: &Survey, now: Time) -> bool {
        let mut has_found = false;
        for (word, (forwarded, finals)) in survey.forwarded.iter().zip(survey.finals).enumerate() {
            let mut left = forwarded | finals;
            has_found |= left != 0;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let position = first.plus(u32::BITS * word as u32 + bit);
                self.note(position, finals >> bit & 1 != 0, now);
            }
        }
        while self.finals.remove(self.base) {
            self.base = self.base.plus(1);
        }
        has_found
    }

    /// A position's sum has gone up, or its result is here.
    fn note(&mut self, position: FragmentId, is_final: bool, now: Time) {
        self.reach(position, now);
        if position.since(self.base) < 0 || self.finals.contains(position) {
            return;
        }
        if !self.recovery.is_pending(position) {
            self.recovery.note_sent(position, now);
            self.is_moving = true;
        }
        if is_final {
            self.recovery.complete(position, now);
            self.finals.insert(position);
        }
    }

    /// Something has moved at a position. Then every worker below has sent it, so, by the invariant, each has the result of the
    /// position a slot count before: everything up to there is final, even if no survey has seen it, as newer positions have
    /// its entries by now.
    fn reach(&mut self, position: FragmentId, now: Time) {
        if position.since(self.top) > 0 {
            self.top = position;
        }
        while position.since(self.base) >= self.plan.slots() as i32 {
            if self.recovery.is_pending(self.base) {
                self.recovery.complete(self.base, now);
            }
            self.finals.remove(self.base);
            self.base = self.base.plus(1);
        }
    }

    /// The parent's answer to a question.
    pub fn handle_status(
        &mut self,
        packet: &Packet,
        plane: &mut dyn DataPlane,
        counters: &mut Counters,
        now: Time,
    ) {
        if word(packet.payload, status::ECHO_WORD) & PULSE != 0 {
            return self.watch.rest(now);
        }
        // Results that came before the status are not lost.
        self.look(plane, counters, now);
        let first = FragmentId(packet.header.fragment.get());
        let lost_before = self.recovery.lost();
        if self.recovery.handle_status(first, packet.payload, now) {
            counters.groups_checked += 1;
            counters.lost += self.recovery.lost() - lost_before;
        }
    }

    pub fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(position) = self.recovery.next_again() {
            self.recovery.note_sent(position, now);
            return Some(Action::SendAgain(position));
        }
        if let Some(probe) = self.recovery.next_probe(self.is_moving, now) {
            return Some(Action::Ask { first: probe.first, echo: probe.echo });
        }
        let echo = self.watch.next_question(now)?;
        Some(Action::Ask { first: self.base, echo })
    }

    /// The header of a packet about a position, as far as the plan knows it.
    pub fn draft(&self, position: FragmentId, kind: Kind) -> Draft {
        Draft {
            kind,
            node: self.parent,
            sub_model: self.sub_model,
            contributor: self.contributor.0,
            expected: self.fan_in,
            fragment: position.0,
            ..Draft::default()
        }
    }
}
