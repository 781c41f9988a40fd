//! What workers sum: values that are checked to the bit, or none.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wiresum_netem::Rng;
use wiresum_wire::LaneType;
use wiresum_worker::{Sink, Source};

/// Element type, operation and codec of a simulated collective: the same on every rank.
const SIGNATURE: u8 = 1;

/// Zeros: packets of the right size, without the work of filling them.
#[derive(Clone, Copy)]
pub(super) struct Zeros {
    pub len: usize,
    pub lanes: LaneType,
}

impl Source for Zeros {
    fn len(&self) -> usize {
        self.len
    }

    fn signature(&self) -> u8 {
        SIGNATURE
    }

    fn lane_width(&self) -> usize {
        self.lanes.width()
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
    pub len: usize,
    pub ranks: usize,
    pub rank: usize,
    pub round: u32,
    pub lanes: LaneType,
    pub findings: Arc<Findings>,
}

impl Exact {
    fn value(&self, rank: usize, index: usize) -> i32 {
        let seed = (rank as u64) << 48 ^ u64::from(self.round) << 32 ^ index as u64;
        Rng::new(seed).next() as i32
    }

    /// The sum of every rank's value, wrapped as lanes wrap it.
    fn sum(&self, index: usize) -> i32 {
        let values = (0..self.ranks).map(|rank| self.value(rank, index));
        values.fold(0, i32::wrapping_add)
    }

    fn write(&self, value: i32, lane: &mut [u8]) {
        match self.lanes {
            LaneType::I32Le => lane.copy_from_slice(&value.to_le_bytes()),
            LaneType::I32Be => lane.copy_from_slice(&value.to_be_bytes()),
            LaneType::I16Le => lane.copy_from_slice(&(value as i16).to_le_bytes()),
            LaneType::I16Be => lane.copy_from_slice(&(value as i16).to_be_bytes()),
        }
    }
}

impl Source for Exact {
    fn len(&self) -> usize {
        self.len
    }

    fn signature(&self) -> u8 {
        SIGNATURE
    }

    fn lane_width(&self) -> usize {
        self.lanes.width()
    }

    fn exponent(&self, _range: Range<usize>) -> i32 {
        0
    }

    fn encode(&self, range: Range<usize>, _exponent: i8, lanes: &mut [u8]) -> u32 {
        lanes.fill(0);
        for (index, lane) in range.zip(lanes.chunks_exact_mut(self.lanes.width())) {
            self.write(self.value(self.rank, index), lane);
        }
        self.lanes.sum(lanes)
    }
}

impl Sink for Exact {
    fn decode(&mut self, range: Range<usize>, _exponent: i8, lanes: &[u8]) {
        let width = self.lanes.width();
        let mut expected = [0; 4];
        self.findings.decoded.fetch_add(range.len() as u64, Ordering::Relaxed);
        for (index, lane) in range.zip(lanes.chunks_exact(width)) {
            self.write(self.sum(index), &mut expected[..width]);
            if lane != &expected[..width] {
                self.findings.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
