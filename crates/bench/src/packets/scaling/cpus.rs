//! Test-runs of one job, or of several, on several CPUs at once.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Barrier;
use std::thread;

use super::super::job::{Job, Share};
use super::{Parameters, Placement};
use wiresum_xdp::XdpError;
use wiresum_xdp::test_run::{self, stay_on};

/// What runs on each CPU.
const PROGRAM: &str = "feed_and_aggregate";

/// Test-runs of one job, or of several, on several CPUs at once.
pub struct Cpus {
    cpus: Vec<usize>,
    /// One for all CPUs, or one for each.
    jobs: Vec<Job>,
    /// Program of each CPU.
    programs: Vec<OwnedFd>,
    /// Packets of one CPU in one pass.
    packets: u32,
    /// Where the programs are attached.
    _networks: Vec<File>,
}

impl Cpus {
    /// On at most `most` of the CPUs that this process may use.
    pub fn new(
        parameters: &Parameters,
        values: usize,
        batch: u32,
        placement: Placement,
        most: usize,
    ) -> Result<Self, XdpError> {
        let Parameters { working_set, children, ref options, .. } = *parameters;
        let cpus: Vec<usize> = test_run::cpus().into_iter().take(most).collect();
        let job_count = if placement == Placement::Apart { cpus.len() } else { 1 };
        let new_job = |_| Job::new(values, working_set, children, options);
        let mut jobs = (0..job_count).map(new_job).collect::<Result<Vec<_>, _>>()?;
        for job in &jobs {
            let index = |cpu| cpus.iter().position(|used| *used == cpu).unwrap_or(0);
            let all =
                Sharing { placement, cpus: cpus.len() as u32, children: children as u32, batch };
            job.share_out(|cpu| all.share(index(cpu) as u32))?;
        }
        let networks =
            jobs.iter_mut().map(|job| job.keep_ready(PROGRAM)).collect::<Result<_, _>>()?;
        let program = |index: usize| jobs[index % job_count].program(PROGRAM);
        let programs = (0..cpus.len()).map(program).collect::<Result<_, _>>();
        let programs = programs.map_err(|cause| test_run::refused(PROGRAM, &cause))?;
        let packets = jobs[0].entry_count() * children as u32 / cpus.len() as u32;
        Ok(Self { cpus, jobs, programs, packets, _networks: networks })
    }

    /// How many CPUs there are.
    pub fn count(&self) -> usize {
        self.cpus.len()
    }

    /// Packets per second that all CPUs together have summed. A virtual machine may stop a CPU for milliseconds while it is at a
    /// slot: packets that others drop meanwhile are not among them, and there is nothing else that may be missing.
    pub fn run(&self, passes: usize) -> Result<f64, XdpError> {
        let (summed, contended) = (self.count_of(Job::summed)?, self.count_of(Job::contended)?);
        let seconds = (0..passes).map(|_| self.pass()).sum::<Result<f64, _>>()?;
        let packets = passes as u64 * self.cpus.len() as u64 * u64::from(self.packets);
        let summed = self.count_of(Job::summed)? - summed;
        let contended = self.count_of(Job::contended)? - contended;
        assert_eq!(summed + contended, packets, "every packet is summed, or found its slot taken");
        Ok(summed as f64 / seconds)
    }

    fn count_of(&self, count: impl Fn(&Job) -> Result<u64, XdpError>) -> Result<u64, XdpError> {
        self.jobs.iter().map(count).sum()
    }

    /// Seconds of the slowest CPU.
    fn pass(&self) -> Result<f64, XdpError> {
        let start = &Barrier::new(self.cpus.len());
        let (frame, packets) = (&self.jobs[0].frame(), self.packets);
        thread::scope(|scope| {
            let run =
                |(cpu, program)| scope.spawn(move || run_on(cpu, program, frame, packets, start));
            let threads: Vec<_> = self.cpus.iter().zip(&self.programs).map(run).collect();
            threads.into_iter().try_fold(0.0, |slowest, thread| {
                let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                ended.map(|seconds| f64::max(slowest, seconds))
            })
        })
    }
}

/// Seconds that the packets take on one CPU, which starts when all do.
fn run_on(
    cpu: &usize,
    program: &OwnedFd,
    frame: &[u8],
    packets: u32,
    start: &Barrier,
) -> Result<f64, XdpError> {
    stay_on(*cpu);
    start.wait();
    let run = test_run::run(program.as_fd(), frame, packets);
    let run = run.map_err(|cause| test_run::refused(PROGRAM, &cause))?;
    Ok(run.nanoseconds as f64 * f64::from(packets) * 1e-9)
}

/// Who gets which packets.
struct Sharing {
    placement: Placement,
    cpus: u32,
    children: u32,
    batch: u32,
}

impl Sharing {
    /// What comes in on the CPU with this index.
    fn share(&self, index: u32) -> Share {
        let batch = self.batch;
        let first_child = |index| index * self.children / self.cpus;
        match self.placement {
            Placement::Apart => Share { children: 0..self.children, first: 0, batch, skip: 0 },
            Placement::Own => {
                let (first, skip) = (index * batch, (self.cpus - 1) * batch);
                Share { children: 0..self.children, first, batch, skip }
            }
            Placement::Shared => {
                let children = first_child(index)..first_child(index + 1);
                Share { children, first: 0, batch, skip: 0 }
            }
        }
    }
}
