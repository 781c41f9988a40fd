//! `hash` (ATP, NSDI 2021): the sender chooses a slot by hash; first come, first served. What finds its slot taken goes to the parameter
//! server; a slot is freed by the result on its way back. A packet that is sent again forces out what the slot has.

use super::slots::{self, KEY, add, chosen, collide, free, release, take};
use super::{Context, Program, Relation};
use crate::rmt::{ArrayId, Layout, Pass};
use crate::worker::{Addressing, Rules, Window};
use crate::{Outcome, Packet, Payload, Sending, Verdict};

pub(super) struct Hash;

/// The program.
pub(super) const PROGRAM: Hash = Hash;

impl<V: Payload> Program<V> for Hash {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        Layout {
            program: "hash",
            values_per_packet: values,
            arrays: slots::arrays(slots),
            banks: vec![slots::bank(slots)],
            recirculations: 0,
            is_multicast: true,
        }
    }

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        add_where_chosen(pass, packet, context)
    }

    fn result(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        free_by_result(pass, KEY, packet, context)
    }
}

/// The packet is added in the slot that its sender chose, or has the reason why not.
pub(super) fn add_where_chosen<V: Payload>(
    pass: &mut Pass<'_, V>,
    packet: &mut Packet<V>,
    context: &Context<'_>,
) -> Outcome {
    let (place, key) = (context.place, context.key(packet));
    let Some(slot) = chosen(packet, context) else { return collide(packet) };
    if packet.is_resent() {
        return release(pass, slot, packet, key);
    }
    match pass.access(KEY, slot, |cell| take(cell, key, place.window)) {
        Relation::Same => add(pass, slot, packet, context, false),
        Relation::Free | Relation::Finished => add(pass, slot, packet, context, true),
        Relation::Newer | Relation::Other => collide(packet),
    }
}

/// The result passes back, and frees the slot of its fragment.
pub(super) fn free_by_result<V: Payload>(
    pass: &mut Pass<'_, V>,
    keys: ArrayId,
    packet: &Packet<V>,
    context: &Context<'_>,
) -> Outcome {
    let key = context.key(packet);
    let freed =
        chosen(packet, context).is_some_and(|slot| pass.access(keys, slot, |cell| free(cell, key)));
    Outcome::down(if freed { Verdict::Freed } else { Verdict::Passed })
}

/// AIMD by the results and their marks; slots by hash, moved after a collision.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::additive(sending.initial_window, sending.window),
        addressing: Addressing::hashed(sending),
        reordering: super::REORDERING,
        is_ordered: false,
        is_slot_bound: false,
    }
}
