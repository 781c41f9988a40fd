//! The interface of AF_XDP where the BPF programs could not be built.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use wiresum_wire::MAX_PACKET;

use crate::{AttachMode, XdpAggregator, XdpError};

/// The sockets of one aggregator; cannot exist in this build.
pub struct AfXdp(Infallible);

/// A datagram that has come in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: SocketAddr,
    /// Bytes of it in the buffer.
    pub len: usize,
}

/// What became of a datagram that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It leaves at the next flush.
    Queued,
    /// No packet has come from there: send it through the kernel's stack.
    NoRoute,
    /// The interface has not taken anything for a while.
    Dropped,
}

/// What the sockets have done.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameCounters {
    /// Frames received.
    pub received: u64,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames for which the interface had no room.
    pub refused: u64,
    /// Frames that came faster than they were read.
    pub dropped: u64,
}

impl AfXdp {
    /// See the crate built with BPF.
    ///
    /// # Errors
    /// Always, in this build.
    pub fn open(_: &[String], _: &[SocketAddr], _: usize, _: AttachMode) -> Result<Self, XdpError> {
        Err(XdpAggregator::check_support().expect_err("this build has no BPF"))
    }

    /// Descriptors that become readable when a frame comes.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        match self.0 {}
        #[allow(unreachable_code)]
        std::iter::empty()
    }

    /// Receive queues, each with a socket.
    #[must_use]
    pub fn port_count(&self) -> usize {
        match self.0 {}
    }

    /// Takes the next datagram of a port.
    pub fn receive(&mut self, _: usize, _: &mut [u8; MAX_PACKET]) -> Option<Arrival> {
        match self.0 {}
    }

    /// Remembers how a peer was heard.
    pub fn learn(&mut self, _: &Arrival) {
        match self.0 {}
    }

    /// Queues a datagram.
    pub fn send(&mut self, _: SocketAddr, _: &[u8]) -> Sending {
        match self.0 {}
    }

    /// Sends what is queued.
    pub fn flush(&mut self) {
        match self.0 {}
    }

    /// What the sockets have done.
    #[must_use]
    pub fn counters(&self) -> FrameCounters {
        match self.0 {}
    }

    /// Sockets whose driver reads and writes the frames itself.
    #[must_use]
    pub fn zero_copy_ports(&self) -> usize {
        match self.0 {}
    }

    /// Bytes of frames; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self.0 {}
    }
}
