//! Which slot a sender chooses for a position. Every worker of a stream chooses the same, without asking.

use wiresum_wire::FragmentId;

use super::Sending;
use crate::{Cohort, MAX_WINDOW};

/// Where a hash's seed has the cohort: above all places of a window.
const COHORT_SHIFT: u32 = MAX_WINDOW.ilog2();

/// How slots are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// The switch knows from the position.
    Implied,
    /// Registers in turn.
    Cyclic {
        /// The first register.
        base: u32,
        /// Registers.
        slots: u32,
    },
    /// By hash, for each place in the window.
    Hashed(Table),
}

/// A slot for each place in the window: position modulo window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    seed: u64,
    base: u32,
    slots: u32,
    /// By place: the slot, and how often it was chosen anew.
    chosen: Vec<(u32, u32)>,
}

impl Addressing {
    /// The slot of register `position` modulo registers.
    #[must_use]
    pub fn cyclic(sending: &Sending) -> Self {
        Self::Cyclic { base: sending.base, slots: sending.slots }
    }

    /// Slots by hash of job, stream, cohort and place. A place that meets the slot of an earlier one takes the next that is free, so no two of a
    /// window meet unless the window has more places than there are slots.
    #[must_use]
    pub fn hashed(sending: &Sending) -> Self {
        Self::Hashed(Table::new(sending))
    }

    /// The slot of a position.
    #[must_use]
    pub fn slot(&self, position: FragmentId) -> u32 {
        match self {
            Self::Implied => 0,
            Self::Cyclic { base, slots } => base + position.0 % slots,
            Self::Hashed(table) => table.chosen[table.place(position)].0,
        }
    }

    /// The slot of a position was taken by another job's fragment: chooses anew for the place's next positions. Workers agree as long as
    /// each does so once for each position whose result tells of a collision.
    pub(super) fn rehash(&mut self, position: FragmentId) -> bool {
        let Self::Hashed(table) = self else { return false };
        table.rehash(table.place(position));
        true
    }
}

impl Table {
    fn new(sending: &Sending) -> Self {
        let cohort = u64::from(Cohort::of(sending.worker).0) << COHORT_SHIFT;
        let seed = u64::from(sending.job.0) << 48 | u64::from(sending.sub_model.0) << 32 | cohort;
        let (base, slots) = (sending.base, sending.slots);
        let mut table = Self { seed, base, slots, chosen: Vec::new() };
        let mut is_taken = vec![false; slots as usize];
        for place in 0..sending.window {
            let first = table.hash(place, 0);
            let free = (0..slots).map(|i| (first + i) % slots).find(|&i| !is_taken[i as usize]);
            let offset = free.unwrap_or(first);
            is_taken[offset as usize] = true;
            table.chosen.push((base + offset, 0));
        }
        table
    }

    fn place(&self, position: FragmentId) -> usize {
        position.0 as usize % self.chosen.len()
    }

    fn rehash(&mut self, place: usize) {
        let times = self.chosen[place].1.wrapping_add(1);
        self.chosen[place] = (self.base + self.hash(place as u32, times), times);
    }

    /// The finaliser of SplitMix64 over job, stream, cohort, place and the number of earlier choices.
    fn hash(&self, place: u32, times: u32) -> u32 {
        let mut x = self.seed ^ u64::from(place) ^ u64::from(times) << 40;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % u64::from(self.slots)) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wiresum_wire::JobId;

    use super::*;

    fn hashed(job: u16, window: u32, slots: u32) -> Addressing {
        let sending = Sending { job: JobId(job), window, base: 100, slots, ..Sending::default() };
        Addressing::hashed(&sending)
    }

    fn slots(addressing: &Addressing, count: u32) -> Vec<u32> {
        (0..count).map(|position| addressing.slot(FragmentId(position))).collect()
    }

    #[test]
    fn a_window_of_slots_has_no_slot_twice_while_there_are_enough() {
        let chosen = slots(&hashed(1, 64, 64), 64);
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 64);
        assert!(chosen.iter().all(|slot| (100..164).contains(slot)));
    }

    #[test]
    fn places_share_slots_where_there_are_too_few() {
        assert_eq!(slots(&hashed(1, 5, 1), 5), [100; 5]);
    }

    #[test]
    fn jobs_go_to_other_slots() {
        assert_ne!(slots(&hashed(1, 64, 4096), 64), slots(&hashed(2, 64, 4096), 64));
    }

    #[test]
    fn a_place_moves_after_a_collision_and_everyone_moves_it_alike() {
        let (mut ours, mut theirs) = (hashed(1, 8, 4096), hashed(1, 8, 4096));
        let before = ours.slot(FragmentId(3));
        // In another order: results overtake each other.
        for (a, b) in [(3, 5), (5, 3)] {
            assert!(ours.rehash(FragmentId(a)) && theirs.rehash(FragmentId(b)));
        }
        assert_eq!(ours, theirs);
        assert_ne!(ours.slot(FragmentId(11)), before);
    }

    #[test]
    fn registers_come_in_turn() {
        let sending = Sending { base: 10, slots: 4, ..Sending::default() };
        assert_eq!(slots(&Addressing::cyclic(&sending), 6), [10, 11, 12, 13, 10, 11]);
    }
}
