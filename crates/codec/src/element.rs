//! The element types of tensors, as bits. Conversions are free of branches, so that loops over them become vector code.

use half::{bf16, f16};

/// Element types that can be summed in the network; the numbers are those of `engine_abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ElementType {
    /// IEEE 754 binary32.
    Float32 = 0,
    /// IEEE 754 binary16.
    Float16 = 1,
    /// The upper half of binary32.
    BFloat16 = 2,
}

impl ElementType {
    /// Bytes of an element.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float16 | Self::BFloat16 => 2,
        }
    }
}

/// An element of a tensor.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// Which type this is.
    const TYPE: ElementType;
    /// The bits without the sign, which order like the absolute values, with Inf and then NaN on top.
    type Magnitude: Copy + Default + Ord;

    /// The bits without the sign.
    fn magnitude(self) -> Self::Magnitude;
    /// The element with these bits and no sign.
    fn from_magnitude(magnitude: Self::Magnitude) -> Self;
    /// Whether the element is neither Inf nor NaN.
    fn is_finite(self) -> bool;
    /// The same number; elements that are not finite become any number.
    fn widen(self) -> f64;
    /// The nearest element, ties to even; beyond the largest one, Inf. `value` is not NaN. For a subnormal bfloat16, values
    /// within 2^−150 of a tie are taken for ties.
    fn narrow(value: f64) -> Self;
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::Float32;
    type Magnitude = u32;

    #[inline(always)]
    fn magnitude(self) -> u32 {
        self.to_bits() & 0x7fff_ffff
    }

    fn from_magnitude(magnitude: u32) -> Self {
        Self::from_bits(magnitude)
    }

    fn is_finite(self) -> bool {
        self.is_finite()
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        self.into()
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as Self
    }
}

impl Element for bf16 {
    const TYPE: ElementType = ElementType::BFloat16;
    type Magnitude = u16;

    #[inline(always)]
    fn magnitude(self) -> u16 {
        self.to_bits() & 0x7fff
    }

    fn from_magnitude(magnitude: u16) -> Self {
        Self::from_bits(magnitude)
    }

    fn is_finite(self) -> bool {
        self.is_finite()
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        f32::from_bits(u32::from(self.to_bits()) << 16).into()
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        let bits = round_to_odd(value).to_bits();
        Self::from_bits(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }
}

/// 2^−14, the smallest normal float16.
const F16_SMALLEST_NORMAL: f32 = 6.103_515_6e-5;
/// Its bits; also what the exponent field of a subnormal float16 has to become.
const F16_SMALLEST_NORMAL_BITS: u32 = 113 << 23;
/// 2^16 as float32 bits: everything from here on is Inf in float16.
const F16_OVERFLOW_BITS: u32 = 143 << 23;
/// Difference of the exponent biases, 127 − 15, in place.
const F16_BIAS_BITS: u32 = 112 << 23;

impl Element for f16 {
    const TYPE: ElementType = ElementType::Float16;
    type Magnitude = u16;

    #[inline(always)]
    fn magnitude(self) -> u16 {
        self.to_bits() & 0x7fff
    }

    fn from_magnitude(magnitude: u16) -> Self {
        Self::from_bits(magnitude)
    }

    fn is_finite(self) -> bool {
        self.is_finite()
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7fff) << 13;
        let normal = f32::from_bits(magnitude + F16_BIAS_BITS);
        // Exact, and never a subnormal float32, which would be slow on some processors.
        let subnormal = f32::from_bits(magnitude + F16_SMALLEST_NORMAL_BITS) - F16_SMALLEST_NORMAL;
        let absolute = if magnitude < 1 << 23 { subnormal } else { normal };
        f32::from_bits(absolute.to_bits() | (bits & 0x8000) << 16).into()
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        let bits = round_to_odd(value).to_bits();
        let sign = bits >> 16 & 0x8000;
        let bits = bits & 0x7fff_ffff;
        let odd = bits >> 13 & 1;
        let normal = bits.wrapping_sub(F16_BIAS_BITS).wrapping_add(0xfff + odd) >> 13;
        // The last place of a float32 between ½ and 1 is that of a subnormal float16: the addition rounds.
        let subnormal = (f32::from_bits(bits) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let finite = if bits < F16_SMALLEST_NORMAL_BITS { subnormal } else { normal };
        let absolute = if bits >= F16_OVERFLOW_BITS { 0x7c00 } else { finite };
        Self::from_bits((absolute | sign) as u16)
    }
}

/// Low bits of a float64 that a float32 has no room for.
const EXCESS: u64 = (1 << 29) - 1;

/// The float32 around `value` whose last bit is odd, unless `value` is a float32: rounding that to a shorter type gives what
/// rounding `value` itself would (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
#[inline(always)]
fn round_to_odd(value: f64) -> f32 {
    let bits = value.to_bits();
    let inexact = ((bits & EXCESS) + EXCESS) & (EXCESS + 1);
    f64::from_bits(bits & !EXCESS | inexact) as f32
}
