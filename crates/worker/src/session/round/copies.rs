//! The bytes of a round in which nothing is summed, and what becomes of positions that are not like an all-reduce's.

use wiresum_codec::add_lanes;
use wiresum_wire::{BLOCK_LEN, Exchange};

use super::{Course, OpenRound};

impl OpenRound {
    /// Bytes of the payload at a place.
    pub fn len_at(&self, place: u32) -> usize {
        let fragment = self.course.at(place).fragment;
        match &self.course {
            Course::Copies { share, .. } => share.range(fragment).len().next_multiple_of(BLOCK_LEN),
            _ => self.values_len(fragment),
        }
    }

    /// The exponent at a place.
    pub fn exponent_at(&self, place: u32) -> i8 {
        match &self.course {
            Course::Copies { .. } => 0,
            course => self.exponent(course.at(place).fragment),
        }
    }

    /// Writes what this worker gives at a place, and returns the sum of the lanes.
    pub fn encode_at(&mut self, place: u32, payload: &mut [u8]) -> u32 {
        let fragment = self.course.at(place).fragment;
        match &self.course {
            Course::Copies { share, .. } => {
                self.collective.source.encode(share.range(fragment), 0, payload);
                self.lane_type.sum(payload)
            }
            _ => self.encode_values(fragment, payload),
        }
    }

    /// The result of a place has come. Whether there was room for it, where it has to wait for the agreement.
    pub fn decode_at(&mut self, place: u32, payload: &[u8]) -> bool {
        let dealt = self.course.at(place);
        match &self.course {
            Course::Copies { .. } => self.take_copy(place, payload),
            Course::Parts(_) if dealt.exchange != Exchange::ALL => {
                let mut sum = vec![0; payload.len()];
                self.encode_values(dealt.fragment, &mut sum);
                add_lanes(self.lane_type, &mut sum, payload);
                self.decode_values(dealt.fragment, &sum)
            }
            _ => self.decode_values(dealt.fragment, payload),
        }
    }

    fn take_copy(&mut self, place: u32, payload: &[u8]) -> bool {
        let dealt = self.course.at(place);
        let Course::Copies { share, .. } = &self.course else { return false };
        let of_giver = share.range(dealt.fragment);
        // A broadcast has one share, the root's.
        let first =
            if self.collective.kind.has_root() { 0 } else { self.format.rank_of(dealt.giver()) };
        let start = first * share.elements() + of_giver.start;
        let len = of_giver.len();
        self.collective.sink.decode(start..start + len, 0, &payload[..len]);
        self.settle();
        true
    }

    /// This worker has done what it had to at one more place.
    pub fn settle(&mut self) {
        self.values_left -= 1;
        self.end_if_complete();
    }
}
