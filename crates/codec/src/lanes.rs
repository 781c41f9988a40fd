//! What aggregators do with lanes, at the speed of the processor's widest vectors. Integers only: no format is needed.

use wiresum_wire::LaneType;

use crate::instructions::Instructions;

/// Calls a kernel with the lane type as a type.
macro_rules! by_lanes {
    ($lanes:expr, $kernel:ident, $($argument:expr),+) => {
        match $lanes {
            $crate::LaneType::I32Le => $crate::instructions::$kernel::<$crate::lane::I32Le>($($argument),+),
            $crate::LaneType::I32Be => $crate::instructions::$kernel::<$crate::lane::I32Be>($($argument),+),
            $crate::LaneType::I16Le => $crate::instructions::$kernel::<$crate::lane::I16Le>($($argument),+),
            $crate::LaneType::I16Be => $crate::instructions::$kernel::<$crate::lane::I16Be>($($argument),+),
        }
    };
}
pub(crate) use by_lanes;

/// Adds the lanes of `payload` to those of `totals`, modulo 2^(bits of a lane). The slices are equally long.
pub fn add_lanes(lanes: LaneType, totals: &mut [u8], payload: &[u8]) {
    add_with(Instructions::best(), lanes, totals, payload);
}

/// Keeps the larger of each lane of `totals` and `payload`. The slices are equally long.
pub fn maximize_lanes(lanes: LaneType, totals: &mut [u8], payload: &[u8]) {
    maximize_with(Instructions::best(), lanes, totals, payload);
}

/// [`LaneType::sum`], the same number sooner.
#[must_use]
pub fn sum_lanes(lanes: LaneType, payload: &[u8]) -> u32 {
    sum_with(Instructions::best(), lanes, payload)
}

pub(crate) fn add_with(set: Instructions, lanes: LaneType, totals: &mut [u8], payload: &[u8]) {
    by_lanes!(lanes, add, set, totals, payload);
}

pub(crate) fn maximize_with(set: Instructions, lanes: LaneType, totals: &mut [u8], payload: &[u8]) {
    by_lanes!(lanes, maximum, set, totals, payload);
}

pub(crate) fn sum_with(set: Instructions, lanes: LaneType, payload: &[u8]) -> u32 {
    // Modulo the lane's own width; sign extension does not reach the bits that are kept.
    lanes.add_sums(by_lanes!(lanes, sum, set, payload), 0)
}
