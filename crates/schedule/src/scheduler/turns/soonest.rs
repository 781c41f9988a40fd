//! One transfer after another, each where it ends first: for mean times, and for what is known at an arrival.

use super::insertion::{self, Prices, Span};
use super::search::{Search, need};
use crate::Summed;
use crate::board::Turn;
use crate::problem::{Problem, Transfer};
use crate::scheduler::{Objective, Options};

/// Every transfer as soon as it can end, the shortest for its weight first: for the mean time, not for the last end.
pub fn soonest<'a>(problem: &'a Problem<'a>, options: &Options) -> Search<'a> {
    let is_weighted = options.objective == Objective::Weighted;
    let mut order: Vec<usize> = (0..problem.transfers.len()).collect();
    let price = |index: &usize| {
        let transfer = &problem.transfers[*index];
        let job = &problem.instance.jobs[transfer.job];
        let length = need(problem, *index) + transfer.least_slots(Summed::ByServer) as f64;
        (transfer.release, length / if is_weighted { job.weight } else { 1.0 })
    };
    order.sort_by(|a, b| {
        let ((release, length), (other, others)) = (price(a), price(b));
        release.cmp(&other).then(length.total_cmp(&others)).then(a.cmp(b))
    });
    let mut search = Search::one_by_one(problem, options.seed);
    for index in order {
        search.as_soon_as_possible(index, problem.transfers[index].release);
    }
    search
}

impl<'a> Search<'a> {
    /// Begins with an empty board, for [`Self::as_soon_as_possible`] alone: nobody is left over.
    pub fn one_by_one(problem: &'a Problem<'a>, seed: u64) -> Self {
        let mut search = Self::new(problem, seed, &vec![1.0; problem.transfers.len()], 0.0);
        search.left_over.clear();
        search
    }

    /// A transfer's turn, if it has one.
    pub fn turn(&self, index: usize) -> Option<&Turn> {
        self.turns[index].as_ref()
    }

    /// Inserts a transfer where it ends first, from a slot on; the board grows as it must.
    pub fn as_soon_as_possible(&mut self, index: usize, from: usize) {
        let transfer = &self.board.problem.transfers[index];
        self.turns[index] = Some(self.soonest_turn(transfer, from, None));
    }

    /// Inserts some more bytes of a transfer where they end first, pauses or not; they are no part of its turn.
    pub fn insert_more(
        &mut self,
        index: usize,
        from: usize,
        bytes: f64,
        summed: Option<Summed>,
    ) -> Turn {
        let transfer = self.board.problem.transfers[index].clone();
        let rest = Transfer { bytes, contiguous: false, ..transfer };
        self.soonest_turn(&rest, from, summed)
    }

    fn soonest_turn(&mut self, transfer: &Transfer, from: usize, summed: Option<Summed>) -> Turn {
        const LATE: f64 = 1e3;
        let slot_s = self.board.problem.instance.slot_s;
        loop {
            let until = self.board.slots();
            let ways = transfer.ways().filter(|way| summed.is_none_or(|summed| summed == *way));
            let turns = ways.filter_map(|summed| {
                let updates = transfer.mode(summed).update_s / slot_s;
                let prices = Prices { late: LATE, ..Prices::ROOM };
                let span = Span { from, until, prices };
                let found = insertion::cheapest(&mut self.board, transfer, summed, span);
                found.map(|(price, turn)| (price + LATE * updates, turn))
            });
            if let Some((_, turn)) = turns.min_by(|a, b| a.0.total_cmp(&b.0)) {
                self.board.put_turn(transfer, &turn);
                self.board.commit();
                return turn;
            }
            self.board.resize((until + until / 4 + 1).max(from + 1));
        }
    }

    /// Takes a transfer's turn away, unless it has begun before a slot; returns whether it has none now.
    pub fn take_back(&mut self, index: usize, slot: usize) -> bool {
        let has_begun = self.turns[index].as_ref().is_some_and(|turn| turn.shares[0].0 < slot);
        if has_begun {
            return false;
        }
        if let Some(turn) = self.turns[index].take() {
            self.board.take_turn(&self.board.problem.transfers[index], &turn);
        }
        true
    }
}
