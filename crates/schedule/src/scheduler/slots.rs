//! Slot by slot: what every scheduler does that decides with what it knows now.

use std::collections::BTreeMap;

use super::{Plan, Share, Slot, starves};
use crate::board::{Board, LEAST_SHARE, Turn};
use crate::problem::{EPSILON, Problem};
use crate::{ScheduleError, Summed};

/// Slots of one schedule, for memory's sake.
pub const MAX_SLOTS: usize = 1 << 20;
/// Slots in a row without a byte, after which nobody can be served any more: all circuits of a rotation had their turn.
const IDLE_SLOTS: usize = MAX_SLOTS >> 8;

/// What is known in a slot.
pub struct Now<'a> {
    /// Circuits and loads, up to this slot.
    pub board: Board<'a>,
    /// Which slot.
    pub slot: usize,
    /// Bytes that each transfer has still to send, at the begin of the slot.
    pub left: Vec<f64>,
    /// Past slots.
    pub turns: Vec<Turn>,
    /// Whether transfers may add circuits; otherwise they use those that are lit.
    pub may_add: bool,
    /// In this slot.
    given: BTreeMap<usize, (Summed, f64)>,
}

impl<'a> Now<'a> {
    /// What it is about.
    pub fn problem(&self) -> &'a Problem<'a> {
        self.board.problem
    }

    /// Transfers that have arrived and are not complete, in the order of jobs.
    pub fn open(&self) -> impl Iterator<Item = usize> + '_ {
        let transfers = self.problem().transfers.iter().enumerate();
        let here = transfers.filter(|(_, transfer)| transfer.release <= self.slot);
        here.map(|(index, _)| index).filter(|index| self.left[*index] > 0.0)
    }

    /// Whether it has sent before this slot.
    pub fn has_begun(&self, transfer: usize) -> bool {
        !self.turns[transfer].shares.is_empty()
    }

    /// How it is summed, if that is decided.
    pub fn summed(&self, transfer: usize) -> Option<Summed> {
        let given = self.given.get(&transfer).map(|(summed, _)| *summed);
        given.or_else(|| self.has_begun(transfer).then(|| self.turns[transfer].summed))
    }

    /// The ways in which it can be summed, switches first; one where that is decided.
    pub fn ways(&self, transfer: usize) -> Vec<Summed> {
        match self.summed(transfer) {
            Some(summed) => vec![summed],
            None => self.problem().transfers[transfer].ways().rev().collect(),
        }
    }

    /// Bytes that it has in this slot.
    pub fn given(&self, transfer: usize) -> f64 {
        self.given.get(&transfer).map_or(0.0, |(_, bytes)| *bytes)
    }

    /// Bytes that it could have in this slot beyond what it has.
    pub fn room(&self, transfer: usize, summed: Summed) -> f64 {
        let mode = self.problem().transfers[transfer].mode(summed);
        let given = self.given(transfer);
        let room = if given > 0.0 {
            self.board.rate_room(self.slot, mode, self.may_add).min(mode.most - given)
        } else {
            self.board.room(self.slot, mode, self.may_add)
        };
        room.min(self.left[transfer] - given).max(0.0)
    }

    /// Bytes below which it does not count as sending.
    pub fn least(&self, transfer: usize, summed: Summed) -> f64 {
        let mode = self.problem().transfers[transfer].mode(summed);
        LEAST_SHARE * mode.most.min(self.left[transfer])
    }

    /// Gives it bytes in this slot. There must be room.
    pub fn give(&mut self, transfer: usize, summed: Summed, bytes: f64) {
        let mode = self.problem().transfers[transfer].mode(summed);
        match self.given.get_mut(&transfer) {
            Some((_, given)) => {
                self.board.put_rate(self.slot, mode, bytes);
                *given += bytes;
            }
            None => {
                self.board.put(self.slot, mode, bytes);
                self.given.insert(transfer, (summed, bytes));
            }
        }
    }

    /// Gives those that have begun what they had in the slot before, so much at most: it fits, as circuits are kept,
    /// unless one was lost.
    pub fn go_on(&mut self, most: impl Fn(usize) -> f64) {
        for transfer in self.open().collect::<Vec<_>>() {
            let Some((slot, before)) = self.turns[transfer].shares.last().copied() else {
                continue;
            };
            let summed = self.turns[transfer].summed;
            let bytes = before.min(self.left[transfer]).min(most(transfer));
            if slot + 1 == self.slot && bytes > 0.0 {
                let room = self.room(transfer, summed);
                let fits = room >= bytes * (1.0 - EPSILON);
                let bytes = if fits { bytes } else { room };
                if bytes > 0.0 {
                    self.give(transfer, summed, bytes);
                }
            }
        }
    }

    /// What was given in a slot that is over.
    pub fn given_in(&self, slot: usize) -> impl Iterator<Item = (usize, &Turn, f64)> {
        let turns = self.turns.iter().enumerate();
        turns.filter_map(move |(index, turn)| match turn.shares.last() {
            Some((last, bytes)) if *last == slot => Some((index, turn, *bytes)),
            _ => None,
        })
    }

    /// Ends the slot; returns whether anybody sent.
    fn next(&mut self) -> bool {
        let given = std::mem::take(&mut self.given);
        let has_sent = !given.is_empty();
        for (transfer, (summed, bytes)) in given {
            self.turns[transfer].summed = summed;
            self.turns[transfer].shares.push((self.slot, bytes));
            let left = self.left[transfer] - bytes;
            let is_dust = left <= EPSILON * self.problem().transfers[transfer].bytes;
            self.left[transfer] = if is_dust { 0.0 } else { left };
        }
        self.slot += 1;
        has_sent
    }
}

