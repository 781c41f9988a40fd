//! SIGINT and SIGTERM as a readable descriptor.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::exit::Failure;

/// A descriptor that becomes readable when the user or the system wants the daemon to end.
pub fn stop_on_interrupt() -> Result<Stop, Failure> {
    let failure =
        |error: std::io::Error| Failure::Runtime(format!("cannot watch for signals: {error}"));
    let (stop, written) = UnixStream::pair().map_err(failure)?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, written.try_clone().map_err(failure)?).map_err(failure)?;
    }
    Ok(Stop(stop))
}

/// See [`stop_on_interrupt`].
pub struct Stop(UnixStream);

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
