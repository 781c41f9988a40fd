//! The bytes of a round in which nothing is summed, and what becomes of positions that are not like an all-reduce's.

use std::ops::Range;

use wiresum_codec::add_lanes;
use wiresum_wire::{BLOCK_LEN, Exchange};

use super::{Course, Dealt, OpenRound};
use crate::Kind;

impl OpenRound {
    /// Bytes of the payload at a place.
    pub fn len_at(&self, place: u32) -> usize {
        let dealt = self.course.at(place);
        match &self.course {
            Course::Copies(_) => self.given(dealt).len().next_multiple_of(BLOCK_LEN),
            _ => self.values_len(dealt.fragment),
        }
    }

    /// The exponent at a place.
    pub fn exponent_at(&self, place: u32) -> i8 {
        match &self.course {
            Course::Copies(_) => 0,
            course => self.exponent(course.at(place).fragment),
        }
    }

    /// Writes what this worker gives at a place, and returns the sum of the lanes.
    pub fn encode_at(&mut self, place: u32, payload: &mut [u8]) -> u32 {
        let dealt = self.course.at(place);
        match &self.course {
            Course::Copies(_) => {
                self.collective.source.encode(self.given(dealt), 0, payload);
                self.lane_type.sum(payload)
            }
            _ => self.encode_values(dealt.fragment, payload),
        }
    }

    /// The result of a place has come. Whether there was room for it, where it has to wait for the agreement.
    pub fn decode_at(&mut self, place: u32, payload: &[u8]) -> bool {
        let dealt = self.course.at(place);
        match &self.course {
            Course::Copies(_) => self.take_copy(dealt, payload),
            Course::Parts(_) if dealt.exchange != Exchange::ALL => {
                let mut sum = vec![0; payload.len()];
                self.encode_values(dealt.fragment, &mut sum);
                add_lanes(self.lane_type, &mut sum, payload);
                self.decode_values(dealt.fragment, &sum)
            }
            _ => self.decode_values(dealt.fragment, payload),
        }
    }

    fn take_copy(&mut self, dealt: Dealt, payload: &[u8]) -> bool {
        let given = self.given(dealt);
        let len = given.len();
        let start = match self.collective.kind {
            Kind::Broadcast => given.start,
            Kind::Scatter => given.start - self.share(dealt).start,
            // The sink has the shares of all.
            _ => self.format.rank_of(dealt.giver()) * self.collective.source.len() + given.start,
        };
        self.collective.sink.decode(start..start + len, 0, &payload[..len]);
        self.settle();
        true
    }

    /// Bytes of its giver's source that a fragment is one of: the taker's part of them, or all.
    fn share(&self, dealt: Dealt) -> Range<usize> {
        match dealt.taker() {
            Some(taker) if self.collective.kind == Kind::Scatter => {
                self.format.part_of(&self.collective, taker)
            }
            _ => 0..self.collective.source.len(),
        }
    }

    /// Bytes of its giver's source that a fragment holds.
    fn given(&self, dealt: Dealt) -> Range<usize> {
        let share = self.share(dealt);
        let within = self.format.copy(share.len()).range(dealt.fragment);
        share.start + within.start..share.start + within.end
    }

    /// This worker has done what it had to at one more place, if anything.
    pub fn settle(&mut self) {
        self.values_left -= 1;
        self.end_if_complete();
    }
}
