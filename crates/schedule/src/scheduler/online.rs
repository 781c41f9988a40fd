//! A scheduler in the loop: asked slot by slot, or at each event, told what was really sent and what is really lit.

use super::events::Events;
use super::slots::Slots;
use super::{Answers, Options, Scheduler};
use crate::problem::Problem;
use crate::{ScheduleError, Summed};

/// A scheduler that decides with what it knows now, whoever asks: a simulator or a driver of devices.
pub struct Online<'a> {
    steps: Steps<'a>,
}

enum Steps<'a> {
    Slots(Slots<'a>),
    Events(Events<'a>),
}

/// What happens in a slot, or from one event to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot {
    /// How long it lasts.
    pub seconds: f64,
    /// Circuits of each pair.
    pub circuits: Vec<u32>,
    /// Who sends, in the order of transfers.
    pub shares: Vec<Share>,
}

/// What a transfer sends in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Index of the transfer.
    pub transfer: usize,
    /// Who sums it.
    pub summed: Summed,
    /// How much.
    pub bytes: f64,
}

impl<'a> Online<'a> {
    /// A scheduler by its name, before the first slot.
    ///
    /// # Errors
    /// There is no such scheduler, or it cannot serve a job.
    pub fn new(
        problem: &'a Problem<'a>,
        name: &str,
        options: &Options,
    ) -> Result<Self, ScheduleError> {
        let steps = match Scheduler::named(name)?.answers {
            Answers::InSlots { slotwise, .. } => Steps::Slots(slotwise(problem, options)?),
            Answers::AtEvents { events, .. } => Steps::Events(events(problem, options)?),
        };
        Ok(Self { steps })
    }

    /// Tells it what is left of each transfer, in bytes, which circuits of each pair are lit or getting light, and how
    /// many ports of each unit work, at the end of what was decided last.
    pub fn observe(&mut self, left: &[f64], circuits: &[u32], ports: &[u32]) {
        match &mut self.steps {
            Steps::Slots(slots) => slots.observe(left, circuits, ports),
            Steps::Events(events) => events.observe(left, circuits, ports),
        }
    }

    /// Decides the next slot, or until the next event.
    ///
    /// # Errors
    /// A job that is never served.
    pub fn step(&mut self) -> Result<Slot, ScheduleError> {
        match &mut self.steps {
            Steps::Slots(slots) => slots.next_slot(),
            Steps::Events(events) => events.step(),
        }
    }
}
