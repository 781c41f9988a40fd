//! Rivals whose circuits are held until their flow is complete, and one whose circuits are never changed.

use super::ordered::{bottleneck, bssi, open_jobs, serve, serve_all};
use super::slots::Now;
use super::{Options, Slots};
use crate::ScheduleError;
use crate::board::Board;
use crate::problem::{Problem, even};

/// The shortest coflow first, each flow on a circuit of its own from its begin to its end (Sunflow, CoNEXT '16). Units
/// have several ports here, and circuits begin with slots.
pub fn sunflow<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(Slots::new(Board::new(problem, 0), true, move |now| {
        let mut jobs: Vec<(f64, Vec<usize>)> =
            open_jobs(now).into_iter().map(|job| (bottleneck(now, &job), job)).collect();
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        hold(now, jobs.into_iter().map(|(_, job)| job));
    }))
}

/// Weighted coflows on as many cores as units have ports (K-core coflows, 2026): ordered first, then each flow on a
/// circuit of its own. The order is the primal-dual one, with the linear programme's guarantee up to a constant.
pub fn k_core<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    Ok(Slots::new(Board::new(problem, 0), true, move |now| {
        let jobs = bssi(now);
        hold(now, jobs.into_iter());
    }))
}

/// Ports are spread over all pairs evenly, whatever the demand, and stay so.
pub fn uniform<'a>(problem: &'a Problem<'a>, _: &Options) -> Result<Slots<'a>, ScheduleError> {
    let ports: Vec<u32> = (0..problem.units()).map(|unit| problem.ports(unit)).collect();
    let circuits = even(&ports);
    Ok(Slots::new(Board::new(problem, 0), false, move |now| {
        now.may_add = false;
        for (pair, units) in problem.pairs.iter().enumerate() {
            let lit = circuits.iter().find(|(joined, _)| joined == units);
            now.board.light(now.slot, pair, lit.map_or(0, |(_, count)| *count));
        }
        now.go_on(|_| f64::INFINITY);
        serve_all(now);
    }))
}

/// Those that have begun keep their circuits; others begin in this order, the longest flow of a job first, with one
/// circuit for each of their pairs.
fn hold(now: &mut Now<'_>, jobs: impl Iterator<Item = Vec<usize>>) {
    now.may_add = true;
    now.go_on(|_| f64::INFINITY);
    let problem = now.problem();
    for mut job in jobs {
        job.sort_by(|a, b| now.left[*b].total_cmp(&now.left[*a]).then(a.cmp(b)));
        for index in job {
            // A circuit that was dark in its first slot carries more now.
            let given = now.given(index);
            now.may_add = given == 0.0;
            serve(now, index, one_circuit(problem, index) - given);
        }
    }
}

/// Bytes of a transfer that one circuit on each of its pairs carries in a slot.
fn one_circuit(problem: &Problem<'_>, index: usize) -> f64 {
    let modes = problem.transfers[index].modes.iter().flatten();
    let times = modes.flat_map(|mode| &mode.crossings).map(|crossing| crossing.times);
    problem.lit_bytes / times.fold(0.0, f64::max)
}
