//! Rivals that order jobs, or choose circuits, by the demand that is left, and then serve greedily.

use super::{Options, Slots};
use crate::board::Board;
use crate::problem::{Problem, Transfer};
use crate::scheduler::slots::Now;
use crate::{ScheduleError, Summed};

/// Smallest effective bottleneck first (Varys, SIGCOMM '14): a job's flows get the rates at which they end together,
/// and what is left over goes to the jobs in the same order.
pub fn varys<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(Slots::new(Board::new(problem, 0), true, move |now| {
        go_on_slowly(now);
        let mut jobs: Vec<(f64, Vec<usize>)> =
            open_jobs(now).into_iter().map(|job| (bottleneck(now, &job), job)).collect();
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (slots, job) in &jobs {
            job.iter().for_each(|index| serve(now, *index, now.left[*index] / slots.max(1.0)));
        }
        jobs.iter().flat_map(|(_, job)| job).for_each(|index| serve(now, *index, f64::INFINITY));
    }))
}

/// Bottleneck-select-scale-iterate (Sincronia, SIGCOMM '18): on the most loaded port, the job with the most bytes for
/// its weight comes last; its bytes there are charged to the weights of the others.
pub fn sincronia<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(Slots::new(Board::new(problem, 0), true, move |now| {
        go_on_slowly(now);
        for job in bssi(now) {
            job.iter().for_each(|index| serve(now, *index, f64::INFINITY));
        }
    }))
}

/// Heaviest pairs first get circuits for what they have left (Helios, SIGCOMM '10, with a greedy matching).
pub fn matching<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(Slots::new(Board::new(problem, 0), true, move |now| {
        now.may_add = true;
        go_on_slowly(now);
        let mut demands = vec![0.0; problem.pairs.len()];
        for index in now.open() {
            let summed = now.summed(index).unwrap_or_default();
            for crossing in &problem.transfers[index].mode(summed).crossings {
                demands[crossing.pair] += now.left[index] * crossing.times;
            }
        }
        let mut pairs: Vec<usize> = (0..demands.len()).filter(|p| demands[*p] > 0.0).collect();
        pairs.sort_by(|a, b| demands[*b].total_cmp(&demands[*a]).then(a.cmp(b)));
        for pair in pairs {
            let needed = problem.needed(demands[pair], now.board.lit(now.slot, pair));
            let more = needed.saturating_sub(now.board.circuits(now.slot, pair));
            now.board.light(now.slot, pair, more);
        }
        now.may_add = false;
        serve_all(now);
    }))
}

/// All pairs in turn, as many matchings at a time as units have ports (RotorNet, SIGCOMM '17).
///
/// # Errors
/// A synchronous job needs a circuit that moves on while it sends.
pub fn round_robin<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    refuse_synchronous(problem)?;
    let players = problem.units().next_multiple_of(2);
    let rounds = players - 1;
    let ports = (0..problem.units()).map(|unit| problem.ports(unit)).max().unwrap_or(0) as usize;
    let at_a_time = ports.clamp(1, rounds);
    Ok(Slots::new(Board::new(problem, 0), false, move |now| {
        now.may_add = false;
        go_on_slowly(now);
        for turn in 0..at_a_time {
            let round = (now.slot * at_a_time + turn) % rounds;
            for (pair, [a, b]) in problem.pairs.iter().enumerate() {
                if round_of(*a, *b, players) == round {
                    now.board.light(now.slot, pair, 1);
                }
            }
        }
        serve_all(now);
    }))
}

/// Refuses a job that must not pause where circuits move on.
pub(super) fn refuse_synchronous(problem: &Problem<'_>) -> Result<(), ScheduleError> {
    let stops = |transfer: &&Transfer| {
        transfer.contiguous && !transfer.mode(Summed::ByServer).crossings.is_empty()
    };
    let Some(transfer) = problem.transfers.iter().find(stops) else { return Ok(()) };
    Err(ScheduleError::Infeasible {
        job: problem.instance.jobs[transfer.job].id,
        problem: "circuits move on while it sends: set `contiguous` to false".to_owned(),
    })
}

