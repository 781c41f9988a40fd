//! The three loops. Each is compiled once per instruction set by [`crate::instructions`], hence the forced inlining.
//!
//! They compute in float64, where a float32 times a power of two, and an int32 times one, are exact: the only roundings are
//! those that the format is about.

use crate::Element;
use crate::lane::Lane;

/// 1.5 · 2^52: the last place of a float64 of this size is 1, so adding it rounds to an integer, ties to even, and leaves
/// that integer in the low bits, on any instruction set, for magnitudes below 2^31.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The largest magnitude.
#[inline(always)]
pub(crate) fn magnitude<T: Element>(values: &[T]) -> T::Magnitude {
    values.iter().fold(T::Magnitude::default(), |largest, value| largest.max(value.magnitude()))
}

/// Writes `round(value · scale)`, kept within ±`limit` (an integer below 2^31), to the lanes, zeros to those beyond the
/// values; returns the sum of the lanes modulo 2^32.
#[inline(always)]
pub(crate) fn encode<T: Element, L: Lane>(
    values: &[T],
    scale: f64,
    limit: f64,
    payload: &mut [u8],
) -> u32 {
    let (lanes, padding) = L::split_mut(payload).split_at_mut(values.len());
    padding.fill(L::store(0));
    let mut sum = 0u32;
    for (value, lane) in values.iter().zip(lanes) {
        let number = integer(value.widen() * scale, limit);
        sum = sum.wrapping_add(number as u32);
        *lane = L::store(number);
    }
    sum
}

/// `round(number)`, kept within ±`limit`; `limit` for NaN.
#[inline(always)]
pub(crate) fn integer(number: f64, limit: f64) -> i32 {
    // Not `clamp`: these are the comparisons that one vector instruction makes, NaN included.
    let number = if number < limit { number } else { limit };
    let number = if number > -limit { number } else { -limit };
    (number + ROUNDER).to_bits() as i32
}

/// Writes `lane · unit` to the values.
#[inline(always)]
pub(crate) fn decode<T: Element, L: Lane>(payload: &[u8], unit: f64, values: &mut [T]) {
    for (value, lane) in values.iter_mut().zip(L::split(payload)) {
        *value = T::narrow(f64::from(L::load(*lane)) * unit);
    }
}

/// Adds lanes to lanes, modulo 2^(bits of a lane).
#[inline(always)]
pub(crate) fn add<L: Lane>(totals: &mut [u8], payload: &[u8]) {
    for (total, lane) in L::split_mut(totals).iter_mut().zip(L::split(payload)) {
        *total = L::store(L::load(*total).wrapping_add(L::load(*lane)));
    }
}

/// Keeps the larger of each two lanes.
#[inline(always)]
pub(crate) fn maximum<L: Lane>(totals: &mut [u8], payload: &[u8]) {
    for (total, lane) in L::split_mut(totals).iter_mut().zip(L::split(payload)) {
        *total = L::store(L::load(*total).max(L::load(*lane)));
    }
}

/// The sum of lanes, modulo 2^32.
#[inline(always)]
pub(crate) fn sum<L: Lane>(payload: &[u8]) -> u32 {
    L::split(payload).iter().fold(0, |sum, lane| sum.wrapping_add(L::load(*lane) as u32))
}
