//! The interface of a switch for hot rows where the BPF programs could not be built.

use std::convert::Infallible;
use std::net::SocketAddr;

use crate::{HotStream, XdpAggregator, XdpError};

/// A switch for hot rows in the kernel; cannot exist in this build.
pub struct RowsProgram(Infallible);

impl RowsProgram {
    /// Loads the program.
    ///
    /// # Errors
    /// What the build lacks.
    pub fn load(
        _address: SocketAddr,
        _streams: &[HotStream],
        _lock_streams: bool,
    ) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no XDP programs"))
    }
}
