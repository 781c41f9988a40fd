//! Turns for all transfers by a given time: insertion, then ruin and recreate.

use wiresum_netem::Rng;

use super::factors;
use super::insertion::{self, Prices, Span};
use crate::Summed;
use crate::board::{Board, Turn};
use crate::bound::slots_until;
use crate::problem::{EPSILON, Problem};
use crate::scheduler::Plan;

/// Turns that are taken out in one round.
const RUIN: std::ops::RangeInclusive<u64> = 3..=24;
/// Rounds for an aim, in parts of those without progress after which it is given up.
const MOST_ROUNDS: usize = 8;
/// Work of a round, in transfers that are inserted times slots that are looked at, beyond which it counts as several: who
/// leaves thousands of flows over on a long horizon would search for hours.
const ROUND_WORK: usize = 10_000;
/// Share of all needs that insertion may leave over for the search to begin at all.
const HOPELESS: f64 = 0.12;
/// How often a transfer that can be summed either way is asked to change that.
const FLIP: f64 = 0.2;
/// How often turns of all units of a transfer are taken out; otherwise of one of them.
const ALL_UNITS: f64 = 0.5;
/// How often whole pairs are cleared.
const WHOLE_PAIRS: f64 = 0.3;
/// Pairs that are cleared together.
const MOST_PAIRS: u64 = 4;
/// How often turns are put back in the order of their need; otherwise in any order.
const BY_NEED: f64 = 0.5;
/// By how much weights of those left over grow in a round, all together, in parts of the mean need: who finds no room
/// for long may push out more and more others.
const IMPATIENCE: f64 = 0.3;

/// Transfers on a board, all of which are to be complete by one time.
#[derive(Clone)]
pub struct Search<'a> {
    pub(super) board: Board<'a>,
    pub(super) turns: Vec<Option<Turn>>,
    pub(super) left_over: Vec<usize>,
    /// How each transfer is summed by preference.
    wanted: Vec<Summed>,
    /// By transfer and way, the slot after the last in which it may send.
    pub(super) deadlines: Vec<[usize; 2]>,
    /// What a transfer asks for, in port-slots or slots of a place: the sooner it is inserted.
    need: Vec<f64>,
    /// What it costs to leave a transfer over: its need, and more with every round in which it found no room.
    weight: Vec<f64>,
    /// By how much all weights grow in a round.
    impatience: f64,
    /// Transfers of each unit's ports and places.
    at_units: Vec<Vec<usize>>,
    /// Transfers that were inserted, times slots that were looked at.
    pub(super) work: usize,
    pub(super) rng: Rng,
    pub(super) prices: Prices,
    /// Whether set-ups are what is made fewer.
    pub(super) saves_setups: bool,
}

impl<'a> Search<'a> {
    /// Begins with an empty board.
    pub fn new(problem: &'a Problem<'a>, seed: u64, by_switch: &[f64], completion_s: f64) -> Self {
        let transfers = &problem.transfers;
        let wanted = transfers.iter().zip(by_switch).map(|(transfer, share)| {
            let by_server = transfer.mode(Summed::ByServer).crossings.is_empty() && *share < 0.75;
            if transfer.can_be(Summed::BySwitch) && *share >= 0.5 && !by_server {
                Summed::BySwitch
            } else {
                Summed::ByServer
            }
        });
        let mut at_units = vec![Vec::new(); problem.units()];
        for index in 0..transfers.len() {
            units_of(problem, index).into_iter().for_each(|unit| at_units[unit].push(index));
        }
        let need: Vec<f64> = (0..transfers.len()).map(|index| need(problem, index)).collect();
        let mean = need.iter().sum::<f64>() / need.len() as f64;
        let mut search = Self {
            weight: need.iter().map(|need| mean + need).collect(),
            impatience: IMPATIENCE * mean,
            board: Board::new(problem, 0),
            turns: vec![None; transfers.len()],
            left_over: (0..transfers.len()).collect(),
            wanted: wanted.collect(),
            deadlines: Vec::new(),
            need,
            at_units,
            work: 0,
            rng: Rng::new(seed),
            prices: Prices::ROOM,
            saves_setups: false,
        };
        search.aim(completion_s);
        search
    }

