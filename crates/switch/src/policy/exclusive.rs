//! `exclusive` (GOAT, §III-B): a switch sums only fragments that are addressed to it, each in a slot of its own, planned to fit.
//!
//! The paper hashes ⟨node, sub-model, fragment⟩ modulo memory, which collides even where everything would fit. Memory is planned, so
//! the slot is an offset: position modulo window, from the stream's base. Bitmap, position and the answer to packets that are sent
//! again are added here, as the paper has no recovery.

use super::merge::{Merge, enter};
use super::slots::{CONTRIBUTORS, KEY, VALUES, collide, merge_values, take};
use super::{Context, Program, Relation};
use crate::rmt::{ArrayDeclaration, BankDeclaration, Layout, Pass};
use crate::worker::{Addressing, Rules, Window};
use crate::{Outcome, Packet, Payload, Sending, Verdict};

pub(super) struct Exclusive;

/// The program.
pub(super) const PROGRAM: Exclusive = Exclusive;

impl<V: Payload> Program<V> for Exclusive {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        let array =
            |name, stage, width_bits| ArrayDeclaration { name, stage, width_bits, length: slots };
        Layout {
            program: "exclusive",
            values_per_packet: values,
            arrays: vec![array("key", 0, 64), array("contributors", 1, 64)],
            banks: vec![BankDeclaration { name: "values", first_stage: 2, length: slots }],
            recirculations: 0,
            is_multicast: false,
        }
    }

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let (place, key) = (context.place, context.key(packet));
        let offset = packet.fragment.0 % place.window;
        if offset >= place.slots {
            return collide(packet);
        }
        let slot = (place.base + offset) as usize;
        match pass.access(KEY, slot, |cell| take(cell, key, place.window)) {
            Relation::Same => add(pass, slot, packet, context, false),
            Relation::Free | Relation::Finished => add(pass, slot, packet, context, true),
            Relation::Newer => Outcome::up(Verdict::Bypassed),
            Relation::Other => collide(packet),
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
    let arriving = packet.contributors;
    let (merge, held) = pass.access(CONTRIBUTORS, slot, |cell| enter(cell, arriving, is_first));
    let is_complete = held == context.place.members;
    let is_wanted = is_complete && packet.is_resent();
    match merge {
        Merge::Overlap => return Outcome::up(Verdict::Overlap),
        Merge::Duplicate if !is_wanted => return Outcome::absorbed(Verdict::Duplicate),
        _ => {}
    }
    pass.access_values(VALUES, slot, |sum| merge_values(sum, packet, merge, is_complete));
    if !is_complete {
        let verdict = if is_first { Verdict::First } else { Verdict::Added };
        return Outcome::absorbed(verdict);
    }
    packet.contributors = held;
    Outcome::up(if merge.is_new() { Verdict::Forwarded } else { Verdict::Reforwarded })
}

/// A window of fixed size: what the plan gives memory for.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::fixed(sending.window),
        addressing: Addressing::Implied,
        reordering: super::REORDERING,
        is_ordered: true,
        is_slot_bound: false,
    }
}
