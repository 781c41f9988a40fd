//! What is taken of every resource in every slot, and what is still free; any change can be taken back.
//!
//! All amounts lie in one array, and every write is logged, so that a search undoes what it tried exactly.

mod room;

use crate::Summed;
use crate::problem::{EPSILON, Mode, NOISE, Problem, Transfer};

/// Least share of a slot's bytes with which a transfer counts as sending in it.
pub const LEAST_SHARE: f64 = 1e-6;

/// Resources by slot.
#[derive(Clone, Debug)]
pub struct Board<'a> {
    /// What it is about.
    pub problem: &'a Problem<'a>,
    cells: Vec<f64>,
    log: Vec<(usize, f64)>,
    stride: usize,
    /// Ports of each unit that work.
    ports: Vec<u32>,
    /// Whether circuits may be added.
    may_change: bool,
}

/// One transfer's bytes by slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Who sums it.
    pub summed: Summed,
    /// Slot and bytes, in order of slots.
    pub shares: Vec<(usize, f64)>,
}

/// Cell with the number of set-ups in all slots.
const SETUPS: usize = 0;

impl<'a> Board<'a> {
    /// With free slots.
    #[must_use]
    pub fn new(problem: &'a Problem<'a>, slots: usize) -> Self {
        let pairs = problem.pairs.len();
        let stride = pairs * (1 + problem.lanes) + 2 * problem.units() + problem.pools.len();
        let cells = vec![0.0; 1 + slots * stride];
        let ports = (0..problem.units()).map(|unit| problem.ports(unit)).collect();
        Self { problem, cells, log: Vec::new(), stride, ports, may_change: true }
    }

    /// Forbids circuits beyond those that are lit before.
    #[must_use]
    pub fn without_changes(mut self) -> Self {
        self.may_change = false;
        self
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.cells.len() / self.stride.max(1)
    }

    /// Makes it so many slots long; those that go must be free.
    pub fn resize(&mut self, slots: usize) {
        self.cells.resize(1 + slots * self.stride, 0.0);
    }

    /// Makes it so many slots long, and forgets how to undo; what is lit in slots that go is lit for nobody.
    pub fn shorten(&mut self, slots: usize) {
        self.trim_from(slots);
        self.commit();
        self.resize(slots);
    }

    /// Circuits between a pair in a slot.
    #[must_use]
    pub fn circuits(&self, slot: usize, pair: usize) -> u32 {
        self.cells[self.circuits_cell(slot, pair)] as u32
    }

    /// Circuits of a pair in the slot before.
    #[must_use]
    pub fn lit(&self, slot: usize, pair: usize) -> u32 {
        match slot.checked_sub(1) {
            None => self.problem.before[pair],
            Some(before) => self.circuits(before, pair),
        }
    }

    /// Ports of a unit that have no circuit in a slot.
    #[must_use]
    pub fn free_ports(&self, slot: usize, unit: usize) -> u32 {
        self.ports[unit].saturating_sub(self.cells[self.ports_cell(slot, unit)] as u32)
    }

    /// Ports of each unit that work.
    #[must_use]
    pub fn ports(&self) -> &[u32] {
        &self.ports
    }

    /// Learns which circuits were lit at the end of a slot, and how many ports of each unit work.
    pub fn observe(&mut self, slot: usize, circuits: &[u32], ports: &[u32]) {
        self.ports.copy_from_slice(ports);
        for (pair, lit) in circuits.iter().enumerate() {
            self.set_circuits(slot, pair, *lit);
        }
        self.commit();
    }

    /// Circuits that are set up in all slots.
    #[must_use]
    pub fn setups(&self) -> usize {
        self.cells[SETUPS] as usize
    }

    /// Share of a unit's ports with circuits.
    #[must_use]
    pub fn fullness(&self, slot: usize, unit: usize) -> f64 {
        self.cells[self.ports_cell(slot, unit)] / f64::from(self.problem.ports(unit).max(1))
    }

