//! Slot memory: the entries' states beside the values of one sub-model, and the decisions that the states call for.

use wiresum_wire::control::EntryState;
use wiresum_wire::{Contributor, Exchange, Flags, FragmentId, Header};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::Verdict;
use crate::plan::Seat;
use crate::policy::{SlotPolicy, Taken};

/// What a node knows about the fragment in one entry. All bytes zero is an entry of no incarnation, so memory comes
/// zeroed from the kernel and a large cache costs only the pages that are used.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Entry {
    /// Bit i: contributor i is in; of a child, also when all its substitutes are.
    pub contributors: u64,
    /// The node's incarnation count when the entry was taken: an entry of another incarnation is empty.
    pub epoch: u32,
    pub position: u32,
    pub round: u32,
    /// Sum of the lanes, as the check counts it.
    pub lane_sum: u32,
    pub value_count: u16,
    /// Format flags.
    pub flags: u16,
    pub exponent: i8,
    /// A value of [`EntryState`]; meaningless where the entry is empty.
    pub state: u8,
    /// An [`Exchange`].
    pub exchange: u8,
    padding: u8,
}

/// What to do with a contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The entry takes its position and values.
    Take,
    /// The values are added.
    Add,
    /// Nothing.
    Drop(Verdict),
    /// The sum goes up again.
    ForwardAgain,
    /// The result goes to the sender again.
    Answer,
}

impl Entry {
    /// Positions from the entry's to `position`; `None` if the entry is empty.
    pub fn distance(&self, epoch: u32, position: FragmentId) -> Option<i32> {
        (self.epoch == epoch).then(|| position.since(FragmentId(self.position)))
    }

    /// The entry's state if it is about `position`, empty otherwise.
    pub fn state_of(&self, epoch: u32, position: FragmentId) -> EntryState {
        if self.distance(epoch, position) != Some(0) {
            return EntryState::Empty;
        }
        match self.state {
            s if s == EntryState::Final as u8 => EntryState::Final,
            s if s == EntryState::Forwarded as u8 => EntryState::Forwarded,
            _ => EntryState::Filling,
        }
    }

    /// Whether a packet is about the same collective, in the same format, as the entry.
    pub fn agrees_with(&self, header: &Header) -> bool {
        self.round == header.round.get()
            && self.exponent == header.exponent
            && self.exchange == header.priority
            && self.flags == Flags(header.flags.get()).only(Flags::FORMAT).0
            && self.value_count == header.value_count.get()
    }

    /// The row of the contribution table that applies; changes nothing.
    pub fn judge(
        &self,
        epoch: u32,
        header: &Header,
        seat: &Seat,
        has_exchanges: bool,
        policy: &dyn SlotPolicy,
    ) -> Step {
        let position = FragmentId(header.fragment.get());
        if !has_exchanges && header.priority != Exchange::ALL.0 {
            return Step::Drop(Verdict::Mismatch);
        }
        let is_request = Flags(header.flags.get()).contains(Flags::REQUEST);
        if is_request && self.state_of(epoch, position) != EntryState::Final {
            return Step::Drop(Verdict::Stale);
        }
        match self.distance(epoch, position) {
            None => return Step::Take,
            Some(0) => {}
            Some(distance) if policy.taken(distance) == Taken::Replace => return Step::Take,
            Some(_) => return Step::Drop(Verdict::Stale),
        }
        if !self.agrees_with(header) {
            return Step::Drop(Verdict::Mismatch);
        }
        let is_in = self.holds(Contributor(header.contributor), seat);
        match self.state_of(epoch, position) {
            EntryState::Forwarded => Step::ForwardAgain,
            EntryState::Final => Step::Answer,
            _ if is_in => Step::Drop(Verdict::Duplicate),
            _ if self.contributors & seat.rivals != 0 => Step::Drop(Verdict::Substituted),
            _ => Step::Add,
        }
    }

    /// Whether everyone is in whose values are awaited.
    pub fn is_complete(&self, everyone: u64) -> bool {
        let awaited = Exchange(self.exchange).awaited(everyone);
        self.contributors & awaited == awaited
    }

    /// Who gave a copy; `None` for a sum.
    pub fn giver(&self) -> Option<Contributor> {
        let first = || Contributor(self.contributors.trailing_zeros() as u8);
        Exchange(self.exchange).is_copy().then(first)
    }

    /// Whether a contributor's values are in, by itself or by whom it stands for.
    pub fn holds(&self, contributor: Contributor, seat: &Seat) -> bool {
        self.contributors & (bit(contributor) | seat.child) != 0
    }

    /// Notes that a contributor's values are in.
    pub fn note(&mut self, contributor: Contributor, seat: &Seat) {
        self.contributors = seat.complete(self.contributors | bit(contributor));
    }

    /// Becomes the entry of the contribution in `header`.
    pub fn take(&mut self, epoch: u32, header: &Header, lane_sum: u32) {
        *self = Self {
            contributors: 0,
            epoch,
            position: header.fragment.get(),
            round: header.round.get(),
            lane_sum,
            value_count: header.value_count.get(),
            flags: Flags(header.flags.get()).only(Flags::FORMAT).0,
            exponent: header.exponent,
            state: EntryState::Filling as u8,
            exchange: header.priority,
            padding: 0,
        };
    }
}

/// A contributor's place in a bitmap.
pub(super) fn bit(contributor: Contributor) -> u64 {
    1 << contributor.0
}

/// The entries of one sub-model and, in one stretch, their values.
pub(super) struct SlotMemory {
    entries: Vec<Entry>,
    values: Vec<u8>,
    payload_len: usize,
}

impl SlotMemory {
    /// Two versions of `slots` slots of `payload_len` bytes.
    pub fn new(slots: u32, payload_len: usize) -> Self {
        let count = 2 * slots as usize;
        let entries = Entry::new_vec_zeroed(count).expect("slot memory fits the address space");
        Self { entries, values: vec![0; count * payload_len], payload_len }
    }

    /// Bytes that [`Self::new`] would take.
    pub fn bytes_for(slots: u32, payload_len: usize) -> u64 {
        2 * u64::from(slots) * (size_of::<Entry>() + payload_len) as u64
    }

    pub fn bytes(&self) -> usize {
        size_of_val(self.entries.as_slice()) + self.values.len()
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    pub fn values(&self, index: usize) -> &[u8] {
        &self.values[index * self.payload_len..][..self.payload_len]
    }

    /// An entry and its values.
    pub fn at(&mut self, index: usize) -> (&mut Entry, &mut [u8]) {
        let values = &mut self.values[index * self.payload_len..][..self.payload_len];
        (&mut self.entries[index], values)
    }
}
