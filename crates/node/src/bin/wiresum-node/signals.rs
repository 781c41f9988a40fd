//! SIGINT and SIGTERM as a readable descriptor; SIGHUP as an upgrade.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use wiresum_node::takeover::Upgrade;

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

/// Starts a successor at each SIGHUP, as service managers ask for a reload.
pub fn upgrade_on_hangup(upgrade: Upgrade) -> Result<(), Failure> {
    let failure =
        |error: std::io::Error| Failure::Runtime(format!("cannot watch for SIGHUP: {error}"));
    let (mut hangups, written) = UnixStream::pair().map_err(failure)?;
    pipe::register(SIGHUP, written).map_err(failure)?;
    thread::spawn(move || {
        let mut byte = [0];
        while hangups.read_exact(&mut byte).is_ok() {
            match upgrade.start() {
                Ok(process) => crate::log(&format!("upgrade: process {process} is to take over")),
                Err(error) => crate::log(&format!("no upgrade: {error}; this daemon goes on")),
            }
        }
    });
    Ok(())
}

/// See [`stop_on_interrupt`].
pub struct Stop(UnixStream);

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
