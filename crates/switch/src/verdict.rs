//! The fate of a packet.

/// Every row of the state tables in `spec/switch.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Not for this node, of someone who is not summed here, or a result that changes nothing here: goes on as it is.
    Passed,
    /// Took a slot.
    First,
    /// Added to a slot.
    Added,
    /// Last one, and the sum is the result: it goes down.
    Completed,
    /// Last one: the sum goes up.
    Forwarded,
    /// Already in; dropped.
    Duplicate,
    /// Already in a complete slot: the sum goes up again.
    Reforwarded,
    /// Already in a finished slot: the result goes to the sender.
    Answered,
    /// The slot is taken: goes up unsummed.
    Collision,
    /// Took the slot of a less urgent fragment, whose partial sum goes up in its stead.
    Evicted,
    /// Sent again: the slot's partial sum goes up with it, and the slot is free.
    Released,
    /// Sent again, and the slot is not its own: goes up unsummed.
    Bypassed,
    /// Partly in already, so that it cannot be added: goes up unsummed, or, at a server, is dropped.
    Overlap,
    /// Older than what no one needs any more: dropped.
    Stale,
    /// Too early for its slot: goes back to its sender, marked.
    Refused,
    /// A result that frees the slot of its fragment.
    Freed,
    /// A result that takes the place of the sum in its slot.
    Stored,
    /// At a server: holds all that was merged and more, and takes its place.
    Superseded,
    /// Of a stream or worker that a server does not know: dropped.
    Foreign,
}

impl Verdict {
    /// Every verdict, in numeric order.
    pub const ALL: [Self; 19] = [
        Self::Passed,
        Self::First,
        Self::Added,
        Self::Completed,
        Self::Forwarded,
        Self::Duplicate,
        Self::Reforwarded,
        Self::Answered,
        Self::Collision,
        Self::Evicted,
        Self::Released,
        Self::Bypassed,
        Self::Overlap,
        Self::Stale,
        Self::Refused,
        Self::Freed,
        Self::Stored,
        Self::Superseded,
        Self::Foreign,
    ];

    /// Its name in the spec, in metrics and in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::First => "first",
            Self::Added => "added",
            Self::Completed => "completed",
            Self::Forwarded => "forwarded",
            Self::Duplicate => "duplicate",
            Self::Reforwarded => "reforwarded",
            Self::Answered => "answered",
            Self::Collision => "collision",
            Self::Evicted => "evicted",
            Self::Released => "released",
            Self::Bypassed => "bypassed",
            Self::Overlap => "overlap",
            Self::Stale => "stale",
            Self::Refused => "refused",
            Self::Freed => "freed",
            Self::Stored => "stored",
            Self::Superseded => "superseded",
            Self::Foreign => "foreign",
        }
    }
}

/// Where the packet goes that was left in place of the one that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Egress {
    /// Nowhere.
    Absorbed,
    /// To its node; if that is [`ANY_NODE`](crate::ANY_NODE), towards the stream's parameter server or root.
    Up,
    /// To its contributors, copied where their ways part.
    Down,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its fate.
    pub verdict: Verdict,
    /// What leaves.
    pub egress: Egress,
}

impl Outcome {
    pub(crate) fn absorbed(verdict: Verdict) -> Self {
        Self { verdict, egress: Egress::Absorbed }
    }

    pub(crate) fn up(verdict: Verdict) -> Self {
        Self { verdict, egress: Egress::Up }
    }

    pub(crate) fn down(verdict: Verdict) -> Self {
        Self { verdict, egress: Egress::Down }
    }
}

/// How many packets met which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; Verdict::ALL.len()]);

impl Counters {
    pub(crate) fn count(&mut self, verdict: Verdict) {
        self.0[verdict as usize] += 1;
    }

    /// Packets with this fate.
    #[must_use]
    pub fn get(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    /// Packets in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
