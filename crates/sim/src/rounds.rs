//! Who is in which collective: the same at every fidelity.

use std::collections::VecDeque;

use wiresum_netem::Rng;

use crate::network::{picoseconds, seconds};
use crate::record::tell;
use crate::scenario::{Scenario, WorkerTimes};
use crate::{Record, SimulationError, Sink};

/// A worker's times, each from a generator of its own: they are the same whatever else happens.
struct Worker {
    rng: Rng,
    /// When it began to compute, and when it has its gradients.
    compute_ps: u64,
    begin_ps: u64,
}

/// A collective that someone has begun.
#[derive(Default)]
struct Open {
    first_begin_ps: Option<u64>,
    last_begin_ps: u64,
    finished: usize,
}

struct Job {
    name: String,
    count: u32,
    times: Vec<WorkerTimes>,
    workers: Vec<Worker>,
    /// From round `ended` on.
    open: VecDeque<Open>,
    ended: u32,
}

/// Every job's collectives.
pub(crate) struct Rounds {
    jobs: Vec<Job>,
    ended: u64,
    last_end_ps: u64,
}

impl Rounds {
    /// The rounds of jobs by name, number of collectives, and times of their workers.
    pub fn new<'a>(
        seed: u64,
        jobs: impl Iterator<Item = (&'a str, u32, Vec<WorkerTimes>)>,
    ) -> Self {
        let rng = |job: usize, rank: usize| {
            let mixed = seed ^ (job as u64) << 48 ^ (rank as u64) << 16 ^ 0x7157;
            Rng::new(Rng::new(mixed).next())
        };
        let worker = |job, rank| Worker { rng: rng(job, rank), compute_ps: 0, begin_ps: 0 };
        let job = |(index, (name, count, times)): (usize, (&str, u32, Vec<WorkerTimes>))| Job {
            name: name.to_owned(),
            count,
            workers: (0..times.len()).map(|rank| worker(index, rank)).collect(),
            times,
            open: VecDeque::new(),
            ended: 0,
        };
        Self { jobs: jobs.enumerate().map(job).collect(), ended: 0, last_end_ps: 0 }
    }

    /// The rounds of the scenario's jobs; of a sparse job, those that its rows and its dense part have together.
    pub fn of_jobs(scenario: &Scenario) -> Self {
        if let Some(rows) = &scenario.rows {
            let times = vec![WorkerTimes::AT_ONCE; rows.workers.len()];
            let together = (rows.name.as_str(), rows.rounds(), times);
            return Self::new(scenario.seed, [together].into_iter());
        }
        let jobs = scenario.jobs.iter().map(|j| (j.name.as_str(), j.rounds, j.workers.clone()));
        Self::new(scenario.seed, jobs)
    }

    /// When a worker that is free now begins with `round`, and how many seconds it computes in it.
    pub fn start(&mut self, job: usize, rank: usize, round: u32, now_ps: u64) -> (u64, f64) {
        let Job { times, workers, .. } = &mut self.jobs[job];
        let (times, worker) = (&times[rank], &mut workers[rank]);
        let start_s = if round == 0 { times.start.sample(&mut worker.rng) } else { 0.0 };
        worker.compute_ps = now_ps + picoseconds(start_s);
        (worker.compute_ps, times.compute.sample(&mut worker.rng))
    }

    /// When a worker that is free now has its gradients for `round`.
    pub fn schedule(&mut self, job: usize, rank: usize, round: u32, now_ps: u64) -> u64 {
        let (start_ps, compute_s) = self.start(job, rank, round, now_ps);
        start_ps + picoseconds(compute_s)
    }

    /// A worker has its gradients, or whatever it passes first.
    pub fn begin(&mut self, job: usize, rank: usize, round: u32, now_ps: u64) {
        let job = &mut self.jobs[job];
        job.workers[rank].begin_ps = now_ps;
        let index = (round - job.ended) as usize;
        while job.open.len() <= index {
            job.open.push_back(Open::default());
        }
        let open = &mut job.open[index];
        open.first_begin_ps.get_or_insert(now_ps);
        open.last_begin_ps = now_ps;
    }

    /// A worker has the sums. The next round, if there is one.
    pub fn finish(
        &mut self,
        job: usize,
        rank: usize,
        round: u32,
        now_ps: u64,
        sink: &mut Sink,
    ) -> Result<Option<u32>, SimulationError> {
        let job = &mut self.jobs[job];
        let worker = &job.workers[rank];
        tell(
            sink,
            &Record::Worker {
                job: job.name.clone(),
                rank,
                round,
                compute_s: seconds(worker.compute_ps),
                begin_s: seconds(worker.begin_ps),
                end_s: seconds(now_ps),
            },
        )?;
        job.open[(round - job.ended) as usize].finished += 1;
        self.last_end_ps = now_ps;
        while job.open.front().is_some_and(|open| open.finished == job.workers.len()) {
            let open = job.open.pop_front().unwrap_or_default();
            tell(
                sink,
                &Record::Round {
                    job: job.name.clone(),
                    round: job.ended,
                    begin_s: seconds(open.first_begin_ps.unwrap_or(0)),
                    last_begin_s: seconds(open.last_begin_ps),
                    end_s: seconds(now_ps),
                },
            )?;
            job.ended += 1;
            self.ended += 1;
        }
        Ok((round + 1 < job.count).then_some(round + 1))
    }

    /// Whether every collective of a job has ended.
    pub fn is_over(&self, job: usize) -> bool {
        self.jobs[job].ended == self.jobs[job].count
    }

    /// When the last collective ended.
    pub fn last_end_ps(&self) -> u64 {
        self.last_end_ps
    }

    pub fn ended(&self) -> u64 {
        self.ended
    }

    pub fn total(&self) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.count)).sum()
    }

    /// Whether every collective of every job has ended.
    pub fn are_over(&self) -> bool {
        self.ended == self.total()
    }
}
