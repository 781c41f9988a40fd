//! The parameter server: completes what switches did not sum. Here the sums of a job's cohorts meet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wiresum_plan::{MAX_COHORTS, Serving};
use wiresum_wire::{Flags, FragmentId, JobId, Round, SubModelId};

use crate::{
    Cohort, Contributors, Counters, MAX_WINDOW, Outcome, Packet, Payload, Values, Verdict, Workers,
};

/// What a server holds of a fragment.
#[derive(Clone, Debug)]
struct Entry<V> {
    fragment: FragmentId,
    round: Round,
    exponent: i8,
    merged: Workers,
    /// By cohort: its senders' slot, by which switches free it.
    slots: [u32; MAX_COHORTS],
    /// What befell the contributions.
    flags: Flags,
    values: V,
}

#[derive(Clone, Debug)]
struct Stream<V> {
    members: Workers,
    lanes: Flags,
    /// Two windows: a worker may be one behind another. Empty until used.
    entries: Vec<Option<Entry<V>>>,
}

/// Completes what switches did not sum, and joins the sums of a job's cohorts.
#[derive(Clone, Debug)]
pub struct ParameterServer<V> {
    streams: BTreeMap<(JobId, SubModelId), Stream<V>>,
    counters: Counters,
}

impl<V> Default for ParameterServer<V> {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), counters: Counters::default() }
    }
}

impl<V: Payload> ParameterServer<V> {
    /// Completes a stream from now on; from its first position if it was served before.
    ///
    /// # Panics
    /// If the window is 0 or above [`MAX_WINDOW`].
    pub fn serve(&mut self, serving: Serving) {
        assert!((1..=MAX_WINDOW).contains(&serving.window), "a window of {}", serving.window);
        let length = 2 * serving.window.next_power_of_two() as usize;
        let entries = std::iter::repeat_with(|| None).take(length).collect();
        let Serving { members, lanes, .. } = serving;
        let stream = Stream { members, lanes, entries };
        self.streams.insert((serving.job, serving.sub_model), stream);
    }

    /// Forgets a job.
    pub fn remove(&mut self, job: JobId) {
        self.streams.retain(|(of, _), _| *of != job);
    }

    /// Workers whose values it holds of a fragment; none if it holds nothing of it.
    #[must_use]
    pub fn held(&self, job: JobId, sub_model: SubModelId, fragment: FragmentId) -> Workers {
        let entry = self.streams.get(&(job, sub_model)).and_then(|stream| stream.entry(fragment));
        entry.map(|entry| entry.merged).unwrap_or_default()
    }

    /// How many packets met which fate.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Deals with a contribution, in place: afterwards it is the result, if the outcome says that one leaves, for workers
    /// of the contribution's cohort. If it was completed, [`Self::other_results`] go to the others.
    pub fn handle(&mut self, packet: &mut Packet<V>) -> Outcome {
        let outcome = match self.streams.get_mut(&(packet.job, packet.sub_model)) {
            Some(stream) if stream.takes(packet) => stream.handle(packet),
            _ => Outcome::absorbed(Verdict::Foreign),
        };
        self.counters.count(outcome.verdict);
        outcome
    }
}

impl<V: Payload> ParameterServer<V> {
    /// The results that go to the other cohorts beside one that was completed just now.
    #[must_use]
    pub fn other_results(&self, result: &Packet<V>) -> Vec<Packet<V>> {
        let Some(stream) = self.streams.get(&(result.job, result.sub_model)) else {
            return Vec::new();
        };
        let Some(entry) = stream.entry(result.fragment) else { return Vec::new() };
        let others = stream.members.cohorts().filter(|(cohort, _)| *cohort != result.cohort());
        let to = |(cohort, contributors): (Cohort, Contributors)| Packet {
            contributors,
            worker: cohort.worker(0),
            slot: entry.slot(cohort),
            ..result.clone()
        };
        others.map(to).collect()
    }
}

/// Flags of contributions that their result tells.
const TOLD: Flags = Flags(Flags::ECN.0 | Flags::COLLISION.0 | Flags::OVERFLOW.0);

impl<V> Stream<V> {
    /// What is held of a fragment.
    fn entry(&self, fragment: FragmentId) -> Option<&Entry<V>> {
        let entry = self.entries[self.index(fragment)].as_ref();
        entry.filter(|entry| entry.fragment == fragment)
    }

    fn index(&self, fragment: FragmentId) -> usize {
        fragment.0 as usize & (self.entries.len() - 1)
    }

    /// Workers whose values a contribution holds. In a job of several cohorts an empty set stands for all workers: such a
    /// packet gives back a result.
    fn arriving(&self, packet: &Packet<V>) -> Workers {
        let is_whole = packet.contributors.is_empty() && self.members.cohorts().nth(1).is_some();
        if is_whole { self.members } else { Workers::of(packet.cohort(), packet.contributors) }
    }
}

impl<V: Payload> Stream<V> {
    fn takes(&self, packet: &Packet<V>) -> bool {
        let arriving = self.arriving(packet);
        !arriving.is_empty()
            && self.members.contains(arriving)
            && packet.flags.only(Flags::LANES) == self.lanes
    }

