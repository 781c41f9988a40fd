//! What ranks tell each other of a round, and what all of them conclude alike.
//!
//! There are two kinds of agreement. A *preamble* is combined by maximum: shapes, votes and exponents. A *check* is
//! summed, where exponents are fixed and the nodes do not know maxima: shapes, and whether the values can be summed.
//! It says what a preamble would have said, in fewer lanes, so it fills the same record.

use std::ops::Range;

use crate::session::check;
use crate::session::format::{Agreement, Format, LANE};
use crate::session::layout::Layout;
use crate::session::shape::Shape;

use crate::collective::NOT_FINITE;

/// What a lane holds that no one has set: the least element of the maximum.
pub(super) const UNSET: i32 = i32::MIN;

pub(super) struct Preamble {
    format: Format,
    /// This worker's lanes, replaced by the agreed ones as their results come.
    lanes: Vec<i32>,
    /// Value fragments, each of which has an exponent.
    values: usize,
    /// Lanes of a rank's share, where shares take the place of exponents.
    share: usize,
    fragments: u32,
    /// Fragments whose lanes have been computed; they are when they are first sent.
    prepared: u32,
    /// Fragments without a result.
    left: u32,
    /// Those of them that hold shapes.
    shapes_left: u32,
    /// Fragments that have positions.
    allotted: u32,
}

impl Preamble {
    /// The preamble of a rank that passes `own`; `None` for a rank that takes part with nothing.
    pub fn new(format: Format, layout: Layout, own: Option<Shape>) -> Self {
        Self::with_share(format, layout.fragments() as usize, own, &[])
    }

    /// The preamble of a rank that passes `own`, and these bytes to all. Every other rank's lanes are the least that a
    /// maximum can be of, so what all agree on are the bytes of each.
    pub fn of_share(format: Format, own: Shape, share: &[u8]) -> Self {
        Self::with_share(format, 0, Some(own), share)
    }

    fn with_share(format: Format, values: usize, own: Option<Shape>, bytes: &[u8]) -> Self {
        let share = bytes.len().div_ceil(LANE);
        let body = values + format.workers * share;
        let fragments = format.preamble_fragments(body);
        let mut lanes = vec![UNSET; format.lanes(body)];
        let first = format.first_exponent() + format.seat * share;
        for (lane, bytes) in lanes[first..].iter_mut().zip(bytes.chunks(LANE)) {
            let mut padded = [0; LANE];
            padded[..bytes.len()].copy_from_slice(bytes);
            *lane = check::read_lane(format.wide, padded);
        }
        if let Some(shape) = own {
            lanes[format.seat] = shape.elements;
            lanes[format.workers + format.seat] = shape.signature;
        }
        Self {
            format,
            lanes,
            values,
            share,
            fragments,
            prepared: 0,
            left: fragments,
            shapes_left: format.shape_fragments(),
            allotted: fragments,
        }
    }

    /// The number of elements was not known before.
    pub fn extend(&mut self, layout: Layout) {
        let values = layout.fragments() as usize;
        let fragments = self.format.preamble_fragments(values);
        self.left += fragments - self.fragments;
        (self.fragments, self.values) = (fragments, values);
        self.lanes.resize(self.format.lanes(values), UNSET);
    }

    /// Number of fragments.
    pub fn fragments(&self) -> u32 {
        self.fragments
    }

    /// Fragments that have no positions yet; from now on they have.
    pub fn allot(&mut self) -> Range<u32> {
        std::mem::replace(&mut self.allotted, self.fragments)..self.fragments
    }

    /// Whether every fragment has its result.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Computes the lanes up to a fragment, once: casts the vote, and proposes exponents of value fragments.
    pub fn prepare(&mut self, fragment: u32, vote: i32, mut propose: impl FnMut(u32) -> i32) {
        while self.prepared <= fragment {
            let covered = self.range(self.prepared);
            self.prepared += 1;
            let own_vote = 2 * self.format.workers + self.format.seat;
            if covered.contains(&own_vote) {
                self.lanes[own_vote] = vote;
            }
            let first = self.format.first_exponent();
            for lane in covered.start.max(first)..covered.end.min(first + self.values) {
                self.lanes[lane] = propose((lane - first) as u32);
            }
        }
    }

