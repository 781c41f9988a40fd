//! ZEBRA, Algorithm 1, with what the paper leaves open or has wrong put right.
//!
//! ⌈n/P⌉ packets are opened. Each pair goes into the first one that has room and no pair of the same register; a pair that
//! finds none is left over. What is left over fills packets of its own, regardless of registers.
//!
//! Corrections: line 9 erases by an iterator, where a set difference is meant; a packet that has become full leaves the
//! candidates (the paper tests the copy that it made before); leftovers go to as many packets as they need, where the text
//! has one.
//!
//! The paper looks through all packets for each pair, which takes O(n · packets). The same packets come out of looking on
//! where the register's last search ended: all before are full, or hold a pair of that register. This takes O(n + m) steps
//! and the skips over full packets, which [`Open`] shortens.

use super::cut;
use crate::layout::{Layout, Packets};

/// Packs by first fit.
#[must_use]
pub(super) fn first_fit(pushed: &[u32], layout: &Layout, pairs: u32) -> Packets {
    let count = pushed.len().div_ceil(pairs as usize);
    let mut packets: Vec<Vec<u32>> = vec![Vec::with_capacity(pairs as usize); count];
    let mut open = Open((0..=count).collect());
    let mut from = vec![0; layout.registers() as usize];
    let mut left_over = Vec::new();
    for position in pushed {
        let begin = &mut from[layout.register(*position) as usize];
        let found = open.first_from(*begin);
        *begin = (found + 1).min(count);
        let Some(packet) = packets.get_mut(found) else {
            left_over.push(*position);
            continue;
        };
        packet.push(*position);
        if packet.len() == pairs as usize {
            open.close(found);
        }
    }
    packets.extend(cut(left_over, pairs).iter().map(<[u32]>::to_vec));
    packets.retain(|packet| !packet.is_empty());
    joined(&packets)
}

fn joined(packets: &[Vec<u32>]) -> Packets {
    let ends = packets.iter().scan(0, |end, packet| {
        *end += packet.len() as u32;
        Some(*end)
    });
    Packets::new(packets.concat(), ends.collect())
}

/// Packets that have room: each entry leads to itself where its packet is open, else further on. The last one, behind all
/// packets, stays open.
struct Open(Vec<usize>);

impl Open {
    fn first_from(&mut self, begin: usize) -> usize {
        let mut found = begin;
        while self.0[found] != found {
            found = self.0[found];
        }
        let mut passed = begin;
        while self.0[passed] != found {
            (self.0[passed], passed) = (found, self.0[passed]);
        }
        found
    }

    fn close(&mut self, packet: usize) {
        self.0[packet] = packet + 1;
    }
}