    /// Jobs that a switch sums in a slot.
    #[must_use]
    pub fn places_taken(&self, slot: usize, unit: usize) -> u32 {
        self.cells[self.places_cell(slot, unit)] as u32
    }

    /// By how many set-ups rise if a pair has so many circuits in a slot.
    #[must_use]
    pub fn setups_by(&self, slot: usize, pair: usize, circuits: u32) -> f64 {
        let (now, lit) = (self.circuits(slot, pair), self.lit(slot, pair));
        let mut setups = setups_of(circuits, lit) - setups_of(now, lit);
        if slot + 1 < self.slots() {
            let next = self.circuits(slot + 1, pair);
            setups += setups_of(next, circuits) - setups_of(next, now);
        }
        setups
    }

    /// What [`Self::undo`] takes it back to.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back all that was done since a mark.
    pub fn undo(&mut self, mark: usize) {
        for (cell, value) in self.log.drain(mark..).rev() {
            self.cells[cell] = value;
        }
    }

    /// Forgets how to undo.
    pub fn commit(&mut self) {
        self.log.clear();
    }

    /// Gives a transfer bytes in a slot. There must be room.
    pub fn put(&mut self, slot: usize, mode: &Mode, bytes: f64) {
        for unit in &mode.places {
            self.add(self.places_cell(slot, *unit), 1.0);
        }
        self.put_rate(slot, mode, bytes);
    }

    /// As [`Self::put`], for a transfer that has its place.
    pub fn put_rate(&mut self, slot: usize, mode: &Mode, bytes: f64) {
        for (pool, times) in &mode.pools {
            self.add(self.pool_cell(slot, *pool), bytes * times);
        }
        for crossing in &mode.crossings {
            for lane in crossing.lanes() {
                self.add(self.load_cell(slot, crossing.pair, lane), bytes * crossing.times);
            }
            let needed = self.circuits_for(slot, *crossing, 0.0);
            if needed > self.circuits(slot, crossing.pair) {
                self.set_circuits(slot, crossing.pair, needed);
                debug_assert!(self.has_ports(slot, crossing.pair), "there was no room");
            }
        }
    }

    /// Gives a transfer all of its turn.
    pub fn put_turn(&mut self, transfer: &Transfer, turn: &Turn) {
        let mode = transfer.mode(turn.summed);
        turn.shares.iter().for_each(|(slot, bytes)| self.put(*slot, mode, *bytes));
    }

    /// Takes a transfer's turn away, with the circuits that nobody needs any more.
    pub fn take_turn(&mut self, transfer: &Transfer, turn: &Turn) {
        let mode = transfer.mode(turn.summed);
        for (slot, bytes) in &turn.shares {
            for unit in &mode.places {
                self.add(self.places_cell(*slot, *unit), -1.0);
            }
            for (pool, times) in &mode.pools {
                self.add(self.pool_cell(*slot, *pool), -bytes * times);
            }
            for crossing in &mode.crossings {
                for lane in crossing.lanes() {
                    let cell = self.load_cell(*slot, crossing.pair, lane);
                    let left = self.cells[cell] - bytes * crossing.times;
                    let is_dust = left < NOISE * self.problem.lit_bytes;
                    self.set(cell, if is_dust { 0.0 } else { left });
                }
            }
        }
        for (slot, _) in turn.shares.iter().rev() {
            for crossing in &mode.crossings {
                self.trim(*slot, crossing.pair);
            }
        }
    }

    /// Keeps what was lit in the slot before wherever both units have ports left.
    pub fn keep_lit(&mut self, slot: usize) {
        for pair in 0..self.problem.pairs.len() {
            let idle = self.lit(slot, pair).saturating_sub(self.circuits(slot, pair));
            self.light(slot, pair, idle);
        }
    }

    /// Adds circuits between a pair, as many of these as both units have ports for.
    pub fn light(&mut self, slot: usize, pair: usize, circuits: u32) {
        let [a, b] = self.problem.pairs[pair];
        let more = circuits.min(self.free_ports(slot, a)).min(self.free_ports(slot, b));
        if more > 0 {
            self.set_circuits(slot, pair, self.circuits(slot, pair) + more);
        }
    }

