//! `turns`: insertion at rates that fill the slot, then ruin and recreate towards the bound.
//!
//! 1. The bound's relaxation says who is summed by switches, and by when all could be complete.
//! 2. Every transfer is inserted where it adds the fewest circuits, those with the least time to spare first.
//! 3. While some are left over, turns of one unit, or all of some pairs there, so that their circuits can move, are
//!    taken out and inserted anew, those left over first.
//! 4. If some stay left over, the aim moves to a later time, by growing numbers of slots, at most to that of the first
//!    of its rivals. From there it comes nearer by bisection: turns that are too late then are left over once more.
//! 5. At the time reached, the same moves at other prices make set-ups fewer ([`setups`]), switches sum whom they can
//!    at no cost ([`places`]), and circuits that nobody needs stay lit until somebody needs their ports ([`kept`]).

mod eager;
mod factors;
mod insertion;
mod kept;
mod online;
mod places;
mod search;
mod setups;
mod soonest;

use super::slots::Slots;
use super::{Objective, Options, Plan, Slotwise, fcfs, fullest, held, ordered, window};
use crate::ScheduleError;
use crate::bound::{self, Times};
use crate::problem::Problem;
use search::Search;

/// Who may be complete before the search has found a way.
const RIVALS: [Slotwise; 4] = [window::run, fcfs::run, ordered::varys, fullest::run];
/// Who serves one job after another, in an order that is good for the mean.
const ORDERS: [Slotwise; 4] = [ordered::varys, ordered::sincronia, held::sunflow, held::k_core];
/// Aims between the last that was missed and the first that was reached, which are tried again.
const BISECTIONS: usize = 8;
/// Most searches for the bound, for a hundred transfers or fewer. A slot more costs most where slots are few.
const TRIES: u64 = 4;
/// Rounds without progress before an aim is given up, for few transfers; many have fewer each.
const ROUNDS: usize = 6_000;
/// Rounds for fewer set-ups, in parts of those without progress for an aim.
const SETUP_ROUNDS: usize = 8;
/// The most of them: for few transfers, more find nothing.
const MOST_SETUP_ROUNDS: usize = 12_000;

/// With what is known at each arrival.
pub fn online<'a>(problem: &'a Problem<'a>, options: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(match options.objective {
        Objective::Completion => online::slots(problem, options.seed),
        objective => eager::slots(problem, objective),
    })
}

pub fn run<'a>(problem: &'a Problem<'a>, options: &Options) -> Plan<'a> {
    if options.objective != Objective::Completion {
        return best_for(problem, options);
    }
    let times = Times::new(problem);
    let bound = bound::completion(problem);
    let rounds = rounds(problem, options);
    let first = times.not_after(bound.completion_s);
    let (mut missed, mut reached, mut step) = (first, first, times.per_slot());
    let begin = |seed| Search::new(problem, seed, &bound.by_switch, times.seconds(first));
    let mut search = begin(options.seed);
    for again in 1..tries(problem) {
        if search.reach(rounds) {
            break;
        }
        search = begin(options.seed.wrapping_add(again));
    }
    let mut rival = None;
    while !search.reach(rounds) {
        let (ends_s, plan) = rival.get_or_insert_with(|| first_rival(problem, options));
        missed = reached;
        reached += step;
        step *= 2;
        match plan.take_if(|_| *ends_s <= times.seconds(reached)) {
            Some(plan) => {
                reached = times.not_after(*ends_s);
                search.adopt(plan, *ends_s);
            }
            None => search.aim(times.seconds(reached)),
        }
    }
    let mut best = search.clone();
    for _ in 0..BISECTIONS {
        if reached - missed <= 1 {
            break;
        }
        let middle = missed.midpoint(reached);
        search.hasten(times.seconds(middle));
        if search.reach(rounds) {
            reached = middle;
            best.clone_from(&search);
        } else {
            missed = middle;
            search.clone_from(&best);
        }
    }
    search = best;
    search.fewer_setups((SETUP_ROUNDS * rounds).min(MOST_SETUP_ROUNDS));
    search.use_free_places();
    Plan { bound_s: Some(bound.completion_s), ..finish(search) }
}

/// The schedule of those that decide slot by slot that is complete first, and when.
fn first_rival<'a>(problem: &'a Problem<'a>, options: &Options) -> (f64, Option<Plan<'a>>) {
    let plans = RIVALS.iter().filter_map(|rival| rival(problem, options).ok()?.finish().ok());
    let plans = plans.map(|plan| (last(&ends_s(problem, &plan)), Some(plan)));
    plans.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, None))
}

/// For other objectives than the completion: the best of those who serve one job after another.
fn best_for<'a>(problem: &'a Problem<'a>, options: &Options) -> Plan<'a> {
    let ahead = finish(soonest::soonest(problem, options));
    let eager = eager::slots(problem, options.objective).finish();
    let orders = ORDERS.iter().filter_map(|order| order(problem, options).ok()?.finish().ok());
    let plans = orders.chain(eager).map(|plan| (value(problem, &plan, options.objective), plan));
    let first = (value(problem, &ahead, options.objective), ahead);
    plans.fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
}

fn value(problem: &Problem<'_>, plan: &Plan<'_>, objective: Objective) -> f64 {
    objective.value(problem, &ends_s(problem, plan))
}

/// When each job is complete, its update included, in seconds.
fn ends_s(problem: &Problem<'_>, plan: &Plan<'_>) -> Vec<f64> {
    let mut ends_s = vec![0.0f64; problem.instance.jobs.len()];
    for (transfer, turn) in problem.transfers.iter().zip(&plan.turns) {
        let slots = turn.shares.last().map_or(0, |(slot, _)| slot + 1) as f64;
        let end_s = slots * problem.instance.slot_s + transfer.mode(turn.summed).update_s;
        ends_s[transfer.job] = ends_s[transfer.job].max(end_s);
    }
    ends_s
}

fn last(ends_s: &[f64]) -> f64 {
    ends_s.iter().copied().fold(0.0, f64::max)
}

/// Searches for the bound that begin anew, with other chances: many for few transfers, one where each is long.
fn tries(problem: &Problem<'_>) -> u64 {
    (TRIES * 100 / problem.transfers.len() as u64).clamp(1, TRIES)
}

/// So many rounds that large instances take about as long as small ones.
fn rounds(problem: &Problem<'_>, options: &Options) -> usize {
    match options.rounds {
        0 => (ROUNDS * 100 / problem.transfers.len().max(100)).max(200),
        rounds => rounds,
    }
}

/// The plan of a search that has reached its aim.
fn finish(search: Search<'_>) -> Plan<'_> {
    let (mut board, turns) = search.into_parts();
    kept::keep(&mut board);
    board.commit();
    Plan { board, turns, bound_s: None }
}
