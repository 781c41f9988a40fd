//! What a job fixes of how its ranks agree on a round, and of what travels for it.

use std::ops::Range;

use wiresum_protocol::Plan;
use wiresum_wire::{Flags, LaneType};

use super::check;
use super::layout::Layout;
use crate::Collective;

/// How ranks agree on a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// By the maximum of their preambles.
    Maximum,
    /// By the sum of their checks.
    Checks,
}

impl Agreement {
    /// Switches need no maximum where exponents are fixed, so that nothing comes before the values.
    fn of(plan: &Plan) -> Self {
        let is_fixed = plan.job.codec.starts_with("fixed:");
        if plan.fabric.is_some() && is_fixed { Self::Checks } else { Self::Maximum }
    }
}

/// The parameters of rounds that a job fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub agreement: Agreement,
    pub workers: usize,
    pub rank: usize,
    /// Lanes of a preamble fragment.
    pub preamble_lanes: usize,
    /// Type of preamble lanes, 32 bits wide.
    pub preamble_type: LaneType,
    /// Type of the lanes of values.
    pub lane_type: LaneType,
    /// Values of a value fragment.
    pub values_per_fragment: usize,
    /// Rounds may go on without some ranks.
    pub is_partial: bool,
    /// Bytes that each payload of sums has more than its values.
    pub seal_len: usize,
}

impl Format {
    /// The format of worker `rank`'s rounds.
    pub fn new(plan: &Plan, rank: u32) -> Self {
        let lane_type = LaneType::from(plan.job.lanes);
        let is_little_endian = lane_type.flags().contains(Flags::LITTLE_ENDIAN);
        Self {
            agreement: Agreement::of(plan),
            workers: plan.workers.len(),
            rank: rank as usize,
            preamble_lanes: usize::from(plan.job.values_per_packet),
            preamble_type: if is_little_endian { LaneType::I32Le } else { LaneType::I32Be },
            lane_type,
            values_per_fragment: plan.values_len() / lane_type.width(),
            is_partial: plan.job.rounds.is_some(),
            seal_len: plan.payload_len() - plan.values_len(),
        }
    }

    /// How the lanes of a preamble, or a check, are read and combined.
    pub fn preamble_flags(&self) -> Flags {
        match self.agreement {
            Agreement::Maximum => self.preamble_type.flags().with(Flags::MAXIMUM),
            Agreement::Checks => self.preamble_type.flags(),
        }
    }

    /// Bytes of a fragment of a preamble, or of a check.
    pub fn preamble_len(&self) -> usize {
        match self.agreement {
            Agreement::Maximum => 4 * self.preamble_lanes,
            Agreement::Checks => check::len(self.workers) + self.seal_len,
        }
    }

    /// Fragments of a preamble that hold shapes; they are the first, as a rule only one.
    pub fn shape_fragments(&self) -> u32 {
        match self.agreement {
            Agreement::Maximum => (2 * self.workers).div_ceil(self.preamble_lanes) as u32,
            Agreement::Checks => 1,
        }
    }

    /// Fragments of the preamble of a round.
    pub fn preamble_fragments(&self, layout: Layout) -> u32 {
        match self.agreement {
            Agreement::Maximum => self.used_lanes(layout).div_ceil(self.preamble_lanes) as u32,
            Agreement::Checks => 1,
        }
    }

    /// Lanes of a round's preamble, those included that fill its last fragment.
    pub fn lanes(&self, layout: Layout) -> usize {
        match self.agreement {
            Agreement::Maximum => self.preamble_fragments(layout) as usize * self.preamble_lanes,
            Agreement::Checks => self.used_lanes(layout),
        }
    }

    /// Elements of a collective whose results this worker takes.
    pub fn part(&self, collective: &Collective) -> Range<usize> {
        collective.part(self.rank, self.workers)
    }

    /// The first lane of an exponent, after shapes and votes.
    pub fn first_exponent(&self) -> usize {
        3 * self.workers
    }

    /// Lanes that a round is agreed on by: shapes, votes, exponents.
    fn used_lanes(&self, layout: Layout) -> usize {
        self.first_exponent() + layout.fragments() as usize
    }
}
