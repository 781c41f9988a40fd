//! From everyone's values to everyone's sum: no overflow, and an error within the bound that the crate states.
//!
//! The seed of a failing case is kept in `sums.regressions` beside this file; `cargo test -p wiresum-codec --test sums`
//! replays it first.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use wiresum_codec::{
    Codec, Element, ElementType, Format, LaneType, NOT_FINITE, Operation, bf16, f16,
};
use wiresum_testkit::seeds::times_soak;

const CASES: u64 = 1000;
const LANES: [LaneType; 4] = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];

fn config() -> ProptestConfig {
    let beside_this_file = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        cases: times_soak(CASES) as u32,
        failure_persistence: Some(Box::new(beside_this_file)),
        ..Default::default()
    }
}

/// Finite values of every size, the edges of rounding and of the range among them.
fn values() -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![
        any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |x| x.is_finite()),
        -2.0f32..2.0,
        (-149i32..128).prop_map(|e| 2f32.powi(e)),
        // Just below a power of two: what rounds up to one.
        (-125i32..128).prop_map(|e| -(2f32.powi(e).next_down())),
        prop::sample::select(vec![
            0.0,
            -0.0,
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            f32::from_bits(1)
        ]),
    ];
    prop::collection::vec(value, 1..40)
}

/// The lanes of a payload.
fn lanes(format: Format, payload: &[u8]) -> Vec<i64> {
    let lane = |bytes: &[u8]| match format.lanes() {
        LaneType::I32Le => i64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        LaneType::I32Be => i64::from(i32::from_be_bytes(bytes.try_into().unwrap())),
        LaneType::I16Le => i64::from(i16::from_le_bytes(bytes.try_into().unwrap())),
        LaneType::I16Be => i64::from(i16::from_be_bytes(bytes.try_into().unwrap())),
    };
    payload.chunks(format.lanes().width()).map(lane).collect()
}

/// The payload of these lanes.
fn payload(format: Format, lanes: &[i64]) -> Vec<u8> {
    let bytes = |lane: &i64| match format.lanes() {
        LaneType::I32Le => (*lane as i32).to_le_bytes().to_vec(),
        LaneType::I32Be => (*lane as i32).to_be_bytes().to_vec(),
        LaneType::I16Le => (*lane as i16).to_le_bytes().to_vec(),
        LaneType::I16Be => (*lane as i16).to_be_bytes().to_vec(),
    };
    lanes.iter().flat_map(bytes).collect()
}

fn largest_lane(format: Format) -> i64 {
    (1 << (8 * format.lanes().width() - 1)) - 1
}

/// Significant bits left to one worker's largest value.
fn value_bits(format: Format) -> i32 {
    let headroom = f64::from(format.workers()).log2().ceil() as i32;
    8 * format.lanes().width() as i32 - 1 - headroom
}

/// Encodes with this worker's own proposal and checks each lane against its value.
fn encoded<T: Element>(format: Format, values: &[T], exponent: i8) -> Vec<i64> {
    let mut payload = vec![0xff; format.payload_len(values.len() + 1)];
    let sum = format.encode(values, exponent, &mut payload);
    assert_eq!(sum, format.lanes().sum(&payload), "lane sum");
    let lanes = lanes(format, &payload);
    let unit = format.unit(exponent);
    for (lane, value) in lanes.iter().zip(values) {
        let error = (*lane as f64 - value.widen() / unit).abs();
        assert!(n_fold_fits(format, *lane), "{lane} overflows with {} workers", format.workers());
        assert!(error <= 0.5 || may_be_clamped(format, value.widen() / unit) && error < 1.0);
    }
    assert!(lanes[values.len()..].iter().all(|lane| *lane == 0), "padding");
    lanes
}

fn n_fold_fits(format: Format, lane: i64) -> bool {
    lane.abs() * i64::from(format.workers()) <= largest_lane(format)
}

fn significand_bits<T: Element>() -> i32 {
    match T::TYPE {
        ElementType::Float32 => 24,
        ElementType::Float16 => 11,
        ElementType::BFloat16 => 8,
    }
}

/// The condition that the crate's documentation gives.
fn may_be_clamped(format: Format, scaled: f64) -> bool {
    format.workers().is_power_of_two() && scaled.abs() > 2f64.powi(value_bits(format)) - 0.5
}

/// All that the documentation promises of one fragment, with `parts` the workers' values.
fn summed<T: Element>(format: Format, parts: &[Vec<T>], operation: Operation) {
    let proposals = parts.iter().map(|part| format.exponent(part));
    let exponent = i8::try_from(proposals.max().unwrap()).expect("finite values have an exponent");
    let mut totals = lanes(format, &vec![0; format.payload_len(parts[0].len() + 1)]);
    for part in parts {
        for (total, lane) in totals.iter_mut().zip(encoded(format, part, exponent)) {
            *total += lane;
            assert!(total.abs() <= largest_lane(format), "overflow");
        }
    }
    let mut decoded = vec![T::default(); parts[0].len()];
    format.decode(&payload(format, &totals), exponent, operation, &mut decoded);
    for (i, value) in decoded.iter().enumerate() {
        // Exact, but for the last bits of a float64, far below a unit.
        let exact: f64 = parts.iter().map(|part| part[i].widen()).sum();
        within_bound(format, exponent, operation, exact, *value);
    }
}

