//! Slot by slot with what is known now: jobs in the order of the objective, each at the highest rate that is left.
//!
//! For the mean, the shortest rest goes first, for its weight if that counts; for fairness, the job that has been
//! delayed most in parts of the time that it takes alone. Synchronous jobs that have begun go on.

use crate::board::Board;
use crate::problem::Problem;
use crate::scheduler::Objective;
use crate::scheduler::ordered::{bottleneck, go_on_slowly, open_jobs, serve};
use crate::scheduler::slots::{Now, Slots};

pub fn slots<'a>(problem: &'a Problem<'a>, objective: Objective) -> Slots<'a> {
    let mut alone: Vec<Option<f64>> = vec![None; problem.instance.jobs.len()];
    Slots::new(Board::new(problem, 0), true, move |now| {
        now.may_add = true;
        go_on_slowly(now);
        let mut jobs: Vec<(f64, Vec<usize>)> = open_jobs(now)
            .into_iter()
            .map(|job| {
                let rest = bottleneck(now, &job);
                let alone = *alone[problem.transfers[job[0]].job].get_or_insert(rest);
                (urgency(now, &job, rest, alone, objective), job)
            })
            .collect();
        jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, job) in jobs {
            job.into_iter().for_each(|index| serve(now, index, f64::INFINITY));
        }
    })
}

/// The less, the sooner a job is served. `rest` and `alone` are slots that it needs alone, now and when it came.
fn urgency(now: &Now<'_>, job: &[usize], rest: f64, alone: f64, objective: Objective) -> f64 {
    let transfer = &now.problem().transfers[job[0]];
    match objective {
        Objective::Completion => -rest,
        Objective::Mean => rest,
        Objective::Weighted => rest / now.problem().instance.jobs[transfer.job].weight,
        Objective::Fair => -((now.slot - transfer.release) as f64 + rest) / alone,
    }
}
