//! What one hot row costs the kernel's switch, measured in the kernel's test-run, beside the engine in user space.
//!
//! *Method.* As in [`crate::packets`]: `feed_and_sum` (in `bpf/rows/bench.bpf.c`) turns the packet into the next one each time. Every
//! worker has a gradient for every row, so with n workers one contribution in n is stored and the others are added. After the
//! last packet the next round begins. A figure is that of a packet divided by its rows, with all that comes before: parsing,
//! the gate, the check, the lock. What is left out is the driver's part, and the acknowledgement, which has its own figure.

#[cfg(wiresum_bpf)]
mod job;
#[cfg(not(wiresum_bpf))]
#[path = "stub.rs"]
mod job;
mod user_space;

use job::Job;
use wiresum_xdp::XdpError;

use crate::packets::on_one_cpu;

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// int32, summed as they are.
    Int,
    /// float32, summed as 64-bit fixed point.
    Float,
    /// bfloat16, summed likewise.
    Bfloat,
    /// float16, summed likewise.
    Half,
}

/// How far apart the rows of a packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Positions are neighbours, as of ranks that everybody touches.
    Block,
    /// Every 17th position is touched.
    Sparse,
}

impl Lanes {
    /// All, in the order of measurement.
    pub const ALL: [Self; 4] = [Self::Int, Self::Float, Self::Bfloat, Self::Half];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int32",
            Self::Float => "float32",
            Self::Bfloat => "bfloat16",
            Self::Half => "float16",
        }
    }
}

impl Spacing {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Block, Self::Sparse];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "neighbours",
            Self::Sparse => "spread",
        }
    }

    /// Positions from one row to the next.
    #[must_use]
    pub fn positions(self) -> u32 {
        match self {
            Self::Block => 1,
            Self::Sparse => 17,
        }
    }
}

/// The packets of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What values are.
    pub lanes: Lanes,
    /// How far apart rows of a packet are.
    pub spacing: Spacing,
    /// Values of a row.
    pub dim: u16,
    /// Rows of a packet.
    pub rows: u16,
    /// Rows of a worker in a round; positions are as many times the spacing.
    pub touched: u32,
    /// Workers, each of which has a gradient for each row.
    pub workers: u8,
}

impl Shape {
    /// Positions from one packet's first row to the next packet's.
    #[must_use]
    pub fn step(&self) -> u32 {
        u32::from(self.rows) * self.spacing.positions()
    }

    /// Packets of a worker in a round.
    #[must_use]
    pub fn packets(&self) -> u32 {
        self.touched / u32::from(self.rows)
    }

    /// Positions of the stream.
    #[must_use]
    pub fn positions(&self) -> u32 {
        self.touched * self.spacing.positions()
    }
}

/// Who dealt with the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The switch in the kernel.
    Xdp,
    /// The making of packets alone, which is part of the figure for [`Self::Xdp`].
    Feed,
    /// The switch in user space, from and to memory, without a socket: its parser, and its sums by position. No int32.
    UserSpace,
    /// Turning a packet into its acknowledgement in the kernel, divided by the packet's rows.
    Acknowledgement,
}

impl Engine {
    /// Every engine, in the order of measurement.
    pub const ALL: [Self; 4] = [Self::Xdp, Self::Feed, Self::UserSpace, Self::Acknowledgement];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Feed => "feed",
            Self::UserSpace => "user space",
            Self::Acknowledgement => "acknowledgement",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Values of a row.
    pub dim: u16,
    /// Rows of a packet.
    pub rows: u16,
    /// Rows of a worker in a round, each number a measurement of its own.
    pub touched: Vec<u32>,
    /// Workers.
    pub workers: u8,
    /// Packets in one run.
    pub packets: u32,
    /// Runs; their spread is the noise.
    pub runs: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        // Memory in the first level of caches, and beyond the second one.
        Self { dim: 16, rows: 36, touched: vec![144, 28_800], workers: 8, packets: 50_000, runs: 5 }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Who dealt with the rows.
    pub engine: Engine,
    /// The packets.
    pub shape: Shape,
    /// Mean nanoseconds for one row, by run.
    pub nanoseconds: Vec<f64>,
}

/// Measures every point, run by run with engine after engine, so that all see the same machine.
///
/// # Errors
/// What the kernel lacks.
///
/// # Panics
/// If a packet was not summed.
pub fn measure(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    on_one_cpu(|| measure_all(parameters))
}

fn measure_all(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    let Parameters { dim, rows, workers, .. } = *parameters;
    let mut measurements = Vec::new();
    for &touched in &parameters.touched {
        for lanes in Lanes::ALL {
            for spacing in Spacing::ALL {
                let shape = Shape { lanes, spacing, dim, rows, touched, workers };
                measurements.extend(measure_point(parameters, &shape)?);
            }
        }
    }
    Ok(measurements)
}

fn measure_point(parameters: &Parameters, shape: &Shape) -> Result<Vec<Measurement>, XdpError> {
    let mut job = Job::new(shape)?;
    let is_measured = |engine: &Engine| *engine != Engine::UserSpace || shape.lanes != Lanes::Int;
    let engines = Engine::ALL.into_iter().filter(is_measured);
    let nothing = |engine| Measurement { engine, shape: *shape, nanoseconds: Vec::new() };
    let mut measurements: Vec<_> = engines.map(nothing).collect();
    for _ in 0..parameters.runs {
        for measurement in &mut measurements {
            let a_packet = job.run(measurement.engine, parameters.packets)?;
            measurement.nanoseconds.push(a_packet / f64::from(shape.rows));
        }
    }
    Ok(measurements)
}
