//! One exponent for each fragment, agreed before its values flow.

use super::Rules;
use crate::format::MIN_EXPONENT;

pub(super) const RULES: Rules = Rules {
    name: "block",
    parameter: None,
    agrees: true,
    propose: |largest, _limit, _| exponent_of(largest).max(MIN_EXPONENT),
    unit: |exponent, _| power_of_two(exponent),
    scale: |exponent, _| power_of_two(-exponent),
};

const F64_BIAS: i32 = 1023;
const F64_FRACTION_BITS: u32 = 52;

/// ⌊log₂ x⌋ of a float64 ≥ 0 that is not subnormal: the smallest e with x < 2^(e+1). Far below every float32's for 0.
fn exponent_of(x: f64) -> i32 {
    (x.to_bits() >> F64_FRACTION_BITS) as i32 - F64_BIAS
}

/// 2^exponent, for exponents of normal float64s.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + F64_BIAS) as u64) << F64_FRACTION_BITS)
}
