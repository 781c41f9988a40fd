//! The interface of a switch where the BPF programs could not be built.

use std::convert::Infallible;

use wiresum_switch::Place;
use wiresum_wire::JobId;

use crate::{SwitchOptions, XdpAggregator, XdpError};

/// A switch in the kernel; cannot exist in this build.
pub struct SwitchProgram(Infallible);

impl SwitchProgram {
    /// Loads the policy's program, and allocates its slots.
    ///
    /// # Errors
    /// What the build lacks.
    pub fn load(_options: SwitchOptions) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }

    /// Sums a stream from now on.
    ///
    /// # Errors
    /// [`XdpError`] says why it cannot.
    pub fn install(&mut self, _place: &Place) -> Result<(), XdpError> {
        match self.0 {}
    }

    /// Forgets a job, and frees the slots that it holds.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove(&mut self, _job: JobId) -> Result<(), XdpError> {
        match self.0 {}
    }
}