/// In which round of a tournament by the circle method two players meet.
fn round_of(a: usize, b: usize, players: usize) -> usize {
    let rounds = players - 1;
    let sum = if b == rounds { 2 * a } else { a + b };
    // Players a and b meet in the round r with a + b = 2r, modulo the odd number of rounds.
    sum * players / 2 % rounds
}

/// Synchronous jobs that have begun must not pause: they get a small part of what they had.
pub(super) fn go_on_slowly(now: &mut Now<'_>) {
    const PART: f64 = 1.0 / 16.0;
    let problem = now.problem();
    now.go_on(|index| {
        let transfer = &problem.transfers[index];
        let most = transfer.mode(Summed::ByServer).most;
        if transfer.contiguous { most * PART } else { 0.0 }
    });
}

pub(super) fn serve_all(now: &mut Now<'_>) {
    now.open().collect::<Vec<_>>().into_iter().for_each(|index| serve(now, index, f64::INFINITY));
}

/// Gives a transfer so much at most, by the switch where there is a place.
pub(super) fn serve(now: &mut Now<'_>, index: usize, most: f64) {
    for summed in now.ways(index) {
        let bytes = now.room(index, summed).min(most);
        if bytes > now.least(index, summed) {
            return now.give(index, summed, bytes);
        }
    }
}

/// The open transfers of each job.
pub(super) fn open_jobs(now: &Now<'_>) -> Vec<Vec<usize>> {
    let mut jobs: Vec<Vec<usize>> = Vec::new();
    for index in now.open() {
        match jobs.last_mut() {
            Some(job) if same_job(now, job[0], index) => job.push(index),
            _ => jobs.push(vec![index]),
        }
    }
    jobs
}

fn same_job(now: &Now<'_>, a: usize, b: usize) -> bool {
    now.problem().transfers[a].job == now.problem().transfers[b].job
}

/// Slots that the rest of a job needs alone.
pub(super) fn bottleneck(now: &Now<'_>, job: &[usize]) -> f64 {
    now.problem().slots_alone(job, |index| now.left[index])
}

pub(super) fn bssi(now: &Now<'_>) -> Vec<Vec<usize>> {
    let problem = now.problem();
    let mut jobs: Vec<(f64, Vec<f64>, Vec<usize>)> = open_jobs(now)
        .into_iter()
        .map(|job| {
            let weight = problem.instance.jobs[problem.transfers[job[0]].job].weight;
            (weight, problem.port_loads(&job, |index| now.left[index]), job)
        })
        .collect();
    let mut total = vec![0.0; problem.units()];
    for (_, loads, _) in &jobs {
        total.iter_mut().zip(loads).for_each(|(total, load)| *total += load);
    }
    let mut order = Vec::with_capacity(jobs.len());
    while !jobs.is_empty() {
        let port = (0..total.len()).max_by(|a, b| total[*a].total_cmp(&total[*b])).unwrap_or(0);
        let price = |(weight, loads, _): &(f64, Vec<f64>, Vec<usize>)| {
            if loads[port] > 0.0 { weight / loads[port] } else { f64::INFINITY }
        };
        let last = (0..jobs.len())
            .min_by(|a, b| price(&jobs[*a]).total_cmp(&price(&jobs[*b])))
            .expect("a job is left");
        let paid = price(&jobs[last]);
        let (_, loads, job) = jobs.swap_remove(last);
        if paid.is_finite() {
            for (weight, others, _) in &mut jobs {
                *weight = (*weight - paid * others[port]).max(0.0);
            }
        }
        total.iter_mut().zip(&loads).for_each(|(total, load)| *total -= load);
        order.push(job);
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_tournament_each_pair_meets_once_and_each_player_plays_once_a_round() {
        for players in [2, 4, 6, 10] {
            for round in 0..players - 1 {
                let mut plays = vec![0; players];
                for a in 0..players {
                    for b in a + 1..players {
                        if round_of(a, b, players) == round {
                            plays[a] += 1;
                            plays[b] += 1;
                        }
                    }
                }
                assert_eq!(plays, vec![1; players], "round {round} of {players} players");
            }
        }
    }
}
