//! An aggregator's state as data, so that another process can go on where this one stops.
//!
//! What is small is JSON; slots are bytes, and only those of the running incarnation, as all others count as empty. Quotas, plans
//! and the clock are not in it: whoever restores it has them already.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_wire::FragmentId;
use wiresum_wire::control::{Absent, KeyAge};
use zerocopy::{FromBytes, IntoBytes};

use super::place::{ChildState, Place};
use super::slots::{Entry, SlotMemory};
use super::{Aggregator, Verdict};

/// Changes with the meaning of anything in a [`Snapshot`].
pub const SNAPSHOT_VERSION: u32 = 6;
/// Bytes of an entry's index before it and its values.
const INDEX_LEN: usize = size_of::<u32>();

/// An aggregator's state but for its slots, plans, quotas and clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    incarnation: Option<u64>,
    /// Ranks that it goes on without.
    absent: Vec<u32>,
    epoch: u32,
    is_over: bool,
    /// Datagrams by verdict, in the order of [`Verdict::AGGREGATOR`].
    counters: Vec<u64>,
    places: Vec<PlaceState>,
    /// Entries and their values, place by place. Not part of the JSON: as many bytes follow it as [`PlaceState::memory_len`] says.
    #[serde(skip)]
    pub memory: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceState {
    children: Vec<Member>,
    has_welcomed: bool,
    /// See [`Parent::asked`](super::place::Parent::asked).
    asked: Option<(u32, u32)>,
    /// The oldest generation of values whose key counts.
    generation: u32,
    /// How often keys were renewed by time.
    renewal: u32,
    memory_len: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    address: Option<SocketAddr>,
    has_left: bool,
    is_dismissed: bool,
    attempt: Option<u32>,
}

/// Why a snapshot does not fit an aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the state that was handed over does not fit the plan that came with it: restart the daemon instead"
)]
pub struct Unfit;

impl Snapshot {
    /// Bytes of [`Self::memory`] that follow the JSON.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        self.places.iter().map(|place| place.memory_len).sum()
    }
}

impl Aggregator {
    /// Everything that this aggregator knows. Without `slots` those count as empty, which is right where the kernel has them.
    #[must_use]
    pub fn snapshot(&self, slots: bool) -> Snapshot {
        let mut memory = Vec::new();
        let mut state_of = |place: &Place| {
            let start = memory.len();
            if slots {
                place.slots.write_entries(self.epoch, &mut memory);
            }
            let children = place.children.iter().map(Member::from).collect();
            let has_welcomed = place.parent.is_some_and(|parent| parent.has_welcomed);
            let asked = place.parent.and_then(|parent| parent.asked);
            let KeyAge { generation, renewal } = place.association.age();
            let memory_len = memory.len() - start;
            PlaceState { children, has_welcomed, asked, generation, renewal, memory_len }
        };
        let places = self.places.iter().map(&mut state_of).collect();
        Snapshot {
            incarnation: self.incarnation,
            absent: self.absent.ranks().collect(),
            epoch: self.epoch,
            is_over: self.is_over,
            counters: self.counters.to_vec(),
            places,
            memory,
        }
    }

    /// Becomes what the snapshot was taken of. Its plan and node have to be the same.
    ///
    /// # Errors
    /// [`Unfit`]; then this aggregator is not to be used.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Unfit> {
        if snapshot.places.len() != self.places.len() {
            return Err(Unfit);
        }
        if let Some(incarnation) = snapshot.incarnation {
            let absent = Absent::of(snapshot.absent.iter().copied()).ok_or(Unfit)?;
            self.begin(incarnation, absent);
        }
        (self.epoch, self.is_over) = (snapshot.epoch, snapshot.is_over);
        self.counters = <[u64; Verdict::AGGREGATOR.len()]>::try_from(snapshot.counters.as_slice())
            .map_err(|_| Unfit)?;
        let mut memory = snapshot.memory.as_slice();
        for (place, state) in self.places.iter_mut().zip(&snapshot.places) {
            let (of_place, rest) = memory.split_at_checked(state.memory_len).ok_or(Unfit)?;
            memory = rest;
            place.restore(state)?;
            let PlaceState { generation, renewal, .. } = *state;
            place.association.learn(&self.plan, KeyAge { generation, renewal });
            let highest = place.slots.read_entries(of_place)?;
            // The node's transmitter starts anew: this is where it has to look.
            highest.into_iter().for_each(|position| place.checks.remember(position));
        }
        Ok(())
    }
}

