//! What a job fixes of how its ranks agree on a round, and of what travels for it.

use std::ops::Range;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::Role;
use wiresum_wire::control::Absent;
use wiresum_wire::{Flags, LaneType};

use super::check;
use super::layout::Layout;
use super::shape::Shape;
use crate::{Collective, Members};

/// Lanes of a rank in every preamble: its elements, its signature and its vote.
const RANK_LANES: usize = 3;
/// Bytes of a lane of a preamble.
pub(super) const LANE: usize = 4;

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
        if plan.fabric.is_some() && !plan.job.agrees() { Self::Checks } else { Self::Maximum }
    }
}

/// The parameters of rounds that a job fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub agreement: Agreement,
    pub workers: usize,
    /// This worker's seat: its rank, unless there are `members`.
    pub seat: usize,
    /// Who takes part, where ranks and seats are not the same.
    pub members: Option<Members>,
    /// Lanes of a preamble fragment.
    pub preamble_lanes: usize,
    /// Lanes of 32 bits in the job's byte order: those of agreements, of wide values, and of what is not summed.
    pub wide: LaneType,
    /// Lanes of 16 bits in the job's byte order.
    narrow: LaneType,
    /// Lanes that several numbers share: those that float32 becomes.
    packed: LaneType,
    /// Most bytes of values in a fragment.
    values_len: usize,
    /// Rounds may go on without some ranks.
    pub is_partial: bool,
    /// Ranks that all rounds go on without.
    pub absent: Absent,
    /// Bytes that each payload of sums has more than its values.
    pub seal_len: usize,
    /// There are streams for sums of one taker, and for copies.
    pub has_exchanges: bool,
    /// Most bytes of a copy's fragment.
    copy_len: usize,
    /// Most bytes of a rank's share in the agreement; `None` where it carries none.
    pub largest_share: Option<usize>,
}

impl Format {
    /// The format of worker `rank`'s rounds.
    pub fn new(plan: &Plan, rank: u32) -> Self {
        let byte_order = plan.job.lanes.widest().flags().only(Flags::LITTLE_ENDIAN);
        Self {
            agreement: Agreement::of(plan),
            workers: plan.workers.len(),
            seat: rank as usize,
            members: None,
            preamble_lanes: usize::from(plan.job.values_per_packet),
            wide: LaneType::of(byte_order),
            narrow: LaneType::of(byte_order.with(Flags::LANES16)),
            packed: plan.job.lanes.widest(),
            values_len: plan.values_len(),
            is_partial: plan.job.rounds.is_some(),
            absent: Absent::default(),
            seal_len: plan.payload_len() - plan.values_len(),
            has_exchanges: plan.has_exchanges(),
            copy_len: plan.payload_len(),
            largest_share: largest_share(plan),
        }
    }

    /// The same where rounds go on without these ranks.
    pub fn without(self, absent: Absent) -> Self {
        Self { is_partial: self.is_partial || !absent.is_empty(), absent, ..self }
    }

    /// The same for a group of these members, which is whole without anybody else.
    pub fn of_members(self, members: Members) -> Self {
        Self { absent: members.vacant(self.workers), members: Some(members), ..self }
    }

    /// Number of ranks, those included that all rounds go on without.
    pub fn ranks(&self) -> usize {
        self.members.map_or(self.workers, |members| members.ranks() as usize)
    }

    /// The seat of a rank.
    pub fn seat_of(&self, rank: usize) -> usize {
        self.members.map_or(rank, |members| members.seat_of(rank))
    }

    /// The seats of the ranks, in their order.
    pub fn seats(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks()).map(|rank| self.seat_of(rank))
    }

    /// The rank of a seat that somebody has.
    pub fn rank_of(&self, seat: usize) -> usize {
        self.members.map_or(Some(seat), |members| members.rank_of(seat)).expect("somebody's seat")
    }

    /// Seats whose workers take part, in order.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        let absent = self.absent;
        (0..self.workers).filter(move |rank| !absent.holds(*rank as u32))
    }

    /// The lanes of values of this shape.
    pub fn lane_type(&self, shape: Shape) -> LaneType {
        match shape.width() {
            1 => self.packed,
            2 => self.narrow,
            _ => self.wide,
        }
    }

    /// How so many elements that are summed, as numbers of so many bytes, become fragments.
    pub fn layout(&self, elements: usize, width: usize) -> Layout {
        Layout::new(elements, self.values_len / width)
    }

    /// How so many bytes that are copied become fragments.
    pub fn copy(&self, bytes: usize) -> Layout {
        Layout::new(bytes, self.copy_len)
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

    /// Fragments of the preamble of a round, with so many lanes of exponents or shares.
    pub fn preamble_fragments(&self, body: usize) -> u32 {
        match self.agreement {
            Agreement::Maximum => self.used_lanes(body).div_ceil(self.preamble_lanes) as u32,
            Agreement::Checks => 1,
        }
    }

    /// Lanes of a round's preamble, those included that fill its last fragment.
    pub fn lanes(&self, body: usize) -> usize {
        match self.agreement {
            Agreement::Maximum => self.preamble_fragments(body) as usize * self.preamble_lanes,
            Agreement::Checks => self.used_lanes(body),
        }
    }

    /// Whether the plan has streams, or room, for a collective.
    pub fn carries(&self, collective: &Collective) -> bool {
        let kind = collective.kind;
        if kind.is_share() {
            return self.largest_share.is_some_and(|most| collective.source.len() <= most);
        }
        let has_all = self.members.is_some() || self.absent.is_empty();
        self.has_exchanges && (!kind.needs_all() || has_all) || !kind.is_copy()
    }

    /// Whether sums may be for one taker: somebody else has to give to it.
    pub fn has_parts(&self) -> bool {
        self.has_exchanges && self.present().nth(1).is_some()
    }

    /// Elements of a collective whose results this worker takes.
    pub fn part(&self, collective: &Collective) -> Range<usize> {
        self.part_of(collective, self.seat)
    }

    /// Elements of a collective whose results the worker of a seat takes.
    pub fn part_of(&self, collective: &Collective, seat: usize) -> Range<usize> {
        collective.part(self.rank_of(seat), self.ranks())
    }

    /// The first lane of an exponent, or of a share, after shapes and votes.
    pub fn first_exponent(&self) -> usize {
        RANK_LANES * self.workers
    }

    /// Lanes that a round is agreed on by: shapes, votes, and exponents or shares.
    fn used_lanes(&self, body: usize) -> usize {
        self.first_exponent() + body
    }
}

/// Most bytes of a rank's share, however much a flight has room for: each rank sends the lanes of all.
const MAX_SHARE: usize = 4096;

/// Most bytes of a rank's share in the agreement of a round, so that it is one flight of packets; `None` where the
/// agreement carries no shares: where switches sum; where a round may go on without some ranks; and in sealed jobs, as
/// agreements travel in the open.
#[must_use]
pub fn largest_share(plan: &Plan) -> Option<usize> {
    if plan.fabric.is_some() || plan.job.rounds.is_some() || plan.job.sealed {
        return None;
    }
    let stream = plan.streams.iter().find(|stream| stream.role == Role::Exponents)?;
    let (lanes, ranks) = (usize::from(plan.job.values_per_packet), plan.workers.len());
    let of_shares = (lanes * stream.window as usize).checked_sub(RANK_LANES * ranks)?;
    Some((of_shares / ranks * LANE).min(MAX_SHARE))
}
