//! `register` (InGo, Alg. 1): the packet names the switch and the register; a register is free again when its sum is complete.
//!
//! The paper tells completion by the sum of worker numbers, which is not unique ([`super::counter`] shows what comes of it) and does not
//! tell fragments apart. Here a key and a bitmap do. The paper's one counter says "complete" and "take over" at once; with key and
//! bitmap in two arrays the packet that completes a sum goes through the pipeline once more, to free the register.

use super::slots::{self, KEY, add, chosen, collide, free, release, take};
use super::{Context, Program, Relation};
use crate::rmt::{Layout, Memory, Pass};
use crate::worker::{Addressing, Rules, Window};
use crate::{Outcome, Packet, Payload, Place, Sending, Verdict};

/// See the module.
pub(super) struct Register;

impl<V: Payload> Program<V> for Register {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        Layout {
            program: "register",
            values_per_packet: values,
            arrays: slots::arrays(slots),
            banks: vec![slots::bank(slots)],
            recirculations: 1,
            is_multicast: false,
        }
    }

    fn forget(&self, memory: &mut Memory<V>, _place: &Place, number: u16) {
        super::forget_keys(memory, KEY, number);
    }

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let (place, key) = (context.place, context.key(packet));
        let Some(slot) = chosen(packet, context) else { return collide(packet) };
        if packet.is_resent() {
            return release(pass, slot, packet, key);
        }
        let outcome = match pass.access(KEY, slot, |cell| take(cell, key, place.window)) {
            Relation::Same => add(pass, slot, packet, context, false),
            Relation::Free | Relation::Finished => add(pass, slot, packet, context, true),
            Relation::Newer | Relation::Other => return collide(packet),
        };
        if outcome.verdict == Verdict::Forwarded {
            pass.recirculate();
            pass.access(KEY, slot, |cell| free(cell, key));
        }
        outcome
    }
}

/// A window of fixed size, registers in turn.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::fixed(sending.window),
        addressing: Addressing::cyclic(sending),
        reordering: super::REORDERING,
        is_slot_bound: false,
    }
}
