//! The program of `pool` and `cache`: two entries for each slot, no server, results kept until a position two slot counts on comes.
//!
//! Slots are those of [`wiresum_protocol::policy`], and the rows those of `spec/aggregation.md`; what differs between the two
//! policies is how many slots there are, and what clocks the sender.

use wiresum_protocol::plan;
use wiresum_protocol::policy::{self as slots, SlotPolicy};

use super::merge::{Merge, enter};
use super::slots::{CONTRIBUTORS, KEY, VALUES, merge_values, take};
use super::{Context, Key, Program, Relation};
use crate::rmt::{ArrayDeclaration, ArrayId, BankDeclaration, Layout, Pass};
use crate::{Contributors, Outcome, Packet, Payload, Place, Verdict};

/// 1 once the result is in the place of the sum.
const IS_FINAL: ArrayId = ArrayId(2);

pub(super) struct Versions {
    pub name: &'static str,
    pub policy: plan::Policy,
}

impl Versions {
    fn slot_policy(&self) -> &'static dyn SlotPolicy {
        slots::of(self.policy)
    }
}

impl<V: Payload> Program<V> for Versions {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        let length = 2 * slots;
        let array = |name, stage, width_bits| ArrayDeclaration { name, stage, width_bits, length };
        Layout {
            program: self.name,
            values_per_packet: values,
            arrays: vec![array("key", 0, 64), array("contributors", 1, 64), array("final", 2, 1)],
            banks: vec![BankDeclaration { name: "values", first_stage: 3, length }],
            recirculations: 0,
            is_multicast: true,
        }
    }

    fn unsuited(&self, place: &Place) -> Option<&'static str> {
        if !place.slots.is_power_of_two() {
            Some("the slots have to be a power of two")
        } else if place.window > place.slots {
            Some("the window may not exceed the slots: lower it, or plan more slots")
        } else {
            None
        }
    }

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let place = context.place;
        let entry = self.entry(packet, place);
        let key = context.key(packet);
        // Positions of one entry are a multiple of 2 × slots apart.
        let relation = pass.access(KEY, entry, |cell| take(cell, key, 2 * place.slots));
        if matches!(relation, Relation::Newer | Relation::Other) {
            return Outcome::absorbed(Verdict::Stale);
        }
        let is_first = relation != Relation::Same;
        let arriving = packet.contributors;
        let (merge, held) =
            pass.access(CONTRIBUTORS, entry, |cell| enter(cell, arriving, is_first));
        let is_complete = held == place.members;
        let is_final =
            pass.access(IS_FINAL, entry, |cell| keep_final(cell, merge, is_complete, place));
        if !is_complete && !merge.is_new() {
            return Outcome::absorbed(rejected(merge));
        }
        pass.access_values(VALUES, entry, |sum| merge_values(sum, packet, merge, is_complete));
        match (is_complete, is_final) {
            (false, _) => Outcome::absorbed(if is_first { Verdict::First } else { Verdict::Added }),
            (true, true) => down(packet, merge, held),
            (true, false) => up(packet, merge, held),
        }
    }

    fn result(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let entry = self.entry(packet, context.place);
        let is_ours = pass.access(KEY, entry, |cell| Key::of(*cell) == context.key(packet));
        let is_complete =
            is_ours && pass.access(CONTRIBUTORS, entry, |cell| *cell == context.place.members.0);
        if !is_complete || pass.access(IS_FINAL, entry, |cell| std::mem::replace(cell, 1)) == 1 {
            return Outcome::down(Verdict::Passed);
        }
        pass.access_values(VALUES, entry, |sum| sum.clone_from(&packet.values));
        Outcome::down(Verdict::Stored)
    }
}

impl Versions {
    fn entry<V>(&self, packet: &Packet<V>, place: &Place) -> usize {
        2 * place.base as usize + self.slot_policy().entry(packet.fragment, place.slots)
    }
}

/// Whether the entry holds the result, after this packet.
fn keep_final(cell: &mut u64, merge: Merge, is_complete: bool, place: &Place) -> bool {
    if merge.is_new() {
        *cell = u64::from(is_complete && place.parent.is_none());
    }
    *cell == 1
}

fn rejected(merge: Merge) -> Verdict {
    if merge == Merge::Overlap { Verdict::Overlap } else { Verdict::Duplicate }
}

fn down<V>(packet: &mut Packet<V>, merge: Merge, held: Contributors) -> Outcome {
    if merge.is_new() {
        packet.turn_down(held, held.count());
        Outcome::down(Verdict::Completed)
    } else {
        packet.turn_down(Contributors::one(packet.worker), held.count());
        Outcome::down(Verdict::Answered)
    }
}

fn up<V>(packet: &mut Packet<V>, merge: Merge, held: Contributors) -> Outcome {
    packet.contributors = held;
    Outcome::up(if merge.is_new() { Verdict::Forwarded } else { Verdict::Reforwarded })
}
