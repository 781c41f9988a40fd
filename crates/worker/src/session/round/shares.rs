//! A round whose agreement carries all that ranks pass: their shares, side by side (`spec/session.md`, *Shares*).

use super::{OpenRound, Phase, Preamble, Shape};
use crate::Collective;
use crate::session::failure::Failure;
use crate::session::format::{Format, LANE};
use crate::session::layout::Layout;

/// What a rank says first of a collective.
pub(super) fn preamble(format: Format, layout: Layout, collective: &Collective) -> Preamble {
    let shape = Shape::of(collective);
    if !collective.kind.is_share() {
        return Preamble::new(format, layout, Some(shape));
    }
    let len = collective.source.len();
    let mut share = vec![0; len.next_multiple_of(LANE)];
    collective.source.encode(0..len, 0, &mut share);
    Preamble::of_share(format, shape, &share)
}

impl OpenRound {
    /// Whether the agreement carries all there is.
    pub fn is_share(&self) -> bool {
        self.collective.kind.is_share()
    }

    /// Whether ranks have agreed, on all there is to tell.
    pub fn has_shares(&self) -> bool {
        self.is_share() && self.phase == Phase::Ended(Ok(()))
    }

    /// Whether ranks may turn out to disagree about this round.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.phase, Phase::Preamble | Phase::Ended(Err(Failure::Mismatch { .. })))
    }

    /// Whether a rank has passed nothing, where all have to: what came was another rank's word on another round.
    pub(super) fn lacks_a_rank(&self) -> bool {
        self.is_share() && self.participation().ranks as usize != self.format.present().count()
    }

    /// Gives the sink the share of each rank that takes part, in that rank's place.
    pub(super) fn hand_out_shares(&mut self) {
        if !self.has_shares() {
            return;
        }
        let len = self.collective.source.len();
        for seat in self.format.present().filter(|_| len > 0) {
            let (rank, share) = (self.format.rank_of(seat), self.preamble.share(seat));
            self.collective.sink.decode(rank * len..(rank + 1) * len, 0, &share[..len]);
        }
    }

    /// What was submitted, for an owner who is told how the round ended before earlier rounds have.
    pub fn give_back(&mut self) -> Collective {
        self.is_told = true;
        std::mem::replace(&mut self.collective, Collective::nothing())
    }

    /// Whether the owner knows how it ended.
    pub fn is_told(&self) -> bool {
        self.is_told
    }
}
