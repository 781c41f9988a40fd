//! `turns`: insertion at rates that fill the slot, then ruin and recreate towards the bound.
//!
//! 1. The bound's relaxation says who is summed by switches, and by when all could be complete.
//! 2. Every transfer is inserted where it adds the fewest circuits, those with the least time to spare first.
//! 3. While some are left over, turns of one unit are taken out and inserted anew, those left over first.
//! 4. If some stay left over, the aim moves to a later time: by growing numbers of slots, then by bisection.
//! 5. At the time reached, the same moves make set-ups fewer, and circuits that nobody needs stay lit until somebody
//!    needs their ports.

mod factors;
mod insertion;
mod online;
mod search;
mod soonest;

use super::slots::Slots;
use super::{Objective, Options, Plan};
use crate::ScheduleError;
use crate::board::Board;
use crate::bound::{self, Times};
use crate::problem::Problem;
use search::Search;

/// Aims between the last that was missed and the first that was reached, which are tried again.
const BISECTIONS: usize = 8;
/// Rounds without progress before an aim is given up, for few transfers; many have fewer each.
const ROUNDS: usize = 6_000;

/// With what is known at each arrival.
pub fn online<'a>(problem: &'a Problem<'a>, options: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(online::slots(problem, options.seed))
}

pub fn run<'a>(problem: &'a Problem<'a>, options: &Options) -> Plan<'a> {
    if options.objective != Objective::Completion {
        return finish(soonest::soonest(problem, options));
    }
    let times = Times::new(problem);
    let bound = bound::completion(problem);
    let rounds = rounds(problem, options);
    let at =
        |index: usize| Search::new(problem, options.seed, &bound.by_switch, times.seconds(index));
    let first = times.not_after(bound.completion_s);
    let mut search = at(first);
    let (mut missed, mut reached, mut step) = (first, first, times.per_slot());
    while !search.reach(rounds) {
        missed = reached;
        reached += step;
        step *= 2;
        search.aim(times.seconds(reached));
    }
    for _ in 0..BISECTIONS {
        if reached - missed <= 1 {
            break;
        }
        let middle = missed.midpoint(reached);
        let mut nearer = at(middle);
        if nearer.reach(rounds) {
            search = nearer;
            reached = middle;
        } else {
            missed = middle;
        }
    }
    search.fewer_setups(2 * rounds);
    Plan { bound_s: Some(bound.completion_s), ..finish(search) }
}

/// So many rounds that large instances take about as long as small ones.
fn rounds(problem: &Problem<'_>, options: &Options) -> usize {
    match options.rounds {
        0 => (ROUNDS * 100 / problem.transfers.len().max(100)).max(200),
        rounds => rounds,
    }
}

/// Keeps circuits lit until their ports are needed, those that are needed soonest first.
fn finish(search: Search<'_>) -> Plan<'_> {
    let (mut board, turns) = search.into_parts();
    let pairs = board.problem.pairs.len();
    let next_uses = next_uses(&board, pairs);
    for (slot, next_use) in next_uses.iter().enumerate() {
        let mut idle: Vec<usize> = (0..pairs)
            .filter(|pair| board.lit(slot, *pair) > board.circuits(slot, *pair))
            .collect();
        idle.sort_by_key(|pair| (next_use[*pair], *pair));
        for pair in idle {
            let more = board.lit(slot, pair) - board.circuits(slot, pair);
            board.light(slot, pair, more);
        }
        board.commit();
    }
    Plan { board, turns, bound_s: None }
}

/// For each slot and pair, the next slot after it with more circuits than now.
fn next_uses(board: &Board<'_>, pairs: usize) -> Vec<Vec<usize>> {
    let mut next_uses = vec![vec![usize::MAX; pairs]; board.slots()];
    for slot in (0..board.slots().saturating_sub(1)).rev() {
        let (now, later) = next_uses.split_at_mut(slot + 1);
        for (pair, (now, later)) in now[slot].iter_mut().zip(&later[0]).enumerate() {
            let needs_more = board.circuits(slot + 1, pair) > board.circuits(slot, pair);
            *now = if needs_more { slot + 1 } else { *later };
        }
    }
    next_uses
}