    /// Writes the lanes of a fragment and returns their sum.
    pub fn write(&self, fragment: u32, payload: &mut [u8]) -> u32 {
        let lanes = &self.lanes[self.range(fragment)];
        for (bytes, lane) in payload.chunks_exact_mut(4).zip(lanes) {
            bytes.copy_from_slice(&check::lane_bytes(self.format.wide, *lane));
        }
        self.format.wide.sum(payload)
    }

    /// Writes the check of a rank that passes `own` and returns the sum of its lanes.
    pub fn write_check(&self, own: Shape, is_sound: bool, payload: &mut [u8]) -> u32 {
        let lane_type = self.format.wide;
        check::write(self.format.seat, is_sound, own, lane_type, payload);
        lane_type.sum(payload)
    }

    /// The agreed lanes of a fragment have come. Whether with them all shapes are known.
    pub fn read(&mut self, fragment: u32, payload: &[u8]) -> bool {
        match self.format.agreement {
            Agreement::Maximum => self.read_maximum(fragment, payload),
            Agreement::Checks => self.read_check(payload),
        }
        self.left -= 1;
        let is_shape = fragment < self.format.shape_fragments();
        self.shapes_left -= u32::from(is_shape);
        is_shape && self.shapes_left == 0
    }

    fn read_maximum(&mut self, fragment: u32, payload: &[u8]) {
        for (index, bytes) in self.range(fragment).zip(payload.chunks_exact(4)) {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            self.lanes[index] = check::read_lane(self.format.wide, bytes);
        }
    }

    /// Sets the lanes to what a preamble would have said.
    fn read_check(&mut self, payload: &[u8]) {
        let n = self.format.workers;
        let (is_sound, shapes) = check::read(n, self.format.wide, payload);
        for (rank, shape) in shapes.enumerate() {
            (self.lanes[rank], self.lanes[n + rank]) = (shape.elements, shape.signature);
        }
        self.lanes[2 * n..].fill(if is_sound { 0 } else { NOT_FINITE });
    }

    /// The shapes by rank; `None` where a rank takes part with nothing.
    pub fn shapes(&self) -> impl Iterator<Item = Option<Shape>> {
        let (elements, rest) = self.lanes.split_at(self.format.workers);
        elements.iter().zip(rest).map(|(&elements, &signature)| {
            (elements != UNSET).then_some(Shape { elements, signature })
        })
    }

    /// Whether this worker's vote is cast: it stays what it is when the preamble is sent again.
    pub fn has_voted(&self) -> bool {
        let own = 2 * self.format.workers + self.format.seat;
        self.prepared as usize * self.format.preamble_lanes > own
    }

    /// The ranks' votes on going home, once the preamble is complete.
    pub fn votes(&self) -> &[i32] {
        &self.lanes[2 * self.format.workers..self.format.first_exponent()]
    }

    /// The agreed exponents by value fragment, once there is agreement.
    pub fn exponents(&self) -> &[i32] {
        &self.lanes[self.format.first_exponent()..][..self.values]
    }

    /// The share of a rank, padded to whole lanes, once there is agreement.
    pub fn share(&self, rank: usize) -> Vec<u8> {
        let lanes = &self.lanes[self.format.first_exponent() + rank * self.share..][..self.share];
        lanes.iter().flat_map(|lane| check::lane_bytes(self.format.wide, *lane)).collect()
    }

    fn range(&self, fragment: u32) -> Range<usize> {
        let start = fragment as usize * self.format.preamble_lanes;
        start..start + self.format.preamble_lanes
    }
}