    /// Aims at another time, which is not before the last one.
    pub fn aim(&mut self, completion_s: f64) {
        self.aim_until(completion_s, slots_until(self.board.problem, completion_s));
    }

    fn aim_until(&mut self, completion_s: f64, slots: usize) {
        let problem = self.board.problem;
        self.board.resize(slots);
        self.deadlines = problem
            .transfers
            .iter()
            .map(|transfer| {
                Summed::ALL.map(|summed| {
                    let mode = transfer.modes[summed as usize].as_ref();
                    let until = |update_s: f64| slots_until(problem, completion_s - update_s);
                    mode.map_or(0, |mode| until(mode.update_s))
                })
            })
            .collect();
    }

    /// Aims at a time before the last one: turns that end too late are left over.
    pub fn hasten(&mut self, completion_s: f64) {
        let until = self.board.slots();
        self.aim_until(completion_s, until);
        for index in 0..self.turns.len() {
            let is_late = self.turns[index].as_ref().is_some_and(|turn| {
                let last = turn.shares.last().map_or(0, |(slot, _)| *slot);
                last >= self.deadlines[index][turn.summed as usize]
            });
            if is_late && let Some(turn) = self.turns[index].take() {
                self.board.take_turn(&self.board.problem.transfers[index], &turn);
                self.left_over.push(index);
            }
        }
        self.board.shorten(slots_until(self.board.problem, completion_s));
    }

    /// Takes over what another scheduler has planned until a time, without the circuits that it keeps lit for nobody.
    pub fn adopt(&mut self, plan: Plan<'a>, completion_s: f64) {
        self.board = plan.board;
        self.board.trim_from(0);
        self.board.commit();
        self.turns = plan.turns.into_iter().map(Some).collect();
        self.left_over.clear();
        self.aim(completion_s);
    }

    /// Whether every transfer has found its turn, at most so many rounds after the last progress.
    pub fn reach(&mut self, rounds: usize) -> bool {
        let mut first = std::mem::take(&mut self.left_over);
        self.sort_by_need(&mut first);
        self.left_over = self.insert_all(&first);
        self.board.commit();
        let all: f64 = self.need.iter().sum();
        if self.missing() > HOPELESS * all {
            return false;
        }
        let mut least = self.left_over.len();
        let (mut all, mut since) = (0, 0);
        while !self.left_over.is_empty() && since < rounds && all < MOST_ROUNDS * rounds {
            let before = self.work;
            self.round();
            let count = (self.work - before).div_ceil(ROUND_WORK).max(1);
            since += count;
            all += count;
            if self.left_over.len() < least {
                (least, since) = (self.left_over.len(), 0);
            }
            let more = self.impatience / self.left_over.len().max(1) as f64;
            self.left_over.iter().for_each(|index| self.weight[*index] += more);
        }
        self.left_over.is_empty()
    }

    /// The board, and a turn for each transfer.
    pub fn into_parts(self) -> (Board<'a>, Vec<Turn>) {
        let turns = self.turns.into_iter().map(|turn| turn.expect("all have found their turn"));
        (self.board, turns.collect())
    }

    pub(super) fn summed(&self, index: usize) -> Summed {
        self.turns[index].as_ref().map_or(self.wanted[index], |turn| turn.summed)
    }

    /// One of those left over is tried again, with neighbours taken out; kept unless more is missing then.
    fn round(&mut self) {
        let at = self.rng.below(self.left_over.len() as u64) as usize;
        let weight = |search: &Self, left: &[usize]| -> f64 {
            left.iter().map(|index| search.weight[*index]).sum()
        };
        let before = weight(self, &self.left_over);
        self.attempt(self.left_over[at], |search, left| {
            weight(search, left) <= before * (1.0 + EPSILON)
        });
    }

