//! Sums of 16-bit floats by table look-up, after NetFC (Cui et al., ICNP 2021), which Zebra's switch adds gradients with.
//!
//! A pipeline that adds integers adds floats by their logarithms: with a ≥ b > 0 and n = log₂ a − log₂ b,
//!
//! > log₂(a ± b) = log₂ a + log₂(1 ± 2⁻ⁿ)
//!
//! so one table for logarithms, one for each of log₂(1 + 2⁻ⁿ) and log₂(1 − 2⁻ⁿ), and one for the way back are all there is.
//! Logarithms are fixed-point numbers of 16 bits with [`FRACTION_BITS`] behind the point. This is a model: the text of NetFC
//! was not at hand, its scaling factors and the compression of its tables are left out.
//!
//! **Error.** Each logarithm is off by half a unit at most, and so is the result's; half a unit changes a number by
//! ε = 2^(2⁻¹¹) − 1 = 3.4·10⁻⁴ of it. Hence
//!
//! > |sum − (a + b)| ≤ 2.01 ε (|a| + |b|) + half a unit in the last place of the sum
//!
//! Where signs differ that can be all of the sum. Sums of several numbers depend on their order.

use half::f16;

/// Bits of a logarithm behind the point: the 41 octaves of 16-bit floats, rounding included, leave as many in 16 bits.
pub const FRACTION_BITS: u32 = 10;

/// A unit in the logarithm, as parts of an octave.
const UNITS: f64 = (1 << FRACTION_BITS) as f64;
/// The least logarithm: half of the least number, below which everything is 0.
const LEAST_LOG: f64 = -25.0;
/// The logarithm of what no finite number reaches.
const MOST_LOG: f64 = 16.0;
/// The bits of the first magnitude that is no number.
const INFINITE: u16 = 0x7c00;
const SIGN: u16 = 0x8000;

/// What a switch would look up.
#[derive(Clone, Debug)]
pub struct Netfc {
    /// By the bits of a magnitude, which is not 0.
    log: Vec<u16>,
    /// log₂(1 + 2⁻ⁿ) by n, until it is 0.
    plus: Vec<u16>,
    /// −log₂(1 − 2⁻ⁿ) by n, until it is 0; nothing is left at n = 0.
    minus: Vec<u16>,
    /// The bits of the magnitude, by logarithm.
    exp: Vec<u16>,
}

impl Default for Netfc {
    fn default() -> Self {
        Self::new()
    }
}

impl Netfc {
    /// The tables.
    #[must_use]
    pub fn new() -> Self {
        let units = |octaves: f64| (octaves * UNITS).round() as u16;
        let log = |bits: u16| units(f64::from(f16::from_bits(bits)).log2() - LEAST_LOG);
        let exp = |log: u16| f16::from_f64((f64::from(log) / UNITS + LEAST_LOG).exp2()).to_bits();
        let by_distance = |first: u16, octaves: fn(f64) -> f64| {
            let of = |n: u16| units(octaves((-f64::from(n) / UNITS).exp2()));
            let others = (1..u16::MAX).map(of).take_while(|log| *log > 0);
            std::iter::once(first).chain(others).collect()
        };
        Self {
            log: std::iter::once(0).chain((1..INFINITE).map(log)).collect(),
            plus: by_distance(units(1.0), |part| (1.0 + part).log2()),
            minus: by_distance(0, |part| -(1.0 - part).log2()),
            exp: (0..units(MOST_LOG - LEAST_LOG)).map(exp).collect(),
        }
    }

    /// The sum; NaN unless both are numbers, and Inf beyond the largest one. −0 becomes 0.
    #[must_use]
    pub fn add(&self, a: f16, b: f16) -> f16 {
        if !a.is_finite() || !b.is_finite() {
            return f16::NAN;
        }
        let (large, small) = if magnitude(a) < magnitude(b) { (b, a) } else { (a, b) };
        if magnitude(small) == 0 {
            return if magnitude(large) == 0 { f16::ZERO } else { large };
        }
        let (log, other) = (self.log[magnitude(large)], self.log[magnitude(small)]);
        let distance = usize::from(log - other);
        let is_same_sign = (large.to_bits() ^ small.to_bits()) & SIGN == 0;
        if magnitude(large) == magnitude(small) && !is_same_sign {
            return f16::ZERO;
        }
        let change = |table: &[u16]| table.get(distance).copied().unwrap_or(0);
        let log = if is_same_sign {
            Some(log + change(&self.plus))
        } else {
            // Two magnitudes with one logarithm differ by less than the tables can tell.
            (distance > 0).then(|| log.checked_sub(change(&self.minus))).flatten()
        };
        log.map_or(f16::ZERO, |log| self.exp(log, large))
    }

    fn exp(&self, log: u16, sign_of: f16) -> f16 {
        let magnitude = self.exp.get(usize::from(log)).copied().unwrap_or(INFINITE);
        if magnitude == 0 {
            return f16::ZERO;
        }
        f16::from_bits(magnitude | sign_of.to_bits() & SIGN)
    }

    /// Entries of all tables.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.log.len() - 1 + self.plus.len() + self.minus.len() - 1 + self.exp.len()
    }

    /// Bytes of the values alone: what tables take that are addressed by their key.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        size_of::<u16>() * self.entries()
    }

    /// Bytes with a key of 16 bits beside each value: what tables take that match it exactly.
    #[must_use]
    pub fn matched_bytes(&self) -> usize {
        2 * self.value_bytes()
    }
}

fn magnitude(number: f16) -> usize {
    usize::from(number.to_bits() & !SIGN)
}
