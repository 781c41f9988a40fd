//! What a job fixes of how its ranks agree on a round, and of what travels for it.

use std::ops::Range;

use wiresum_protocol::Plan;
use wiresum_wire::{Flags, LaneType};

use super::check;
use super::layout::Layout;
use super::shape::Shape;
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
    /// Lanes of 32 bits in the job's byte order: those of agreements, of wide values, and of what is not summed.
    pub wide: LaneType,
    /// Lanes of 16 bits in the job's byte order.
    narrow: LaneType,
    /// Most bytes of values in a fragment.
    values_len: usize,
    /// Rounds may go on without some ranks.
    pub is_partial: bool,
    /// Bytes that each payload of sums has more than its values.
    pub seal_len: usize,
    /// There are streams for sums of one taker, and for copies.
    pub has_exchanges: bool,
    /// Most bytes of a copy's fragment.
    pub copy_len: usize,
}

impl Format {
    /// The format of worker `rank`'s rounds.
    pub fn new(plan: &Plan, rank: u32) -> Self {
        let byte_order = plan.job.lanes.widest().flags().only(Flags::LITTLE_ENDIAN);
        Self {
            agreement: Agreement::of(plan),
            workers: plan.workers.len(),
            rank: rank as usize,
            preamble_lanes: usize::from(plan.job.values_per_packet),
            wide: LaneType::of(byte_order),
            narrow: LaneType::of(byte_order.with(Flags::LANES16)),
            values_len: plan.values_len(),
            is_partial: plan.job.rounds.is_some(),
            seal_len: plan.payload_len() - plan.values_len(),
            has_exchanges: plan.exchanged().is_some(),
            copy_len: plan.payload_len(),
        }
    }

    /// The lanes of values of this shape.
    pub fn lane_type(&self, shape: Shape) -> LaneType {
        if shape.is_narrow() { self.narrow } else { self.wide }
    }

    /// How so many elements of a shape that is summed become fragments.
    pub fn layout(&self, elements: usize, lanes: LaneType) -> Layout {
        Layout::new(elements, self.values_len / lanes.width())
    }

    /// How the lanes of a preamble, or a check, are read and combined.
    pub fn preamble_flags(&self) -> Flags {
        match self.agreement {
            Agreement::Maximum => self.wide.flags().with(Flags::MAXIMUM),
            Agreement::Checks => self.wide.flags(),
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
