//! The aggregator as its node's transmitter sees it: states of entries, and the check queue.

use wiresum_wire::control::EntryState;
use wiresum_wire::{Flags, FragmentId, LaneType, SubModelId};

use super::Aggregator;
use super::place::Place;
use crate::transmitter::{DataPlane, Sum, Survey};

/// The check queue of one sub-model. Of several notes the transmitter needs the highest, so that is all there is room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckQueue {
    /// Positions between two notes, less one; a power of two less one.
    interval_mask: u32,
    is_armed: bool,
    noted: Option<FragmentId>,
}

impl CheckQueue {
    /// Without notes; `interval` is a power of two.
    pub fn new(interval: u32) -> Self {
        Self { interval_mask: interval - 1, is_armed: false, noted: None }
    }

    /// A sum has gone up, or a result has come down.
    pub fn note(&mut self, position: FragmentId) {
        let ends_interval = position.0 & self.interval_mask == self.interval_mask;
        let is_higher = self.noted.is_none_or(|noted| position.since(noted) > 0);
        if (ends_interval || self.is_armed) && is_higher {
            self.noted = Some(position);
        }
        self.is_armed = false;
    }

    /// A predecessor had this position.
    pub fn remember(&mut self, position: FragmentId) {
        self.noted = Some(position);
    }
}

impl Place {
    fn survey(&self, epoch: u32, first: FragmentId) -> Survey {
        let mut survey = Survey::EMPTY;
        for index in 0..Survey::POSITIONS {
            let position = first.plus(index);
            let (word, bit) = ((index / u32::BITS) as usize, 1 << (index % u32::BITS));
            match self.slots.entry(self.entry_index(position)).state_of(epoch, position) {
                EntryState::Forwarded => survey.forwarded[word] |= bit,
                EntryState::Final => survey.finals[word] |= bit,
                EntryState::Empty | EntryState::Filling => {}
            }
        }
        survey
    }

    fn sum(&mut self, epoch: u32, position: FragmentId, payload: &mut [u8]) -> Option<Sum> {
        let index = self.entry_index(position);
        let (entry, values) = self.slots.at(index);
        if entry.state_of(epoch, position) != EntryState::Forwarded {
            return None;
        }
        let format = Flags(entry.flags);
        let payload_len = usize::from(entry.value_count) * LaneType::of(format).width();
        payload[..payload_len].copy_from_slice(&values[..payload_len]);
        let (round, exponent, lane_sum) = (entry.round, entry.exponent, entry.lane_sum);
        Some(Sum { round, exponent, format, payload_len, lane_sum })
    }
}

impl Aggregator {
    fn place(&self, sub_model: SubModelId) -> Option<&Place> {
        self.places.iter().find(|place| place.sub_model == sub_model)
    }

    fn place_mut(&mut self, sub_model: SubModelId) -> Option<&mut Place> {
        self.places.iter_mut().find(|place| place.sub_model == sub_model)
    }
}

impl DataPlane for Aggregator {
    fn next_check(&mut self) -> Option<(SubModelId, FragmentId)> {
        self.places.iter_mut().find_map(|place| Some((place.sub_model, place.checks.noted.take()?)))
    }

    fn arm(&mut self, sub_model: SubModelId) {
        if let Some(place) = self.place_mut(sub_model) {
            place.checks.is_armed = true;
        }
    }

    fn survey(&mut self, sub_model: SubModelId, first: FragmentId) -> Survey {
        let epoch = self.epoch;
        self.place(sub_model).map_or(Survey::EMPTY, |place| place.survey(epoch, first))
    }

    fn sum(
        &mut self,
        sub_model: SubModelId,
        position: FragmentId,
        payload: &mut [u8],
    ) -> Option<Sum> {
        let epoch = self.epoch;
        self.place_mut(sub_model)?.sum(epoch, position, payload)
    }
}
