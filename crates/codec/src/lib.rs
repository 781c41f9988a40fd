//! Floating-point elements to integer lanes and back, so that a network that can only add integers sums gradients.
//!
//! A fragment of a collective is encoded in three steps. Each worker *proposes* an exponent for its values
//! ([`Format::exponent`]); all agree on the largest proposal; then each *encodes* with it ([`Format::encode`]), and
//! *decodes* the sum of everyone's lanes with it ([`Format::decode`]). Decoding is a function of the lanes, the exponent
//! and the format alone, so every worker ends with the same bits (in the default floating-point environment: a thread that
//! flushes subnormals to zero does so here too).
//!
//! # Block exponent
//!
//! With b the bits of a lane, n the workers, h = ⌈log₂ n⌉ and e the agreed exponent (every |x| < 2^(e+1)):
//!
//! > unit = 2^(e + 1 + h − (b − 1)), lane = round(x / unit), to nearest, ties to even
//!
//! **No sum overflows.** |x / unit| < 2^(b−1−h) = 2^k, so |lane| ≤ 2^k, where equality is due to rounding. Lanes are also
//! clamped to L = ⌊(2^(b−1) − 1) / n⌋, thus the sum of n of them stays within ±(2^(b−1) − 1) in whatever order, and so does
//! the sum of any subset.
//!
//! **Error.** The clamp changes a lane only if n is a power of two (otherwise n ≤ 2^h − 1, hence L ≥ 2^k) and
//! |x| > (2^k − ½) units (then L = 2^k − 1), so a lane differs from x / unit by at most ½, or by less than 1 if clamped.
//! For float32 on 32-bit lanes and n ≤ 128 the latter cannot happen: k ≥ 24 bits hold the significand. Nor can it for
//! bfloat16 on 16-bit lanes: k ≥ 8. Therefore
//!
//! > |decoded sum − exact sum| ≤ n · unit / 2 (n · unit with clamped lanes) + half a unit in the last place of the element type
//!
//! (all divided by n for an average). With 32-bit lanes and 4 workers that is 2⁻²⁷ of the fragment's largest magnitude: less than adding in float32 costs.
//! A sum beyond the range of its element type becomes Inf, as in IEEE 754; −0 becomes 0.
//!
//! # Eight bits
//!
//! A [packed](Format::packed) format has several numbers in a lane, each of 8 bits: b = 8 in the above, and what travels
//! is a half or a quarter. Two workers keep 6 bits of a value besides its sign, four 5, sixteen 3. What a number leaves of
//! its value can be kept for the next sum, or be decided by chance: [`Rounding`].
//!
//! # Fixed factor
//!
//! lane = round(x · f), the same clamp; unit = 1 / f. A worker whose lanes could overflow n-fold does not propose an exponent
//! but [`NOT_FINITE`], so every worker learns before a value flows that the collective does not fit.

mod codec;
mod element;
mod format;
mod instructions;
mod kernels;
pub mod lane;
mod lanes;
pub mod netfc;
mod packed;
#[cfg(test)]
mod tests;

pub use codec::Codec;
pub use element::{Element, ElementType};
pub use format::{Format, FormatError, MIN_EXPONENT, Operation};
pub use half::{bf16, f16};
#[doc(hidden)]
pub use instructions::Instructions;
pub use lanes::{add_lanes, maximize_lanes, sum_lanes};
pub use packed::Rounding;
pub use wiresum_wire::{LaneType, NOT_FINITE};

/// The tutorial's code is run as it stands.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extend/codec.md")]
mod tutorial {}
