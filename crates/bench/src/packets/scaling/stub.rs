//! Where the BPF programs could not be built.

use std::convert::Infallible;

use super::{Parameters, Placement};
use wiresum_xdp::{XdpAggregator, XdpError};

/// See `cpus.rs`; cannot exist in this build.
pub struct Cpus(Infallible);

impl Cpus {
    /// Says what the build lacks.
    pub fn new(_: &Parameters, _: usize, _: u32, _: Placement, _: usize) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP aggregator"))
    }

    /// Never called.
    pub fn count(&self) -> usize {
        match self.0 {}
    }

    /// Never called.
    pub fn run(&self, _: usize) -> Result<f64, XdpError> {
        match self.0 {}
    }
}
