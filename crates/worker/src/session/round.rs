//! One collective: its agreement, then its values, or both at once.
//!
//! There are two kinds of agreement. A *preamble* is combined by maximum: shapes, votes and exponents. A *check* is
//! summed, where exponents are fixed and the nodes do not know maxima: shapes, and whether the values can be summed.
//! It says what a preamble would have said, in fewer lanes.

use std::ops::Range;

use wiresum_wire::{Flags, LaneType, Round};

use super::check;
use super::failure::Failure;
use super::forecast::{self, Forecaster, Shape};
use super::layout::Layout;
use super::quorum::{Kept, Participation};
use crate::buffer::{Buffer, NOT_FINITE, Nothing};
use wiresum_protocol::{Plan, Time};

/// What a lane holds that no one has set: the least element of the maximum.
const UNSET: i32 = i32::MIN;
/// Results of values kept until the agreement on them comes, which has overtaken them if all is well; what is more is
/// asked for again.
const MAX_STASHED: usize = 1024;

/// How far a round is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Shapes and exponents are being agreed.
    Preamble,
    /// They are agreed; values wait their turn or flow, though of a forecast round perhaps in vain.
    Agreed,
    /// It is over, though earlier rounds may not be.
    Ended(Result<(), Failure>),
}

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

/// The parameters of agreements that a job fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub agreement: Agreement,
    pub workers: usize,
    pub rank: usize,
    /// Lanes of a preamble fragment.
    pub preamble_lanes: usize,
    /// Type of preamble lanes, 32 bits wide.
    pub preamble_type: LaneType,
    /// Values of a value fragment.
    pub values_per_fragment: usize,
    /// Rounds may go on without some ranks.
    pub is_partial: bool,
}

impl Format {
    /// The format of worker `rank`'s preambles.
    pub fn new(plan: &Plan, rank: u32) -> Self {
        let lane_type = LaneType::from(plan.job.lanes);
        let is_little_endian = lane_type.flags().contains(Flags::LITTLE_ENDIAN);
        Self {
            agreement: Agreement::of(plan),
            workers: plan.workers.len(),
            rank: rank as usize,
            preamble_lanes: usize::from(plan.job.values_per_packet),
            preamble_type: if is_little_endian { LaneType::I32Le } else { LaneType::I32Be },
            values_per_fragment: plan.payload_len() / lane_type.width(),
            is_partial: plan.job.rounds.is_some(),
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
            Agreement::Checks => check::len(self.workers),
        }
    }

    /// Fragments of a preamble that hold shapes; they are the first, as a rule only one.
    fn shape_fragments(&self) -> u32 {
        match self.agreement {
            Agreement::Maximum => (2 * self.workers).div_ceil(self.preamble_lanes) as u32,
            Agreement::Checks => 1,
        }
    }

    /// Fragments of the preamble of a round.
    fn preamble_fragments(&self, layout: Layout) -> u32 {
        match self.agreement {
            Agreement::Maximum => self.used_lanes(layout).div_ceil(self.preamble_lanes) as u32,
            Agreement::Checks => 1,
        }
    }

    /// Lanes that a round is agreed on by: shapes, votes, exponents.
    fn used_lanes(&self, layout: Layout) -> usize {
        3 * self.workers + layout.fragments() as usize
    }

    /// Lanes of a round's preamble, those included that fill its last fragment.
    fn lanes(&self, layout: Layout) -> usize {
        match self.agreement {
            Agreement::Maximum => self.preamble_fragments(layout) as usize * self.preamble_lanes,
            Agreement::Checks => self.used_lanes(layout),
        }
    }
}

