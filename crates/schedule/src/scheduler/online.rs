//! A scheduler in the loop: asked slot by slot, told what was really sent and what is really lit.

use super::slots::Slots;
use super::{Options, Scheduler};
use crate::problem::Problem;
use crate::{ScheduleError, Summed};

/// A scheduler that decides with what it knows now, whoever asks: a simulator or a driver of devices.
pub struct Online<'a> {
    slots: Slots<'a>,
}

/// What happens in a slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot {
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
        Ok(Self { slots: (Scheduler::named(name)?.slotwise)(problem, options)? })
    }

    /// Tells it what is left of each transfer, in bytes, which circuits of each pair are lit or getting light, and how
    /// many ports of each unit work, at the end of the last slot that was decided.
    pub fn observe(&mut self, left: &[f64], circuits: &[u32], ports: &[u32]) {
        let now = &mut self.slots.now;
        now.left.copy_from_slice(left);
        if let Some(before) = now.slot.checked_sub(1) {
            now.board.observe(before, circuits, ports);
        }
    }

    /// Decides the next slot.
    ///
    /// # Errors
    /// A job that is never served.
    pub fn step(&mut self) -> Result<Slot, ScheduleError> {
        let slot = self.slots.now.slot;
        self.slots.step()?;
        let now = &self.slots.now;
        let pairs = 0..now.problem().pairs.len();
        let shares = now.given_in(slot);
        Ok(Slot {
            circuits: pairs.map(|pair| now.board.circuits(slot, pair)).collect(),
            shares: shares
                .map(|(transfer, turn, bytes)| Share { transfer, summed: turn.summed, bytes })
                .collect(),
        })
    }
}