/// A scheduler that is asked slot by slot.
pub struct Slots<'a> {
    now: Now<'a>,
    keep_circuits: bool,
    decide: Box<dyn FnMut(&mut Now<'a>) + 'a>,
    /// Slots in a row without a byte, after the last arrival.
    idle: usize,
    last_arrival: usize,
}

impl<'a> Slots<'a> {
    /// Before the first slot. `decide` gives transfers their bytes, slot by slot; with `keep_circuits`, idle circuits
    /// stay lit where both units have ports left.
    pub fn new(
        board: Board<'a>,
        keep_circuits: bool,
        decide: impl FnMut(&mut Now<'a>) + 'a,
    ) -> Self {
        let transfers = &board.problem.transfers;
        let left: Vec<f64> = transfers.iter().map(|transfer| transfer.bytes).collect();
        let last_arrival = transfers.iter().map(|transfer| transfer.release).max().unwrap_or(0);
        let turns = vec![Turn::default(); left.len()];
        let now = Now { board, slot: 0, left, turns, may_add: true, given: BTreeMap::new() };
        Self { now, keep_circuits, decide: Box::new(decide), idle: 0, last_arrival }
    }

    /// Decides the next slot.
    ///
    /// # Errors
    /// A job that is never served.
    pub fn step(&mut self) -> Result<(), ScheduleError> {
        let now = &mut self.now;
        let slot = now.slot;
        now.board.resize(slot + 1);
        (self.decide)(now);
        if self.keep_circuits {
            now.board.keep_lit(slot);
        }
        now.board.commit();
        self.idle = if now.next() || slot < self.last_arrival { 0 } else { self.idle + 1 };
        if self.idle > IDLE_SLOTS.min(now.problem().pairs.len() + now.problem().units())
            || now.slot >= MAX_SLOTS
        {
            return Err(starves(now.problem(), &now.left));
        }
        Ok(())
    }

    /// Learns what was sent, and what is lit and works at the end of the last slot.
    pub(super) fn observe(&mut self, left: &[f64], circuits: &[u32], ports: &[u32]) {
        self.now.left.copy_from_slice(left);
        if let Some(before) = self.now.slot.checked_sub(1) {
            self.now.board.observe(before, circuits, ports);
        }
    }

    /// Decides the next slot, and says what happens in it.
    pub(super) fn next_slot(&mut self) -> Result<Slot, ScheduleError> {
        let slot = self.now.slot;
        self.step()?;
        let now = &self.now;
        let pairs = 0..now.problem().pairs.len();
        let shares = now.given_in(slot);
        Ok(Slot {
            seconds: now.problem().instance.slot_s,
            circuits: pairs.map(|pair| now.board.circuits(slot, pair)).collect(),
            shares: shares
                .map(|(transfer, turn, bytes)| Share { transfer, summed: turn.summed, bytes })
                .collect(),
        })
    }

    /// Decides all slots, until all is sent.
    ///
    /// # Errors
    /// A job that is never served.
    pub fn finish(mut self) -> Result<Plan<'a>, ScheduleError> {
        while self.now.left.iter().any(|left| *left > 0.0) {
            self.step()?;
        }
        Ok(Plan { board: self.now.board, turns: self.now.turns, bound_s: None })
    }
}