/// See the module.
pub(crate) struct OpenRound {
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
    /// Those of them that hold shapes.
    shapes_left: u32,
    /// Value fragments without a result.
    values_left: u32,
    /// Exponents of values that flow before the agreement, by fragment.
    forecast: Option<Vec<i8>>,
    /// Where a check is all that is agreed on: every value can be summed, once that is known.
    is_sound: Option<bool>,
    /// Results that came before the agreement.
    stash: Vec<(u32, Vec<u8>)>,
    /// Why the sums of a forecast round are of no use; set before the last of them is here.
    in_vain: Option<Failure>,
    /// The forecaster knows what was agreed on.
    is_taught: bool,
    /// This worker takes part with nothing.
    is_missed: bool,
    /// What waits for the owner, while there is none.
    kept: Option<Kept>,
    /// Preamble fragments that have positions.
    allotted: u32,
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
        let preamble_left = format.preamble_fragments(layout);
        let mut lanes = vec![UNSET; format.lanes(layout)];
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
            shapes_left: format.shape_fragments(),
            values_left: layout.fragments(),
            forecast: None,
            is_sound: None,
            stash: Vec::new(),
            in_vain: None,
            is_taught: false,
            is_missed: false,
            kept: None,
            allotted: preamble_left,
            format,
        }
    }

    /// A round that goes on without its owner, who will claim it. Of the preamble, what every rank has.
    pub fn missed(round: Round, format: Format, now: Time) -> Self {
        let never = Time(u64::MAX);
        let mut open = Self::new(round, Box::new(Nothing), format, never, now);
        open.lanes.fill(UNSET);
        (open.is_missed, open.kept) = (true, Some(Kept::default()));
        open
    }

    /// Whether the number of elements is known.
    pub fn has_shape(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.shape.is_some())
    }

    /// Takes the shape of a missed round, from the preamble or the owner.
    fn take_shape(&mut self, elements: usize) {
        let before = self.preamble_fragments();
        self.layout = Layout::new(elements, self.format.values_per_fragment);
        self.values_left = self.layout.fragments();
        self.preamble_left += self.preamble_fragments() - before;
        self.lanes.resize(self.format.lanes(self.layout), UNSET);
    }

    /// Preamble fragments that have no positions yet; from now on they have.
    pub fn rest_of_preamble(&mut self) -> Range<u32> {
        let fragments = self.preamble_fragments();
        std::mem::replace(&mut self.allotted, fragments)..fragments
    }

    /// The owner of a missed round has come: it gets what there is, and the rest as it comes.
    pub fn hand_over(&mut self, mut buffer: Box<dyn Buffer>) -> Result<(), Failure> {
        let Some(kept) = self.kept.take() else { return Ok(()) };
        let own = (buffer.len(), buffer.signature());
        match kept.shape {
            None => self.take_shape(own.0),
            Some(shape) if shape != own => {
                self.buffer = buffer;
                return Err(self.mismatch());
            }
            Some(_) => {}
        }
        if self.phase != Phase::Preamble {
            buffer.set_participation(self.participation().ranks);
        }
        kept.decode_into(self.layout, &mut *buffer);
        self.buffer = buffer;
        Ok(())
    }

    /// Whether the owner has not come yet.
    pub fn is_unclaimed(&self) -> bool {
        self.kept.is_some()
    }

    /// Who took part, once that is agreed.
    pub fn participation(&self) -> Participation {
        let present = self.lanes[..self.format.workers].iter().filter(|lane| **lane != UNSET);
        Participation { ranks: present.count() as u32, is_own_in: !self.is_missed }
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
    pub(super) fn teach(&mut self, forecaster: &mut Forecaster) {
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
        self.format.preamble_fragments(self.layout)
    }

    /// Writes a preamble fragment's lanes and returns their sum. What is voted counts the first time only.
    pub fn encode_preamble(&mut self, fragment: u32, vote: i32, payload: &mut [u8]) -> u32 {
        if self.format.agreement == Agreement::Checks {
            let (shape, is_sound) = (self.lanes_of_shape(), self.is_sound());
            check::write(self.format.rank, is_sound, shape, self.format.preamble_type, payload);
            return self.format.preamble_type.sum(payload);
        }
        while self.prepared <= fragment {
            self.prepare(self.prepared, vote);
            self.prepared += 1;
        }
        let lanes = &self.lanes[self.preamble_range(fragment)];
        for (bytes, lane) in payload.chunks_exact_mut(4).zip(lanes) {
            bytes.copy_from_slice(&check::lane_bytes(self.format.preamble_type, *lane));
        }
        self.format.preamble_type.sum(payload)
    }

    /// Elements and signature, as lanes.
    fn lanes_of_shape(&self) -> (i32, i32) {
        (i32::try_from(self.buffer.len()).unwrap_or(i32::MAX), self.buffer.signature())
    }

    /// Whether every value can be summed, where no agreement says so before values flow.
    fn is_sound(&mut self) -> bool {
        let mut ranges = (0..self.layout.fragments()).map(|fragment| self.layout.range(fragment));
        let buffer = &mut self.buffer;
        let all = || ranges.all(|range| buffer.exponent(range) != NOT_FINITE);
        *self.is_sound.get_or_insert_with(all)
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
        if self.is_missed {
            return;
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
        match self.format.agreement {
            Agreement::Maximum => self.decode_maximum(fragment, payload),
            Agreement::Checks => self.decode_check(payload),
        }
        self.preamble_left -= 1;
        let has_shapes = self.note_shapes(fragment);
        if self.phase != Phase::Preamble {
            return;
        }
        if has_shapes {
            self.learn_shape();
        }
        if has_shapes && self.disagreement().is_some() || self.preamble_left == 0 {
            match self.agreement() {
                Phase::Ended(Err(failure)) if self.may_be_in_vain(&failure) => {
                    self.agree(Some(failure));
                }
                Phase::Ended(Ok(())) | Phase::Agreed if self.forecast.is_some() => self.agree(None),
                phase => self.phase = phase,
            }
            self.tell_participation();
        }
    }

    fn decode_maximum(&mut self, fragment: u32, payload: &[u8]) {
        for (index, bytes) in self.preamble_range(fragment).zip(payload.chunks_exact(4)) {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            self.lanes[index] = check::read_lane(self.format.preamble_type, bytes);
        }
    }

    /// Sets the lanes to what a preamble would have said.
    fn decode_check(&mut self, payload: &[u8]) {
        let n = self.format.workers;
        let (is_sound, shapes) = check::read(n, self.format.preamble_type, payload);
        for (rank, (elements, signature)) in shapes.enumerate() {
            (self.lanes[rank], self.lanes[n + rank]) = (elements, signature);
        }
        self.lanes[2 * n..].fill(if is_sound { 0 } else { NOT_FINITE });
    }

    /// Counts a fragment with shapes. Whether it is the last of them.
    fn note_shapes(&mut self, fragment: u32) -> bool {
        let is_shape = fragment < self.format.shape_fragments();
        self.shapes_left -= u32::from(is_shape);
        is_shape && self.shapes_left == 0
    }

    /// Takes the shape of a missed round from those who are present.
    fn learn_shape(&mut self) {
        let first = |lanes: &[i32]| lanes.iter().copied().find(|lane| *lane != UNSET);
        let (elements, rest) = self.lanes.split_at(self.format.workers);
        let (elements, signature) = (first(elements), first(&rest[..self.format.workers]));
        let (Some(elements), Some(signature)) = (elements, signature) else { return };
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.shape.is_none()) else { return };
        let elements = usize::try_from(elements).unwrap_or(0);
        kept.shape = Some((elements, signature));
        self.take_shape(elements);
    }

    /// Where rounds may go on without some, sums stand for those of all.
    fn tell_participation(&mut self) {
        if self.format.is_partial && self.phase == Phase::Agreed {
            let ranks = self.participation().ranks;
            self.buffer.set_participation(ranks);
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

    /// Ranks that take part with nothing have no shape.
    fn disagreement(&self) -> Option<Failure> {
        let (elements, rest) = self.lanes.split_at(self.format.workers);
        let (length, signature) = self.own_shape().unzip();
        let is_same = |lanes: &[i32], own: Option<i32>| {
            let mut shapes = lanes.iter().copied().filter(|lane| *lane != UNSET).chain(own);
            shapes.next().is_none_or(|first| shapes.all(|lane| lane == first))
        };
        let is_agreed =
            is_same(elements, length) && is_same(&rest[..self.format.workers], signature);
        (!is_agreed).then(|| self.mismatch())
    }

    /// What the owner has passed, if there is one.
    fn own_shape(&self) -> Option<(i32, i32)> {
        self.kept.is_none().then(|| self.lanes_of_shape())
    }

    /// The shapes by rank; −1 where a rank takes part with nothing.
    fn mismatch(&self) -> Failure {
        let n = self.format.workers;
        let present = |lane: &i32| (*lane).max(-1);
        let mut elements: Vec<i32> = self.lanes[..n].iter().map(present).collect();
        let mut signatures: Vec<i32> = self.lanes[n..2 * n].iter().map(present).collect();
        if let Some(own) = self.own_shape() {
            (elements[self.format.rank], signatures[self.format.rank]) = own;
        }
        Failure::Mismatch { round: self.round, elements, signatures }
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

    /// The summed values of a fragment have come. Whether there was room for them, where they have to wait for the
    /// agreement.
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

    /// Encodes a fragment's values into `lanes` and returns their sum; of a missed round, or of values that cannot be
    /// summed, zeros.
    pub fn encode_values(&mut self, fragment: u32, exponent: i8, lanes: &mut [u8]) -> u32 {
        let is_unsound = self.format.agreement == Agreement::Checks && !self.is_sound();
        if self.is_missed || is_unsound {
            lanes.fill(0);
            return 0;
        }
        self.buffer.encode(self.layout.range(fragment), exponent, lanes)
    }

    /// Decodes a fragment, unless the buffer has to stay as it is, or keeps it for the owner.
    fn decode(&mut self, fragment: u32, payload: &[u8]) {
        let exponent = self.exponent(fragment);
        if let Some(kept) = &mut self.kept {
            kept.fragments.push((fragment, exponent, payload.to_vec()));
        } else if self.in_vain.is_none() {
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
}
