//! Types of values: what workers push and are told. Servers keep and step float32, and sums are exact whatever comes.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use wiresum_wire::RowValue;

/// Type of a table's values at the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    /// IEEE 754 binary32.
    #[default]
    Float32,
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of binary32.
    Bfloat16,
}

impl ValueType {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How packets have such values.
    #[must_use]
    pub fn in_packets(self) -> RowValue {
        match self {
            Self::Float32 => RowValue::Float32,
            Self::Float16 => RowValue::Float16,
            Self::Bfloat16 => RowValue::Bfloat16,
        }
    }

    /// Rounds each number to the nearest of the type, ties to even; beyond the largest one, to Inf.
    pub fn round(self, numbers: &mut [f32]) {
        match self {
            Self::Float32 => {}
            Self::Float16 => numbers.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
            Self::Bfloat16 => numbers.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
        }
    }
}

/// The narrowest type that has all of these numbers, bit for bit.
pub(crate) fn narrowest<'a>(numbers: impl IntoIterator<Item = &'a f32> + Clone) -> RowValue {
    let is_bfloat = |x: &f32| x.to_bits().trailing_zeros() >= 16;
    let is_half = |x: &f32| f16::from_f32(*x).to_f32().to_bits() == x.to_bits();
    if numbers.clone().into_iter().all(is_bfloat) {
        RowValue::Bfloat16
    } else if numbers.into_iter().all(is_half) {
        RowValue::Float16
    } else {
        RowValue::Float32
    }
}

/// The 16 bits of a number that a type has.
pub(crate) fn narrowed(number: f32, value: RowValue) -> u16 {
    match value {
        RowValue::Float16 => f16::from_f32(number).to_bits(),
        _ => bf16::from_f32(number).to_bits(),
    }
}

/// The number that 16 bits of a type stand for.
pub(crate) fn widened(bits: u16, value: RowValue) -> f32 {
    match value {
        RowValue::Float16 => f16::from_bits(bits).to_f32(),
        _ => bf16::from_bits(bits).to_f32(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of both types, Inf among them, and what is between two of them.
    #[test]
    fn numbers_of_16_bits_are_found_and_come_back_bit_for_bit() {
        for bits in 0..=u16::MAX {
            for value in [RowValue::Float16, RowValue::Bfloat16] {
                let number = widened(bits, value);
                if number.is_nan() {
                    continue;
                }
                assert_eq!(narrowed(number, value), bits);
                assert_ne!(narrowest(&[number]), RowValue::Float32);
                let found = narrowest(&[number, 1.0, -2.5]);
                assert_eq!(widened(narrowed(number, found), found).to_bits(), number.to_bits());
            }
        }
        assert_eq!(narrowest(&[1.0, 0.1]), RowValue::Float32);
        assert_eq!(narrowest(&[1.0 / 1024.0, 1.000_976_6]), RowValue::Float16);
        assert_eq!(narrowest(&[1e30f32.to_bits() as f32, 1.000_976_6]), RowValue::Float32);
    }

    #[test]
    fn rounding_is_to_nearest_and_what_was_rounded_is_narrow() {
        let numbers = [0.1, -1.000_488_3, 65_520.0, 3.0e-8, 1.003_906_3, f32::MAX];
        for (kind, expected) in [
            (
                ValueType::Float16,
                [0.099_975_586, -1.0, f32::INFINITY, 5.960_464_5e-8, 1.003_906_3, f32::INFINITY],
            ),
            (
                ValueType::Bfloat16,
                [0.100_097_656, -1.0, 65_536.0, 2.980_232_2e-8, 1.0, f32::INFINITY],
            ),
        ] {
            let mut rounded = numbers;
            kind.round(&mut rounded);
            for (found, expected) in rounded.iter().zip(&expected) {
                assert!((found - expected).abs() <= expected.abs() * 1e-2 || found == expected);
            }
            assert_ne!(narrowest(&rounded), RowValue::Float32, "{rounded:?}");
            assert_eq!([rounded[1], rounded[2]], [expected[1], expected[2]]);
        }
        let mut same = numbers;
        ValueType::Float32.round(&mut same);
        assert_eq!(same, numbers);
    }
}
