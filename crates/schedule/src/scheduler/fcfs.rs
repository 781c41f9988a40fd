//! First come, first served: each job, in the order of arrival, takes the highest rate that is left, and keeps it.
//!
//! The paper leaves open whether a job that cannot begin blocks those behind it, and whether circuits stay lit when
//! their job is complete: both are options.

use super::{Options, Slots};
use crate::ScheduleError;
use crate::board::{Board, LEAST_SHARE};
use crate::problem::Problem;
use crate::scheduler::slots::Now;

/// Part of its own links' rate that a job waits for before it begins, as it may not pause later.
const LEAST_START: f64 = 1.0 / 16.0;

pub fn run<'a>(problem: &'a Problem<'a>, options: &Options) -> Result<Slots<'a>, ScheduleError> {
    let mut queue: Vec<usize> = (0..problem.transfers.len()).collect();
    let arrival = |index: &usize| problem.instance.jobs[problem.transfers[*index].job].arrival_s;
    queue.sort_by(|a, b| arrival(a).total_cmp(&arrival(b)));
    let blocking = options.blocking;
    Ok(Slots::new(Board::new(problem, 0), options.keep_circuits, move |now| {
        now.go_on(|_| f64::INFINITY);
        for index in &queue {
            let waits = now.left[*index] > 0.0 && problem.transfers[*index].release <= now.slot;
            if waits && !start(now, *index) && blocking {
                break;
            }
        }
    }))
}

/// Gives a transfer what is left, in the first way in which it can begin; false if there is none.
fn start(now: &mut Now<'_>, index: usize) -> bool {
    let transfer = &now.problem().transfers[index];
    for summed in now.ways(index) {
        let room = now.room(index, summed);
        let least = if transfer.contiguous { LEAST_START } else { LEAST_SHARE };
        let wanted = least * transfer.mode(summed).most.min(now.left[index]);
        if (room > 0.0 && room >= wanted)
            || (now.given(index) > 0.0 && room > now.least(index, summed))
        {
            now.give(index, summed, room);
            return true;
        }
    }
    now.given(index) > 0.0
}
