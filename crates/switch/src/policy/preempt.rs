//! `preempt` (ESA, arXiv 2201.06398): as `hash`, but the more urgent fragment has the slot. The partial sum that it finds there leaves in
//! its stead; whoever does not get a slot halves the urgency of the one who has it, so that no one keeps one for ever.
//!
//! The paper's abstract states preemption by priority; eviction in the arriving packet and the ageing by halves are this project's
//! reading, as no text or code of it was at hand.

use wiresum_wire::{Flags, Round};

use super::hash::free_by_result;
use super::slots::{self, CONGESTION, CONTRIBUTORS, KEY, VALUES, chosen, collide, release};
use super::{Context, Key, Program, Relation};
use crate::rmt::{ArrayDeclaration, ArrayId, Layout, Pass};
use crate::worker::{Addressing, Rules, Window};
use crate::{ANY_NODE, Contributors, Outcome, Packet, Payload, Sending, Verdict};

/// Round and exponent of the fragment, which an evicted partial sum takes along.
const SCALE: ArrayId = ArrayId(3);
/// Where a key's cell holds the urgency.
const PRIORITY_SHIFT: u32 = 48;

pub(super) struct Preempt;

/// The program.
pub(super) const PROGRAM: Preempt = Preempt;

/// What became of a slot.
enum Claim {
    /// It holds this fragment.
    Same,
    /// It was free for it.
    Taken,
    /// It was someone's, with this urgency.
    Evicted(Key, u8),
    /// It stays someone's.
    Refused,
}

impl<V: Payload> Program<V> for Preempt {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        let mut arrays = slots::arrays(slots);
        let (name, stage, width_bits) = ("round, exponent", 2, 40);
        arrays.push(ArrayDeclaration { name, stage, width_bits, length: slots });
        Layout {
            program: "preempt",
            values_per_packet: values,
            arrays,
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
        let (window, key) = (context.place.window, context.key(packet));
        let Some(slot) = chosen(packet, context) else { return collide(packet) };
        if packet.is_resent() {
            return release(pass, slot, packet, key);
        }
        match pass.access(KEY, slot, |cell| claim(cell, key, packet.priority, window)) {
            Claim::Same => slots::add(pass, slot, packet, context, false),
            Claim::Taken => {
                let outcome = slots::add(pass, slot, packet, context, true);
                pass.access(SCALE, slot, |cell| *cell = scale(packet));
                outcome
            }
            Claim::Evicted(evicted, priority) => {
                swap(pass, slot, packet);
                readdress(packet, evicted, priority, context);
                Outcome::up(Verdict::Evicted)
            }
            Claim::Refused => collide(packet),
        }
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

fn claim(cell: &mut u64, key: Key, priority: u8, window: u32) -> Claim {
    let (held, urgency) = (Key::of(*cell), (*cell >> PRIORITY_SHIFT) as u8);
    let taken = key.cell() | u64::from(priority) << PRIORITY_SHIFT;
    match held.relation(key, window) {
        Relation::Same => return Claim::Same,
        Relation::Free | Relation::Finished => {
            *cell = taken;
            return Claim::Taken;
        }
        Relation::Newer | Relation::Other => {}
    }
    if priority > urgency {
        *cell = taken;
        return Claim::Evicted(held, urgency);
    }
    *cell = held.cell() | u64::from(urgency / 2) << PRIORITY_SHIFT;
    Claim::Refused
}

fn scale<V>(packet: &Packet<V>) -> u64 {
    u64::from(packet.round.0) << 8 | u64::from(packet.exponent as u8)
}

/// The packet takes the place of what the slot holds, and the other way round.
fn swap<V: Payload>(pass: &mut Pass<'_, V>, slot: usize, packet: &mut Packet<V>) {
    let exchange = |cell: &mut u64, with: u64| std::mem::replace(cell, with);
    let arriving = packet.contributors.0;
    let is_marked = u64::from(packet.flags.contains(Flags::ECN));
    let held = pass.access(CONTRIBUTORS, slot, |cell| exchange(cell, arriving));
    let was_marked = pass.access(CONGESTION, slot, |cell| exchange(cell, is_marked));
    let held_scale = pass.access(SCALE, slot, |cell| exchange(cell, scale(packet)));
    pass.access_values(VALUES, slot, |sum| std::mem::swap(sum, &mut packet.values));
    packet.contributors = Contributors(held);
    (packet.round, packet.exponent) = (Round((held_scale >> 8) as u32), held_scale as u8 as i8);
    packet.flags = packet.flags.only(Flags::LITTLE_ENDIAN);
    if was_marked == 1 {
        packet.mark(Flags::ECN);
    }
}

/// The packet is the evicted fragment's from now on.
fn readdress<V>(packet: &mut Packet<V>, evicted: Key, priority: u8, context: &Context<'_>) {
    let owner = context.places[usize::from(evicted.number()) - 1];
    let owner = owner.expect("a job that leaves frees its slots");
    packet.job = owner.job;
    packet.sub_model = owner.sub_model;
    packet.mark(owner.lanes);
    packet.fragment = evicted.fragment();
    packet.priority = priority;
    packet.worker = owner.cohort.worker(packet.contributors.0.trailing_zeros() as u8);
    packet.expected = 0;
    if packet.node != ANY_NODE {
        packet.node = owner.parent.unwrap_or(packet.node);
    }
}

/// Urgency of a job's stream in 8 bits. The upper four are the logarithm of (communication / computation) / remaining, jobs that wait
/// for the network and are nearly done first; the lower four put front layers first, as they are needed first.
///
/// `communication_share` is communication time over computation time of a round, `remaining` the rounds still to come (at least 1),
/// `layer` the place of the stream in the model, from the front.
#[must_use]
pub fn priority(communication_share: f64, remaining: f64, layer: u16) -> u8 {
    /// The logarithm that is level 0.
    const LOWEST_LOG2: f64 = -12.0;
    let level = (communication_share / remaining.max(1.0)).log2() - LOWEST_LOG2;
    let level = level.clamp(0.0, 15.0) as u8;
    level << 4 | (15 - layer.min(15) as u8)
}

/// As under `hash`, with the job's urgency in each packet.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::additive(sending.initial_window, sending.window),
        addressing: Addressing::hashed(sending),
        reordering: super::REORDERING,
        is_ordered: false,
        is_slot_bound: false,
    }
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn jobs_that_wait_for_the_network_and_are_nearly_done_come_first() {
        assert!(priority(2.0, 10.0, 3) > priority(0.5, 10.0, 3));
        assert!(priority(1.0, 4.0, 3) > priority(1.0, 64.0, 3));
    }

    #[test]
    fn front_layers_break_ties_and_nothing_else() {
        assert!(priority(1.0, 10.0, 0) > priority(1.0, 10.0, 1));
        assert!(priority(2.0, 10.0, 15) > priority(1.0, 10.0, 0));
    }

    #[test]
    fn extremes_stay_within_eight_bits() {
        assert_eq!(priority(0.0, 1.0, u16::MAX), 0);
        assert_eq!(priority(f64::INFINITY, 0.0, 0), 255);
    }
}
