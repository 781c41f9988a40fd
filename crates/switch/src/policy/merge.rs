//! How a packet's contributors meet a slot's: the rows that all policies share.

use crate::Contributors;

/// What adding a packet to a slot comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// The slot held nothing: it now holds the packet.
    First,
    /// Nothing of the packet was in: it is added.
    Added,
    /// All of it was in.
    Duplicate,
    /// Some of it was in: it cannot be added.
    Overlap,
}

impl Merge {
    /// Whether the slot's values change.
    pub fn is_new(self) -> bool {
        matches!(self, Self::First | Self::Added)
    }
}

/// Enters `arriving` into the register cell `held`, which is taken as empty if `is_first`. Returns what happened and who is in now.
#[inline]
pub(super) fn enter(
    held: &mut u64,
    arriving: Contributors,
    is_first: bool,
) -> (Merge, Contributors) {
    let before = Contributors(if is_first { 0 } else { *held });
    let merge = if is_first {
        Merge::First
    } else if !before.overlaps(arriving) {
        Merge::Added
    } else if before.contains(arriving) {
        Merge::Duplicate
    } else {
        Merge::Overlap
    };
    let after = if merge.is_new() { before.with(arriving) } else { before };
    *held = after.0;
    (merge, after)
}
