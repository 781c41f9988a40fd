//! Results of a stream's last window of positions, which a node that has forgotten them asks for (`spec/switch.md`,
//! "Nodes that forget").

use std::collections::VecDeque;
use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_switch::{Cohort, Contributors, Packet, Sending};
use wiresum_wire::{Flags, FragmentId, Kind};

/// Most bytes that a stream keeps. A window above that is a whole gradient, as `cache` has it, and would be held twice.
const MOST_BYTES: usize = 32 << 20;

/// What a contribution says of the result that it gives back.
const TOLD: Flags = Flags(Flags::FORMAT.0 | Flags::COLLISION.0 | Flags::ECN.0 | Flags::OVERFLOW.0);

/// A result, as the contribution that gives it back.
struct Entry {
    packet: Packet<Vec<u8>>,
    /// When it was last given back.
    returned: Option<Time>,
    is_due: bool,
}

pub(super) struct Kept {
    sending: Sending,
    /// By position modulo length; empty if results are not kept.
    entries: Vec<Option<Entry>>,
    due: VecDeque<FragmentId>,
}

impl Kept {
    /// Nothing yet, of a stream whose payloads have so many bytes.
    pub fn new(sending: Sending, payload_len: usize) -> Self {
        let length = sending.window.next_power_of_two() as usize;
        let length = if length.saturating_mul(payload_len) > MOST_BYTES { 0 } else { length };
        let entries = std::iter::repeat_with(|| None).take(length).collect();
        Self { sending, entries, due: VecDeque::new() }
    }

    /// Keeps a result, in the place of the one a window before.
    pub fn keep(&mut self, result: &Packet<&[u8]>) {
        let packet = self.give_back(result);
        let Some(place) = self.place(result.fragment) else { return };
        let mut lanes = place.take().map_or_else(Vec::new, |entry| entry.packet.values);
        lanes.clear();
        lanes.extend_from_slice(result.values);
        *place = Some(Entry { packet: packet.carrying(lanes), returned: None, is_due: false });
    }

    /// Someone lacks the result of a position: it is due, with all later ones that were not given back for a timeout.
    pub fn recall(&mut self, from: FragmentId, now: Time) {
        let timeout = self.sending.timeout;
        let is_asked = |entry: &&mut Entry| {
            entry.packet.fragment.since(from) >= 0 && entry.is_ripe(timeout, now)
        };
        let asked = self.entries.iter_mut().flatten().filter(is_asked);
        let mut due: Vec<FragmentId> = asked.map(Entry::become_due).collect();
        due.sort_by_key(|position| position.since(from));
        self.due.extend(due);
    }

    /// The next contribution that gives a result back.
    pub fn poll(&mut self, now: Time) -> Option<&Packet<Vec<u8>>> {
        let position = self.due.pop_front()?;
        let entry = self.place(position)?.as_mut()?;
        (entry.is_due, entry.returned) = (false, Some(now));
        Some(&entry.packet)
    }

    fn place(&mut self, position: FragmentId) -> Option<&mut Option<Entry>> {
        let mask = self.entries.len().checked_sub(1)?;
        self.entries.get_mut(position.0 as usize & mask)
    }

    fn give_back(&self, result: &Packet<&[u8]>) -> Packet<()> {
        Packet {
            contributors: everyone(self.sending.workers),
            node: self.sending.node,
            flags: result.flags.only(TOLD).with(Flags::RETRANSMISSION),
            kind: Kind::Contribution,
            worker: self.sending.worker,
            expected: self.sending.workers,
            priority: self.sending.priority,
            ..result.clone().carrying(())
        }
    }
}

/// All workers of a job as a packet names them: by no bit, where they are more than one cohort.
fn everyone(workers: u8) -> Contributors {
    let is_one = Cohort::count(workers.into()) == 1;
    if is_one { Contributors::first(workers) } else { Contributors::NONE }
}

impl Entry {
    fn is_ripe(&self, timeout: Duration, now: Time) -> bool {
        !self.is_due && self.returned.is_none_or(|returned| returned.plus(timeout) <= now)
    }

    fn become_due(&mut self) -> FragmentId {
        self.is_due = true;
        self.packet.fragment
    }
}
