//! One new-type per identifier, so that a slot can never be mistaken for a fragment.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(/// A training job, as numbered by its plan.
    JobId(u16));
id!(/// Distinguishes one incarnation of a job from every other; a packet with another key is foreign.
    JobKey(u64));
id!(/// An aggregator in the plan.
    NodeId(u16));
id!(/// A sub-model: a stream of fragments with a tree and slots of its own.
    SubModelId(u16));
id!(/// Position of a fragment in its sub-model's stream. It never restarts within an incarnation and wraps at 2³².
    FragmentId(u32));
id!(/// Ordinal of the collective that a fragment belongs to.
    Round(u32));
id!(/// Child index at the parent, 0..64.
    Contributor(u8));

impl Round {
    /// Whether this is an earlier round than `other`, in serial-number arithmetic.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
}

impl FragmentId {
    /// The position `count` further on.
    #[must_use]
    pub fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Signed distance from `earlier` to `self` in serial-number arithmetic (RFC 1982).
    #[must_use]
    pub fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }
}
