//! The aggregator, root or inner: purely reactive. It has no timer: whoever lacks something asks again.

use std::net::SocketAddr;

use wiresum_wire::NodeId;

use crate::Plan;

/// One node of the plan, for one job. Memory is allocated once, by the plan.
pub struct Aggregator;

/// The fate of one datagram: every row of the tables in `spec/aggregation.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Not a well-formed packet.
    Malformed,
    /// Another job, incarnation, node or sub-model.
    Foreign,
    /// A contributor out of range, or not the one that said hello from this address.
    BadContributor,
    /// The check does not match.
    Damaged,
    /// First contribution to its fragment.
    First,
    /// Contribution added.
    Added,
    /// Last contribution, at the root: the result goes down.
    Completed,
    /// Last contribution, elsewhere: the sum goes up.
    Forwarded,
    /// Contribution older than its entry.
    Stale,
    /// Contribution that disagrees with its entry about round, exponent, format or length.
    Mismatch,
    /// Contribution already in, fragment not complete.
    Duplicate,
    /// Contribution already in, sum sent up again.
    Reforwarded,
    /// Contribution already in, result sent to its sender.
    Answered,
    /// Result from the parent stored and passed down.
    ResultStored,
    /// Result from the parent already here.
    ResultDuplicate,
    /// Result from the parent for a fragment that does not wait for it.
    ResultStale,
    /// Probe answered.
    Probed,
    /// Hello, welcome, refusal or goodbye dealt with.
    Control,
}

/// To whom the packet goes that the aggregator left in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// To no one.
    None,
    /// To one address.
    One(SocketAddr),
    /// To every child that has said hello: for each, take the bytes from [`Aggregator::address_to_child`].
    Children,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its fate, already counted.
    pub verdict: Verdict,
    /// To whom the packet in the buffer goes.
    pub recipients: Recipients,
    /// Bytes of that packet.
    pub len: usize,
}

impl Aggregator {
    /// A node without children yet.
    ///
    /// # Panics
    /// If `node` is not in the plan.
    #[must_use]
    pub fn new(_plan: &Plan, _node: NodeId) -> Self {
        Self
    }

    /// Takes the datagram in `buffer[..len]` and may leave the packet to send in the same buffer, as a switch does.
    ///
    /// `buffer` has room for [`wiresum_wire::MAX_PACKET`] bytes.
    pub fn handle_datagram(&mut self, _source: SocketAddr, _buffer: &mut [u8], _len: usize) -> Outcome {
        Outcome { verdict: Verdict::Malformed, recipients: Recipients::None, len: 0 }
    }

    /// Readdresses the result in `packet` to child `index` (contributor and check) and says where that child is; `None` if it
    /// has not said hello.
    pub fn address_to_child(&self, _index: usize, _packet: &mut [u8]) -> Option<SocketAddr> {
        None
    }

    /// Children of the largest tree that this node is in; indices for [`Self::address_to_child`].
    #[must_use]
    pub fn child_count(&self) -> usize {
        0
    }

    /// Datagrams by verdict.
    #[must_use]
    pub fn counters(&self) -> Vec<(Verdict, u64)> {
        Vec::new()
    }

    /// Bytes of slot memory, fixed at construction.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        0
    }
}