    fn handle(&mut self, packet: &mut Packet<V>) -> Outcome {
        let (index, arriving) = (self.index(packet.fragment), self.arriving(packet));
        let place = &mut self.entries[index];
        let ahead = place.as_ref().map_or(1, |entry| packet.fragment.since(entry.fragment));
        if ahead < 0 {
            return Outcome::absorbed(Verdict::Stale);
        }
        if ahead > 0 {
            let entry = place.insert(Entry::of(packet, arriving));
            return conclude(entry, self.members, packet, Verdict::First);
        }
        let entry = place.as_mut().expect("a position ahead by 0 has an entry");
        if entry.merged == self.members {
            return answer(entry, packet);
        }
        let verdict = entry.merge(packet, arriving);
        if matches!(verdict, Verdict::Duplicate | Verdict::Overlap) {
            return Outcome::absorbed(verdict);
        }
        conclude(entry, self.members, packet, verdict)
    }
}

/// What is held of a fragment, as plain data.
#[derive(Debug, Serialize, Deserialize)]
pub struct EntryState {
    index: usize,
    fragment: u32,
    round: u32,
    exponent: i8,
    merged: [u64; MAX_COHORTS],
    slots: [u32; MAX_COHORTS],
    flags: u16,
    values: Values,
}

impl ParameterServer<Values> {
    /// All that is held of a job's streams.
    pub(crate) fn state(&self, job: JobId) -> Vec<(u16, Vec<EntryState>)> {
        let entry = |(index, entry): (usize, &Option<Entry<Values>>)| {
            let Entry { fragment, round, exponent, merged, slots, flags, values } =
                entry.clone()?;
            let (fragment, round, merged, flags) = (fragment.0, round.0, merged.bits(), flags.0);
            Some(EntryState { index, fragment, round, exponent, merged, slots, flags, values })
        };
        let of_job = self.streams.iter().filter(|((of, _), _)| *of == job);
        let held =
            |stream: &Stream<Values>| stream.entries.iter().enumerate().filter_map(entry).collect();
        of_job.map(|((_, sub_model), stream)| (sub_model.0, held(stream))).collect()
    }

    /// Holds that of a stream from now on; `None` if it does not fit.
    pub(crate) fn restore(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        held: Vec<EntryState>,
    ) -> Option<()> {
        let stream = self.streams.get_mut(&(job, sub_model))?;
        for state in held {
            *stream.entries.get_mut(state.index)? = Some(Entry {
                fragment: FragmentId(state.fragment),
                round: Round(state.round),
                exponent: state.exponent,
                merged: Workers::from_bits(state.merged),
                slots: state.slots,
                flags: Flags(state.flags),
                values: state.values,
            });
        }
        Some(())
    }

    pub(crate) fn set_counters(&mut self, counters: Counters) {
        self.counters = counters;
    }
}

impl<V: Payload> Entry<V> {
    fn of(packet: &mut Packet<V>, arriving: Workers) -> Self {
        let mut entry = Self {
            fragment: packet.fragment,
            round: packet.round,
            exponent: packet.exponent,
            merged: arriving,
            slots: [0; MAX_COHORTS],
            flags: packet.flags.only(TOLD),
            values: std::mem::take(&mut packet.values),
        };
        entry.note_slot(packet);
        entry
    }

    fn slot(&self, cohort: Cohort) -> u32 {
        self.slots[usize::from(cohort.0)]
    }

    /// The first contribution of a cohort tells its slot.
    fn note_slot(&mut self, packet: &Packet<V>) {
        self.slots[usize::from(packet.cohort().0)] = packet.slot;
    }

    /// Adds what is new; a superset of what is here takes its place.
    fn merge(&mut self, packet: &mut Packet<V>, arriving: Workers) -> Verdict {
        self.flags = self.flags.with(packet.flags.only(TOLD));
        if self.merged.in_cohort(packet.cohort()).is_empty() {
            self.note_slot(packet);
        }
        if self.merged.without(arriving) == self.merged {
            self.values.merge(&packet.values, packet.flags);
            self.merged = self.merged.with(arriving);
            Verdict::Added
        } else if self.merged.contains(arriving) {
            Verdict::Duplicate
        } else if arriving.contains(self.merged) {
            self.values = std::mem::take(&mut packet.values);
            self.merged = arriving;
            Verdict::Superseded
        } else {
            Verdict::Overlap
        }
    }

    fn write_result(&self, packet: &mut Packet<V>, recipients: Contributors) {
        packet.turn_down(recipients, self.merged.count() as u8);
        packet.mark(self.flags);
        packet.slot = self.slot(packet.cohort());
        (packet.round, packet.exponent) = (self.round, self.exponent);
        packet.values.clone_from(&self.values);
    }
}

/// The packet is in: the result follows if it was the last.
fn conclude<V: Payload>(
    entry: &mut Entry<V>,
    members: Workers,
    packet: &mut Packet<V>,
    verdict: Verdict,
) -> Outcome {
    if entry.merged != members {
        return Outcome::absorbed(verdict);
    }
    entry.write_result(packet, members.in_cohort(packet.cohort()));
    Outcome::down(Verdict::Completed)
}

/// The result is there already: whoever sends again lacks it.
fn answer<V: Payload>(entry: &Entry<V>, packet: &mut Packet<V>) -> Outcome {
    if !packet.is_resent() {
        return Outcome::absorbed(Verdict::Duplicate);
    }
    entry.write_result(packet, Contributors::one(packet.worker));
    Outcome::down(Verdict::Answered)
}
