//! The fate of a datagram.

use std::net::SocketAddr;

/// The fate of one datagram: every row of the tables in `spec/aggregation.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verdict {
    /// Not a well-formed packet.
    Malformed,
    /// Another job, incarnation, node or sub-model.
    Foreign,
    /// A contributor out of range, or not the one that said hello from this address.
    BadContributor,
    /// More bytes than the job's quota allows.
    OverQuota,
    /// Another CPU was at the packet's entry for too long.
    Contended,
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
    /// Contribution or result that disagrees with its entry about round, exponent, format or length.
    Mismatch,
    /// Contribution already in, fragment not complete.
    Duplicate,
    /// Sum of a child whose own children have begun to contribute in its place.
    Substituted,
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
    /// Hello, welcome, refusal or goodbye dealt with; ready or rate handed to the control half.
    Control,
}

impl Verdict {
    /// Every verdict, in numeric order.
    pub const ALL: [Self; 21] = [
        Self::Malformed,
        Self::Foreign,
        Self::BadContributor,
        Self::OverQuota,
        Self::Contended,
        Self::Damaged,
        Self::First,
        Self::Added,
        Self::Completed,
        Self::Forwarded,
        Self::Stale,
        Self::Mismatch,
        Self::Duplicate,
        Self::Substituted,
        Self::Reforwarded,
        Self::Answered,
        Self::ResultStored,
        Self::ResultDuplicate,
        Self::ResultStale,
        Self::Probed,
        Self::Control,
    ];

    /// Its name in the spec, in metrics and in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Foreign => "foreign",
            Self::BadContributor => "bad_contributor",
            Self::OverQuota => "over_quota",
            Self::Contended => "contended",
            Self::Damaged => "damaged",
            Self::First => "first",
            Self::Added => "added",
            Self::Completed => "completed",
            Self::Forwarded => "forwarded",
            Self::Stale => "stale",
            Self::Mismatch => "mismatch",
            Self::Duplicate => "duplicate",
            Self::Substituted => "substituted",
            Self::Reforwarded => "reforwarded",
            Self::Answered => "answered",
            Self::ResultStored => "result_stored",
            Self::ResultDuplicate => "result_duplicate",
            Self::ResultStale => "result_stale",
            Self::Probed => "probed",
            Self::Control => "control",
        }
    }
}

/// To whom the packet goes that the aggregator left in the buffer.
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
    /// To whom the packet in the buffer goes.
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
