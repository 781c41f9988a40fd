//! Barriers: how a stream of parts or of copies learns that nobody needs an entry any more (`spec/givers.md`).

use wiresum_protocol::Time;
use wiresum_protocol::plan::BARRIER_FRAGMENTS;
use wiresum_wire::FragmentId;

use super::Asked;
use super::stream::Unsent;
use crate::session::rounds::Rounds;

/// What a stream of parts or of copies knows of its barriers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barriers {
    /// Index of the stream that carries them.
    pub stream: usize,
    /// End of the positions that the next barrier to be contributed is about.
    contributes_at: FragmentId,
    /// The first barrier without a result.
    next: FragmentId,
    /// End of the positions whose barriers have results: every worker has done what it had to there.
    pub covered: FragmentId,
}

impl Barriers {
    /// Those of a stream that begins at `first`, in the stream with this index, which begins there too.
    pub fn new(stream: usize, first: FragmentId) -> Self {
        let contributes_at = first.plus(BARRIER_FRAGMENTS);
        Self { stream, contributes_at, next: first, covered: first }
    }

    /// How many barriers are due, now that everything before `oldest` is done.
    fn due(&mut self, oldest: FragmentId) -> u32 {
        let mut due = 0;
        while oldest.since(self.contributes_at) >= 0 {
            self.contributes_at = self.contributes_at.plus(BARRIER_FRAGMENTS);
            due += 1;
        }
        due
    }

    /// Notes that all barriers before this one have results.
    fn note_done(&mut self, oldest: FragmentId) {
        let done = oldest.since(self.next) as u32;
        self.next = oldest;
        self.covered = self.covered.plus(done.wrapping_mul(BARRIER_FRAGMENTS));
    }
}

impl Asked {
    /// Begins the positions that nothing is sent for, and contributes to the barriers that are due by that.
    pub(super) fn begin_unsent(&mut self, rounds: &mut Rounds, now: Time) {
        for index in 1..self.streams.len() {
            let is_exchange = self.streams[index].barriers.is_some();
            if is_exchange && self.may_contribute(index, rounds, now) {
                self.begin_unsent_of(index, rounds, now);
            }
        }
    }

    fn begin_unsent_of(&mut self, index: usize, rounds: &mut Rounds, now: Time) {
        let mut has_done = false;
        loop {
            let duty = |position| rounds.duty(index, position);
            let positions = rounds.positions(index);
            match self.streams[index].begin_unsent(positions, duty, now) {
                Some(Unsent::Due) => {}
                Some(Unsent::Done(position)) => {
                    rounds.settle(index, position);
                    has_done = true;
                }
                None => break,
            }
        }
        if has_done {
            self.advance_barriers(rounds);
        }
    }

    /// Contributes to the barriers that are due, and takes the results of those that are done.
    pub(super) fn advance_barriers(&mut self, rounds: &mut Rounds) {
        for index in 1..self.streams.len() {
            let Some(mut barriers) = self.streams[index].barriers else { continue };
            for _ in 0..barriers.due(self.streams[index].recovery.oldest()) {
                rounds.add_barrier(barriers.stream);
            }
            barriers.note_done(self.streams[barriers.stream].recovery.oldest());
            self.streams[index].barriers = Some(barriers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_is_due_for_each_64_positions_and_covers_them() {
        let first = FragmentId(u32::MAX - 9);
        let mut barriers = Barriers::new(3, first);
        assert_eq!(barriers.due(first.plus(63)), 0);
        assert_eq!(barriers.due(first.plus(130)), 2);
        assert_eq!(barriers.due(first.plus(191)), 0);
        barriers.note_done(first.plus(1));
        assert_eq!(barriers.covered, first.plus(64));
        barriers.note_done(first.plus(20));
        assert_eq!(barriers.covered, first.plus(20 * 64));
    }
}
