//! `segment` (P4INC-AOI §VI-B): each job has a segment of the memory to itself, in which its workers choose slots by hash. A switch has the
//! final sum and sends it straight back; a copy of it stays until the slot's next fragment is complete, for workers that lost theirs.
//! Who comes too early is told so by a mark.
//!
//! The copy is overwritten when the slot's next fragment completes. A worker that contributes to that one before it has the result of
//! this one could never get it again: a hole in the paper's scheme. Such a contribution is EARLY, and never summed.

use wiresum_wire::Flags;

use super::merge::{Merge, enter};
use super::slots::{chosen, collide, free, merge_values, take};
use super::{Context, Key, Program, Relation};
use crate::rmt::{ArrayDeclaration, ArrayId, BankDeclaration, BankId, Layout, Memory, Pass};
use crate::worker::{Addressing, Rules, Window};
use crate::{Contributors, Outcome, Packet, Payload, Place, Sending, Verdict};

/// The fragment whose result is kept.
const SHADOW_KEY: ArrayId = ArrayId(0);
const KEY: ArrayId = ArrayId(1);
const CONTRIBUTORS: ArrayId = ArrayId(2);
const VALUES: BankId = BankId(0);
/// The result that is kept.
const SHADOW: BankId = BankId(1);

/// A result of this age or more may be forgotten; fragments of a slot are apart by any number from 1.
const ANY_AGE: u32 = 1;

pub(super) struct Segment;

/// The program.
pub(super) const PROGRAM: Segment = Segment;

impl<V: Payload> Program<V> for Segment {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        let length = slots;
        let array = |name, stage| ArrayDeclaration { name, stage, width_bits: 64, length };
        let bank = |name, first_stage| BankDeclaration { name, first_stage, length };
        Layout {
            program: "segment",
            values_per_packet: values,
            arrays: vec![array("shadow key", 0), array("key", 1), array("contributors", 2)],
            banks: vec![bank("values", 3), bank("shadow", 4)],
            recirculations: 1,
            is_multicast: true,
        }
    }

    fn forget(&self, memory: &mut Memory<V>, _place: &Place, number: u16) {
        super::forget_keys(memory, KEY, number);
        super::forget_keys(memory, SHADOW_KEY, number);
    }

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let key = context.key(packet);
        let Some(slot) = chosen(packet, context) else { return collide(packet) };
        if packet.flags.contains(Flags::EARLY) {
            return refuse(packet);
        }
        let kept = pass.access(SHADOW_KEY, slot, |cell| Key::of(*cell));
        match kept.relation(key, ANY_AGE) {
            Relation::Same => return answer(pass, slot, packet, context.place),
            Relation::Newer => return Outcome::absorbed(Verdict::Stale),
            Relation::Free | Relation::Finished | Relation::Other => {}
        }
        // A fragment here is not complete. One of a window ago was completed past a switch that has forgotten a part of it.
        match pass.access(KEY, slot, |cell| take(cell, key, context.place.window)) {
            Relation::Same => add(pass, slot, packet, context, false),
            Relation::Free | Relation::Finished => add(pass, slot, packet, context, true),
            Relation::Newer | Relation::Other => refuse(packet),
        }
    }
}

fn add<V: Payload>(
    pass: &mut Pass<'_, V>,
    slot: usize,
    packet: &mut Packet<V>,
    context: &Context<'_>,
    is_first: bool,
) -> Outcome {
    let (place, arriving) = (context.place, packet.contributors);
    let (merge, held) = pass.access(CONTRIBUTORS, slot, |cell| enter(cell, arriving, is_first));
    match merge {
        Merge::Duplicate => return Outcome::absorbed(Verdict::Duplicate),
        Merge::Overlap => return Outcome::absorbed(Verdict::Overlap),
        Merge::First | Merge::Added => {}
    }
    let is_complete = held == place.members;
    pass.access_values(VALUES, slot, |sum| merge_values(sum, packet, merge, is_complete));
    if !is_complete {
        let verdict = if is_first { Verdict::First } else { Verdict::Added };
        return Outcome::absorbed(verdict);
    }
    pass.access_values(SHADOW, slot, |kept| kept.clone_from(&packet.values));
    keep(pass, slot, context.key(packet));
    complete(packet, held, place)
}

/// The packet goes round once more: the sum is the one that is kept now, and the slot is free.
fn keep<V: Payload>(pass: &mut Pass<'_, V>, slot: usize, key: Key) {
    pass.recirculate();
    pass.access(SHADOW_KEY, slot, |cell| *cell = key.cell());
    pass.access(KEY, slot, |cell| free(cell, key));
}

fn complete<V>(packet: &mut Packet<V>, held: Contributors, place: &Place) -> Outcome {
    if place.parent.is_some() {
        packet.contributors = held;
        return Outcome::up(Verdict::Forwarded);
    }
    packet.turn_down(held, held.count());
    Outcome::down(Verdict::Completed)
}

/// A fragment that is complete: its sender lacks the result. Below a server what is kept is a partial sum, and the server answers.
fn answer<V: Payload>(
    pass: &mut Pass<'_, V>,
    slot: usize,
    packet: &mut Packet<V>,
    place: &Place,
) -> Outcome {
    pass.access_values(SHADOW, slot, |kept| packet.values.clone_from(kept));
    if place.parent.is_some() {
        packet.contributors = place.members;
        return Outcome::up(Verdict::Reforwarded);
    }
    packet.turn_down(Contributors::one(packet.worker), place.members.count());
    Outcome::down(Verdict::Answered)
}

/// Back to its sender, marked: the asynchronous error of the paper.
fn refuse<V: Payload>(packet: &mut Packet<V>) -> Outcome {
    packet.turn_down(Contributors::one(packet.worker), 0);
    packet.values = V::default();
    packet.mark(Flags::REFUSED.with(Flags::ECN));
    Outcome::down(Verdict::Refused)
}

/// Slow start up to a threshold, halved upon a mark; slots by hash within the segment.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::with_threshold(sending.initial_window, sending.window),
        addressing: Addressing::hashed(sending),
        // "greater than what the worker expects" (§VI-B, Error Control): one is enough.
        reordering: 1,
        is_ordered: false,
        is_slot_bound: true,
    }
}
