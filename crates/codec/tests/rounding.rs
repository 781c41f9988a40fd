//! Conversions of the 16-bit elements, for each of their values and for what lies between.

use wiresum_codec::{Element, bf16, f16};

/// A 16-bit element type.
trait Half: Element {
    fn from_bits(bits: u16) -> Self;
    fn to_bits(self) -> u16;
    fn reference(self) -> f64;
    /// Bits of +Inf.
    const INFINITY: u16;
}

macro_rules! half {
    ($name:ty) => {
        impl Half for $name {
            fn from_bits(bits: u16) -> Self {
                <$name>::from_bits(bits)
            }
            fn to_bits(self) -> u16 {
                <$name>::to_bits(self)
            }
            fn reference(self) -> f64 {
                self.to_f64()
            }
            const INFINITY: u16 = <$name>::INFINITY.to_bits();
        }
    };
}

half!(f16);
half!(bf16);

const SIGN: u16 = 0x8000;

fn widening_is_exact<T: Half>() {
    for bits in (0..T::INFINITY).flat_map(|bits| [bits, bits | SIGN]) {
        let value = T::from_bits(bits);
        assert_eq!(value.widen().to_bits(), value.reference().to_bits(), "{bits:#06x}");
    }
}

/// The float64 next to `value`; among the subnormal float32s, where rounding is less sharp, the next of those.
fn beside(value: f64, next: impl Fn(f64) -> f64) -> f64 {
    let subnormal = f64::from(f32::MIN_POSITIVE);
    let smallest = f64::from(f32::from_bits(1));
    if value < subnormal { value + smallest.copysign(next(value) - value) } else { next(value) }
}

/// Halfway between neighbours the even one is nearest; the least bit beside that, the neighbour there is.
fn narrowing_is_to_nearest_even<T: Half>() {
    let narrowed = |value: f64| T::narrow(value).to_bits();
    for bits in 0..T::INFINITY {
        let low = T::from_bits(bits).reference();
        // Beyond the largest element, what the next one would be.
        let below = T::from_bits(bits.saturating_sub(1)).reference();
        let high = if bits + 1 < T::INFINITY {
            T::from_bits(bits + 1).reference()
        } else {
            low + (low - below)
        };
        let middle = (low + high) / 2.0;
        let even = bits + (bits & 1);
        for sign in [0, SIGN] {
            let signed = |value: f64| if sign == 0 { value } else { -value };
            assert_eq!(narrowed(signed(low)), bits | sign);
            assert_eq!(
                narrowed(signed(beside(middle, f64::next_down))),
                bits | sign,
                "below the middle after {bits:#06x}"
            );
            assert_eq!(narrowed(signed(middle)), even | sign, "in the middle after {bits:#06x}");
            assert_eq!(
                narrowed(signed(beside(middle, f64::next_up))),
                (bits + 1) | sign,
                "above the middle after {bits:#06x}"
            );
        }
    }
    assert_eq!(narrowed(f64::MAX), T::INFINITY);
    assert_eq!(narrowed(f64::MIN_POSITIVE), 0);
}

#[test]
fn float16_widens_exactly() {
    widening_is_exact::<f16>();
}

#[test]
fn bfloat16_widens_exactly() {
    widening_is_exact::<bf16>();
}

#[test]
fn float16_narrows_to_nearest_even() {
    narrowing_is_to_nearest_even::<f16>();
}

#[test]
fn bfloat16_narrows_to_nearest_even() {
    narrowing_is_to_nearest_even::<bf16>();
}
