//! `register` (InGo, Alg. 1): the packet names the switch and the register; a register is free again when its sum is complete.
//!
//! The paper tells completion by the sum of worker numbers, which is not unique ([`super::counter`] shows what comes of it) and does not
//! tell fragments apart. Here a key and a bitmap do. The paper's one counter says "complete" and "take over" at once; with key and
//! bitmap in two arrays the packet that completes a sum goes through the pipeline once more, to free the register.

use super::hash::add_where_chosen;
use super::slots::{self, KEY, chosen, free};
use super::{Context, Program};
use crate::rmt::{Layout, Pass};
use crate::worker::{Addressing, Rules, Window};
use crate::{Outcome, Packet, Payload, Sending, Verdict};

pub(super) struct Register;

/// The program.
pub(super) const PROGRAM: Register = Register;

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

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let key = context.key(packet);
        let slot = chosen(packet, context);
        let outcome = add_where_chosen(pass, packet, context);
        if let (Verdict::Forwarded, Some(slot)) = (outcome.verdict, slot) {
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
        is_ordered: true,
        is_slot_bound: false,
    }
}
