//! Waiting for many connections at once.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::clock::timespec;

/// Events of one call; what does not fit is reported by the next.
const EVENTS: usize = 64;

/// An `epoll` instance. Its own descriptor is readable when one of its connections is ready.
pub struct Poller(OwnedFd);

impl Poller {
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a descriptor, whose events will carry `token`. It is forgotten when it is closed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add(&self, source: impl AsFd, token: usize, interest: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, source, EventData::new_u64(token as u64), interest)?)
    }

    /// Watches it for other events.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn modify(&self, source: impl AsFd, token: usize, interest: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.0, source, EventData::new_u64(token as u64), interest)?)
    }

    /// Waits for events, at most `timeout`; tokens and what happened to them.
    ///
    /// # Errors
    /// What the kernel says, except that a signal came.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<(usize, EventFlags)>> {
        let mut memory = [const { MaybeUninit::uninit() }; EVENTS];
        let timeout = timeout.map(timespec);
        let events = match epoll::wait(&self.0, &mut memory, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => &mut [],
            Err(error) => return Err(error.into()),
        };
        Ok(events.iter().map(|event| (event.data.u64() as usize, event.flags)).collect())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
