//! Switches sum whom they can where that costs nothing: fewer bytes go to servers, and nobody is later.
//!
//! While set-ups are made fewer a place has a price, so who needs no circuits leaves it to others. What they leave over
//! is given away here.

use super::insertion::{self, Prices, Span};
use super::kept;
use super::search::Search;
use crate::Summed;
use crate::board::Turn;

impl Search<'_> {
    /// Has switches sum whom servers sum, where places are free and it ends no later. With idle circuits kept lit, as
    /// they are in the end, there are never more set-ups than before.
    pub fn use_free_places(&mut self) {
        let transfers = &self.board.problem.transfers;
        let is_local =
            |index: &usize| transfers[*index].mode(Summed::ByServer).crossings.is_empty();
        let (local, others): (Vec<usize>, Vec<usize>) = (0..transfers.len()).partition(is_local);
        local.into_iter().for_each(|index| self.use_places_of(index));
        let first = (kept::setups(&mut self.board), self.clone());
        others.into_iter().for_each(|index| self.use_places_of(index));
        // A circuit that its user gave up may have been kept lit for others, which the board does not see.
        if kept::setups(&mut self.board) > first.0 {
            *self = first.1;
        }
    }

    /// Has switches sum a transfer if they have places, and set-ups stay as they are or become fewer.
    fn use_places_of(&mut self, index: usize) {
        let transfer = &self.board.problem.transfers[index];
        let Some(turn) = self.turns[index].clone() else { return };
        if turn.summed == Summed::BySwitch || !transfer.can_be(Summed::BySwitch) {
            return;
        }
        let (mark, setups) = (self.board.mark(), self.board.setups());
        self.board.take_turn(transfer, &turn);
        let found = self.at_switches(index, &turn);
        found.iter().for_each(|turn| self.board.put_turn(transfer, turn));
        if found.is_some() && self.board.setups() <= setups {
            self.turns[index] = found;
            self.board.commit();
        } else {
            self.board.undo(mark);
        }
    }

    /// A turn with switches that sum a transfer, which ends no later than the one that it has.
    fn at_switches(&mut self, index: usize, turn: &Turn) -> Option<Turn> {
        let transfer = &self.board.problem.transfers[index];
        let end = turn.shares.last().map_or(0, |(slot, _)| slot + 1);
        let until = end.min(self.deadlines[index][Summed::BySwitch as usize]);
        let span = Span { from: transfer.release, until, prices: Prices::SETUPS };
        let found = insertion::cheapest(&mut self.board, transfer, Summed::BySwitch, span);
        found.map(|(_, turn)| turn)
    }
}