    /// Gives up circuits that neither this slot's load nor the next slot's needs, and then those before it likewise.
    fn trim(&mut self, mut slot: usize, pair: usize) {
        loop {
            let needed = self.needed(slot, pair).max(self.wanted_by_next(slot, pair));
            if needed >= self.circuits(slot, pair) {
                return;
            }
            self.set_circuits(slot, pair, needed);
            let Some(before) = slot.checked_sub(1) else { return };
            slot = before;
        }
    }

    /// Gives up circuits that no load needs, in all slots from one on, and then in those before them.
    pub fn trim_from(&mut self, slot: usize) {
        for slot in (slot..self.slots()).rev() {
            (0..self.problem.pairs.len()).for_each(|pair| self.trim(slot, pair));
        }
    }

    fn needed(&self, slot: usize, pair: usize) -> u32 {
        self.needed_for(slot, pair, self.load(slot, pair))
    }

    /// The least number of circuits now with which the next slot's load fits its circuits.
    fn wanted_by_next(&self, slot: usize, pair: usize) -> u32 {
        if slot + 1 >= self.slots() {
            return 0;
        }
        let next = self.circuits(slot + 1, pair);
        let load = self.load(slot + 1, pair);
        let mut lit = next.min(self.circuits(slot, pair));
        while lit > 0 && self.fits(load, self.problem.carried(next, lit - 1)) {
            lit -= 1;
        }
        lit
    }

    fn fits(&self, load: f64, carried: f64) -> bool {
        load <= carried + EPSILON * load.max(self.problem.lit_bytes)
    }

    /// The busier lane's bytes.
    fn load(&self, slot: usize, pair: usize) -> f64 {
        let lanes = 0..self.problem.lanes;
        lanes.map(|lane| self.cells[self.load_cell(slot, pair, lane)]).fold(0.0, f64::max)
    }

    fn set_circuits(&mut self, slot: usize, pair: usize, circuits: u32) {
        let now = self.circuits(slot, pair);
        let change = f64::from(circuits) - f64::from(now);
        self.add(SETUPS, self.setups_by(slot, pair, circuits));
        for unit in self.problem.pairs[pair] {
            self.add(self.ports_cell(slot, unit), change);
        }
        self.set(self.circuits_cell(slot, pair), f64::from(circuits));
    }

    fn has_ports(&self, slot: usize, pair: usize) -> bool {
        let within =
            |unit: usize| self.cells[self.ports_cell(slot, unit)] <= f64::from(self.ports[unit]);
        self.problem.pairs[pair].into_iter().all(within)
    }

    fn circuits_cell(&self, slot: usize, pair: usize) -> usize {
        1 + slot * self.stride + pair
    }

    fn load_cell(&self, slot: usize, pair: usize, lane: usize) -> usize {
        let pairs = self.problem.pairs.len();
        1 + slot * self.stride + pairs + pair * self.problem.lanes + lane
    }

    fn ports_cell(&self, slot: usize, unit: usize) -> usize {
        1 + slot * self.stride + self.problem.pairs.len() * (1 + self.problem.lanes) + unit
    }

    fn places_cell(&self, slot: usize, unit: usize) -> usize {
        self.ports_cell(slot, unit) + self.problem.units()
    }

    fn pool_cell(&self, slot: usize, pool: usize) -> usize {
        self.ports_cell(slot, 0) + 2 * self.problem.units() + pool
    }

    fn add(&mut self, cell: usize, amount: f64) {
        self.set(cell, self.cells[cell] + amount);
    }

    fn set(&mut self, cell: usize, value: f64) {
        self.log.push((cell, self.cells[cell]));
        self.cells[cell] = value;
    }
}

/// Circuits that have to be set up.
fn setups_of(circuits: u32, lit: u32) -> f64 {
    f64::from(circuits.saturating_sub(lit))
}
