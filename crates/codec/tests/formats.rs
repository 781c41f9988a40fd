//! Formats by name, their limits, and sums small enough to check by hand.

use wiresum_codec::{Codec, ElementType, Format, LaneType, MIN_EXPONENT, Operation, f16};

fn format(codec: &str, lanes: LaneType, workers: u32) -> Format {
    Format::new(codec.parse().unwrap(), lanes, workers).unwrap()
}

#[test]
fn codecs_have_names() {
    assert_eq!("block".parse(), Ok(Codec::BLOCK));
    assert_eq!("fixed:1e8".parse(), Ok(Codec::fixed(1e8)));
    assert_eq!("fixed:65536".parse(), Ok(Codec::fixed(65536.0)));
    for name in ["block", "fixed:1e8", "fixed:1e-3"] {
        assert_eq!(name.parse::<Codec>().unwrap().to_string(), name);
    }
}

#[test]
fn wrong_names_are_explained() {
    let error = |name: &str| name.parse::<Codec>().unwrap_err().to_string();
    assert_eq!(
        error("blocks"),
        "unknown codec `blocks`: use `block`, or `fixed:<factor>` such as `fixed:1e8`"
    );
    let usable = "is no factor for the codec `fixed`: use a number from 1e-30 to 1e30, such as 1e8";
    for factor in ["", "many", "0", "-1", "inf", "NaN", "1e31"] {
        assert_eq!(error(&format!("fixed:{factor}")), format!("`{factor}` {usable}"));
    }
}

#[test]
fn lanes_limit_the_number_of_workers() {
    let error = |lanes, workers| Format::new(Codec::BLOCK, lanes, workers).unwrap_err().to_string();
    assert_eq!(
        error(LaneType::I16Le, 129),
        "129 workers do not fit 16-bit lanes: from 1 to 128 do; use 32-bit lanes"
    );
    assert_eq!(
        error(LaneType::I32Be, 0),
        "0 workers do not fit 32-bit lanes: from 1 to 8388608 do"
    );
}

#[test]
fn signatures_tell_collectives_apart() {
    let mut signatures = Vec::new();
    for codec in ["block", "fixed:1e8"] {
        for element in [ElementType::Float32, ElementType::Float16, ElementType::BFloat16] {
            for operation in [Operation::Sum, Operation::Average] {
                signatures.push(format(codec, LaneType::I32Le, 2).signature(element, operation));
            }
        }
    }
    signatures.sort_unstable();
    signatures.dedup();
    assert_eq!(signatures.len(), 12);
}

#[test]
fn two_workers_by_hand() {
    // e = 1, h = 1: the unit is 2^(1 + 1 + 1 − 31).
    let format = format("block", LaneType::I32Be, 2);
    let values = [2.0f32, -3.5];
    assert_eq!(format.exponent(&values), 1);
    let mut payload = [0xff; 32];
    let sum = format.encode(&values, 1, &mut payload);
    assert_eq!(payload[..8], [0x20, 0, 0, 0, 0xc8, 0, 0, 0], "2 and −3.5 in units of 2^−28");
    assert_eq!(payload[8..], [0; 24]);
    assert_eq!(sum, 0xe800_0000);
    let mut decoded = [0f32; 2];
    format.decode(&payload, 1, Operation::Average, &mut decoded);
    assert_eq!(decoded, [1.0, -1.75]);
}

#[test]
fn fixed_sums_by_hand() {
    let format = format("fixed:1e8", LaneType::I32Le, 2);
    assert_eq!(format.exponent(&[10.7f32]), 0);
    assert_eq!(
        format.exponent(&[10.8f32]),
        wiresum_codec::NOT_FINITE,
        "twice that is above 2^31 / 1e8"
    );
    let mut payload = [0; 32];
    assert_eq!(format.encode(&[0.25f32], 0, &mut payload), 25_000_000);
    let mut decoded = [0f32];
    format.decode(&payload, 0, Operation::Sum, &mut decoded);
    assert_eq!(decoded, [0.25]);
}

#[test]
fn nothing_but_zeros_has_the_lowest_exponent() {
    let format = format("block", LaneType::I16Le, 128);
    assert_eq!(format.exponent(&[0.0f32, -0.0]), MIN_EXPONENT);
    assert_eq!(format.exponent::<f32>(&[]), MIN_EXPONENT);
    let mut payload = [0xff; 32];
    assert_eq!(format.encode(&[0.0f32, -0.0], MIN_EXPONENT as i8, &mut payload), 0);
    assert_eq!(payload, [0; 32]);
}

#[test]
fn the_smallest_subnormal_survives() {
    let format = format("block", LaneType::I32Le, 4);
    let tiny = [f32::from_bits(1), -f32::from_bits(3)];
    let exponent = format.exponent(&tiny) as i8;
    let mut payload = [0; 32];
    format.encode(&tiny, exponent, &mut payload);
    let mut decoded = [0f32; 2];
    format.decode(&payload, exponent, Operation::Sum, &mut decoded);
    assert_eq!(decoded, tiny);
}

#[test]
fn a_float16_sum_beyond_the_range_is_infinite_and_its_average_is_not() {
    let format = format("block", LaneType::I32Le, 2);
    let value = [f16::from_f32(60000.0)];
    let exponent = format.exponent(&value) as i8;
    let mut payload = [0; 32];
    format.encode(&value, exponent, &mut payload);
    let lane = i32::from_le_bytes(payload[..4].try_into().unwrap());
    payload[..4].copy_from_slice(&(2 * lane).to_le_bytes());
    let mut decoded = [f16::ZERO];
    format.decode(&payload, exponent, Operation::Sum, &mut decoded);
    assert_eq!(decoded, [f16::INFINITY]);
    format.decode(&payload, exponent, Operation::Average, &mut decoded);
    assert_eq!(decoded, value);
}

#[test]
fn payloads_are_whole_blocks() {
    assert_eq!(format("block", LaneType::I32Le, 2).payload_len(9), 64);
    assert_eq!(format("block", LaneType::I16Le, 2).payload_len(16), 32);
}

#[test]
#[should_panic(expected = "8 lanes for 9 values")]
fn a_payload_too_short_to_encode_into_is_the_callers_bug() {
    format("block", LaneType::I32Le, 2).encode(&[0f32; 9], 0, &mut [0; 32]);
}

#[test]
#[should_panic(expected = "16 lanes for 17 values")]
fn a_payload_too_short_to_decode_is_the_callers_bug() {
    format("block", LaneType::I16Be, 2).decode(&[0; 32], 0, Operation::Sum, &mut [0f32; 17]);
}
