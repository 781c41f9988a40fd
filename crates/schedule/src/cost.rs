//! What a timetable costs, the same for every scheduler.

use serde::{Deserialize, Serialize};

use crate::Summed;
use crate::judge::{Light, Progress};
use crate::problem::Problem;

/// What a timetable costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// When the last job is complete, its update included, in seconds from 0 (CT-BTI).
    pub completion_s: f64,
    /// From a job's first byte to its end (ICT), in seconds.
    pub iteration_s: Spread,
    /// From a job's arrival to its end (JCT), in seconds.
    pub sojourn_s: Spread,
    /// Σ weight × sojourn, over Σ weight, in seconds.
    pub weighted_s: f64,
    /// The greatest slowdown: a job's sojourn in parts of the time that it needs if it is alone and a server sums it.
    #[serde(default)]
    pub slowdown: f64,
    /// Circuits that were added.
    pub setups: u32,
    /// Orders to the optical switch, where each job orders the circuits that it finds missing.
    pub reconfigurations: u32,
    /// Share of the workers' bytes that switches summed.
    pub share_summed: f64,
    /// Bytes on circuits, in the busier direction, over what they could carry while lit.
    pub light_used: f64,
    /// Job by job, in the order of the instance.
    pub jobs: Vec<JobCost>,
}

/// Over all jobs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99 of 100 jobs take no longer.
    pub p99: f64,
}

/// One job's times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCost {
    /// Its id.
    pub job: u32,
    /// Who summed it.
    pub by: Summed,
    /// When it sent its first byte, in seconds.
    pub start_s: f64,
    /// When it was complete, its update included, in seconds.
    pub end_s: f64,
}

impl Cost {
    pub(crate) fn new(problem: &Problem<'_>, progress: &[Progress], light: &Light) -> Self {
        let instance = problem.instance;
        let mut jobs: Vec<JobCost> = instance
            .jobs
            .iter()
            .map(|job| JobCost {
                job: job.id,
                by: Summed::ByServer,
                start_s: f64::INFINITY,
                end_s: 0.0,
            })
            .collect();
        let (mut summed, mut sent) = (0.0, 0.0);
        for (transfer, done) in problem.transfers.iter().zip(progress) {
            let by = done.summed.unwrap_or_default();
            let mode = transfer.mode(by);
            let job = &mut jobs[transfer.job];
            job.by = by;
            job.start_s = job.start_s.min(done.start_s);
            job.end_s = job.end_s.max(done.end_s + mode.update_s);
            let times = problem.passed(mode);
            let bytes = done.bytes * if by == Summed::BySwitch { times } else { times / 2.0 };
            sent += bytes;
            summed += if by == Summed::BySwitch { bytes } else { 0.0 };
        }
        let arrivals = instance.jobs.iter().map(|job| job.arrival_s);
        let sojourns: Vec<f64> =
            jobs.iter().zip(arrivals).map(|(j, at_s)| j.end_s - at_s).collect();
        let weights = instance.jobs.iter().map(|job| job.weight);
        let weighted: f64 = weights.clone().zip(&sojourns).map(|(weight, s)| weight * s).sum();
        let slowdown = alone_s(problem).into_iter().zip(&sojourns).map(|(alone_s, s)| s / alone_s);
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Self {
            completion_s: jobs.iter().map(|job| job.end_s).fold(0.0, f64::max),
            iteration_s: Spread::of(jobs.iter().map(|job| job.end_s - job.start_s).collect()),
            weighted_s: weighted / weights.sum::<f64>(),
            slowdown: slowdown.fold(0.0, f64::max),
            sojourn_s: Spread::of(sojourns),
            setups: light.setups,
            reconfigurations: light.reconfigurations,
            share_summed: share(summed, sent),
            light_used: share(light.carried_bytes, light.lit_bytes),
            jobs,
        }
    }
}

/// What each job needs if it is alone and servers sum it, in seconds; less than any schedule in slots takes.
pub(crate) fn alone_s(problem: &Problem<'_>) -> Vec<f64> {
    let mut jobs = vec![Vec::new(); problem.instance.jobs.len()];
    for (index, transfer) in problem.transfers.iter().enumerate() {
        jobs[transfer.job].push(index);
    }
    let updates = jobs.iter().map(|job| {
        let modes = job.iter().map(|index| problem.transfers[*index].mode(Summed::ByServer));
        modes.map(|mode| mode.update_s).fold(0.0, f64::max)
    });
    let slots =
        jobs.iter().map(|job| problem.slots_alone(job, |index| problem.transfers[index].bytes));
    slots.zip(updates).map(|(slots, update_s)| slots * problem.instance.slot_s + update_s).collect()
}

impl Spread {
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let index = (share * seconds.len() as f64).ceil() as usize;
            seconds[index.clamp(1, seconds.len()) - 1]
        };
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        Self { mean, p50: rank(0.5), p99: rank(0.99) }
    }
}
