//! What becomes of a datagram.

use std::net::SocketAddr;

pub use wiresum_wire::Verdict;

/// Receivers of the packet that the aggregator left in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// To no one.
    None,
    /// To one address.
    One(SocketAddr),
    /// To every child that has said hello: for each, take the bytes from [`super::Aggregator::address_to_child`].
    Children,
    /// To the node's [`ControlHalf`](crate::ControlHalf) and [`Transmitter`](crate::Transmitter): the buffer holds the packet as it
    /// arrived.
    ControlHalf,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its fate, already counted.
    pub verdict: Verdict,
    /// Receivers of the packet in the buffer.
    pub recipients: Recipients,
    /// Bytes of that packet; 0 if there is none.
    pub len: usize,
}

impl Outcome {
    /// A datagram that ends here.
    pub(super) fn silent(verdict: Verdict) -> Self {
        Self { verdict, recipients: Recipients::None, len: 0 }
    }

    /// A packet for one address.
    pub(super) fn to_one(verdict: Verdict, address: SocketAddr, len: usize) -> Self {
        Self { verdict, recipients: Recipients::One(address), len }
    }

    /// A packet for the node's own control half.
    pub(super) fn to_control_half(len: usize) -> Self {
        Self { verdict: Verdict::Control, recipients: Recipients::ControlHalf, len }
    }

    /// A packet for every child.
    pub(super) fn to_children(verdict: Verdict, len: usize) -> Self {
        Self { verdict, recipients: Recipients::Children, len }
    }
}
