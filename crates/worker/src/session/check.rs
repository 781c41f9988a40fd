//! A check: what the values of a round are worth, summed beside them where no agreement comes before
//! (`spec/session.md`, *Checks*).

use wiresum_wire::{BLOCK_LEN, LaneType};

use super::shape::Shape;

/// Lanes of a check before those of ranks: how many ranks have values that cannot be summed.
const COMMON_LANES: usize = 1;
/// Lanes of each rank: its elements and its signature. Every rank leaves the others' at zero, so a sum has them all.
const RANK_LANES: usize = 2;
/// Bytes of a lane.
const LANE: usize = 4;

/// Bytes of the check of a job with so many ranks.
pub(super) fn len(ranks: usize) -> usize {
    ((COMMON_LANES + RANK_LANES * ranks) * LANE).next_multiple_of(BLOCK_LEN)
}

/// Writes a rank's part: whether its values can be summed, and its elements and signature.
pub(super) fn write(
    rank: usize,
    is_sound: bool,
    shape: Shape,
    lane_type: LaneType,
    payload: &mut [u8],
) {
    payload.fill(0);
    let own = COMMON_LANES + RANK_LANES * rank;
    let Shape { elements, signature } = shape;
    for (lane, value) in [(0, i32::from(!is_sound)), (own, elements), (own + 1, signature)] {
        payload[LANE * lane..][..LANE].copy_from_slice(&lane_bytes(lane_type, value));
    }
}

/// What a sum of checks says: whether all ranks' values can be summed, and every rank's elements and signature.
pub(super) fn read(
    ranks: usize,
    lane_type: LaneType,
    payload: &[u8],
) -> (bool, impl Iterator<Item = Shape>) {
    let lane = move |index: usize| {
        let bytes = &payload[LANE * index..];
        read_lane(lane_type, [bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let shape = move |rank: usize| {
        let first = COMMON_LANES + RANK_LANES * rank;
        Shape { elements: lane(first), signature: lane(first + 1) }
    };
    (lane(0) == 0, (0..ranks).map(shape))
}

/// A lane of 32 bits as it travels.
pub(super) fn lane_bytes(lane_type: LaneType, lane: i32) -> [u8; LANE] {
    match lane_type {
        LaneType::I32Be | LaneType::I16Be => lane.to_be_bytes(),
        LaneType::I32Le | LaneType::I16Le => lane.to_le_bytes(),
    }
}

/// A lane of 32 bits as it has come.
pub(super) fn read_lane(lane_type: LaneType, bytes: [u8; LANE]) -> i32 {
    match lane_type {
        LaneType::I32Be | LaneType::I16Be => i32::from_be_bytes(bytes),
        LaneType::I32Le | LaneType::I16Le => i32::from_le_bytes(bytes),
    }
}
