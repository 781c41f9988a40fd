//! What one packet costs, measured in the kernel's test-run, beside the reference in user space and a plain addition.
//!
//! *Method.* A test-run repeats a program on the same memory. `feed_and_aggregate` (in `bpf/bench.bpf.c`) turns it into the next
//! packet of a job each time, so parsing, look-ups, the duplicate test, the lock, the addition and the writing back to the
//! slot and, for the last contributor, to the packet, all happen as they do for packets from a network. What is left out is
//! the driver's part, and the sending of what a packet has become. `feed_alone` and `nothing` tell how much of a figure is
//! the making of packets and the test-run itself; nothing is subtracted.

#[cfg(wiresum_bpf)]
mod job;
#[cfg(not(wiresum_bpf))]
#[path = "stub.rs"]
mod job;
pub mod proofs;
pub mod scaling;
pub mod switch;

use job::Job;
pub(crate) use job::on_one_cpu;
use wiresum_xdp::{Options, XdpError};

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Lanes in a packet, each a measurement of its own; multiples of 8, at most [`wiresum_wire::PAGE_VALUES`].
    pub values: Vec<usize>,
    /// Bytes of slot values that the packets go round in, each a measurement of its own; 0: one slot.
    pub working_sets: Vec<usize>,
    /// Children of the aggregator, each number a measurement of its own. With n children one packet in n is the first of its
    /// fragment, and one the last; the others are added.
    pub children: Vec<usize>,
    /// Packets in one run.
    pub packets: u32,
    /// Runs; their spread is the noise.
    pub runs: usize,
    /// How the program is loaded.
    pub options: Options,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            values: vec![32, 64, 128, 256, 384, 512, 640, 736],
            working_sets: vec![0, 64 << 20],
            children: vec![4, 64],
            packets: 200_000,
            runs: 5,
            options: Options::default(),
        }
    }
}

/// Who dealt with the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// The XDP program.
    Xdp,
    /// The making of packets alone, which is part of the figure for [`Self::Xdp`].
    Feed,
    /// A program that does nothing: the cost of the test-run.
    Empty,
    /// [`wiresum_protocol::Aggregator`], from and to memory, without a socket.
    Protocol,
    /// Adding a packet's lanes to a slot's in user space, and nothing else.
    Memory,
}

impl Engine {
    /// Every engine, in the order of measurement.
    pub const ALL: [Self; 5] = [Self::Xdp, Self::Feed, Self::Empty, Self::Protocol, Self::Memory];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Feed => "feed",
            Self::Empty => "empty",
            Self::Protocol => "protocol",
            Self::Memory => "memory",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Who dealt with the packets.
    pub engine: Engine,
    /// Lanes in a packet.
    pub values: usize,
    /// Bytes of slot values; 0: one slot.
    pub working_set: usize,
    /// Children of the aggregator.
    pub children: usize,
    /// Mean nanoseconds for one packet, by run.
    pub nanoseconds: Vec<f64>,
}

/// Measures every point, run by run with engine after engine, so that all see the same machine.
///
/// # Errors
/// What the kernel lacks.
///
/// # Panics
/// If a number of values is not one that packets can have.
pub fn measure(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    job::on_one_cpu(|| measure_all(parameters))
}

fn measure_all(parameters: &Parameters) -> Result<Vec<Measurement>, XdpError> {
    let mut measurements = Vec::new();
    for &working_set in &parameters.working_sets {
        for &values in &parameters.values {
            for &children in &parameters.children {
                measurements.extend(measure_point(parameters, values, working_set, children)?);
            }
        }
    }
    Ok(measurements)
}

fn measure_point(
    parameters: &Parameters,
    values: usize,
    working_set: usize,
    children: usize,
) -> Result<Vec<Measurement>, XdpError> {
    let mut job = Job::new(values, working_set, children, &parameters.options)?;
    let measurement =
        |engine| Measurement { engine, values, working_set, children, nanoseconds: Vec::new() };
    let mut measurements = Engine::ALL.map(measurement);
    for _ in 0..parameters.runs {
        for measurement in &mut measurements {
            measurement.nanoseconds.push(job.run(measurement.engine, parameters.packets)?);
        }
    }
    Ok(measurements.into())
}
