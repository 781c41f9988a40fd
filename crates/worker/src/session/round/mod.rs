//! One collective: its agreement, then its values, or both at once.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `preamble` | what ranks tell each other, and what all of them conclude alike |
//! | `course` | in which order fragments go, and who gives and takes them |
//! | `values` | values to lanes and back |
//! | `copies` | bytes as they are |
//! | `shares` | bytes that the agreement itself carries |
//! | `sealed` | the seals of both |

mod copies;
mod course;
mod preamble;
mod sealed;
mod shares;
mod values;

use std::ops::Range;

use wiresum_protocol::Time;
use wiresum_wire::{Flags, LaneType, Round};

use super::failure::Failure;
use super::forecast::{self, Forecaster};
use super::format::{Agreement, Format};
use super::layout::Layout;
use super::quorum::{Kept, Participation};
use super::sealing::Seals;
use super::shape::Shape;
use crate::collective::{Collective, NOT_FINITE};
pub(crate) use course::{Course, Dealt};
use preamble::Preamble;
pub(super) use values::MAX_STASHED;

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

pub(crate) struct OpenRound {
    pub round: Round,
    pub collective: Collective,
    /// Elements whose results this worker takes.
    part: Range<usize>,
    pub submitted: Time,
    pub deadline: Time,
    /// What its elements become.
    pub lane_type: LaneType,
    /// Bytes of a number in them.
    width: usize,
    /// Elements that are summed.
    pub layout: Layout,
    pub course: Course,
    pub phase: Phase,
    preamble: Preamble,
    /// Fragments of which this worker has still something to do.
    values_left: u32,
    /// Exponents of values that flow before the agreement, by fragment.
    forecast: Option<Vec<i8>>,
    /// Where a check is all that is agreed on: every value can be summed, once that is known.
    is_sound: Option<bool>,
    /// Results that came before the agreement.
    stash: Vec<(u32, Vec<u8>)>,
    /// Why the sums of a round are of no use; set before the last of them is here.
    in_vain: Option<Failure>,
    /// A sealed round was in vain: a rank has said under its seal that its values cannot be summed.
    is_vouched: bool,
    /// The forecaster knows what was agreed on.
    is_taught: bool,
    /// This worker takes part with nothing.
    is_missed: bool,
    /// What waits for the owner, while there is none.
    kept: Option<Kept>,
    /// Where sums are sealed.
    pub(super) seals: Option<Seals>,
    format: Format,
    /// The owner knows how it ended.
    is_told: bool,
}

impl OpenRound {
    pub fn new(
        round: Round,
        collective: Collective,
        format: Format,
        deadline: Time,
        now: Time,
    ) -> Self {
        let summed = if collective.kind.is_copy() { 0 } else { collective.source.len() };
        let shape = Shape::of(&collective);
        let lane_type = format.lane_type(shape);
        let layout = format.layout(summed, shape.width());
        let course = Course::of(&collective, &format, layout);
        let preamble = shares::preamble(format, layout, &collective);
        Self {
            round,
            part: format.part(&collective),
            collective,
            submitted: now,
            deadline,
            lane_type,
            width: shape.width(),
            layout,
            phase: Phase::Preamble,
            preamble,
            values_left: course.fragments(),
            course,
            forecast: None,
            is_sound: None,
            stash: Vec::new(),
            in_vain: None,
            is_vouched: false,
            is_taught: false,
            is_missed: false,
            kept: None,
            seals: None,
            format,
            is_told: false,
        }
    }

    /// A round that goes on without its owner, who will claim it. Of the preamble, what every rank has.
    pub fn missed(round: Round, format: Format, now: Time) -> Self {
        let never = Time(u64::MAX);
        let mut open = Self::new(round, Collective::nothing(), format, never, now);
        open.preamble = Preamble::new(format, open.layout, None);
        (open.is_missed, open.kept) = (true, Some(Kept::default()));
        open
    }

