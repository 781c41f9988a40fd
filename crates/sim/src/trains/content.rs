//! What packets carry: values that are checked, or nothing.

use wiresum_netem::Rng;
use wiresum_switch::{Payload, Values};
use wiresum_wire::Flags;

/// Lanes of a fragment, as far as memory is concerned, and of a checked one: enough to see whose values were summed.
pub(super) const LANES: u32 = 2;

/// A payload of which a simulation knows the sums.
pub(super) trait Content: Payload {
    /// Whether sums mean anything.
    const IS_CHECKED: bool;

    /// What a worker contributes to a stream of a job, both by number.
    fn of(stream: (usize, usize), worker: u8, position: u32) -> Self;

    /// Whether it is what all workers contribute, summed.
    fn is_sum(&self, stream: (usize, usize), workers: u8, position: u32) -> bool;
}

impl Content for () {
    const IS_CHECKED: bool = false;

    fn of(_: (usize, usize), _: u8, _: u32) -> Self {}

    fn is_sum(&self, _: (usize, usize), _: u8, _: u32) -> bool {
        true
    }
}

impl Content for Values {
    const IS_CHECKED: bool = true;

    fn of(stream: (usize, usize), worker: u8, position: u32) -> Self {
        let (job, stream) = stream;
        let seed = (job as u64) << 56 ^ (stream as u64) << 48 ^ u64::from(worker) << 40;
        let seed = seed ^ u64::from(position) << 4;
        (0..u64::from(LANES)).map(|lane| Rng::new(seed ^ lane).next() as i32).collect()
    }

    fn is_sum(&self, stream: (usize, usize), workers: u8, position: u32) -> bool {
        let mut sum = Self::new();
        for worker in 0..workers {
            sum.merge(&Self::of(stream, worker, position), Flags(0));
        }
        *self == sum
    }
}
