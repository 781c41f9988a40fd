//! What may wait at a worker's own link.

use std::ops::RangeInclusive;

/// Bounds of what may wait, in bytes: two full batches, and what a send buffer has.
const LENS: RangeInclusive<usize> = 128 << 10..=2 << 20;
/// How long it may take to leave: longer than a driver takes to say that a packet has left.
const QUEUED_S: f64 = 2e-3;

/// Bytes of a worker's packets that may wait at its own link, which takes so many a second. What it has to send next, of
/// another collective say, waits behind no more than these, and streams share the link packet by packet.
#[must_use]
pub fn link_queue_len(bytes_per_s: f64) -> usize {
    ((bytes_per_s * QUEUED_S) as usize).clamp(*LENS.start(), *LENS.end())
}
