//! With what is known at each arrival: jobs that have begun stay, all others are planned anew, the largest first.

use super::search::Search;
use super::{Options, Plan, finish};
use crate::ScheduleError;
use crate::problem::Problem;

pub fn run<'a>(problem: &'a Problem<'a>, options: &Options) -> Result<Plan<'a>, ScheduleError> {
    let mut arrivals: Vec<usize> = problem.transfers.iter().map(|t| t.release).collect();
    arrivals.sort_unstable();
    arrivals.dedup();
    let mut search = Search::one_by_one(problem, options.seed);
    for slot in arrivals {
        let known =
            (0..problem.transfers.len()).filter(|index| problem.transfers[*index].release <= slot);
        let mut waiting: Vec<usize> =
            known.filter(|index| search.take_back(*index, slot)).collect();
        search.sort_by_need(&mut waiting);
        waiting.into_iter().for_each(|index| search.as_soon_as_possible(index, slot));
    }
    Ok(finish(search))
}
