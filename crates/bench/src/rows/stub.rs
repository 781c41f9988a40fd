//! The benchmark where the BPF programs could not be built.

use std::convert::Infallible;

use super::{Engine, Shape};
use wiresum_xdp::{XdpAggregator, XdpError};

/// See `job.rs`; cannot exist in this build.
pub struct Job(Infallible);

impl Job {
    /// Says what the build lacks.
    pub fn new(_: &Shape) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }

    /// Never called.
    pub fn run(&mut self, _: Engine, _: u32) -> Result<f64, XdpError> {
        match self.0 {}
    }
}
