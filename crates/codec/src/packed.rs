//! Several numbers in a lane, so that a network that adds lanes adds them all.
//!
//! A lane of w bytes holds w numbers of 8 bits, as many digits to the base 256: Σ vᵢ 256ⁱ, a plain integer. The first
//! in memory is the lowest digit of a little-endian lane, and the highest of one in network order. The sum of such
//! lanes is Σ sᵢ 256ⁱ with sᵢ the sums of the numbers, and as long as every |sᵢ| ≤ 127 it tells them apart, although a
//! negative one borrows from the one above it. So nodes, their checks and seals need not know: to them these are lanes
//! like others.
//!
//! With 128 added to each digit no digit is negative, and none is above 255: the bytes of Σ (vᵢ + 128) 256ⁱ are the
//! digits. And vᵢ + 128 is the byte of vᵢ with its highest bit turned over.

use wiresum_wire::{BLOCK_LEN, MAX_PAYLOAD};

use crate::Element;
use crate::format::{Format, FormatError};
use crate::instructions::{self, Instructions};
use crate::kernels::integer;
use crate::lane::{I8, Lane};
use crate::lanes::by_lanes;

/// Fewest bits, besides its sign, that 8 leave to the largest value of each worker.
pub(crate) const MIN_PACKED_BITS: u32 = 3;

/// 128 in each byte.
const MIDDLES: u32 = 0x8080_8080;

/// What becomes of the part of a value that 8 bits have no room for.
#[derive(Debug)]
pub enum Rounding<'a> {
    /// It is lost.
    Nearest,
    /// It is written here, as long as the values, to be added to those of the next sum (error feedback: Seide et al.,
    /// "1-bit stochastic gradient descent", Interspeech 2014).
    Kept(&'a mut [f32]),
    /// By chance numbers are rounded up or down so that their mean is the value. The same seed and the same places, of
    /// which the first is given, make the same numbers.
    Random {
        /// A rank's own, and another one for each sum.
        seed: u32,
        /// The place of the first value in its tensor, modulo 2³².
        first: u32,
    },
}

impl Format {
    /// The same job's format for numbers of 8 bits, as many in a lane as it has bytes.
    ///
    /// # Errors
    /// [`FormatError`] if there are more than 16 workers, or the codec has no exponents.
    pub fn packed(self) -> Result<Self, FormatError> {
        if !self.codec().agrees() {
            return Err(FormatError::Packed(self.codec()));
        }
        self.with_numbers_of(8, MIN_PACKED_BITS)
    }

    /// As [`Self::encode`], of a [packed](Self::packed) format.
    ///
    /// # Panics
    /// If the format is not packed, or `payload` or what is kept has less room than there are values.
    pub fn encode_rounded<T: Element>(
        &self,
        values: &[T],
        exponent: i8,
        rounding: Rounding<'_>,
        payload: &mut [u8],
    ) -> u32 {
        assert!(self.is_packed(), "only numbers of 8 bits are rounded in other ways");
        self.encode_packed(Instructions::best(), values, exponent, rounding, payload)
    }

    pub(crate) fn encode_packed<T: Element>(
        &self,
        set: Instructions,
        values: &[T],
        exponent: i8,
        rounding: Rounding<'_>,
        payload: &mut [u8],
    ) -> u32 {
        let (scale, limit) = (self.scale(exponent), self.limit());
        match rounding {
            Rounding::Nearest => {
                instructions::encode::<T, I8>(set, values, scale, limit, payload);
            }
            Rounding::Kept(rest) => {
                assert!(rest.len() >= values.len(), "room for {} of {}", rest.len(), values.len());
                instructions::encode::<T, I8>(set, values, scale, limit, payload);
                instructions::rest(set, values, payload, self.unit(exponent), rest);
            }
            Rounding::Random { seed, first } => {
                instructions::dither(set, values, scale, limit, (seed, first), payload);
            }
        }
        self.lanes().add_sums(by_lanes!(self.lanes(), pack, set, payload), 0)
    }

    pub(crate) fn decode_packed<T: Element>(
        &self,
        set: Instructions,
        payload: &[u8],
        unit: f64,
        values: &mut [T],
    ) {
        let mut numbers = [0; MAX_PAYLOAD];
        let used = values.len().next_multiple_of(BLOCK_LEN).min(payload.len());
        let numbers = &mut numbers[..used];
        numbers.copy_from_slice(&payload[..used]);
        by_lanes!(self.lanes(), unpack, set, numbers);
        instructions::decode::<T, I8>(set, numbers, unit, values);
    }
}

/// Turns the numbers in the bytes of `payload` into lanes, in place; returns the sum of the lanes modulo 2^32.
#[inline(always)]
pub(crate) fn pack<L: Lane>(payload: &mut [u8]) -> u32 {
    let mut sum = 0u32;
    for lane in L::split_mut(payload) {
        let number = (L::load(*lane) as u32 ^ MIDDLES).wrapping_sub(MIDDLES);
        sum = sum.wrapping_add(number);
        *lane = L::store(number as i32);
    }
    sum
}

/// The reverse of [`pack`], of lanes that were summed.
#[inline(always)]
pub(crate) fn unpack<L: Lane>(payload: &mut [u8]) {
    for lane in L::split_mut(payload) {
        *lane = L::store(((L::load(*lane) as u32).wrapping_add(MIDDLES) ^ MIDDLES) as i32);
    }
}

/// Writes what the numbers in `payload` leave of the values: value − number · unit.
#[inline(always)]
pub(crate) fn rest<T: Element>(values: &[T], payload: &[u8], unit: f64, rest: &mut [f32]) {
    for ((value, number), rest) in values.iter().zip(I8::split(payload)).zip(rest) {
        *rest = (value.widen() - f64::from(I8::load(*number)) * unit) as f32;
    }
}

/// As [`crate::kernels::encode`], to numbers of 8 bits that are rounded up or down by chance, so that their mean is the
/// value; within ±`limit` all the same. Chance is a function of the seed and the place of a value, counted from
/// `first`: the same values become the same numbers again.
#[inline(always)]
pub(crate) fn dither<T: Element>(
    values: &[T],
    scale: f64,
    limit: f64,
    (seed, first): (u32, u32),
    payload: &mut [u8],
) {
    let (numbers, padding) = I8::split_mut(payload).split_at_mut(values.len());
    padding.fill(I8::store(0));
    let seed = hashed(seed);
    for (place, (value, number)) in (0u32..).zip(values.iter().zip(numbers)) {
        let chance = hashed(seed ^ first.wrapping_add(place));
        // In steps of 2^−32, from −½ to below ½.
        let noise = f64::from(chance as i32) * (0.5 / f64::from(1u32 << 31));
        *number = I8::store(integer(value.widen() * scale + noise, limit));
    }
}

/// A permutation of the numbers of 32 bits without visible order: "lowbias32" of C. Wellons, "Prospecting for Hash
/// Functions", 2018.
#[inline(always)]
fn hashed(mut number: u32) -> u32 {
    number ^= number >> 16;
    number = number.wrapping_mul(0x7feb_352d);
    number ^= number >> 15;
    number = number.wrapping_mul(0x846c_a68b);
    number ^ number >> 16
}
