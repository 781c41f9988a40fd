//! What only the inside can show: every instruction set gives the same bits, and narrowing rounds once.

use proptest::prelude::*;

use super::*;
use crate::instructions::Instructions;

const LANES: [LaneType; 4] = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];

/// Encodes and decodes with one instruction set; all that comes out, as bits.
fn pass<T: Element>(
    set: Instructions,
    format: Format,
    values: &[T],
    exponent: i8,
) -> (i32, u32, Vec<u8>, Vec<T::Magnitude>) {
    let mut payload = vec![0xa5; format.payload_len(values.len() + 3)];
    let sum = format.encode_with(set, values, exponent, &mut payload);
    let mut decoded = vec![T::default(); values.len()];
    format.decode_with(set, &payload, exponent, Operation::Average, &mut decoded);
    let magnitudes = decoded.into_iter().map(Element::magnitude).collect();
    (format.exponent_with(set, values), sum, payload, magnitudes)
}

fn instruction_sets_agree<T: Element>(values: &[T], exponent: i8, workers: u32)
where
    T::Magnitude: std::fmt::Debug,
{
    for codec in [Codec::BLOCK, Codec::fixed(1e8)] {
        for lanes in LANES {
            let format = Format::new(codec, lanes, workers).unwrap();
            let packed = format.packed().ok();
            for format in std::iter::once(format).chain(packed) {
                let sets = Instructions::available();
                let expected = pass(sets[0], format, values, exponent);
                assert_eq!(expected.1, lanes.sum(&expected.2), "lane sum");
                for set in &sets[1..] {
                    assert_eq!(pass(*set, format, values, exponent), expected, "{}", set.name());
                }
            }
        }
    }
}

/// What chance makes of values, and what is kept of them, as bits.
fn round<T: Element>(set: Instructions, values: &[T], exponent: i8) -> (Vec<u8>, Vec<u32>) {
    let format = Format::new(Codec::BLOCK, LaneType::I32Le, 4).unwrap().packed().unwrap();
    let mut payload = vec![0; format.payload_len(values.len())];
    let mut kept = vec![0f32; values.len()];
    format.encode_packed(set, values, exponent, Rounding::Kept(&mut kept), &mut payload);
    let random = Rounding::Random { seed: 5, first: u32::MAX - 3 };
    format.encode_packed(set, values, exponent, random, &mut payload);
    (payload, kept.into_iter().map(f32::to_bits).collect())
}

proptest! {
    #[test]
    fn instruction_sets_agree_on_any_bits(
        bits in prop::collection::vec(any::<u32>(), 0..200),
        exponent: i8,
        workers in 1u32..=128,
    ) {
        let singles: Vec<f32> = bits.iter().map(|b| f32::from_bits(*b)).collect();
        let halves: Vec<f16> = bits.iter().map(|b| f16::from_bits(*b as u16)).collect();
        let brains: Vec<bf16> = bits.iter().map(|b| bf16::from_bits(*b as u16)).collect();
        instruction_sets_agree(&singles, exponent, workers);
        instruction_sets_agree(&halves, exponent, workers);
        instruction_sets_agree(&brains, exponent, workers);
        let finite: Vec<bf16> = brains.into_iter().filter(|value| value.is_finite()).collect();
        let sets = Instructions::available();
        let expected = round(sets[0], &finite, exponent);
        for set in &sets[1..] {
            assert_eq!(round(*set, &finite, exponent), expected, "{}", set.name());
        }
    }
}

proptest! {
    #[test]
    fn lanes_are_combined_alike_by_every_instruction_set(
        blocks in prop::collection::vec((any::<[u8; 16]>(), any::<[u8; 16]>()), 0..24),
    ) {
        let (held, payload): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let (held, payload) = (held.concat(), payload.concat());
        for lanes in LANES {
            let combined = |set| {
                let (mut sums, mut maxima) = (held.clone(), held.clone());
                crate::lanes::add_with(set, lanes, &mut sums, &payload);
                crate::lanes::maximize_with(set, lanes, &mut maxima, &payload);
                (sums, maxima, crate::lanes::sum_with(set, lanes, &payload))
            };
            let sets = Instructions::available();
            let expected = combined(sets[0]);
            prop_assert_eq!(expected.2, lanes.sum(&payload));
            prop_assert_eq!(
                lanes.sum(&expected.0),
                lanes.add_sums(lanes.sum(&held), lanes.sum(&payload)),
                "the check is linear"
            );
            for set in sets {
                prop_assert_eq!(combined(set), expected.clone());
            }
        }
    }
}
