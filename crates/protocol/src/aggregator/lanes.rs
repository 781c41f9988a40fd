//! How arriving lanes are combined with those of a slot.

use wiresum_codec::{add_lanes, maximize_lanes};
use wiresum_wire::{Flags, LaneType};

/// Combines `arriving` into `sum`, as the flags say. The slices are equally long, a whole number of blocks.
pub(super) fn combine(flags: Flags, sum: &mut [u8], arriving: &[u8]) {
    let lanes = LaneType::of(flags);
    if flags.contains(Flags::MAXIMUM) {
        maximize_lanes(lanes, sum, arriving);
    } else {
        add_lanes(lanes, sum, arriving);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(flags: Flags, a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut sum = a.to_vec();
        combine(flags, &mut sum, b);
        sum
    }

    #[test]
    fn sums_wrap_in_every_lane_type() {
        let max32 = i32::MAX;
        let max16 = i16::MAX;
        let le = LaneType::I32Le.flags();
        assert_eq!(combined(le, &max32.to_le_bytes(), &1i32.to_le_bytes()), i32::MIN.to_le_bytes());
        let be = LaneType::I32Be.flags();
        assert_eq!(combined(be, &max32.to_be_bytes(), &1i32.to_be_bytes()), i32::MIN.to_be_bytes());
        let le16 = LaneType::I16Le.flags();
        assert_eq!(
            combined(le16, &max16.to_le_bytes(), &1i16.to_le_bytes()),
            i16::MIN.to_le_bytes()
        );
        let be16 = LaneType::I16Be.flags();
        assert_eq!(
            combined(be16, &max16.to_be_bytes(), &1i16.to_be_bytes()),
            i16::MIN.to_be_bytes()
        );
    }

    #[test]
    fn maxima_are_signed_in_every_lane_type() {
        for (lanes, small, large) in [
            (LaneType::I32Le, (-2i32).to_le_bytes().to_vec(), 1i32.to_le_bytes().to_vec()),
            (LaneType::I32Be, (-2i32).to_be_bytes().to_vec(), 1i32.to_be_bytes().to_vec()),
            (LaneType::I16Le, (-2i16).to_le_bytes().to_vec(), 1i16.to_le_bytes().to_vec()),
            (LaneType::I16Be, (-2i16).to_be_bytes().to_vec(), 1i16.to_be_bytes().to_vec()),
        ] {
            let flags = lanes.flags().with(Flags::MAXIMUM);
            assert_eq!(combined(flags, &small, &large), large);
            assert_eq!(combined(flags, &large, &small), large);
        }
    }

    #[test]
    fn lanes_do_not_touch_each_other() {
        let a: Vec<u8> = [u16::MAX, 1, 2].iter().flat_map(|v| v.to_le_bytes()).collect();
        let b: Vec<u8> = [1u16, 1, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let expected: Vec<u8> = [0u16, 2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(combined(LaneType::I16Le.flags(), &a, &b), expected);
    }
}
