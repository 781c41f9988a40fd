//! One collective: its preamble, then its values, or both at once.

use std::ops::Range;

use wiresum_wire::{Flags, LaneType, Round};

use super::failure::Failure;
use super::forecast::{self, Forecaster, Shape};
use super::layout::Layout;
use crate::buffer::{Buffer, NOT_FINITE};
use crate::{Plan, Time};

/// What a lane holds that no one has set: the least element of the maximum.
const UNSET: i32 = i32::MIN;
/// Results of values kept until the agreement on them comes, which has overtaken them if all is well; what is more is asked for again.
const MAX_STASHED: usize = 1024;

/// How far a round is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Shapes and exponents are being agreed.
    Preamble,
    /// They are agreed; values wait their turn or flow, though of a forecast round perhaps in vain.
    Agreed,
    /// It is over, though earlier rounds may not be.
    Ended(Result<(), Failure>),
}

/// The parameters of preambles that a job fixes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub workers: usize,
    pub rank: usize,
    /// Lanes of a preamble fragment.
    pub preamble_lanes: usize,
    /// Type of preamble lanes, 32 bits wide.
    pub preamble_type: LaneType,
    /// Values of a value fragment.
    pub values_per_fragment: usize,
}

impl Format {
    /// The format of worker `rank`'s preambles.
    pub fn new(plan: &Plan, rank: u32) -> Self {
        let lane_type = LaneType::from(plan.job.lanes);
        let is_little_endian = lane_type.flags().contains(Flags::LITTLE_ENDIAN);
        Self {
            workers: plan.workers.len(),
            rank: rank as usize,
            preamble_lanes: usize::from(plan.job.values_per_packet),
            preamble_type: if is_little_endian { LaneType::I32Le } else { LaneType::I32Be },
            values_per_fragment: plan.payload_len() / lane_type.width(),
        }
    }
}

/// See the module.
pub(super) struct OpenRound {
    pub round: Round,
    pub buffer: Box<dyn Buffer>,
    pub submitted: Time,
    pub deadline: Time,
    pub layout: Layout,
    pub phase: Phase,
    /// The preamble's lanes: this worker's, replaced by the agreed ones as their results come.
    lanes: Vec<i32>,
    /// Preamble fragments whose lanes have been computed; they are when they are first sent.
    prepared: u32,
    /// Preamble fragments without a result.
    preamble_left: u32,
    /// Value fragments without a result.
    values_left: u32,
    /// Exponents of values that flow before the agreement, by fragment.
    forecast: Option<Vec<i8>>,
    /// Results that came before the agreement.
    stash: Vec<(u32, Vec<u8>)>,
    /// Why the sums of a forecast round are of no use; set before the last of them is here.
    in_vain: Option<Failure>,
    /// The forecaster knows what was agreed on.
    is_taught: bool,
    format: Format,
}

impl OpenRound {
    pub fn new(
        round: Round,
        buffer: Box<dyn Buffer>,
        format: Format,
        deadline: Time,
        now: Time,
    ) -> Self {
        let layout = Layout::new(buffer.len(), format.values_per_fragment);
        let used = 3 * format.workers + layout.fragments() as usize;
        let preamble_left = used.div_ceil(format.preamble_lanes) as u32;
        let mut lanes = vec![UNSET; preamble_left as usize * format.preamble_lanes];
        lanes[format.rank] = i32::try_from(buffer.len()).unwrap_or(i32::MAX);
        lanes[format.workers + format.rank] = buffer.signature();
        Self {
            round,
            buffer,
            submitted: now,
            deadline,
            layout,
            phase: Phase::Preamble,
            lanes,
            prepared: 0,
            preamble_left,
            values_left: layout.fragments(),
            forecast: None,
            stash: Vec::new(),
            in_vain: None,
            is_taught: false,
            format,
        }
    }

    /// What a forecast goes by.
    pub fn shape(&self) -> Shape {
        (self.buffer.len(), self.buffer.signature())
    }

