//! The interface of AF_XDP where the BPF programs could not be built.

mod sending;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use wiresum_wire::PAGE_PACKET;

use crate::{AttachMode, XdpAggregator, XdpError};
pub use sending::{Flushed, FrameCounters, Sending};

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

    /// See the crate built with BPF.
    pub fn receive_in_place(
        &mut self,
        _: usize,
        _: usize,
        _: impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> usize {
        match self.0 {}
    }
}

absent! {
    AfXdp:
    ref port_count() -> usize;
    mut receive(usize, &mut [u8]) -> Option<Arrival>;
    mut learn(&Arrival) -> ();
    mut room() -> Option<&mut [u8; PAGE_PACKET]>;
    mut send_room(SocketAddr, usize) -> Sending;
    mut send(SocketAddr, &[u8]) -> Sending;
    mut flush() -> Flushed;
    ref counters() -> FrameCounters;
    ref zero_copy_ports() -> usize;
    ref memory_bytes() -> usize;
}