    /// Whether the number of elements is known.
    pub fn has_shape(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.shape.is_some())
    }

    /// Takes the shape of a missed round, from the preamble or the owner.
    fn take_shape(&mut self, shape: Shape) {
        let elements = usize::try_from(shape.elements).unwrap_or(0);
        self.lane_type = self.format.lane_type(shape);
        self.width = shape.width();
        self.layout = self.format.layout(elements, self.width);
        self.course = Course::of(&self.collective, &self.format, self.layout);
        self.values_left = self.course.fragments();
        self.preamble.extend(self.layout);
    }

    /// Preamble fragments that have no positions yet; from now on they have.
    pub fn rest_of_preamble(&mut self) -> Range<u32> {
        self.preamble.allot()
    }

    /// The owner of a missed round has come: it gets what there is, and the rest as it comes.
    pub fn hand_over(&mut self, collective: Collective) -> Result<(), Failure> {
        let Some(kept) = self.kept.take() else { return Ok(()) };
        self.part = self.format.part(&collective);
        self.collective = collective;
        match kept.shape {
            None => self.take_shape(self.shape()),
            Some(shape) if shape != self.shape() => return Err(self.mismatch()),
            Some(_) => {}
        }
        if self.phase != Phase::Preamble {
            self.collective.sink.set_participation(self.participation().ranks);
        }
        for (fragment, exponent, lanes) in kept.fragments {
            self.give(fragment, exponent, &lanes);
        }
        Ok(())
    }

    /// How nodes read the lanes of its values, and combine them.
    pub fn flags(&self) -> Flags {
        let flags = self.lane_type.flags();
        if self.collective.source.keeps_largest() { flags.with(Flags::MAXIMUM) } else { flags }
    }

    /// Value fragments without a result.
    pub fn values_left(&self) -> u32 {
        self.values_left
    }

    /// Whether the owner has not come yet.
    pub fn is_unclaimed(&self) -> bool {
        self.kept.is_some()
    }

    /// Who took part, once that is agreed.
    pub fn participation(&self) -> Participation {
        let present = self.preamble.shapes().flatten().count();
        Participation { ranks: present as u32, is_own_in: !self.is_missed }
    }

    /// What a forecast goes by.
    pub fn shape(&self) -> Shape {
        Shape::of(&self.collective)
    }

    /// Lets values flow with these exponents whatever the preamble will say, or has said.
    pub fn adopt(&mut self, forecast: Vec<i8>) {
        self.forecast = Some(forecast);
        let verdict = match &self.phase {
            Phase::Preamble | Phase::Ended(Err(Failure::Mismatch { .. })) => return,
            Phase::Ended(Err(failure)) => Some(failure.clone()),
            Phase::Agreed | Phase::Ended(Ok(())) => self.in_vain.clone(),
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
        if is_first && self.preamble.is_complete() {
            forecaster.learn(self.shape(), self.preamble.exponents(), self.forecast());
        }
    }

    /// Number of preamble fragments.
    pub fn preamble_fragments(&self) -> u32 {
        self.preamble.fragments()
    }

    /// Whether this worker's vote is cast: it stays what it is when the preamble is sent again.
    pub fn has_voted(&self) -> bool {
        self.preamble.has_voted()
    }

    /// The ranks' votes on going home, once the preamble is complete.
    pub fn votes(&self) -> &[i32] {
        self.preamble.votes()
    }

    /// Writes a preamble fragment's lanes and returns their sum. What is voted counts the first time only.
    pub fn encode_preamble(&mut self, fragment: u32, vote: i32, payload: &mut [u8]) -> u32 {
        if self.format.agreement == Agreement::Checks {
            return self.encode_check(payload);
        }
        let Self { collective, layout, is_missed, preamble, .. } = self;
        preamble.prepare(fragment, vote, |value| {
            if *is_missed { preamble::UNSET } else { proposal(collective, *layout, value) }
        });
        preamble.write(fragment, payload)
    }

    /// The agreed lanes of a preamble fragment have come.
    pub fn decode_preamble(&mut self, fragment: u32, payload: &[u8]) {
        let Some(payload) = self.open_preamble(payload) else { return };
        let has_shapes = self.preamble.read(fragment, &payload);
        if self.phase != Phase::Preamble {
            return;
        }
        if has_shapes {
            self.learn_shape();
        }
        if has_shapes && self.disagreement().is_some() || self.preamble.is_complete() {
            match self.agreement() {
                Phase::Ended(Err(failure)) if self.may_be_in_vain(&failure) => {
                    self.agree(Some(failure));
                }
                Phase::Ended(Ok(())) | Phase::Agreed if self.forecast.is_some() => self.agree(None),
                phase => self.phase = phase,
            }
            self.tell_participation();
            self.hand_out_shares();
        }
    }

    fn encode_check(&mut self, payload: &mut [u8]) -> u32 {
        let is_sound = self.is_sound();
        let check = payload.len() - self.format.seal_len;
        let sum = self.preamble.write_check(self.shape(), is_sound, &mut payload[..check]);
        self.seals.as_ref().map_or(sum, |seals| seals.seal_check(payload))
    }

    /// Takes the shape of a missed round from those who are present.
    fn learn_shape(&mut self) {
        let Some(shape) = self.preamble.shapes().flatten().next() else { return };
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.shape.is_none()) else { return };
        kept.shape = Some(shape);
        self.take_shape(shape);
    }

    /// Where rounds may go on without some, sums stand for those of all.
    fn tell_participation(&mut self) {
        if self.format.is_partial && self.phase == Phase::Agreed {
            let ranks = self.participation().ranks;
            self.collective.sink.set_participation(ranks);
        }
    }

    /// Whether the values of a round have to flow nevertheless: some rank may have sent them already, or ranks have to
    /// say under their seals what the agreement says.
    fn may_be_in_vain(&self, failure: &Failure) -> bool {
        (self.forecast.is_some() || self.needs_vouching()) && *failure == Failure::NotFinite
    }

    /// Settles what a forecast round's sums are good for.
    fn agree(&mut self, failure: Option<Failure>) {
        self.phase = Phase::Agreed;
        let forecast = self.forecast.as_deref().unwrap_or(&[]);
        let is_right = || forecast::is_right(forecast, self.preamble.exponents());
        self.in_vain = failure.or_else(|| (!is_right()).then_some(Failure::Unforeseen));
        for (fragment, payload) in std::mem::take(&mut self.stash) {
            self.decode(fragment, &payload);
        }
        self.end_if_complete();
    }

    /// What the owner has passed, if there is one.
    fn own_shape(&self) -> Option<Shape> {
        self.kept.is_none().then(|| self.shape())
    }

    /// Ranks that take part with nothing have no shape.
    fn disagreement(&self) -> Option<Failure> {
        let mut shapes = self.preamble.shapes().flatten().chain(self.own_shape());
        let is_agreed = shapes.next().is_none_or(|first| shapes.all(|shape| shape == first));
        (!is_agreed || self.lacks_a_rank()).then(|| self.mismatch())
    }

    /// What each rank has passed; nothing where a rank takes part with nothing.
    fn mismatch(&self) -> Failure {
        let of_seats: Vec<Option<Shape>> = self.preamble.shapes().collect();
        let mut shapes: Vec<Option<Shape>> =
            self.format.seats().map(|seat| of_seats[seat]).collect();
        if let Some(own) = self.own_shape() {
            shapes[self.format.rank_of(self.format.seat)] = Some(own);
        }
        Failure::Mismatch { round: self.round, shapes }
    }

    /// What all ranks conclude alike from the same lanes.
    fn agreement(&self) -> Phase {
        if let Some(mismatch) = self.disagreement() {
            return Phase::Ended(Err(mismatch));
        }
        let is_number = |lane: &i32| i8::try_from(*lane).is_ok();
        let exponents = self.preamble.exponents();
        if !exponents.iter().all(is_number) {
            Phase::Ended(Err(Failure::NotFinite))
        } else if self.course.fragments() == 0 {
            Phase::Ended(Ok(()))
        } else {
            Phase::Agreed
        }
    }
}

/// What this worker proposes as the exponent of a fragment.
fn proposal(collective: &Collective, layout: Layout, fragment: u32) -> i32 {
    let proposed = collective.source.exponent(layout.range(fragment));
    // The exponent has 8 bits in a packet: one that does not fit cannot be honoured.
    if i8::try_from(proposed).is_ok() { proposed } else { NOT_FINITE }
}
