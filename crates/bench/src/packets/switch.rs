//! What one contribution costs the kernel's switch under each policy, in the same run.
//!
//! *Method.* As in [`super`]: a test-run in which `feed_and_judge` (in `bpf/switch/bench.bpf.c`) turns the packet into the next one
//! each time. All workers contribute to a position, then to the next one, which finds its slot free or finished; so with n workers
//! one packet in n takes a slot, and one leaves with the sum. Nothing collides, as what collides costs less. What is left
//! out is the driver's part, and the sending.

#[cfg(wiresum_bpf)]
mod job;
#[cfg(not(wiresum_bpf))]
#[path = "stub.rs"]
mod job;

use wiresum_switch::policy::Policy;

use super::Engine;
use job::Job;
use wiresum_xdp::{Options, XdpError};

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Lanes in a packet, each a measurement of its own; multiples of 8.
    pub values: Vec<usize>,
    /// Workers, each number a measurement of its own.
    pub workers: Vec<u8>,
    /// Slots that the packets go round in; a power of two.
    pub slots: u32,
    /// Packets in one run.
    pub packets: u32,
    /// Runs; their spread is the noise.
    pub runs: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            values: vec![32, 256, 736],
            workers: vec![4, 64],
            slots: 1,
            packets: 200_000,
            runs: 5,
        }
    }
}

/// Who dealt with the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A switch with this policy.
    Policy(Policy),
    /// A switch of `cache` that looks for the packet's job and neighbour, and counts it for the job.
    Admitted,
    /// The same with a quota for the job, which is never used up.
    Bounded,
    /// The making of packets alone, which is part of every policy's figure.
    Feed,
    /// The aggregator of servers, whose packets have no switch header, and whose senders are checked.
    Aggregator,
}

impl Subject {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy(policy) => policy.name(),
            Self::Admitted => "admitted",
            Self::Bounded => "bounded",
            Self::Feed => "feed",
            Self::Aggregator => "aggregator",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Who dealt with the packets.
    pub subject: Subject,
    /// Lanes in a packet.
    pub values: usize,
    /// Workers.
    pub workers: u8,
    /// Mean nanoseconds for one packet, by run.
    pub nanoseconds: Vec<f64>,
}

/// Measures every point, run by run with policy after policy, so that all see the same machine.
///
/// # Errors
/// What the kernel lacks.
///
/// # Panics
/// If a packet was not summed, or a number of values is not one that packets can have.
pub fn measure(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    super::job::on_one_cpu(|| measure_all(parameters))
}

fn measure_all(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    let mut measurements = Vec::new();
    for &values in &parameters.values {
        for &workers in &parameters.workers {
            measurements.extend(measure_point(parameters, values, workers)?);
        }
    }
    Ok(measurements)
}

fn measure_point(
    parameters: &Parameters,
    values: usize,
    workers: u8,
) -> Result<Vec<Measurement>, XdpError> {
    let measurement = |subject| Measurement { subject, values, workers, nanoseconds: Vec::new() };
    let beside = [Subject::Admitted, Subject::Bounded, Subject::Feed];
    let subjects = Policy::ALL.map(Subject::Policy).into_iter().chain(beside);
    let mut points = Vec::new();
    for subject in subjects {
        let job = Job::new(subject, values, workers, parameters.slots)?;
        points.push((measurement(subject), job));
    }
    let mut aggregator = (measurement(Subject::Aggregator), aggregator(values, workers)?);
    for _ in 0..parameters.runs {
        for (measurement, job) in &mut points {
            measurement.nanoseconds.push(job.run(parameters.packets)?);
        }
        let run = aggregator.1.run(Engine::Xdp, parameters.packets)?;
        aggregator.0.nanoseconds.push(run);
    }
    let measurements = points.into_iter().map(|(measurement, _)| measurement);
    Ok(measurements.chain([aggregator.0]).collect())
}

fn aggregator(values: usize, workers: u8) -> Result<super::job::Job, XdpError> {
    super::job::Job::new(values, 0, workers.into(), &Options::default())
}
