//! A packet of a switch network, as programs see it. On the wire it is a header, a switch header and lanes: see [`crate::wire`].

use wiresum_wire::{Flags, FragmentId, JobId, Kind, NodeId, Round, SubModelId};

use crate::{Cohort, Contributors};

/// A contribution on its way up, or a result on its way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<V> {
    /// Workers of its [cohort](Self::cohort). Upwards: whose values are summed in it. Downwards: to whom it is to go.
    pub contributors: Contributors,
    /// Position in the stream; never restarts within an incarnation.
    pub fragment: FragmentId,
    /// Ordinal of the collective; switches do not look at it.
    pub round: Round,
    /// Index into the switch's memory where the sender chooses it, else 0.
    pub slot: u32,
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// The switch that is to sum it, the parameter server, or [`ANY_NODE`].
    pub node: NodeId,
    /// Format of the lanes, and what has befallen it.
    pub flags: Flags,
    /// [`Kind::Contribution`] or [`Kind::Result`].
    pub kind: Kind,
    /// Worker that sent it, or whose packet made a switch send it; whom an answer goes to.
    pub worker: u8,
    /// Upwards: workers that the stream's sum needs. Downwards: workers summed in it.
    pub expected: u8,
    /// Urgency, where the policy preempts.
    pub priority: u8,
    /// Block exponent of the lanes, on which workers have agreed; switches do not look at it.
    pub exponent: i8,
    /// The values.
    pub values: V,
}

impl<V> Packet<V> {
    /// The same packet with other values.
    #[must_use]
    pub fn carrying<W>(self, values: W) -> Packet<W> {
        Packet {
            contributors: self.contributors,
            fragment: self.fragment,
            round: self.round,
            slot: self.slot,
            job: self.job,
            sub_model: self.sub_model,
            node: self.node,
            flags: self.flags,
            kind: self.kind,
            worker: self.worker,
            expected: self.expected,
            priority: self.priority,
            exponent: self.exponent,
            values,
        }
    }

    /// The cohort that its contributors are workers of.
    #[must_use]
    #[inline]
    pub fn cohort(&self) -> Cohort {
        Cohort::of(self.worker)
    }

    /// Whether it was sent before.
    #[must_use]
    pub fn is_resent(&self) -> bool {
        self.flags.contains(Flags::RETRANSMISSION)
    }

    /// Whether it asks for the result of its position; a refusal of a contribution has ECN.
    #[must_use]
    pub fn is_recall(&self) -> bool {
        self.kind == Kind::Result
            && self.flags.only(Flags::REFUSED.with(Flags::ECN)) == Flags::REFUSED
    }

    /// Sets flags.
    pub fn mark(&mut self, flags: Flags) {
        self.flags = self.flags.with(flags);
    }

    /// Turns it into a result for `recipients`; flags other than the lanes' format and `ECN` go.
    pub(crate) fn turn_down(&mut self, recipients: Contributors, summed: u8) {
        self.kind = Kind::Result;
        self.contributors = recipients;
        self.expected = summed;
        self.flags = self.flags.only(Flags::FORMAT.with(Flags::ECN));
    }
}
