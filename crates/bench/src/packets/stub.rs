//! The benchmark where the BPF programs could not be built.

use std::convert::Infallible;

use super::Engine;
use super::proofs::Step;
use wiresum_xdp::{Options, XdpAggregator, XdpError};

/// See `job.rs`; cannot exist in this build.
pub struct Job(Infallible);

impl Job {
    /// Says what the build lacks.
    pub fn new(_: usize, _: usize, _: usize, _: &Options) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP aggregator"))
    }

    /// Likewise.
    pub fn proven(_: usize, _: usize, options: &Options) -> Result<Self, XdpError> {
        Self::new(0, 0, 0, options)
    }

    /// Never called.
    pub fn has_cipher(&self) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn run_step(&self, _: Step, _: u32) -> Result<f64, XdpError> {
        match self.0 {}
    }

    /// Never called.
    pub fn run(&mut self, _: Engine, _: u32) -> Result<f64, XdpError> {
        match self.0 {}
    }
}

/// Does the work, which will fail.
pub fn on_one_cpu<T>(work: impl FnOnce() -> T) -> T {
    work()
}
