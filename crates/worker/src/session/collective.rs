//! One collective of a worker at switches: what it sends, and what has come back.

use std::ops::Range;

use crate::Buffer;
use wiresum_protocol::Time;

use super::failure::Failure;
use super::layout::Layout;
use wiresum_wire::{BLOCK_LEN, LaneType, NOT_FINITE, Round};

/// Lanes of a check before those of ranks: how many ranks have values that cannot be summed.
const COMMON_LANES: usize = 1;
/// Lanes of each rank: its elements and its signature. Every rank leaves the others' at zero, so a sum has them all.
const RANK_LANES: usize = 2;
/// Bytes of a lane.
const LANE: usize = 4;

/// What a check says of all ranks, which passed the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// It can be summed.
    Sound,
    /// Some rank's values cannot be summed.
    NotFinite,
}

/// See the module.
pub(crate) struct Collective {
    pub round: Round,
    pub buffer: Box<dyn Buffer>,
    pub deadline: Time,
    pub begun: Time,
    layout: Layout,
    lanes: LaneType,
    is_finite: bool,
    agreement: Option<Agreement>,
    /// Results that came before the check's: fragment and lanes.
    early: Vec<(u32, Vec<u8>)>,
    /// Fragments without results.
    missing: u32,
}

impl Collective {
    pub fn new(
        round: Round,
        mut buffer: Box<dyn Buffer>,
        per_fragment: usize,
        lanes: LaneType,
        (begun, deadline): (Time, Time),
    ) -> Self {
        let layout = Layout::new(buffer.len(), per_fragment);
        let mut ranges = (0..layout.fragments()).map(|fragment| layout.range(fragment));
        let is_finite = ranges.all(|range| buffer.exponent(range) != NOT_FINITE);
        let missing = layout.fragments();
        let (agreement, early) = (None, Vec::new());
        Self { round, buffer, deadline, begun, layout, lanes, is_finite, agreement, early, missing }
    }

    /// The fragments that each stream carries.
    pub fn split(&self, shares: &[f64]) -> Vec<Range<u32>> {
        self.layout.split(shares)
    }

    /// Writes the check; returns its length.
    pub fn write_check(&self, rank: usize, ranks: usize, lanes: &mut [u8]) -> usize {
        let len = check_len(ranks);
        lanes[..len].fill(0);
        let own = COMMON_LANES + RANK_LANES * rank;
        self.set(lanes, 0, i32::from(!self.is_finite));
        self.set(lanes, own, self.buffer.len() as i32);
        self.set(lanes, own + 1, self.buffer.signature());
        len
    }

    fn set(&self, lanes: &mut [u8], index: usize, value: i32) {
        let bytes = match self.lanes {
            LaneType::I32Be | LaneType::I16Be => value.to_be_bytes(),
            LaneType::I32Le | LaneType::I16Le => value.to_le_bytes(),
        };
        lanes[LANE * index..LANE * (index + 1)].copy_from_slice(&bytes);
    }

    fn get(&self, lanes: &[u8], index: usize) -> i32 {
        let at = LANE * index;
        let bytes = [lanes[at], lanes[at + 1], lanes[at + 2], lanes[at + 3]];
        match self.lanes {
            LaneType::I32Be | LaneType::I16Be => i32::from_be_bytes(bytes),
            LaneType::I32Le | LaneType::I16Le => i32::from_le_bytes(bytes),
        }
    }

    /// Writes a fragment's values; returns their length. A rank whose values cannot be summed takes part with zeros.
    pub fn write(&mut self, fragment: u32, lanes: &mut [u8]) -> usize {
        let range = self.layout.range(fragment);
        let len = (range.len() * LANE).next_multiple_of(BLOCK_LEN);
        if self.is_finite {
            self.buffer.encode(range, 0, &mut lanes[..len]);
        } else {
            lanes[..len].fill(0);
        }
        len
    }

    /// Takes the check's result.
    ///
    /// # Errors
    /// [`Failure::Mismatch`].
    pub fn take_check(&mut self, ranks: usize, lanes: &[u8]) -> Result<(), Failure> {
        let of = |lane: usize| {
            let index = |rank| COMMON_LANES + RANK_LANES * rank + lane;
            (0..ranks).map(|rank| self.get(lanes, index(rank))).collect::<Vec<_>>()
        };
        let (elements, signatures) = (of(0), of(1));
        let is_same = |all: &[i32]| all.windows(2).all(|pair| pair[0] == pair[1]);
        if !is_same(&elements) || !is_same(&signatures) {
            return Err(Failure::Mismatch { round: self.round, elements, signatures });
        }
        let is_sound = self.get(lanes, 0) == 0;
        self.agreement = Some(if is_sound { Agreement::Sound } else { Agreement::NotFinite });
        for (fragment, lanes) in std::mem::take(&mut self.early) {
            self.decode(fragment, &lanes);
        }
        Ok(())
    }

    /// Takes a fragment's result; `false` if it has not the length that it should have.
    pub fn take(&mut self, fragment: u32, lanes: &[u8]) -> bool {
        let len = (self.layout.range(fragment).len() * LANE).next_multiple_of(BLOCK_LEN);
        if lanes.len() != len {
            return false;
        }
        self.missing -= 1;
        if self.agreement.is_some() {
            self.decode(fragment, lanes);
        } else {
            self.early.push((fragment, lanes.to_vec()));
        }
        true
    }

    fn decode(&mut self, fragment: u32, lanes: &[u8]) {
        if self.agreement == Some(Agreement::Sound) {
            self.buffer.decode(self.layout.range(fragment), 0, lanes);
        }
    }

    /// How it ended, once everything has come.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        match self.agreement {
            Some(Agreement::Sound) if self.missing == 0 => Some(Ok(())),
            Some(Agreement::NotFinite) if self.missing == 0 => Some(Err(Failure::NotFinite)),
            _ => None,
        }
    }
}

/// Bytes of a check.
pub(crate) fn check_len(ranks: usize) -> usize {
    ((COMMON_LANES + RANK_LANES * ranks) * LANE).next_multiple_of(BLOCK_LEN)
}