fn within_bound<T: Element>(
    format: Format,
    exponent: i8,
    operation: Operation,
    exact: f64,
    value: T,
) {
    let workers = f64::from(format.workers());
    let is_never_clamped =
        !format.workers().is_power_of_two() || significand_bits::<T>() <= value_bits(format);
    let lane_error = if is_never_clamped { 0.5 } else { 1.0 };
    let divisor = if operation == Operation::Average { workers } else { 1.0 };
    let bound = workers * format.unit(exponent) * lane_error;
    let slack = bound * 1e-6;
    // The element nearest to some number that close to the exact one: it absorbs the last rounding.
    let low = T::narrow((exact - bound - slack) / divisor).widen();
    let high = T::narrow((exact + bound + slack) / divisor).widen();
    if value.is_finite() {
        assert!(
            (low..=high).contains(&value.widen()),
            "{} not in {low:e}..={high:e}",
            value.widen()
        );
    } else {
        assert!(!T::narrow(exact.abs() + bound + slack).is_finite(), "{exact:e} became infinite");
    }
}

/// Splits one vector into the parts of some workers.
fn split<T: Element>(values: &[f32], workers: usize, convert: impl Fn(f32) -> T) -> Vec<Vec<T>> {
    let len = values.len().div_ceil(workers);
    let value = |i: usize| convert(values[i % values.len()]);
    (0..workers).map(|w| (0..len).map(|i| value(w * len + i)).collect()).collect()
}

/// Clears exponents until a shorter type can hold the value.
fn bounded(value: f32, limit: f32) -> f32 {
    if value.abs() <= limit { value } else { (value / f32::MAX) * limit }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn block_sums_are_within_the_bound(
        values in values(),
        workers in prop_oneof![1usize..=16, Just(127), Just(128)],
        average: bool,
    ) {
        let operation = if average { Operation::Average } else { Operation::Sum };
        for lanes in LANES {
            let format = Format::new(Codec::BLOCK, lanes, workers as u32).unwrap();
            summed(format, &split(&values, workers, |x| x), operation);
            summed(format, &split(&values, workers, |x| f16::from_f32(bounded(x, 65504.0))), operation);
            summed(format, &split(&values, workers, |x| bf16::from_f32(bounded(x, 3e38))), operation);
        }
    }

    #[test]
    fn the_largest_value_of_each_worker_never_overflows(
        values in values(),
        workers in prop_oneof![1u32..=65536, (0u32..=16).prop_map(|log| 1 << log)],
    ) {
        for lanes in LANES {
            if let Ok(format) = Format::new(Codec::BLOCK, lanes, workers) {
                let exponent = i8::try_from(format.exponent(&values)).unwrap();
                encoded(format, &values, exponent);
            }
        }
    }

    #[test]
    fn the_exponent_is_the_smallest(values in values()) {
        let format = Format::new(Codec::BLOCK, LaneType::I32Le, 4).unwrap();
        let exponent = format.exponent(&values);
        let largest = values.iter().fold(0f64, |m, x| m.max(f64::from(x.abs())));
        prop_assert!(largest < 2f64.powi(exponent + 1));
        prop_assert!(largest >= 2f64.powi(exponent) || exponent == wiresum_codec::MIN_EXPONENT);
    }

    #[test]
    fn one_value_that_is_not_finite_is_reported(
        mut values in values(),
        at in any::<prop::sample::Index>(),
        bad in prop::sample::select(vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]),
    ) {
        let at = at.index(values.len());
        values[at] = bad;
        for codec in [Codec::BLOCK, Codec::fixed(1.0)] {
            let format = Format::new(codec, LaneType::I32Le, 4).unwrap();
            prop_assert_eq!(format.exponent(&values), NOT_FINITE);
            let halves: Vec<f16> = values.iter().map(|x| f16::from_f32(*x)).collect();
            prop_assert_eq!(format.exponent(&halves), NOT_FINITE);
            let brains: Vec<bf16> = values.iter().map(|x| bf16::from_f32(*x)).collect();
            prop_assert_eq!(format.exponent(&brains), NOT_FINITE);
        }
    }

    #[test]
    fn a_fixed_factor_fits_or_says_so(
        values in values(),
        workers in 1u32..=128,
        factor in prop_oneof![Just(1e8), Just(1.0), Just(1e-30), Just(1e30), 1e-3..1e12],
    ) {
        for lanes in LANES {
            let format = Format::new(Codec::fixed(factor), lanes, workers).unwrap();
            let rounded: Vec<f64> = values.iter().map(|x| (f64::from(*x) * factor).round_ties_even()).collect();
            let fits = rounded.iter().all(|lane| lane.abs() * f64::from(workers) <= largest_lane(format) as f64);
            prop_assert_eq!(format.exponent(&values), if fits { 0 } else { NOT_FINITE });
            if fits {
                let lanes: Vec<f64> = encoded(format, &values, 0).into_iter().map(|lane| lane as f64).collect();
                // `+ 0.0` because a lane has no −0.
                prop_assert_eq!(&lanes[..values.len()], &rounded.iter().map(|x| x + 0.0).collect::<Vec<_>>()[..]);
            }
        }
    }

    #[test]
    fn too_small_an_exponent_clamps_and_never_wraps(values in values(), exponent: i8) {
        for lanes in LANES {
            let format = Format::new(Codec::BLOCK, lanes, 8).unwrap();
            let mut payload = vec![0; format.payload_len(values.len())];
            format.encode(&values, exponent, &mut payload);
            for (lane, value) in self::lanes(format, &payload).into_iter().zip(&values) {
                prop_assert!(n_fold_fits(format, lane));
                prop_assert!(lane == 0 || (lane < 0) == (*value < 0.0));
            }
        }
    }
}
