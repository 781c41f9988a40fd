//! Sorted by register, dealt to packets in turn: no recirculation, in the fewest packets that have none.
//!
//! Let n be the pairs, P the most of them in a packet, c the most of them in one register, and B = max(⌈n/P⌉, c). The k-th
//! pair in order of registers goes to packet k mod B.
//!
//! * No packet has two pairs of a register: a register's pairs are at most B, and consecutive.
//! * No packet has more than ⌈n/B⌉ ≤ P pairs.
//! * Fewer packets will not do: they could not hold n pairs, or one of them would have two of the fullest register.
//!
//! A counting sort makes it O(n + m) for m registers.

use crate::layout::{Layout, Packets};

/// Packs by dealing.
#[must_use]
pub(super) fn deal(pushed: &[u32], layout: &Layout, pairs: u32) -> Packets {
    let mut next = vec![0u32; layout.registers() as usize];
    pushed.iter().for_each(|position| next[layout.register(*position) as usize] += 1);
    let fullest = next.iter().copied().max().unwrap_or_default();
    let count = pushed.len() as u32;
    let packets = count.div_ceil(pairs).max(fullest);
    if packets == 0 {
        return Packets::default();
    }
    sums_before(&mut next);
    let hands = Hands { least: count / packets, longer: count % packets };
    let mut positions = vec![0; pushed.len()];
    for position in pushed {
        let turn = &mut next[layout.register(*position) as usize];
        let (round, packet) = (*turn / packets, *turn % packets);
        positions[(hands.begin(packet) + round) as usize] = *position;
        *turn += 1;
    }
    Packets::new(positions, (1..=packets).map(|packet| hands.begin(packet)).collect())
}

/// Turns counts into the sum of all before each.
fn sums_before(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        (sum, *count) = (sum + *count, sum);
    }
}

/// How many pairs packets get: the first `longer` ones have one more than `least`.
struct Hands {
    least: u32,
    longer: u32,
}

impl Hands {
    fn begin(&self, packet: u32) -> u32 {
        packet * self.least + packet.min(self.longer)
    }
}
