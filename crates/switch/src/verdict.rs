//! What becomes of a packet.

pub use wiresum_wire::Verdict;

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
    /// The packet goes nowhere: what it had is in the slot, or not wanted.
    #[must_use]
    pub fn absorbed(verdict: Verdict) -> Self {
        Self { verdict, egress: Egress::Absorbed }
    }

    /// The packet goes on towards the root.
    #[must_use]
    pub fn up(verdict: Verdict) -> Self {
        Self { verdict, egress: Egress::Up }
    }

    /// The packet goes down to workers, as a result.
    #[must_use]
    pub fn down(verdict: Verdict) -> Self {
        Self { verdict, egress: Egress::Down }
    }
}

/// How many packets met which fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters([u64; Verdict::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Verdict::ALL.len()])
    }
}

impl Counters {
    pub(crate) fn count(&mut self, verdict: Verdict) {
        self.0[verdict as usize] += 1;
    }

    /// Packets with this fate.
    #[must_use]
    pub fn get(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    /// Adds the counts of another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    pub(crate) fn to_vec(self) -> Vec<u64> {
        self.0.to_vec()
    }

    pub(crate) fn from_slice(counts: &[u64]) -> Self {
        let mut counters = Self::default();
        counters.0.iter_mut().zip(counts).for_each(|(sum, count)| *sum = *count);
        counters
    }

    /// Packets in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
