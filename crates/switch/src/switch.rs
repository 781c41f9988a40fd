//! A switch: one program, its memory, and the table of the streams that it sums.

use std::collections::BTreeSet;

use wiresum_wire::{Flags, JobId, Kind, NodeId};

use crate::Place;
use crate::live::SwitchState;
use crate::policy::{self, Policy, Program};
use crate::rmt::{Memory, Misfit, Profile, Report};
use crate::table::{MAX_STREAMS, PlaceError, Table};
use crate::{ANY_NODE, Counters, Outcome, Packet, Payload, Values, Verdict};

/// A switch: one program, its memory, and the table of the streams that it sums.
pub struct Switch<V: Payload> {
    node: NodeId,
    program: Box<dyn Program<V>>,
    memory: Memory<V>,
    table: Table,
    /// Jobs of which it has forgotten what it held.
    forgotten: BTreeSet<JobId>,
    /// Values that a slot has room for.
    room: usize,
    report: Report,
    counters: Counters,
}

impl<V: Payload> Switch<V> {
    /// A switch with memory for `slots` fragments of `values_per_packet` int32 values under a policy.
    ///
    /// # Errors
    /// [`Misfit`] if the profile has no room for that.
    pub fn new(
        node: NodeId,
        policy: Policy,
        slots: u32,
        values_per_packet: u32,
        profile: &Profile,
    ) -> Result<Self, Misfit> {
        Self::with_program(node, policy::program(policy), slots, values_per_packet, profile)
    }

    /// A switch with a program that has no name yet.
    ///
    /// # Errors
    /// [`Misfit`] if the profile has no room for it.
    pub fn with_program(
        node: NodeId,
        program: Box<dyn Program<V>>,
        slots: u32,
        values_per_packet: u32,
        profile: &Profile,
    ) -> Result<Self, Misfit> {
        let layout = program.layout(slots, values_per_packet);
        Ok(Self {
            node,
            report: layout.fit(profile)?,
            memory: Memory::new(&layout),
            program,
            table: Table::new(slots, MAX_STREAMS),
            forgotten: BTreeSet::new(),
            room: values_per_packet as usize,
            counters: Counters::default(),
        })
    }

    /// Its number in plans and packets.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// What its program takes.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Its registers, as the control plane reads them.
    #[must_use]
    pub fn memory(&self) -> &Memory<V> {
        &self.memory
    }

    /// How many packets met which fate.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sums a stream from now on.
    ///
    /// # Errors
    /// One [`PlaceError`] per reason why it cannot.
    pub fn install(&mut self, place: Place) -> Result<(), PlaceError> {
        self.table.install(place, self.program.unsuited(&place))?;
        Ok(())
    }

    /// Whether it sums no stream.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.places().iter().all(Option::is_none)
    }

    /// Forgets a job, and frees the slots that it holds.
    pub fn remove(&mut self, job: JobId) {
        for (number, place) in self.table.remove(job) {
            self.program.forget(&mut self.memory, &place, number);
        }
        self.forgotten.remove(&job);
    }

    /// What is sent again of a job goes up past the slots, until the job is removed: what had been summed of it before
    /// is gone (`spec/switch.md`, "Nodes that forget").
    pub fn bypass(&mut self, job: JobId) {
        self.forgotten.insert(job);
    }

    /// Deals with a packet, in place: afterwards it is what leaves, if something does.
    pub fn handle(&mut self, packet: &mut Packet<V>) -> Outcome {
        let outcome = self.dispatch(packet);
        self.counters.count(outcome.verdict);
        outcome
    }

    fn dispatch(&mut self, packet: &mut Packet<V>) -> Outcome {
        let is_result = packet.kind == Kind::Result;
        let passed = if is_result { Outcome::down } else { Outcome::up }(Verdict::Passed);
        let found = self.table.find(packet.job, packet.sub_model, packet.cohort());
        let Some((number, &place)) = found else { return passed };
        if !self.is_concerned(packet, &place) {
            return passed;
        }
        let context = policy::Context { place: &place, number, places: self.table.places() };
        let mut pass = self.memory.pass();
        if is_result {
            return self.program.result(&mut pass, packet, &context);
        }
        let outcome = if packet.is_resent() && self.forgotten.contains(&packet.job) {
            Outcome::up(Verdict::Bypassed)
        } else {
            self.program.contribution(&mut pass, packet, &context)
        };
        if packet.node == self.node {
            packet.node = place.parent.unwrap_or(self.node);
        }
        outcome
    }

    /// Whether a packet of a stream that is summed here has to do with what is summed.
    fn is_concerned(&self, packet: &Packet<V>, place: &Place) -> bool {
        let lanes_of_a_value = if packet.flags.contains(Flags::LANES16) { 2 } else { 1 };
        if packet.values.lanes() > self.room * lanes_of_a_value
            || packet.flags.only(Flags::LANES) != place.lanes
        {
            return false;
        }
        if packet.kind == Kind::Result {
            return !packet.flags.contains(Flags::REFUSED);
        }
        let is_addressed = packet.node == ANY_NODE || packet.node == self.node;
        is_addressed && place.members.holds_some(packet.contributors)
    }
}

impl Switch<Values> {
    /// What another switch of the same program needs to go on.
    pub(crate) fn state(&self) -> SwitchState {
        let name = |place: &Place| (place.job.0, place.sub_model.0, place.cohort.0);
        let streams = self.table.places().iter().map(|place| place.as_ref().map(name)).collect();
        SwitchState { streams, memory: self.memory.state() }
    }

    /// Goes on with these streams, by their numbers; `None` if the state does not fit.
    pub(crate) fn restore(&mut self, state: SwitchState) -> Option<()> {
        self.table = self.table.renumbered(&state.streams)?;
        self.memory.restore(state.memory)
    }
}