    /// Takes turns out around one transfer, and inserts them anew with all that are left over. `accepts` is asked with
    /// those that are left over then; if it refuses, all is as before.
    pub(super) fn attempt(
        &mut self,
        around: usize,
        accepts: impl FnOnce(&mut Self, &[usize]) -> bool,
    ) {
        let out = self.neighbours(around);
        let mark = self.board.mark();
        let kept: Vec<(usize, Option<Turn>)> = out
            .iter()
            .chain(&self.left_over)
            .map(|index| (*index, self.turns[*index].take()))
            .collect();
        for (index, turn) in &kept {
            if let Some(turn) = turn {
                self.board.take_turn(&self.board.problem.transfers[*index], turn);
            }
        }
        let wanted: Vec<Summed> = kept.iter().map(|(index, _)| self.wanted[*index]).collect();
        for index in &out {
            if !self.saves_setups && self.rng.chance(FLIP) {
                self.flip(*index);
            }
        }
        let mut first = self.left_over.clone();
        let mut rest: Vec<usize> =
            out.into_iter().filter(|index| !self.left_over.contains(index)).collect();
        if self.rng.chance(BY_NEED) {
            self.sort_by_need(&mut rest)
        } else {
            self.shuffle(&mut rest)
        }
        self.shuffle(&mut first);
        first.extend(rest);
        let left = self.insert(&first);
        if accepts(self, &left) {
            self.left_over = left;
            self.board.commit();
            return;
        }
        self.board.undo(mark);
        for ((index, turn), wanted) in kept.into_iter().zip(wanted) {
            self.turns[index] = turn;
            self.wanted[index] = wanted;
        }
    }

    /// Some of those that share a unit's ports or places with a transfer.
    fn neighbours(&mut self, around: usize) -> Vec<usize> {
        let units = units_of(self.board.problem, around);
        let one = self.rng.below(units.len() as u64) as usize;
        let units = if self.rng.chance(ALL_UNITS) { &units[..] } else { &units[one..=one] };
        let here = units.iter().flat_map(|unit| &self.at_units[*unit]).copied();
        let mut candidates: Vec<usize> =
            here.filter(|index| self.turns[*index].is_some()).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let most = RUIN.end() - RUIN.start() + 1;
        let count = ((RUIN.start() + self.rng.below(most)) as usize).min(candidates.len());
        let mut out = candidates;
        for at in 0..count {
            let other = at + self.rng.below((out.len() - at) as u64) as usize;
            out.swap(at, other);
        }
        if self.rng.chance(WHOLE_PAIRS) {
            self.keep_whole_pairs(&mut out, count);
        } else {
            out.truncate(count);
        }
        if self.turns[around].is_some() && !out.contains(&around) {
            out.push(around);
        }
        out
    }

    /// Keeps those of some transfers that cross a pair of the first few, so that circuits can move as a whole, and a
    /// few others.
    fn keep_whole_pairs(&mut self, out: &mut Vec<usize>, count: usize) {
        let few = 1 + self.rng.below(MOST_PAIRS) as usize;
        let problem = self.board.problem;
        let crossed = |index: usize| {
            let mode = problem.transfers[index].mode(self.summed(index));
            mode.crossings.iter().map(|crossing| crossing.pair)
        };
        let pairs: Vec<usize> =
            out.iter().take(count).flat_map(|index| crossed(*index)).take(few).collect();
        let mut others = count / 4;
        out.retain(|index| {
            if crossed(*index).any(|pair| pairs.contains(&pair)) {
                return true;
            }
            let stays = others > 0;
            others = others.saturating_sub(1);
            stays
        });
    }

    fn flip(&mut self, index: usize) {
        let can = self.board.problem.transfers[index].can_be(Summed::BySwitch);
        self.wanted[index] = match self.wanted[index] {
            Summed::ByServer if can => Summed::BySwitch,
            _ => Summed::ByServer,
        };
    }

    /// Inserts transfers in this order; if some found no room, and all may pause, tries it with 2-factors first.
    fn insert_all(&mut self, order: &[usize]) -> Vec<usize> {
        let mark = self.board.mark();
        let left = self.insert(order);
        if left.is_empty() || order.len() < self.turns.len() || !factors::suit(self.board.problem) {
            return left;
        }
        // A copy: turns that are put back in another order may need other circuits.
        let board = self.board.clone();
        let turns = std::mem::replace(&mut self.turns, vec![None; order.len()]);
        self.board.undo(mark);
        factors::light(&mut self.board);
        let again = self.insert(order);
        if self.sum_of_needs(&again) <= self.sum_of_needs(&left) {
            return again;
        }
        (self.board, self.turns) = (board, turns);
        left
    }

