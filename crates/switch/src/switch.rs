//! A switch: one program, its memory, and the table of the streams that it sums.

use std::collections::BTreeMap;

use thiserror::Error;
use wiresum_wire::{Flags, JobId, Kind, NodeId, SubModelId};

use crate::policy::{self, PolicyName, Program};
use crate::rmt::{Memory, Misfit, Profile, Report};
use crate::{ANY_NODE, Contributors, Counters, Outcome, Packet, Payload, Verdict};

/// Most streams in a switch's table: what its memory knows them by has 16 bits, of which 0 means that a slot is free.
pub const MAX_STREAMS: usize = u16::MAX as usize;

/// Largest window in fragments: positions are compared modulo 2³², and two windows have to lie on one side.
pub const MAX_WINDOW: u32 = 1 << 30;

/// What a switch knows of a stream that it sums: an entry of its table, written by the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// Workers whose sum is complete here.
    pub members: Contributors,
    /// Where that sum goes; `None` if it is the result.
    pub parent: Option<NodeId>,
    /// First slot that the stream may use.
    pub base: u32,
    /// Slots that it may use.
    pub slots: u32,
    /// A worker sends position p only after it has the result of p − window.
    pub window: u32,
}

/// Why a stream cannot be summed here.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PlaceError {
    /// Its slots end beyond the memory.
    #[error(
        "job {job}, sub-model {sub_model}: slots end at {end}, the switch has {have}: plan fewer, or give it more memory"
    )]
    Memory {
        /// The job.
        job: JobId,
        /// The stream.
        sub_model: SubModelId,
        /// End of its slots.
        end: u64,
        /// Slots that there are.
        have: u32,
    },
    /// The policy cannot work with its slots and window.
    #[error("job {job}, sub-model {sub_model}: {reason}")]
    Unsuited {
        /// The job.
        job: JobId,
        /// The stream.
        sub_model: SubModelId,
        /// What the policy needs.
        reason: &'static str,
    },
    /// It is in the table already.
    #[error("job {job}, sub-model {sub_model} is summed here already: remove the job first")]
    Taken {
        /// The job.
        job: JobId,
        /// The stream.
        sub_model: SubModelId,
    },
    /// The table is full.
    #[error("a switch sums at most {MAX_STREAMS} streams")]
    Full,
}

/// See the module.
pub struct Switch<V: Payload> {
    node: NodeId,
    program: Box<dyn Program<V>>,
    slots: u32,
    memory: Memory<V>,
    /// By stream number − 1; `None` where a job has left.
    places: Vec<Option<Place>>,
    numbers: BTreeMap<(JobId, SubModelId), u16>,
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
        policy: PolicyName,
        slots: u32,
        values_per_packet: u32,
        profile: &Profile,
    ) -> Result<Self, Misfit> {
        let program = policy::program::<V>(policy);
        let layout = program.layout(slots, values_per_packet);
        Ok(Self {
            node,
            report: layout.fit(profile)?,
            memory: Memory::new(&layout),
            program,
            slots,
            places: Vec::new(),
            numbers: BTreeMap::new(),
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
        self.check(&place)?;
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if free == MAX_STREAMS {
            return Err(PlaceError::Full);
        }
        self.places.resize(self.places.len().max(free + 1), None);
        self.places[free] = Some(place);
        self.numbers.insert((place.job, place.sub_model), free as u16 + 1);
        Ok(())
    }

    fn check(&self, place: &Place) -> Result<(), PlaceError> {
        let Place { job, sub_model, .. } = *place;
        let (end, have) = (u64::from(place.base) + u64::from(place.slots), self.slots);
        if end > u64::from(have) {
            return Err(PlaceError::Memory { job, sub_model, end, have });
        }
        if let Some(reason) = unsuited(place).or_else(|| self.program.unsuited(place)) {
            return Err(PlaceError::Unsuited { job, sub_model, reason });
        }
        if self.numbers.contains_key(&(job, sub_model)) {
            return Err(PlaceError::Taken { job, sub_model });
        }
        Ok(())
    }

    /// Forgets a job, and frees the slots that it holds.
    pub fn remove(&mut self, job: JobId) {
        let Self { numbers, places, program, memory, .. } = self;
        numbers.retain(|(of, _), number| {
            if *of == job
                && let Some(place) = places[usize::from(*number) - 1].take()
            {
                program.forget(memory, &place, *number);
            }
            *of != job
        });
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
        let Some(&number) = self.numbers.get(&(packet.job, packet.sub_model)) else {
            return passed;
        };
        let Some(place) = self.places[usize::from(number) - 1] else { return passed };
        if !self.is_concerned(packet, &place) {
            return passed;
        }
        let context = policy::Context { place: &place, number, places: &self.places };
        let mut pass = self.memory.pass();
        if is_result {
            return self.program.result(&mut pass, packet, &context);
        }
        let outcome = self.program.contribution(&mut pass, packet, &context);
        if packet.node == self.node {
            packet.node = place.parent.unwrap_or(self.node);
        }
        outcome
    }

    /// Whether a packet of a stream that is summed here has to do with what is summed.
    fn is_concerned(&self, packet: &Packet<V>, place: &Place) -> bool {
        if packet.kind == Kind::Result {
            return !packet.flags.contains(Flags::REFUSED);
        }
        let is_addressed = packet.node == ANY_NODE || packet.node == self.node;
        is_addressed && place.members.holds_some(packet.contributors)
    }
}

fn unsuited(place: &Place) -> Option<&'static str> {
    if place.members.is_empty() {
        Some("no worker is summed here")
    } else if place.slots == 0 {
        Some("it needs a slot")
    } else if place.window == 0 || place.window > MAX_WINDOW {
        Some("the window is from 1 to 2³⁰ fragments")
    } else {
        None
    }
}
