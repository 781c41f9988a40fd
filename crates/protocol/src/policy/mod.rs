//! Slot policies: where a fragment's slot is, what happens when it is taken, and what frees a worker's window.
//!
//! A new policy is a file beside this one and an arm in [`of`].

mod cache;
mod pool;

use wiresum_wire::FragmentId;

use crate::plan::Policy;

/// What becomes of a contribution whose entry holds another position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It takes the entry: by the invariant no one needs what was there.
    Replace,
    /// It is dropped: by the invariant no one needs *it*.
    Stale,
}

/// What makes room in a worker's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The fragment's result, which needs every worker.
    Result,
    /// A status that says the node holds this worker's contribution.
    Held,
}

/// One way of using slots.
pub trait SlotPolicy: Sync {
    /// Index of a position's entry among the `2 × slots` of a sub-model; `slots` is a power of two.
    fn entry(&self, position: FragmentId, slots: u32) -> usize {
        // slot = position mod slots, version = (position div slots) mod 2: together position mod (2 × slots), and
        // the two versions of a slot lie `slots` entries apart.
        (position.0 & (2 * slots - 1)) as usize
    }

    /// What becomes of a contribution `distance` positions ahead of (or, if negative, behind) its entry's; never 0.
    fn taken(&self, distance: i32) -> Taken {
        if distance > 0 { Taken::Replace } else { Taken::Stale }
    }

    /// What makes room in a worker's window.
    fn acknowledgement(&self) -> Acknowledgement;
}

/// The implementation of a plan's policy.
#[must_use]
pub fn of(policy: Policy) -> &'static dyn SlotPolicy {
    match policy {
        Policy::Cache => &cache::Cache,
        // The others are those of switches: only results acknowledge there as well.
        _ => &pool::Pool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_a_slot_apart_use_its_two_versions_in_turn() {
        for policy in [Policy::Pool, Policy::Cache].map(of) {
            let entries = [3, 11, 19, 27].map(|p| policy.entry(FragmentId(p), 8));
            assert_eq!(entries, [3, 11, 3, 11]);
        }
    }

    #[test]
    fn entries_stay_in_step_where_positions_wrap() {
        let (before, after) = (FragmentId(u32::MAX), FragmentId(0));
        assert_eq!(of(Policy::Pool).entry(before, 8), 15);
        assert_eq!(of(Policy::Pool).entry(after, 8), 0);
    }

    #[test]
    fn newer_positions_replace_and_older_ones_are_stale() {
        assert_eq!(of(Policy::Pool).taken(16), Taken::Replace);
        assert_eq!(of(Policy::Cache).taken(-16), Taken::Stale);
    }
}