    /// Lets values flow with these exponents whatever the preamble will say, or has said.
    pub fn adopt(&mut self, forecast: Vec<i8>) {
        self.forecast = Some(forecast);
        let verdict = match &self.phase {
            Phase::Preamble | Phase::Ended(Err(Failure::Mismatch { .. })) => return,
            Phase::Ended(Err(failure)) => Some(failure.clone()),
            Phase::Agreed | Phase::Ended(Ok(())) => None,
        };
        self.agree(verdict);
    }

    /// The exponents that values were sent with before the agreement.
    pub fn forecast(&self) -> Option<&[i8]> {
        self.forecast.as_deref()
    }

    /// Tells the forecaster, once, what was agreed on; nothing if the round ended before.
    pub fn teach(&mut self, forecaster: &mut Forecaster) {
        let is_first = !std::mem::replace(&mut self.is_taught, true);
        if is_first && self.preamble_left == 0 {
            forecaster.learn(self.shape(), self.agreed(), self.forecast());
        }
    }

    /// The agreed exponents by value fragment, once there is agreement.
    fn agreed(&self) -> &[i32] {
        let first = 3 * self.format.workers;
        &self.lanes[first..first + self.layout.fragments() as usize]
    }

    /// Number of preamble fragments.
    pub fn preamble_fragments(&self) -> u32 {
        (self.lanes.len() / self.format.preamble_lanes) as u32
    }

    /// Writes a preamble fragment's lanes and returns their sum. What is voted counts the first time only.
    pub fn encode_preamble(&mut self, fragment: u32, vote: i32, payload: &mut [u8]) -> u32 {
        while self.prepared <= fragment {
            self.prepare(self.prepared, vote);
            self.prepared += 1;
        }
        let lanes = &self.lanes[self.preamble_range(fragment)];
        for (bytes, lane) in payload.chunks_exact_mut(4).zip(lanes) {
            bytes.copy_from_slice(&self.lane_bytes(*lane));
        }
        self.format.preamble_type.sum(payload)
    }

    /// Whether this worker's vote is cast: it stays what it is when the preamble is sent again.
    pub fn has_voted(&self) -> bool {
        let own = 2 * self.format.workers + self.format.rank;
        self.prepared as usize * self.format.preamble_lanes > own
    }

    /// The ranks' votes on going home, once the preamble is complete.
    pub fn votes(&self) -> &[i32] {
        &self.lanes[2 * self.format.workers..3 * self.format.workers]
    }

    /// Casts the vote, and proposes the exponents of the value fragments that a preamble fragment covers.
    fn prepare(&mut self, fragment: u32, vote: i32) {
        let first = 3 * self.format.workers;
        let covered = self.preamble_range(fragment);
        let own = 2 * self.format.workers + self.format.rank;
        if covered.contains(&own) {
            self.lanes[own] = vote;
        }
        for lane in
            covered.start.max(first)..covered.end.min(first + self.layout.fragments() as usize)
        {
            let proposed = self.buffer.exponent(self.layout.range((lane - first) as u32));
            // The exponent has 8 bits in a packet: one that does not fit cannot be honoured.
            self.lanes[lane] = if i8::try_from(proposed).is_ok() { proposed } else { NOT_FINITE };
        }
    }

