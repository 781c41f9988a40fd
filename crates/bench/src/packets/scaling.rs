//! How many packets the program sums on several CPUs at once, beside the most that these CPUs can do.
//!
//! *Method.* As in [`super`], with a test-run on each CPU at the same time, by threads at real-time priority. A pass takes each CPU
//! once through its share of the slots, so that no CPU comes back to a slot before the others have left it; it takes as long as
//! the slowest CPU. Every packet must be summed, or the measurement fails.

#[cfg(wiresum_bpf)]
mod cpus;
#[cfg(not(wiresum_bpf))]
#[path = "stub.rs"]
mod cpus;

use cpus::Cpus;
use wiresum_xdp::{AttachMode, Options, XdpError};

/// Which packets come in where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// A program with memory of its own on each CPU: the most that these CPUs can do.
    Apart,
    /// Each position on one CPU, as where packets are steered by position.
    Own,
    /// Each child on one CPU, so that every position is on all of them, as where a network card spreads flows.
    Shared,
}

impl Placement {
    /// Every placement, in the order of measurement.
    pub const ALL: [Self; 3] = [Self::Apart, Self::Own, Self::Shared];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Lanes in a packet, each a measurement of its own.
    pub values: Vec<usize>,
    /// Positions, a power of two, that one child sends in a row before the next one does, each a measurement of its own. With
    /// 1, children take turns at each position, and neighbouring positions are on different CPUs.
    pub batches: Vec<u32>,
    /// Bytes of slot values.
    pub working_set: usize,
    /// Children of the aggregator; no more CPUs are used.
    pub children: usize,
    /// Passes through the slots in one run.
    pub passes: usize,
    /// Runs; their spread is the noise.
    pub runs: usize,
    /// How the program is loaded.
    pub options: Options,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            values: vec![256, 736],
            batches: vec![1, 8],
            working_set: 4 << 20,
            children: 8,
            passes: 10,
            runs: 5,
            options: Options { mode: AttachMode::Generic, ..Options::default() },
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Which packets came in where.
    pub placement: Placement,
    /// Lanes in a packet.
    pub values: usize,
    /// Positions that one child sends in a row.
    pub batch: u32,
    /// CPUs at once.
    pub cpus: usize,
    /// Packets that all of them together have summed per second, by run.
    pub packets_per_second: Vec<f64>,
}

/// Measures one CPU, and all that this process may use, run by run with placement after placement.
///
/// # Errors
/// What the kernel lacks.
///
/// # Panics
/// If a packet was not summed, or a number of values is not one that packets can have.
pub fn measure(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    // Measuring moves a thread to another network namespace.
    std::thread::scope(|scope| scope.spawn(|| measure_all(parameters)).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn measure_all(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    let mut measurements = Vec::new();
    for &values in &parameters.values {
        for &batch in &parameters.batches {
            measurements.extend(measure_point(parameters, values, batch)?);
        }
    }
    Ok(measurements)
}

fn measure_point(
    parameters: &Parameters,
    values: usize,
    batch: u32,
) -> Result<Vec<Measurement>, XdpError> {
    let mut points = Vec::new();
    for placement in Placement::ALL {
        for most in [1, parameters.children] {
            let cpus = Cpus::new(parameters, values, batch, placement, most)?;
            let packets_per_second = Vec::new();
            let count = cpus.count();
            points.push((
                Measurement { placement, values, batch, cpus: count, packets_per_second },
                cpus,
            ));
        }
    }
    for _ in 0..parameters.runs {
        for (measurement, cpus) in &mut points {
            let rate = cpus.run(parameters.passes)?;
            measurement.packets_per_second.push(rate);
        }
    }
    Ok(points.into_iter().map(|(measurement, _)| measurement).collect())
}
