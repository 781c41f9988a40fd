//! The values of a round: to lanes, and back.

use std::ops::Range;

use wiresum_wire::BLOCK_LEN;

use super::{OpenRound, Phase};
use crate::collective::NOT_FINITE;
use crate::session::format::Agreement;

/// Results of values kept until the agreement on them comes, which has overtaken them if all is well; what is more is
/// asked for again.
pub(in crate::session) const MAX_STASHED: usize = 1024;

impl OpenRound {
    /// Whether every value can be summed, where no agreement says so before values flow.
    pub(super) fn is_sound(&mut self) -> bool {
        let mut ranges = (0..self.layout.fragments()).map(|fragment| self.layout.range(fragment));
        let source = &self.collective.source;
        let all = || ranges.all(|range| source.exponent(range) != NOT_FINITE);
        *self.is_sound.get_or_insert_with(all)
    }

    /// Bytes of a fragment: its values, padded to whole blocks, and their seal where sums are sealed.
    pub fn values_len(&self, fragment: u32) -> usize {
        let bytes = self.layout.range(fragment).len() * self.width;
        bytes.next_multiple_of(BLOCK_LEN) + self.format.seal_len
    }

    /// The exponent that a value fragment is sent with.
    pub fn exponent(&self, fragment: u32) -> i8 {
        match &self.forecast {
            Some(forecast) => forecast[fragment as usize],
            // What is no number is agreed on in sealed rounds that are in vain.
            None => i8::try_from(self.preamble.exponents()[fragment as usize]).unwrap_or(i8::MAX),
        }
    }

    /// Encodes a fragment's values into `lanes` and returns their sum; of a missed round, of one that is known to be in
    /// vain, or of values that cannot be summed, zeros.
    pub fn encode_values(&mut self, fragment: u32, lanes: &mut [u8]) -> u32 {
        let values = lanes.len() - self.format.seal_len;
        let sum = self.encode(fragment, &mut lanes[..values]);
        if self.seals.is_some() { self.seal(fragment, lanes) } else { sum }
    }

    fn encode(&mut self, fragment: u32, lanes: &mut [u8]) -> u32 {
        let is_unsound = self.format.agreement == Agreement::Checks && !self.is_sound();
        if self.is_missed || is_unsound || self.only_vouches() {
            lanes.fill(0);
            return 0;
        }
        self.collective.source.encode(self.layout.range(fragment), self.exponent(fragment), lanes)
    }

    /// The summed values of a fragment have come. Whether there was room for them, where they have to wait for the
    /// agreement.
    pub fn decode_values(&mut self, fragment: u32, payload: &[u8]) -> bool {
        if self.phase != Phase::Preamble {
            self.decode(fragment, payload);
        } else if self.is_unclaimed() || self.needs_vouching() || !self.taken(fragment).is_empty() {
            if self.stash.len() >= MAX_STASHED {
                return false;
            }
            self.stash.push((fragment, payload.to_vec()));
        }
        self.settle();
        true
    }

    /// Decodes a fragment, unless the sink has to stay as it is, or keeps it for the owner.
    pub(super) fn decode(&mut self, fragment: u32, payload: &[u8]) {
        if self.in_vain.is_some() {
            return self.hear_vouchers(fragment, payload);
        }
        if !self.is_unclaimed() && self.taken(fragment).is_empty() {
            return;
        }
        let Some(lanes) = self.opened(fragment, payload) else { return };
        let exponent = self.exponent(fragment);
        match &mut self.kept {
            Some(kept) => kept.fragments.push((fragment, exponent, lanes.to_vec())),
            None => self.give(fragment, exponent, &lanes),
        }
        self.recycle(lanes);
    }

    /// Hands the sink what it takes of a fragment's results.
    pub(super) fn give(&mut self, fragment: u32, exponent: i8, lanes: &[u8]) {
        let taken = self.taken(fragment);
        if taken.is_empty() {
            return;
        }
        let skipped = taken.start - self.layout.range(fragment).start;
        let lanes = &lanes[skipped * self.width..];
        let of_part = taken.start - self.part.start..taken.end - self.part.start;
        self.collective.sink.decode(of_part, exponent, lanes);
    }

    /// Elements of a fragment whose results this worker takes.
    fn taken(&self, fragment: u32) -> Range<usize> {
        let Range { start, end } = self.layout.range(fragment);
        start.max(self.part.start)..end.min(self.part.end)
    }

    pub(super) fn end_if_complete(&mut self) {
        if self.values_left > 0 || self.phase != Phase::Agreed {
            return;
        }
        match self.in_vain.clone() {
            Some(_) if self.needs_vouching() && !self.is_vouched => self.end_as_unfounded(),
            in_vain => self.phase = Phase::Ended(in_vain.map_or(Ok(()), Err)),
        }
    }
}