    /// The agreed lanes of a preamble fragment have come.
    pub fn decode_preamble(&mut self, fragment: u32, payload: &[u8]) {
        for (index, bytes) in self.preamble_range(fragment).zip(payload.chunks_exact(4)) {
            self.lanes[index] = self.read_lane([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        self.preamble_left -= 1;
        if self.phase != Phase::Preamble {
            return;
        }
        if self.has_shapes_after(fragment) && self.disagreement().is_some()
            || self.preamble_left == 0
        {
            match self.agreement() {
                Phase::Ended(Err(failure)) if self.may_be_in_vain(&failure) => {
                    self.agree(Some(failure));
                }
                Phase::Ended(Ok(())) | Phase::Agreed if self.forecast.is_some() => self.agree(None),
                phase => self.phase = phase,
            }
        }
    }

    /// Whether the values of a forecast round have to flow nevertheless: some rank may have sent them.
    fn may_be_in_vain(&self, failure: &Failure) -> bool {
        self.forecast.is_some() && *failure == Failure::NotFinite
    }

    /// Settles what a forecast round's sums are good for.
    fn agree(&mut self, failure: Option<Failure>) {
        self.phase = Phase::Agreed;
        let is_right =
            || forecast::is_right(self.forecast.as_deref().unwrap_or(&[]), self.agreed());
        self.in_vain = failure.or_else(|| (!is_right()).then_some(Failure::Unforeseen));
        for (fragment, payload) in std::mem::take(&mut self.stash) {
            self.decode(fragment, &payload);
        }
        self.end_if_complete();
    }

    /// Whether the fragments with the ranks' shapes are all here; they are the first, as a rule only one.
    fn has_shapes_after(&self, fragment: u32) -> bool {
        let shapes = (2 * self.format.workers).div_ceil(self.format.preamble_lanes) as u32;
        fragment < shapes && self.lanes[..2 * self.format.workers].iter().all(|lane| *lane != UNSET)
    }

    fn disagreement(&self) -> Option<Failure> {
        let (elements, rest) = self.lanes.split_at(self.format.workers);
        let signatures = &rest[..self.format.workers];
        let is_same = |lanes: &[i32]| lanes.iter().all(|lane| *lane == lanes[0]);
        (!is_same(elements) || !is_same(signatures)).then(|| Failure::Mismatch {
            round: self.round,
            elements: elements.to_vec(),
            signatures: signatures.to_vec(),
        })
    }

    /// What all ranks conclude alike from the same lanes.
    fn agreement(&self) -> Phase {
        if let Some(mismatch) = self.disagreement() {
            return Phase::Ended(Err(mismatch));
        }
        let is_number = |lane: &i32| i8::try_from(*lane).is_ok();
        let exponents = self.agreed();
        if !exponents.iter().all(is_number) {
            Phase::Ended(Err(Failure::NotFinite))
        } else if exponents.is_empty() {
            Phase::Ended(Ok(()))
        } else {
            Phase::Agreed
        }
    }

    /// The exponent that a value fragment is sent with.
    pub fn exponent(&self, fragment: u32) -> i8 {
        match &self.forecast {
            Some(forecast) => forecast[fragment as usize],
            None => self.agreed()[fragment as usize] as i8,
        }
    }

    /// The summed values of a fragment have come. Whether there was room for them, where they have to wait for the agreement.
    pub fn decode_values(&mut self, fragment: u32, payload: &[u8]) -> bool {
        if self.phase == Phase::Preamble {
            if self.stash.len() >= MAX_STASHED {
                return false;
            }
            self.stash.push((fragment, payload.to_vec()));
        } else {
            self.decode(fragment, payload);
        }
        self.values_left -= 1;
        self.end_if_complete();
        true
    }

    /// Decodes a fragment, unless the buffer has to stay as it is.
    fn decode(&mut self, fragment: u32, payload: &[u8]) {
        if self.in_vain.is_none() {
            let exponent = self.exponent(fragment);
            self.buffer.decode(self.layout.range(fragment), exponent, payload);
        }
    }

    fn end_if_complete(&mut self) {
        if self.values_left == 0 && self.phase == Phase::Agreed {
            self.phase = Phase::Ended(self.in_vain.clone().map_or(Ok(()), Err));
        }
    }

    fn preamble_range(&self, fragment: u32) -> Range<usize> {
        let start = fragment as usize * self.format.preamble_lanes;
        start..start + self.format.preamble_lanes
    }

    fn lane_bytes(&self, lane: i32) -> [u8; 4] {
        match self.format.preamble_type {
            LaneType::I32Be | LaneType::I16Be => lane.to_be_bytes(),
            LaneType::I32Le | LaneType::I16Le => lane.to_le_bytes(),
        }
    }

    fn read_lane(&self, bytes: [u8; 4]) -> i32 {
        match self.format.preamble_type {
            LaneType::I32Be | LaneType::I16Be => i32::from_be_bytes(bytes),
            LaneType::I32Le | LaneType::I16Le => i32::from_le_bytes(bytes),
        }
    }
}
