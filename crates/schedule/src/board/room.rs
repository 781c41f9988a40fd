//! What is still free on a board: bytes that a transfer could have, and the circuits that they would need.

use super::Board;
use crate::problem::{Crossing, Mode, whole};

impl Board<'_> {
    /// Circuits that a pair needs in a slot if a transfer has so many bytes more.
    #[must_use]
    pub fn circuits_for(&self, slot: usize, crossing: Crossing, bytes: f64) -> u32 {
        self.needed_for(slot, crossing.pair, self.busier(slot, crossing) + bytes * crossing.times)
    }

    /// Bytes that a transfer could have more with so many circuits; below 0 where they are too few for those there.
    #[must_use]
    pub fn bytes_with(&self, slot: usize, crossing: Crossing, circuits: u32) -> f64 {
        let carried = if self.may_change {
            self.problem.carried(circuits, self.lit(slot, crossing.pair))
        } else {
            f64::from(circuits) * self.problem.lit_bytes
        };
        (carried - self.busier(slot, crossing)) / crossing.times
    }

    /// Bytes on the busier one of the lanes that a transfer takes.
    fn busier(&self, slot: usize, crossing: Crossing) -> f64 {
        let load = |lane| self.cells[self.load_cell(slot, crossing.pair, lane)];
        crossing.lanes().map(load).fold(0.0, f64::max)
    }

    /// The most bytes that a transfer could have in a slot, beyond what it has; with `add`, circuits may be added.
    #[must_use]
    pub fn room(&self, slot: usize, mode: &Mode, add: bool) -> f64 {
        if self.has_places(slot, mode) { self.rate_room(slot, mode, add) } else { 0.0 }
    }

    /// No less than what [`Self::room`] is whatever the transfer has in the slot before.
    #[must_use]
    pub fn most_room(&self, slot: usize, mode: &Mode) -> f64 {
        if !self.has_places(slot, mode) {
            return 0.0;
        }
        let mut room = self.pool_room(slot, mode);
        for crossing in &mode.crossings {
            let most = self.most_circuits(slot, crossing.pair, true);
            let lit = f64::from(most) * self.problem.lit_bytes;
            room = room.min((lit - self.busier(slot, *crossing)) / crossing.times);
        }
        room
    }

    fn has_places(&self, slot: usize, mode: &Mode) -> bool {
        mode.places
            .iter()
            .all(|unit| self.places_taken(slot, *unit) < self.problem.instance.units[*unit].places)
    }

    /// The bytes that pools and its own links leave a transfer.
    fn pool_room(&self, slot: usize, mode: &Mode) -> f64 {
        let free = mode.pools.iter().map(|(pool, times)| {
            (self.problem.pools[*pool] - self.cells[self.pool_cell(slot, *pool)]) / times
        });
        free.fold(mode.most, f64::min)
    }

    /// As [`Self::room`], for a transfer that has its place.
    #[must_use]
    pub fn rate_room(&self, slot: usize, mode: &Mode, add: bool) -> f64 {
        let mut room = self.pool_room(slot, mode);
        if room <= 0.0 || mode.crossings.is_empty() {
            return room.max(0.0);
        }
        for crossing in &mode.crossings {
            let most = self.most_circuits(slot, crossing.pair, add);
            room = room.min(self.bytes_with(slot, *crossing, most));
        }
        if mode.crossings.len() > 1 && add {
            self.shared_room(slot, mode, room)
        } else {
            room.max(0.0)
        }
    }

    /// The room of a transfer with several pairs, which need ports at all of their units at once.
    fn shared_room(&self, slot: usize, mode: &Mode, mut room: f64) -> f64 {
        let mut added: Vec<(usize, u32)> = Vec::with_capacity(mode.crossings.len());
        loop {
            added.clear();
            let mut below: f64 = 0.0;
            for crossing in &mode.crossings {
                let needed = self.circuits_for(slot, *crossing, room);
                let now = self.circuits(slot, crossing.pair);
                if needed > now {
                    added.push((crossing.pair, needed - now));
                    below = below.max(self.bytes_with(slot, *crossing, needed - 1));
                }
            }
            if room <= 0.0 || self.have_ports(slot, &added) {
                return room.max(0.0);
            }
            room = if below < room { below } else { 0.0 };
        }
    }

    /// Whether units have ports for circuits that are added to some pairs.
    fn have_ports(&self, slot: usize, added: &[(usize, u32)]) -> bool {
        let pairs = &self.problem.pairs;
        added.iter().flat_map(|(pair, _)| pairs[*pair]).all(|unit| {
            let here = added.iter().filter(|(pair, _)| pairs[*pair].contains(&unit));
            here.map(|(_, circuits)| circuits).sum::<u32>() <= self.free_ports(slot, unit)
        })
    }

    /// The most circuits that a pair can have; with `add`, more than now.
    fn most_circuits(&self, slot: usize, pair: usize, add: bool) -> u32 {
        let now = self.circuits(slot, pair);
        let [a, b] = self.problem.pairs[pair];
        let free = self.free_ports(slot, a).min(self.free_ports(slot, b));
        match (add, self.may_change) {
            (false, _) => now,
            (true, true) => now + free,
            (true, false) => (now + free).min(self.lit(slot, pair)),
        }
    }

    /// The least number of circuits that carry so many bytes of a lane.
    pub(super) fn needed_for(&self, slot: usize, pair: usize, load: f64) -> u32 {
        if !self.may_change {
            return whole(load / self.problem.lit_bytes) as u32;
        }
        self.problem.needed(load, self.lit(slot, pair))
    }
}
