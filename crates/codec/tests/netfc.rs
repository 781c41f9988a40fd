//! Sums by table look-up against float64.

use half::f16;
use proptest::prelude::*;
use wiresum_codec::netfc::Netfc;

/// What half a unit of a logarithm changes a number by.
fn epsilon() -> f64 {
    (0.5 / 1024.0f64).exp2() - 1.0
}

/// Half a unit in the last place of a number of this size.
fn half_unit(size: f64) -> f64 {
    // Subnormal numbers have the unit of the least normal ones.
    (size.abs().log2().floor().max(-14.0) - 11.0).exp2()
}

/// The bound of the module's documentation. A sum may have the unit of the next octave.
fn bound(a: f64, b: f64, sum: f64) -> f64 {
    2.01 * epsilon() * (a.abs() + b.abs()) + half_unit(sum.abs().max((a + b).abs()))
}

fn finite() -> impl Strategy<Value = f16> {
    any::<u16>().prop_map(f16::from_bits).prop_filter("a number", |number| number.is_finite())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn a_sum_is_within_its_bound(a in finite(), b in finite()) {
        let tables = tables();
        let (exact, sum) = (f64::from(a) + f64::from(b), tables.add(a, b));
        prop_assert_eq!(sum.to_bits(), tables.add(b, a).to_bits());
        if sum.is_infinite() {
            prop_assert!(exact.abs() > 65504.0 * (1.0 - 3.0 * epsilon()) && exact.signum() == f64::from(sum).signum());
        } else {
            let error = (f64::from(sum) - exact).abs();
            let bound = bound(a.into(), b.into(), sum.into());
            prop_assert!(error <= bound, "{a} + {b} = {sum}, off by {error:e}, more than {bound:e}");
        }
    }

    #[test]
    fn near_magnitudes_are_within_it_too(bits in 0u16..0x7bf0, step in 0u16..16, is_opposite: bool) {
        let (a, b) = (f16::from_bits(bits), f16::from_bits(bits + step));
        let b = if is_opposite { -b } else { b };
        let sum = f64::from(tables().add(a, b));
        let bound = bound(a.into(), b.into(), sum);
        prop_assert!(sum.is_infinite() || (sum - f64::from(a) - f64::from(b)).abs() <= bound);
    }

    #[test]
    fn what_is_no_number_stays_none(a in finite()) {
        for other in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
            prop_assert!(tables().add(a, other).is_nan() && tables().add(other, a).is_nan());
        }
        prop_assert_eq!(tables().add(a, -a).to_bits(), 0);
        let with_zero = tables().add(a, f16::NEG_ZERO);
        prop_assert!(with_zero == a && with_zero.to_bits() != f16::NEG_ZERO.to_bits());
    }
}

fn tables() -> &'static Netfc {
    static TABLES: std::sync::OnceLock<Netfc> = std::sync::OnceLock::new();
    TABLES.get_or_init(Netfc::new)
}

#[test]
fn memory_is_near_what_papers_report() {
    let kib = |bytes: usize| bytes as f64 / 1024.0;
    let (values, matched) = (kib(tables().value_bytes()), kib(tables().matched_bytes()));
    // NetFC reports 448 KB for 16-bit floats, Zebra 408.5 KB: both with keys, as look-ups match them.
    assert!(
        (180.0..200.0).contains(&values) && (360.0..400.0).contains(&matched),
        "{values}, {matched}"
    );
}

#[test]
fn sums_depend_on_their_order() {
    let numbers: Vec<f16> =
        (1..=32u16).map(|k| f16::from_f64(f64::from(k * 37 % 101) / 64.0)).collect();
    let sum = |numbers: &mut dyn Iterator<Item = &f16>| {
        numbers.fold(f16::ZERO, |sum, number| tables().add(sum, *number))
    };
    let (there, back) = (sum(&mut numbers.iter()), sum(&mut numbers.iter().rev()));
    assert_ne!(there.to_bits(), back.to_bits());
    let exact: f64 = numbers.iter().map(|number| f64::from(*number)).sum();
    for one in [there, back] {
        assert!((f64::from(one) / exact - 1.0).abs() < 32.0 * 3.0 * epsilon());
    }
}
