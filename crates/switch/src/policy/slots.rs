//! What policies share whose slots are chosen by the sender: taking, adding, forcing out, freeing.

use wiresum_wire::Flags;

use super::merge::{Merge, enter};
use super::{Context, Key, Relation};
use crate::rmt::{ArrayDeclaration, ArrayId, BankDeclaration, BankId, Pass};
use crate::{Outcome, Packet, Payload, Verdict};

pub(super) const KEY: ArrayId = ArrayId(0);
pub(super) const CONTRIBUTORS: ArrayId = ArrayId(1);
/// 1 once a contribution met congestion.
pub(super) const CONGESTION: ArrayId = ArrayId(2);
pub(super) const VALUES: BankId = BankId(0);

/// The arrays that these constants name, in order.
pub(super) fn arrays(slots: u32) -> Vec<ArrayDeclaration> {
    let array =
        |name, stage, width_bits| ArrayDeclaration { name, stage, width_bits, length: slots };
    vec![array("key", 0, 64), array("contributors", 1, 64), array("congestion", 2, 1)]
}

/// The bank that these constants name.
pub(super) fn bank(slots: u32) -> BankDeclaration {
    BankDeclaration { name: "values", first_stage: 2, length: slots }
}

/// The slot that the sender chose, if the stream may use it.
pub(super) fn chosen<V>(packet: &Packet<V>, context: &Context<'_>) -> Option<usize> {
    let place = context.place;
    let is_inside = packet.slot.checked_sub(place.base).is_some_and(|i| i < place.slots);
    is_inside.then_some(packet.slot as usize)
}

/// Takes a slot that is free, or whose fragment is finished.
pub(super) fn take(cell: &mut u64, key: Key, window: u32) -> Relation {
    let relation = Key::of(*cell).relation(key, window);
    if matches!(relation, Relation::Free | Relation::Finished) {
        *cell = key.cell();
    }
    relation
}

/// Frees the slot if it holds this fragment.
pub(super) fn free(cell: &mut u64, key: Key) -> bool {
    let is_ours = Key::of(*cell) == key;
    if is_ours {
        *cell = 0;
    }
    is_ours
}

/// Up, unsummed.
pub(super) fn collide<V>(packet: &mut Packet<V>) -> Outcome {
    packet.mark(Flags::COLLISION);
    Outcome::up(Verdict::Collision)
}

/// Adds the packet to the slot that holds its fragment, or that it took. A complete sum goes up.
pub(super) fn add<V: Payload>(
    pass: &mut Pass<'_, V>,
    slot: usize,
    packet: &mut Packet<V>,
    context: &Context<'_>,
    is_first: bool,
) -> Outcome {
    let arriving = packet.contributors;
    let (merge, held) = pass.access(CONTRIBUTORS, slot, |cell| enter(cell, arriving, is_first));
    match merge {
        Merge::Duplicate => return Outcome::absorbed(Verdict::Duplicate),
        Merge::Overlap => return Outcome::up(Verdict::Overlap),
        Merge::First | Merge::Added => {}
    }
    let is_complete = held == context.place.members;
    stick(pass, slot, packet, is_first);
    pass.access_values(VALUES, slot, |sum| merge_values(sum, packet, merge, is_complete));
    if !is_complete {
        let verdict = if is_first { Verdict::First } else { Verdict::Added };
        return Outcome::absorbed(verdict);
    }
    packet.contributors = held;
    Outcome::up(Verdict::Forwarded)
}

/// A packet that is sent again frees its fragment's slot and takes along what that has; without one it goes past.
pub(super) fn release<V: Payload>(
    pass: &mut Pass<'_, V>,
    slot: usize,
    packet: &mut Packet<V>,
    key: Key,
) -> Outcome {
    if !pass.access(KEY, slot, |cell| free(cell, key)) {
        return Outcome::up(Verdict::Bypassed);
    }
    let arriving = packet.contributors;
    let (merge, held) = pass.access(CONTRIBUTORS, slot, |cell| enter(cell, arriving, false));
    if merge == Merge::Overlap {
        return Outcome::up(Verdict::Overlap);
    }
    stick(pass, slot, packet, false);
    pass.access_values(VALUES, slot, |sum| merge_values(sum, packet, merge, true));
    packet.contributors = held;
    Outcome::up(Verdict::Released)
}

/// Merges a packet's values if they are new; takes out what the slot then has if that leaves.
pub(super) fn merge_values<V: Payload>(
    held: &mut V,
    packet: &mut Packet<V>,
    merge: Merge,
    leaves: bool,
) {
    match merge {
        Merge::First => held.clone_from(&packet.values),
        Merge::Added => held.merge(&packet.values, packet.flags),
        Merge::Duplicate | Merge::Overlap => {}
    }
    if leaves {
        packet.values.clone_from(held);
    }
}

/// Congestion that one contribution met is told by the sum.
fn stick<V: Payload>(pass: &mut Pass<'_, V>, slot: usize, packet: &mut Packet<V>, is_first: bool) {
    let arriving = u64::from(packet.flags.contains(Flags::ECN));
    let is_congested = pass.access(CONGESTION, slot, |cell| {
        *cell = arriving | if is_first { 0 } else { *cell };
        *cell == 1
    });
    if is_congested {
        packet.mark(Flags::ECN);
    }
}
