//! The positions of a stream, and the rounds that own them.

use std::collections::VecDeque;
use std::ops::Range;

use wiresum_wire::{FragmentId, Round};

/// The fragments of one round in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    round: Round,
    /// Position of the first.
    start: FragmentId,
    /// What the round calls them.
    fragments: Range<u32>,
}

/// The positions of a stream that open rounds own.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    segments: VecDeque<Segment>,
    limit: FragmentId,
}

impl Positions {
    /// Positions of a stream that begins at `first`; no round has one yet.
    pub fn starting_at(first: FragmentId) -> Self {
        Self { segments: VecDeque::new(), limit: first }
    }

    /// Gives a round the next positions of the stream, one for each of `fragments`.
    pub fn allocate(&mut self, round: Round, fragments: Range<u32>) {
        let count = fragments.end - fragments.start;
        if count > 0 {
            self.segments.push_back(Segment { round, start: self.limit, fragments });
            self.limit = self.limit.plus(count);
        }
    }

    /// Adds a position that is no round's.
    pub fn add_barrier(&mut self) {
        self.limit = self.limit.plus(1);
    }

    /// End of the positions that rounds own, or that barriers have.
    pub fn limit(&self) -> FragmentId {
        self.limit
    }

    /// The round that owns a position, and its fragment there.
    pub fn locate(&self, position: FragmentId) -> Option<(Round, u32)> {
        let after = self.segments.partition_point(|s| position.since(s.start) >= 0);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let fragment = segment.fragments.start + position.since(segment.start) as u32;
        segment.fragments.contains(&fragment).then_some((segment.round, fragment))
    }

    /// The round that owns a position.
    pub fn round_of(&self, position: FragmentId) -> Option<Round> {
        self.locate(position).map(|(round, _)| round)
    }

    /// Forgets the positions of a finished round, which is the oldest.
    pub fn release(&mut self, round: Round) {
        while self.segments.front().is_some_and(|segment| segment.round == round) {
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_their_rounds() {
        let mut positions = Positions::starting_at(FragmentId(u32::MAX));
        positions.allocate(Round(0), 5..7);
        positions.allocate(Round(1), 0..0);
        positions.allocate(Round(2), 0..3);
        assert_eq!(positions.locate(FragmentId(u32::MAX)), Some((Round(0), 5)));
        assert_eq!(positions.locate(FragmentId(0)), Some((Round(0), 6)));
        assert_eq!(positions.locate(FragmentId(3)), Some((Round(2), 2)));
        assert_eq!(positions.locate(FragmentId(4)), None);
        positions.release(Round(0));
        assert_eq!(positions.locate(FragmentId(0)), None);
        assert_eq!(positions.locate(FragmentId(1)), Some((Round(2), 0)));
    }
}
