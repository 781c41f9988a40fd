//! Numbers of 8 bits, several in a lane: nodes add lanes, and every number comes out as its own sum.

use proptest::prelude::*;
use wiresum_codec::{Codec, Format, FormatError, LaneType, Operation, Rounding, add_lanes, bf16};

const LANES: [LaneType; 4] = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];

fn packed(lanes: LaneType, workers: u32) -> Format {
    Format::new(Codec::BLOCK, lanes, workers).unwrap().packed().unwrap()
}

#[test]
fn two_workers_by_hand() {
    // e = 0, h = 1: the unit is 2^(0 + 1 + 1 − 7).
    let format = packed(LaneType::I32Be, 2);
    assert_eq!((format.unit(0), format.width(), format.payload_len(33)), (1.0 / 32.0, 1, 64));
    let mut payload = [0xff; 32];
    let sum = format.encode(&[0.5f32, -0.25, 0.0, -1.0, 1.5], 0, &mut payload);
    // 16 · 2^24 − 8 · 2^16 − 32, and 48 · 2^24: in network order the first byte is the highest.
    let lanes = [267_911_136i32.to_be_bytes(), 805_306_368i32.to_be_bytes()].concat();
    assert_eq!((&payload[..8], &payload[8..]), (&lanes[..], &[0; 24][..]));
    assert_eq!(sum, LaneType::I32Be.sum(&payload));
    let mut decoded = [0f32; 5];
    format.decode(&payload, 0, Operation::Average, &mut decoded);
    assert_eq!(decoded, [0.25, -0.125, 0.0, -0.5, 0.75]);
}

#[test]
fn eight_bits_have_room_for_sixteen_workers_and_for_exponents_alone() {
    let of = |codec: &str, workers| {
        Format::new(codec.parse().unwrap(), LaneType::I32Le, workers).unwrap().packed()
    };
    assert!(of("block", 16).is_ok());
    assert_eq!(
        of("block", 17).unwrap_err().to_string(),
        "17 workers do not fit 8-bit lanes: from 1 to 16 do; use 16-bit lanes"
    );
    assert_eq!(of("fixed:1e8", 2), Err(FormatError::Packed(Codec::fixed(1e8))));
}

#[test]
#[should_panic(expected = "only numbers of 8 bits")]
fn other_formats_round_to_the_nearest() {
    let format = Format::new(Codec::BLOCK, LaneType::I32Le, 2).unwrap();
    format.encode_rounded(&[1f32], 0, Rounding::Nearest, &mut [0; 32]);
}

/// The sum of what each worker sends, and what each keeps.
fn summed(format: Format, tensors: &[Vec<f32>], exponent: i8) -> (Vec<f32>, Vec<Vec<f32>>) {
    let len = tensors[0].len();
    let mut total = vec![0; format.payload_len(len)];
    let mut sums = 0;
    let mut kept = vec![vec![f32::NAN; len]; tensors.len()];
    for (values, kept) in tensors.iter().zip(&mut kept) {
        let mut payload = vec![0xa5; total.len()];
        let rounding = Rounding::Kept(kept);
        let sum = format.encode_rounded(values, exponent, rounding, &mut payload);
        sums = format.lanes().add_sums(sums, sum);
        add_lanes(format.lanes(), &mut total, &payload);
    }
    assert_eq!(format.lanes().sum(&total), sums, "the check covers the sum");
    let mut decoded = vec![0f32; len];
    format.decode(&total, exponent, Operation::Sum, &mut decoded);
    (decoded, kept)
}

proptest! {
    #[test]
    fn what_is_not_in_the_sum_is_kept(
        tensors in (1usize..=16, 1usize..70).prop_flat_map(|(workers, len)| {
            prop::collection::vec(prop::collection::vec(-1000f32..1000.0, len), workers)
        }),
        lanes in prop::sample::select(LANES.to_vec()),
    ) {
        let format = packed(lanes, tensors.len() as u32);
        let exponent = tensors.iter().map(|values| format.exponent(values)).max().unwrap();
        let exponent = i8::try_from(exponent).unwrap();
        let (sum, kept) = summed(format, &tensors, exponent);
        let unit = format.unit(exponent);
        for (place, sum) in sum.iter().enumerate() {
            let of = |tensors: &[Vec<f32>]| tensors.iter().map(|t| f64::from(t[place])).sum::<f64>();
            let missing = of(&tensors) - f64::from(*sum);
            prop_assert!((missing - of(&kept)).abs() < 1e-3, "{missing} of {}", of(&tensors));
            prop_assert!(kept.iter().all(|kept| f64::from(kept[place].abs()) <= unit));
        }
    }

    #[test]
    fn chance_is_fair_and_the_same_again(values in prop::collection::vec(-1f32..1.0, 1..40), seed: u32) {
        let format = packed(LaneType::I32Le, 4);
        let numbers = |seed, first: u32| {
            let mut payload = [0; 64];
            let rounding = Rounding::Random { seed, first };
            format.encode_rounded(&values, 0, rounding, &mut payload);
            let mut decoded = vec![0f32; values.len()];
            format.decode(&payload, 0, Operation::Sum, &mut decoded);
            decoded
        };
        prop_assert_eq!(numbers(seed, 7), numbers(seed, 7));
        let runs = 400;
        let mut mean = vec![0f64; values.len()];
        for run in 0..runs {
            let decoded = numbers(seed.wrapping_add(run), 0);
            mean.iter_mut().zip(decoded).for_each(|(mean, v)| *mean += f64::from(v) / f64::from(runs));
        }
        // A number is one of the two about its value, whose mean of 400 is off by a fortieth of a unit, as a rule; six
        // times that is never. The outermost are clamped.
        let (unit, limit) = (format.unit(0), 31.0 * format.unit(0));
        for (mean, value) in mean.iter().zip(&values) {
            let value = f64::from(*value).clamp(-limit, limit);
            prop_assert!((mean - value).abs() < unit * 6.0 / 40.0, "{mean} for {value}");
        }
    }

    #[test]
    fn bfloat16_takes_8_bits_too(values in prop::collection::vec(-100f32..100.0, 1..40)) {
        let format = packed(LaneType::I16Le, 2);
        let values: Vec<bf16> = values.into_iter().map(bf16::from_f32).collect();
        let exponent = i8::try_from(format.exponent(&values)).unwrap();
        let mut payload = vec![0; format.payload_len(values.len())];
        format.encode(&values, exponent, &mut payload);
        let mut decoded = vec![bf16::ZERO; values.len()];
        format.decode(&payload, exponent, Operation::Sum, &mut decoded);
        for (decoded, value) in decoded.iter().zip(&values) {
            prop_assert!(f64::from(decoded.to_f32() - value.to_f32()).abs() <= format.unit(exponent));
        }
    }
}
