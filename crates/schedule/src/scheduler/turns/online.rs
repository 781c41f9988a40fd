//! With what is known in each slot: jobs that have begun stay, all others are planned anew at each arrival, the largest
//! first; what a transfer could not send, as light was missing, is inserted anew.

use super::search::Search;
use crate::board::{Board, Turn};
use crate::problem::{EPSILON, Problem};
use crate::scheduler::slots::{Now, Slots};

pub fn slots<'a>(problem: &'a Problem<'a>, seed: u64) -> Slots<'a> {
    let mut ahead =
        Ahead { search: Search::one_by_one(problem, seed), more: Vec::new(), works: Vec::new() };
    // It keeps circuits itself: it knows which are needed next.
    Slots::new(Board::new(problem, 0), false, move |now| ahead.decide(now))
}

/// What is planned beyond this slot.
struct Ahead<'a> {
    search: Search<'a>,
    /// Turns for what was not sent when it was planned.
    more: Vec<(usize, Turn)>,
    /// Circuits of the slot before, and ports, as they were left.
    works: Vec<u32>,
}

impl<'a> Ahead<'a> {
    fn decide(&mut self, now: &mut Now<'a>) {
        let slot = now.slot;
        let slots = self.search.board.slots();
        self.search.board.resize(slots.max(slot + 1));
        let is_disturbed = self.observe(now);
        let comes = |transfer: &crate::problem::Transfer| transfer.release == slot;
        if is_disturbed || now.problem().transfers.iter().any(comes) {
            self.plan(now);
        }
        self.make_up(now);
        self.give(now);
        self.keep(now);
        self.works = state(&now.board, slot);
    }

    /// Learns what is lit; returns whether that is other than it was left.
    fn observe(&mut self, now: &Now<'a>) -> bool {
        let Some(before) = now.slot.checked_sub(1) else { return false };
        let works = state(&now.board, before);
        let (circuits, ports) = works.split_at(now.problem().pairs.len());
        self.search.board.observe(before, circuits, ports);
        works != self.works
    }

    fn plan(&mut self, now: &Now<'a>) {
        let slot = now.slot;
        let mut waiting: Vec<usize> = now
            .open()
            .filter(|index| !now.has_begun(*index) && self.search.take_back(*index, slot))
            .collect();
        self.search.sort_by_need(&mut waiting);
        waiting.into_iter().for_each(|index| self.search.as_soon_as_possible(index, slot));
    }

    /// Inserts what is left of transfers beyond what is planned.
    fn make_up(&mut self, now: &Now<'a>) {
        for index in now.open().collect::<Vec<_>>() {
            let planned: f64 =
                self.shares(index).filter(|one| one.0 >= now.slot).map(|s| s.1).sum();
            let missing = now.left[index] - planned;
            if missing > EPSILON * now.problem().transfers[index].bytes {
                let turn = self.search.insert_more(index, now.slot, missing, now.summed(index));
                self.more.push((index, turn));
            }
        }
    }

    fn give(&self, now: &mut Now<'a>) {
        let slot = now.slot;
        for pair in 0..now.problem().pairs.len() {
            now.board.light(slot, pair, self.search.board.circuits(slot, pair));
        }
        for index in now.open().collect::<Vec<_>>() {
            let (mut bytes, mut later) = (0.0, 0.0);
            for (at, share) in self.shares(index).filter(|one| one.0 >= slot) {
                *if at == slot { &mut bytes } else { &mut later } += share;
            }
            let bytes = if later == 0.0 && bytes > 0.0 { now.left[index] } else { bytes };
            let Some(turn) = self.search.turn(index) else { continue };
            let bytes = bytes.min(now.room(index, turn.summed));
            if bytes > 0.0 {
                now.give(index, turn.summed, bytes);
            }
        }
    }

    /// Keeps circuits lit until their ports are needed, those that are needed soonest first.
    fn keep(&self, now: &mut Now<'a>) {
        let (slot, planned) = (now.slot, &self.search.board);
        let needs_more =
            |pair: usize, at: usize| planned.circuits(at, pair) > now.board.circuits(slot, pair);
        let next_use = |pair: usize| (slot + 1..planned.slots()).find(|at| needs_more(pair, *at));
        let mut idle: Vec<(usize, usize)> = (0..now.problem().pairs.len())
            .filter(|pair| now.board.lit(slot, *pair) > now.board.circuits(slot, *pair))
            .map(|pair| (next_use(pair).unwrap_or(usize::MAX), pair))
            .collect();
        idle.sort_unstable();
        for (_, pair) in idle {
            let more = now.board.lit(slot, pair) - now.board.circuits(slot, pair);
            now.board.light(slot, pair, more);
        }
    }

    fn shares(&self, index: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let more = self.more.iter().filter(move |(of, _)| *of == index).map(|(_, turn)| turn);
        self.search.turn(index).into_iter().chain(more).flat_map(|turn| turn.shares.iter().copied())
    }
}

/// Circuits of a slot, then ports that work.
fn state(board: &Board<'_>, slot: usize) -> Vec<u32> {
    let circuits = (0..board.problem.pairs.len()).map(|pair| board.circuits(slot, pair));
    circuits.chain(board.ports().iter().copied()).collect()
}
