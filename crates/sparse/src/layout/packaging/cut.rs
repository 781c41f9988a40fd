//! Packets in the given order, cut where one is full.

use crate::layout::Packets;

/// Cuts the positions into packets of `pairs`, the last one shorter.
#[must_use]
pub(super) fn cut(pushed: Vec<u32>, pairs: u32) -> Packets {
    let count = pushed.len() as u32;
    let ends = (1..=count.div_ceil(pairs)).map(|packet| count.min(packet * pairs)).collect();
    Packets::new(pushed, ends)
}