impl Place {
    fn restore(&mut self, state: &PlaceState) -> Result<(), Unfit> {
        if state.children.len() != self.children.len() {
            return Err(Unfit);
        }
        self.children = state.children.iter().map(ChildState::from).collect();
        if let Some(parent) = &mut self.parent {
            (parent.has_welcomed, parent.asked) = (state.has_welcomed, state.asked);
        }
        Ok(())
    }
}

impl SlotMemory {
    /// Appends index, entry and values of every entry of an incarnation.
    fn write_entries(&self, epoch: u32, memory: &mut Vec<u8>) {
        let live = (0..self.len()).filter(|index| self.entry(*index).epoch == epoch);
        for index in live {
            memory.extend((index as u32).to_ne_bytes());
            memory.extend(self.entry(index).as_bytes());
            memory.extend(self.values(index));
        }
    }

    /// Reads what [`Self::write_entries`] has written; returns the highest position of all, if there are entries.
    fn read_entries(&mut self, memory: &[u8]) -> Result<Option<FragmentId>, Unfit> {
        let record_len = INDEX_LEN + size_of::<Entry>() + self.values(0).len();
        if !memory.len().is_multiple_of(record_len) {
            return Err(Unfit);
        }
        let mut highest: Option<FragmentId> = None;
        for record in memory.chunks_exact(record_len) {
            let (index, record) = u32::read_from_prefix(record).map_err(|_| Unfit)?;
            let (entry, values) = Entry::read_from_prefix(record).map_err(|_| Unfit)?;
            if index as usize >= self.len() {
                return Err(Unfit);
            }
            let (own, own_values) = self.at(index as usize);
            *own = entry;
            own_values.copy_from_slice(values);
            let position = FragmentId(entry.position);
            highest = Some(highest.filter(|other| other.since(position) > 0).unwrap_or(position));
        }
        Ok(highest)
    }
}

impl From<&ChildState> for Member {
    fn from(child: &ChildState) -> Self {
        let ChildState { address, has_left, is_dismissed, attempt } = *child;
        Self { address, has_left, is_dismissed, attempt }
    }
}

impl From<&Member> for ChildState {
    fn from(member: &Member) -> Self {
        let Member { address, has_left, is_dismissed, attempt } = *member;
        Self { address, has_left, is_dismissed, attempt }
    }
}

#[cfg(test)]
mod tests {
    use wiresum_wire::NodeId;

    use super::*;
    use crate::Plan;

    fn tree() -> Plan {
        Plan::from_json(include_str!("../../tests/plans/tree.json")).expect("valid")
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let plan = tree();
        let whole = Aggregator::new(&plan, NodeId(0)).snapshot(true);
        let fresh = || Aggregator::new(&plan, NodeId(0));
        let cut = Snapshot { places: Vec::new(), ..whole.clone() };
        let uncounted = Snapshot { counters: vec![1], ..whole.clone() };
        let mut short = whole.clone();
        short.places[0].memory_len = 1;
        let mut childless = whole.clone();
        childless.places[0].children.clear();
        let mut odd = short.clone();
        odd.memory = vec![0];
        for wrong in [cut, uncounted, short, childless, odd] {
            assert_eq!(fresh().restore(&wrong), Err(Unfit));
        }
        assert_eq!(fresh().restore(&whole), Ok(()));
    }
}
