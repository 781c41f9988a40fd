//! Exact sums, the same bits in whatever order: float32 gradients as 64-bit fixed point.
//!
//! > unit = 2⁻⁴⁵, lane = trunc(x / unit), |x| < 2¹²
//!
//! * **No sum overflows.** |lane| < 2⁵⁷, so the sum of [`MAX_CONTRIBUTORS`] = 2⁶ lanes is within ±2⁶³.
//! * **Order does not matter**, as integers are added. Everything that sums, in user space, in the kernel or on the way,
//!   makes the same lanes: a left shift by 33 and a right shift by a number from the exponent, then the sign.
//! * **Error.** A lane is exact if |x| ≥ 2⁻²² or x = 0; else it is nearer to zero by less than a unit. The sum is rounded
//!   to float32 once, to nearest, ties to even, when it is read.
//!
//! float16 and bfloat16 gradients are widened first, which is exact.

mod index;
mod rows;
mod values;

pub use index::{Index, MAX_BATCH};
pub use rows::{RowSums, SumError};
pub use values::RowValues;

use wiresum_codec::{bf16, f16};

/// Most workers whose gradients meet in one sum: the bits of a bitmap, and what keeps sums from overflowing.
pub const MAX_CONTRIBUTORS: u32 = 64;

/// Lanes are multiples of 2 to the power of minus this.
pub const UNIT_LOG2: i32 = -45;

/// Gradients are below 2 to the power of this.
pub const RANGE_LOG2: i32 = 12;

const EXPONENT_BIAS: u32 = 127;
const FRACTION_BITS: u32 = 23;
/// Exponent field of the range's end; Inf and NaN are above.
const RANGE_END: u32 = EXPONENT_BIAS + RANGE_LOG2 as u32;
/// Shift that makes units of a significand whose exponent is the largest in range.
const WIDEN: u32 = (RANGE_LOG2 - 1 - FRACTION_BITS as i32 - UNIT_LOG2) as u32;
const UNIT: f32 = 1.0 / (1u64 << -UNIT_LOG2) as f32;

/// An element of a gradient.
pub trait GradientElement: Copy {
    /// The same number.
    fn float(self) -> f32;
}

impl GradientElement for f32 {
    fn float(self) -> f32 {
        self
    }
}

impl GradientElement for f16 {
    fn float(self) -> f32 {
        self.to_f32()
    }
}

impl GradientElement for bf16 {
    fn float(self) -> f32 {
        self.to_f32()
    }
}

/// Whether a gradient can be summed: neither Inf nor NaN, and within ±2¹².
#[must_use]
#[inline]
pub fn is_summable(value: f32) -> bool {
    exponent(value) < RANGE_END
}

/// The lane of a gradient, which is summable.
#[must_use]
#[inline]
pub fn lane(value: f32) -> i64 {
    let exponent = exponent(value);
    let implicit = u32::from(exponent > 0) << FRACTION_BITS;
    let significand = value.to_bits() & ((1 << FRACTION_BITS) - 1) | implicit;
    let narrow = (RANGE_END - 1).wrapping_sub(exponent.max(1)).min(63);
    let units = ((u64::from(significand) << WIDEN) >> narrow) as i64;
    let sign = i64::from(value.to_bits() as i32 >> 31);
    (units ^ sign) - sign
}

/// The float32 nearest to a sum of lanes.
#[must_use]
#[inline]
pub fn float(sum: i64) -> f32 {
    // The conversion rounds once; a power of two this near to 1 scales exactly.
    sum as f32 * UNIT
}

/// Lanes that have this float32 as the nearest one, if it is the one nearest to a sum of lanes.
#[must_use]
#[inline]
pub fn lane_of_sum(sum: f32) -> i64 {
    // A power of two scales exactly; the conversion saturates at the one float32 that is a lane too large.
    (f64::from(sum) / f64::from(UNIT)) as i64
}

#[inline]
fn exponent(value: f32) -> u32 {
    value.to_bits() >> FRACTION_BITS & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summable() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<u32>().prop_map(f32::from_bits).prop_filter("summable", |x| is_summable(*x)),
            -4.0f32..4.0,
        ]
    }

    #[test]
    fn the_edges_of_the_range() {
        let largest = 4096f32.next_down();
        assert_eq!(lane(largest), ((1 << 24) - 1) << 33);
        assert_eq!(lane(-largest), -(((1 << 24) - 1) << 33));
        assert_eq!((lane(UNIT), lane(-UNIT), lane(UNIT.next_down())), (1, -1, 0));
        assert_eq!((lane(0.0), lane(-0.0), lane(f32::from_bits(1))), (0, 0, 0));
        assert!([4096.0, -4096.0, f32::INFINITY, f32::NAN].iter().all(|x| !is_summable(*x)));
        assert!(lane(largest).checked_mul(i64::from(MAX_CONTRIBUTORS)).is_some());
    }

    #[test]
    fn halves_are_widened() {
        assert_eq!(lane(f16::from_f32(-1.5).float()), lane(-1.5));
        assert_eq!(lane(bf16::from_f32(0.375).float()), lane(0.375));
        assert!(!is_summable(f16::from_f32(5000.0).float()));
    }

    proptest! {
        #[test]
        fn a_lane_is_truncated_and_exact_from_2_to_the_minus_22_on(value in summable()) {
            let units = f64::from(value) * 2f64.powi(-UNIT_LOG2);
            prop_assert_eq!(lane(value) as f64, units.trunc());
            prop_assert!(value.abs() < 2f32.powi(-22) || lane(value) as f64 == units);
            prop_assert!(value.abs() < 2f32.powi(-22) || float(lane(value)).to_bits() == value.to_bits());
        }

        #[test]
        fn a_sum_is_rounded_once(lanes in prop::collection::vec(summable(), 1..64)) {
            let sum: i64 = lanes.iter().map(|x| lane(*x)).sum();
            let exact: i128 = lanes.iter().map(|x| i128::from(lane(*x))).sum();
            prop_assert_eq!(i128::from(sum), exact);
            let error = |x: f32| (f64::from(x) * 2f64.powi(45) - sum as f64).abs();
            let rounded = float(sum);
            prop_assert!(error(rounded) <= error(rounded.next_up()).min(error(rounded.next_down())) + 2048.0);
        }

        #[test]
        fn a_rounded_sum_is_rounded_no_more(sum in any::<i64>()) {
            for sum in [sum, sum >> 30, i64::MAX, i64::MIN] {
                let rounded = float(sum);
                prop_assert_eq!(float(lane_of_sum(rounded)).to_bits(), rounded.to_bits());
            }
        }
    }
}
