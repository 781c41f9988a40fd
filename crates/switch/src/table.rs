//! The streams that a switch sums, by number: what the control plane installs, whatever runs the program. A cohort's part
//! of a stream is a stream of its own here.

use std::collections::BTreeMap;

use thiserror::Error;
use wiresum_plan::{Cohort, Place};
use wiresum_wire::{JobId, SubModelId};

/// Most streams in a switch's table: what its memory knows them by has 16 bits, of which 0 means that a slot is free.
pub const MAX_STREAMS: usize = u16::MAX as usize;

/// Largest window in fragments: positions are compared modulo 2³², and two windows have to lie on one side.
pub const MAX_WINDOW: u32 = 1 << 30;

/// Why a stream cannot be summed here.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PlaceError {
    /// Its slots end beyond the memory.
    #[error(
        "job {job}, sub-model {sub_model}: slots end at {end}, the switch has {have}: plan fewer, or give it more memory"
    )]
    Memory {
        /// The job.
        job: JobId,
        /// The stream.
        sub_model: SubModelId,
        /// End of its slots.
        end: u64,
        /// Slots that there are.
        have: u32,
    },
    /// The policy cannot work with its slots and window.
    #[error("job {job}, sub-model {sub_model}: {reason}")]
    Unsuited {
        /// The job.
        job: JobId,
        /// The stream.
        sub_model: SubModelId,
        /// What the policy needs.
        reason: &'static str,
    },
    /// It is in the table already.
    #[error("job {job}, sub-model {sub_model} is summed here already: remove the job first")]
    Taken {
        /// The job.
        job: JobId,
        /// The stream.
        sub_model: SubModelId,
    },
    /// The table is full.
    #[error("this switch sums at most {most} streams: remove a job first")]
    Full {
        /// Streams that there may be.
        most: usize,
    },
}

/// What a packet says of the stream that it is of: job, sub-model and cohort, in one number, as every packet is looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u64);

impl Name {
    fn new(job: JobId, sub_model: SubModelId, cohort: Cohort) -> Self {
        Self(u64::from(job.0) << 32 | u64::from(sub_model.0) << 8 | u64::from(cohort.0))
    }

    fn of(place: &Place) -> Self {
        Self::new(place.job, place.sub_model, place.cohort)
    }
}

/// The table of a switch. A stream's number is its place in it, from 1.
pub struct Table {
    /// Slots of the switch.
    slots: u32,
    /// Most streams.
    most: usize,
    /// By number − 1; `None` where a job has left.
    places: Vec<Option<Place>>,
    numbers: BTreeMap<Name, u16>,
}

impl Table {
    /// An empty table of a switch with so many slots, for at most so many streams (and at most [`MAX_STREAMS`]).
    #[must_use]
    pub fn new(slots: u32, most: usize) -> Self {
        Self { slots, most: most.min(MAX_STREAMS), places: Vec::new(), numbers: BTreeMap::new() }
    }

    /// A table with streams at these numbers, from 1, which fit.
    #[must_use]
    pub fn of(slots: u32, most: usize, places: Vec<Option<Place>>) -> Self {
        let numbered = places.iter().zip(1..);
        let numbers =
            numbered.filter_map(|(place, number)| Some((Name::of(place.as_ref()?), number)));
        Self { numbers: numbers.collect(), places, ..Self::new(slots, most) }
    }

    /// Gives a stream the first free number; `unsuited` is why the policy cannot serve it, if it cannot.
    ///
    /// # Errors
    /// One [`PlaceError`] per reason why not.
    pub fn install(
        &mut self,
        place: Place,
        unsuited: Option<&'static str>,
    ) -> Result<u16, PlaceError> {
        self.check(&place, unsuited)?;
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if free == self.most {
            return Err(PlaceError::Full { most: self.most });
        }
        self.places.resize(self.places.len().max(free + 1), None);
        self.places[free] = Some(place);
        let number = free as u16 + 1;
        self.numbers.insert(Name::of(&place), number);
        Ok(number)
    }

    fn check(&self, place: &Place, unfit: Option<&'static str>) -> Result<(), PlaceError> {
        let Place { job, sub_model, .. } = *place;
        let (end, have) = (u64::from(place.base) + u64::from(place.slots), self.slots);
        if end > u64::from(have) {
            return Err(PlaceError::Memory { job, sub_model, end, have });
        }
        if let Some(reason) = unsuited(place).or(unfit) {
            return Err(PlaceError::Unsuited { job, sub_model, reason });
        }
        if self.numbers.contains_key(&Name::of(place)) {
            return Err(PlaceError::Taken { job, sub_model });
        }
        Ok(())
    }

    /// The same streams with these numbers, from 1; `None` if they are others.
    pub(crate) fn renumbered(&self, streams: &[Option<(u16, u16, u8)>]) -> Option<Self> {
        let mut places = Vec::new();
        for stream in streams {
            let find = |(job, of, cohort)| self.find(JobId(job), SubModelId(of), Cohort(cohort));
            places.push(match stream.map(find) {
                Some(found) => Some(*found?.1),
                None => None,
            });
        }
        let table = Self::of(self.slots, self.most, places);
        (table.numbers.len() == self.numbers.len()).then_some(table)
    }

    /// Forgets the streams of a job, and says which they were.
    pub fn remove(&mut self, job: JobId) -> Vec<(u16, Place)> {
        let mut removed = Vec::new();
        for (place, number) in self.places.iter_mut().zip(1..) {
            if let Some(place) = place.take_if(|place| place.job == job) {
                self.numbers.remove(&Name::of(&place));
                removed.push((number, place));
            }
        }
        removed
    }

    /// The number of a cohort's part of a stream, and what is known of it.
    #[must_use]
    pub fn find(&self, job: JobId, sub_model: SubModelId, cohort: Cohort) -> Option<(u16, &Place)> {
        let &number = self.numbers.get(&Name::new(job, sub_model, cohort))?;
        Some((number, self.places[usize::from(number) - 1].as_ref()?))
    }

    /// By number − 1; `None` where a job has left.
    #[must_use]
    pub fn places(&self) -> &[Option<Place>] {
        &self.places
    }
}

fn unsuited(place: &Place) -> Option<&'static str> {
    if place.members.is_empty() {
        Some("no worker is summed here")
    } else if place.slots == 0 {
        Some("it needs a slot")
    } else if place.window == 0 || place.window > MAX_WINDOW {
        Some("the window is from 1 to 2³⁰ fragments")
    } else {
        None
    }
}
