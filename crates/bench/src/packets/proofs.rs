//! What proofs of values cost the XDP program, and what other codes over a packet would.
//!
//! *Method.* As for packets without proofs, in the kernel's test-run and in turns. The benchmark's program makes each
//! packet's proof as it makes the packet; what that takes is measured alone, as [`Step::ProvenFeed`], and to be
//! subtracted. The codes are each computed once over the same packet, beside a program that does nothing.

use wiresum_xdp::{Options, XdpError};

use super::job::{Job, on_one_cpu};

/// Children of the aggregator, as in the figures of packets without proofs.
const CHILDREN: usize = 4;

/// What is done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The XDP program, without proofs.
    Open,
    /// The making of these packets alone.
    OpenFeed,
    /// The XDP program, with proofs.
    Proven,
    /// The making of these packets alone.
    ProvenFeed,
    /// NH, then SipHash-2-4 of it and the header.
    Hash,
    /// SipHash-2-4 of the packet.
    SipHash24,
    /// SipHash-1-3 of the packet.
    SipHash13,
    /// AES of the packet by the kernel's own cipher, where there is one.
    Cipher,
    /// A program that does nothing.
    Empty,
}

impl Step {
    /// Every step, in the order of measurement.
    pub const ALL: [Self; 9] = [
        Self::Open,
        Self::OpenFeed,
        Self::Proven,
        Self::ProvenFeed,
        Self::Hash,
        Self::SipHash24,
        Self::SipHash13,
        Self::Cipher,
        Self::Empty,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::OpenFeed => "open, made alone",
            Self::Proven => "proven",
            Self::ProvenFeed => "proven, made alone",
            Self::Hash => "NH and SipHash-2-4",
            Self::SipHash24 => "SipHash-2-4",
            Self::SipHash13 => "SipHash-1-3",
            Self::Cipher => "AES by bpf_crypto_encrypt",
            Self::Empty => "empty",
        }
    }

    /// The benchmark's program.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Open => "feed_and_aggregate",
            Self::OpenFeed => "feed_alone",
            Self::Proven => "feed_proven_and_aggregate",
            Self::ProvenFeed => "feed_proven_alone",
            Self::Hash => "prove_by_hash",
            Self::SipHash24 => "prove_by_siphash_2_4",
            Self::SipHash13 => "prove_by_siphash_1_3",
            Self::Cipher => "encrypt",
            Self::Empty => "nothing",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What was done to the packets.
    pub step: Step,
    /// Lanes in a packet.
    pub values: usize,
    /// Mean nanoseconds for one packet, by run.
    pub nanoseconds: Vec<f64>,
}

/// Measures packets with so many lanes, run by run with step after step, so that all see the same machine.
///
/// # Errors
/// What the kernel lacks.
///
/// # Panics
/// If a number of values is not one that packets can have.
pub fn measure(values: &[usize], packets: u32, runs: usize) -> Result<Vec<Measurement>, XdpError> {
    let points = || values.iter().map(|count| measure_point(*count, packets, runs)).collect();
    let points: Result<Vec<_>, XdpError> = on_one_cpu(points);
    Ok(points?.concat())
}

fn measure_point(values: usize, packets: u32, runs: usize) -> Result<Vec<Measurement>, XdpError> {
    let options = Options::default();
    let (open, proven) =
        (Job::new(values, 0, CHILDREN, &options)?, Job::proven(values, CHILDREN, &options)?);
    let steps = Step::ALL.into_iter().filter(|step| *step != Step::Cipher || proven.has_cipher());
    let mut measured: Vec<_> =
        steps.map(|step| Measurement { step, values, nanoseconds: Vec::new() }).collect();
    for _ in 0..runs {
        for one in &mut measured {
            let is_open = matches!(one.step, Step::Open | Step::OpenFeed);
            let job = if is_open { &open } else { &proven };
            one.nanoseconds.push(job.run_step(one.step, packets)?);
        }
    }
    Ok(measured)
}
