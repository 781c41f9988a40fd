//! What workers sum: values that are checked to the bit, or none.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wiresum_netem::Rng;
use wiresum_wire::LaneType;
use wiresum_worker::kind::View;
use wiresum_worker::{Kind, Sink, Source};

use crate::scenario::Job;

/// Element type, operation and codec of a simulated collective: the same on every rank.
const SIGNATURE: u8 = 1;
/// Bytes of an element that is summed.
pub(super) const ELEMENT_BYTES: usize = 4;
/// The rank that others copy from, or that takes all sums or copies.
pub(super) const ROOT: usize = 0;

/// A collective, as one rank passes it.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub kind: Kind,
    rank: usize,
    ranks: usize,
    /// Elements of the source: values where they are summed, bytes where they are copied.
    len: usize,
    lanes: LaneType,
}

impl Call {
    /// What a rank passes in each round of a job.
    pub fn all(job: &Job, rank: usize) -> Vec<Self> {
        let (ranks, bytes) = (job.plan.workers.len(), job.bytes as usize);
        let lanes = job.plan.job.lanes.widest();
        let len = |kind: Kind| match kind {
            Kind::AllGather | Kind::Gather => bytes / ranks,
            Kind::Broadcast | Kind::Scatter => bytes,
            _ => bytes / ELEMENT_BYTES,
        };
        let call = |&kind: &Kind| Self { kind, rank, ranks, len: len(kind), lanes };
        job.collectives.iter().map(call).collect()
    }

    /// Elements that come to this rank: not its own, where they are copied.
    pub fn coming(self) -> usize {
        let holds_own = matches!(self.kind, Kind::AllGather | Kind::Gather);
        self.part().len().saturating_sub(if holds_own { self.len } else { 0 })
    }

    fn part(self) -> Range<usize> {
        let Self { rank, ranks, len: elements, .. } = self;
        self.kind.part(View { rank, ranks, root: ROOT, elements })
    }

    /// Bytes of an element in a packet.
    fn width(self) -> usize {
        if self.kind.is_copy() { 1 } else { self.lanes.width() }
    }

    /// Bytes of a lane: where bytes are copied, packets have lanes of 32 bits.
    fn lane_width(self) -> usize {
        if self.kind.is_copy() { ELEMENT_BYTES } else { self.lanes.width() }
    }
}

/// Zeros: packets of the right size, without the work of filling them.
#[derive(Clone, Copy)]
pub(super) struct Zeros(pub Call);

impl Source for Zeros {
    fn len(&self) -> usize {
        self.0.len
    }

    fn signature(&self) -> u8 {
        SIGNATURE
    }

    fn width(&self) -> usize {
        self.0.lane_width()
    }

    fn exponent(&self, _range: Range<usize>) -> i32 {
        0
    }

    fn encode(&self, _range: Range<usize>, _exponent: i8, lanes: &mut [u8]) -> u32 {
        lanes.fill(0);
        0
    }
}

impl Sink for Zeros {
    fn decode(&mut self, _range: Range<usize>, _exponent: i8, _lanes: &[u8]) {}
}

/// What was decoded, and what of it was wrong; shared by all sinks of a run.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub decoded: AtomicU64,
    pub wrong: AtomicU64,
}

/// Integers that use all bits of a lane and differ by rank, round and place, computed where they are needed: no memory, at any size.
#[derive(Clone)]
pub(super) struct Exact {
    pub call: Call,
    pub round: u32,
    pub findings: Arc<Findings>,
}

impl Exact {
    fn value(&self, rank: usize, index: usize) -> i32 {
        let seed = (rank as u64) << 48 ^ u64::from(self.round) << 32 ^ index as u64;
        Rng::new(seed).next() as i32
    }

    /// What comes at a place of this rank's part: the sum of every rank's value, wrapped as lanes wrap it, or the
    /// giver's byte.
    fn result(&self, place: usize) -> i32 {
        let Call { kind, ranks, len, .. } = self.call;
        match kind {
            Kind::AllGather | Kind::Gather => self.value(place / len, place % len),
            Kind::Broadcast => self.value(ROOT, place),
            Kind::Scatter => self.value(ROOT, self.call.part().start + place),
            _ => {
                let index = self.call.part().start + place;
                (0..ranks).map(|rank| self.value(rank, index)).fold(0, i32::wrapping_add)
            }
        }
    }

    fn write(&self, value: i32, lane: &mut [u8]) {
        match self.call.lanes {
            _ if self.call.kind.is_copy() => lane[0] = value as u8,
            LaneType::I32Le => lane.copy_from_slice(&value.to_le_bytes()),
            LaneType::I32Be => lane.copy_from_slice(&value.to_be_bytes()),
            LaneType::I16Le => lane.copy_from_slice(&(value as i16).to_le_bytes()),
            LaneType::I16Be => lane.copy_from_slice(&(value as i16).to_be_bytes()),
        }
    }
}

impl Source for Exact {
    fn len(&self) -> usize {
        self.call.len
    }

    fn signature(&self) -> u8 {
        SIGNATURE
    }

    fn width(&self) -> usize {
        self.call.lane_width()
    }

    fn exponent(&self, _range: Range<usize>) -> i32 {
        0
    }

    fn encode(&self, range: Range<usize>, _exponent: i8, lanes: &mut [u8]) -> u32 {
        lanes.fill(0);
        for (index, lane) in range.zip(lanes.chunks_exact_mut(self.call.width())) {
            self.write(self.value(self.call.rank, index), lane);
        }
        if self.call.kind.is_copy() { 0 } else { self.call.lanes.sum(lanes) }
    }
}

impl Sink for Exact {
    fn decode(&mut self, range: Range<usize>, _exponent: i8, lanes: &[u8]) {
        let width = self.call.width();
        let mut expected = [0; 4];
        self.findings.decoded.fetch_add(range.len() as u64, Ordering::Relaxed);
        for (place, lane) in range.zip(lanes.chunks_exact(width)) {
            self.write(self.result(place), &mut expected[..width]);
            if lane != &expected[..width] {
                self.findings.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
