//! `register-counter` (InGo, Alg. 1, lines 10–25, as printed): a register is complete when the numbers of those who contributed add up to
//! those of all who should. **Not for use**: 1 + 2 = 3, so a worker that comes twice may stand for two others; nothing tells fragments
//! apart, and nothing tells a packet that was sent again. It is here so that this can be seen.

pub(super) use super::register::sender;
use super::slots::{chosen, collide};
use super::{Context, Program};
use crate::rmt::{ArrayDeclaration, ArrayId, BankDeclaration, BankId, Layout, Memory, Pass};
use crate::{Contributors, Outcome, Packet, Payload, Place, Verdict};

/// The paper's `w_cnt`.
const COUNT: ArrayId = ArrayId(0);
/// The paper's `reg_val`.
const VALUES: BankId = BankId(0);

pub(super) struct Counter;

/// The program.
pub(super) const PROGRAM: Counter = Counter;

impl<V: Payload> Program<V> for Counter {
    fn layout(&self, slots: u32, values: u32) -> Layout {
        let length = slots;
        Layout {
            program: "register-counter",
            values_per_packet: values,
            arrays: vec![ArrayDeclaration { name: "count", stage: 0, width_bits: 32, length }],
            banks: vec![BankDeclaration { name: "values", first_stage: 1, length }],
            recirculations: 0,
            is_multicast: false,
        }
    }

    fn forget(&self, memory: &mut Memory<V>, place: &Place, _number: u16) {
        let (first, end) = (place.base as usize, (place.base + place.slots) as usize);
        memory.cells_mut(COUNT)[first..end].fill(0);
    }

    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome {
        let Some(slot) = chosen(packet, context) else { return collide(packet) };
        let (number, most) = (numbers(packet.contributors), numbers(context.place.members));
        let count = pass.access(COUNT, slot, |count| {
            // A register whose count has passed the mark counts on, and wraps.
            *count = if *count == most { number } else { (*count + number) & u64::from(u32::MAX) };
            *count
        });
        let is_first = count == number;
        pass.access_values(VALUES, slot, |sum| {
            if is_first {
                sum.clone_from(&packet.values)
            } else {
                sum.merge(&packet.values, packet.flags)
            }
            packet.values.clone_from(sum);
        });
        if count != most {
            let verdict = if is_first { Verdict::First } else { Verdict::Added };
            return Outcome::absorbed(verdict);
        }
        packet.contributors = context.place.members;
        Outcome::up(Verdict::Forwarded)
    }
}

/// The sum of the workers' numbers, which are from 1: a worker 0 would leave no trace at all.
fn numbers(workers: Contributors) -> u64 {
    workers.iter().map(|index| u64::from(index) + 1).sum()
}
