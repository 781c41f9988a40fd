//! The network between two hosts: a queue that drains at a rate, then delay and misfortune.

use wiresum_netem::Rng;

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Chance that a datagram vanishes.
    pub loss: f64,
    /// Chance that it comes twice, the second time up to `late_ns` later.
    pub duplication: f64,
    /// By how much a second copy is late, at most.
    pub late_ns: u64,
    /// Chance that it takes up to `jitter_ns` longer than those after it.
    pub reordering: f64,
    /// By how much a datagram is late, at most.
    pub jitter_ns: u64,
    /// Chance that a bit flips, or the end is cut off.
    pub corruption: f64,
    /// From leaving the queue to arriving.
    pub delay_ns: u64,
    /// Of each direction of each link; 0 is without limit.
    pub bits_per_second: u64,
    /// Bytes that wait at most before a rate-limited link drops.
    pub queue_bytes: u64,
}

/// Ethernet with its preamble and gap, IPv4 and UDP: what a datagram takes on a wire beyond itself.
pub const OVERHEAD_BYTES: u64 = 38 + 20 + 8;

impl Conditions {
    /// A network that does no harm.
    pub const PERFECT: Self = Self {
        loss: 0.0,
        duplication: 0.0,
        late_ns: 0,
        reordering: 0.0,
        jitter_ns: 0,
        corruption: 0.0,
        delay_ns: 50_000,
        bits_per_second: 0,
        queue_bytes: u64::MAX,
    };

    /// A network that only loses.
    pub fn lossy(loss: f64) -> Self {
        Self { loss, ..Self::PERFECT }
    }
}

/// One direction between two hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// When the last byte of the queue will have left.
    free_at_ns: u64,
}

impl Link {
    /// When which bytes arrive: none, one or two copies.
    pub fn carry(
        &mut self,
        conditions: &Conditions,
        now_ns: u64,
        bytes: &[u8],
        rng: &mut Rng,
    ) -> Vec<(u64, Vec<u8>)> {
        let Some(left_at) = self.leave(conditions, now_ns, bytes.len() as u64) else {
            return Vec::new();
        };
        if rng.chance(conditions.loss) {
            return Vec::new();
        }
        let mut at = left_at + conditions.delay_ns;
        if rng.chance(conditions.reordering) {
            at += rng.below(conditions.jitter_ns.max(1));
        }
        let mut arrivals = vec![(at, self.damaged(conditions, bytes, rng))];
        if rng.chance(conditions.duplication) {
            arrivals.push((at + rng.below(conditions.late_ns.max(1)), bytes.to_vec()));
        }
        arrivals
    }

    /// When the datagram has left the queue; `None` if the queue is full.
    fn leave(&mut self, conditions: &Conditions, now_ns: u64, len: u64) -> Option<u64> {
        if conditions.bits_per_second == 0 {
            return Some(now_ns);
        }
        let ns_per_byte = |bytes: u64| bytes * 8 * 1_000_000_000 / conditions.bits_per_second;
        let start = self.free_at_ns.max(now_ns);
        let waiting_ns = start - now_ns;
        let is_full =
            waiting_ns / 8 * conditions.bits_per_second / 1_000_000_000 > conditions.queue_bytes;
        if is_full {
            return None;
        }
        self.free_at_ns = start + ns_per_byte(len + OVERHEAD_BYTES);
        Some(self.free_at_ns)
    }

    fn damaged(&self, conditions: &Conditions, bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if bytes.is_empty() || !rng.chance(conditions.corruption) {
            return bytes;
        }
        if rng.below(4) == 0 {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        } else {
            let bit = rng.below(8 * bytes.len() as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes
    }
}