    /// Inserts transfers in this order; returns those that found no room.
    fn insert(&mut self, order: &[usize]) -> Vec<usize> {
        let mut left = Vec::new();
        self.work += order.len() * self.board.slots();
        for index in order {
            match self.cheapest(*index) {
                Some(turn) => {
                    self.board.put_turn(&self.board.problem.transfers[*index], &turn);
                    self.turns[*index] = Some(turn);
                }
                None => left.push(*index),
            }
        }
        left
    }

    /// In the way that is wanted, or else in the other; while set-ups are saved, in the cheaper one.
    fn cheapest(&mut self, index: usize) -> Option<Turn> {
        let transfer = &self.board.problem.transfers[index];
        let wanted = self.wanted[index];
        let mut ways: Vec<Summed> = transfer.ways().collect();
        ways.sort_by_key(|summed| *summed != wanted);
        let saves_setups = self.saves_setups;
        let mut found = ways.into_iter().filter_map(|summed| {
            let until = self.deadlines[index][summed as usize];
            let span = Span { from: transfer.release, until, prices: self.prices };
            insertion::cheapest(&mut self.board, transfer, summed, span)
        });
        let found =
            if saves_setups { found.min_by(|a, b| a.0.total_cmp(&b.0)) } else { found.next() };
        found.map(|(_, turn)| turn)
    }

    fn missing(&self) -> f64 {
        self.sum_of_needs(&self.left_over)
    }

    fn sum_of_needs(&self, indices: &[usize]) -> f64 {
        indices.iter().map(|index| self.need[*index]).sum()
    }

    /// Least time to spare first, then the largest.
    pub fn sort_by_need(&self, indices: &mut [usize]) {
        let transfers = &self.board.problem.transfers;
        let spare = |index: usize| {
            let until = self.deadlines[index][self.wanted[index] as usize];
            let least = transfers[index].least_slots(self.wanted[index]);
            until.saturating_sub(transfers[index].release + least)
        };
        let pairs = |index: usize| transfers[index].mode(self.wanted[index]).crossings.len();
        indices.sort_by(|a, b| {
            let by_time = spare(*a).cmp(&spare(*b));
            let by_pairs = pairs(*b).cmp(&pairs(*a));
            let by_need = self.need[*b].total_cmp(&self.need[*a]);
            by_time.then(by_pairs).then(by_need).then(a.cmp(b))
        });
    }

    fn shuffle(&mut self, indices: &mut [usize]) {
        for at in (1..indices.len()).rev() {
            indices.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
    }
}

/// Units whose ports or places a transfer may take; all of its own if there are none.
fn units_of(problem: &Problem<'_>, index: usize) -> Vec<usize> {
    let modes = problem.transfers[index].modes.iter().flatten();
    let mut units: Vec<usize> = modes
        .flat_map(|mode| {
            let pairs = mode.crossings.iter().flat_map(|crossing| problem.pairs[crossing.pair]);
            pairs.chain(mode.places.iter().copied())
        })
        .collect();
    if units.is_empty() {
        let pools = &problem.transfers[index].mode(Summed::ByServer).pools;
        units.extend(pools.iter().map(|(pool, _)| problem.unit_of_pool(*pool)));
    }
    units.sort_unstable();
    units.dedup();
    units
}

/// What a transfer asks for: port-slots if it is summed by a server, and a little for its switches.
pub fn need(problem: &Problem<'_>, index: usize) -> f64 {
    const SWITCH: f64 = 0.1;
    let transfer = &problem.transfers[index];
    let mode = transfer.mode(Summed::ByServer);
    let ports: f64 = mode.crossings.iter().map(|crossing| crossing.times).sum();
    let ports = transfer.bytes * ports / problem.lit_bytes;
    let switches = mode.pools.iter().map(|(pool, times)| times / problem.pools[*pool]);
    ports + SWITCH * transfer.bytes * switches.sum::<f64>()
}
