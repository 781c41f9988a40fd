//! Contributions, results and probes: everything that touches slots.

use std::net::SocketAddr;

use wiresum_wire::control::{EntryState, set_word, status};
use wiresum_wire::{
    Contributor, Exchange, Flags, FragmentId, GROUP_FRAGMENTS, HEADER_LEN, Header, Kind, LaneType,
    NodeId, seal,
};
use zerocopy::IntoBytes;

use super::lanes::combine;
use super::place::Place;
use super::slots::Step;
use super::{Outcome, Verdict};

/// A packet that has passed the gate.
pub(super) struct Arrival<'a> {
    pub header: Header,
    pub source: SocketAddr,
    /// Sum of its lanes, as its check has it.
    pub lane_sum: u32,
    /// The datagram, to be turned into the one to send; at least as long as any packet of the job.
    pub buffer: &'a mut [u8],
    pub payload_len: usize,
    /// Bytes behind the values, of what comes and of what goes.
    pub proof_len: usize,
}

impl Arrival<'_> {
    fn position(&self) -> FragmentId {
        FragmentId(self.header.fragment.get())
    }

    fn payload(&self) -> &[u8] {
        &self.buffer[HEADER_LEN..][..self.payload_len]
    }

    fn len(&self) -> usize {
        HEADER_LEN + self.payload_len + self.proof_len
    }

    /// Writes the header over that of the datagram.
    fn emit(&mut self, lane_sum: u32) {
        seal(&mut self.header, lane_sum);
        self.buffer[..HEADER_LEN].copy_from_slice(self.header.as_bytes());
    }
}

impl Place {
    /// A contribution from a child: the contribution table of the spec.
    pub fn contribution(&mut self, node: NodeId, epoch: u32, mut arrival: Arrival) -> Outcome {
        let index = self.entry_index(arrival.position());
        let everyone = self.everyone();
        let contributor = Contributor(arrival.header.contributor);
        let seat = &self.seats[usize::from(contributor.0)];
        let (entry, values) = self.slots.at(index);
        let is_root = self.parent.is_none();
        let has_exchanges = is_root && self.hash.is_none();
        let step = entry.judge(epoch, &arrival.header, seat, has_exchanges, self.policy);
        let flags = Flags(arrival.header.flags.get()).only(Flags::FORMAT);
        match step {
            Step::Take => {
                entry.take(epoch, &arrival.header, arrival.lane_sum);
                values[..arrival.payload_len].copy_from_slice(arrival.payload());
            }
            Step::Add => {
                combine(flags, &mut values[..arrival.payload_len], arrival.payload());
                entry.lane_sum = LaneType::of(flags).add_sums(entry.lane_sum, arrival.lane_sum);
            }
            Step::Drop(verdict) => return Outcome::silent(verdict),
            Step::ForwardAgain => return self.send_up(index, &mut arrival, Verdict::Reforwarded),
            Step::Answer => return self.answer(node, index, &mut arrival),
        }
        entry.note(contributor, seat);
        if entry.is_complete(everyone) {
            return self.complete(node, index, flags, &mut arrival);
        }
        Outcome::silent(if step == Step::Take { Verdict::First } else { Verdict::Added })
    }

    /// The last contributor is in.
    fn complete(
        &mut self,
        node: NodeId,
        index: usize,
        flags: Flags,
        arrival: &mut Arrival,
    ) -> Outcome {
        let is_root = self.parent.is_none();
        let (entry, values) = self.slots.at(index);
        if flags.contains(Flags::MAXIMUM) {
            entry.lane_sum = LaneType::of(flags).sum(&values[..arrival.payload_len]);
        }
        if !is_root {
            entry.state = EntryState::Forwarded as u8;
            self.checks.note(arrival.position());
            return self.send_up(index, arrival, Verdict::Forwarded);
        }
        entry.state = EntryState::Final as u8;
        let Some(taker) = Exchange(entry.exchange).taker() else {
            self.send_down(node, index, Contributor(0), Flags(0), arrival);
            return Outcome::to_children(Verdict::Completed, arrival.len());
        };
        self.send_down(node, index, taker, Flags(0), arrival);
        // One that is not known yet asks when it is.
        let address = self.children.get(usize::from(taker.0)).and_then(|child| child.address);
        let to = |address| Outcome::to_one(Verdict::Completed, address, arrival.len());
        address.map_or(Outcome::silent(Verdict::Completed), to)
    }

    fn send_up(&mut self, index: usize, arrival: &mut Arrival, verdict: Verdict) -> Outcome {
        let parent = self.parent.expect("only an inner node forwards");
        let extra = if verdict == Verdict::Reforwarded { Flags::RETRANSMISSION } else { Flags(0) };
        let flags = Flags(self.slots.entry(index).flags).with(extra);
        self.address_up(&mut arrival.header, parent, flags);
        self.load(index, arrival);
        self.prove(parent.key, arrival.buffer, arrival.payload_len);
        Outcome::to_one(verdict, parent.address, arrival.len())
    }

    fn send_down(
        &mut self,
        node: NodeId,
        index: usize,
        child: Contributor,
        extra: Flags,
        arrival: &mut Arrival,
    ) {
        let entry = self.slots.entry(index);
        let flags = Flags(entry.flags).with(extra);
        let expected = entry.giver().map_or(self.fan_in, |giver| giver.0);
        self.address_down(&mut arrival.header, node, child, flags);
        arrival.header.expected = expected;
        self.load(index, arrival);
    }

    fn answer(&mut self, node: NodeId, index: usize, arrival: &mut Arrival) -> Outcome {
        let child = Contributor(arrival.header.contributor);
        self.send_down(node, index, child, Flags::RETRANSMISSION, arrival);
        self.prove(self.keys[usize::from(child.0)], arrival.buffer, arrival.payload_len);
        Outcome::to_one(Verdict::Answered, arrival.source, arrival.len())
    }

    /// Puts an entry's values, under the header of `arrival`, into the datagram.
    fn load(&mut self, index: usize, arrival: &mut Arrival) {
        let (entry, values) = self.slots.at(index);
        let len = arrival.payload_len;
        arrival.buffer[HEADER_LEN..][..len].copy_from_slice(&values[..len]);
        arrival.emit(entry.lane_sum);
    }

    /// The result from the parent: the result table of the spec.
    pub fn result(&mut self, node: NodeId, epoch: u32, mut arrival: Arrival) -> Outcome {
        let index = self.entry_index(arrival.position());
        let (entry, values) = self.slots.at(index);
        let state = entry.state_of(epoch, arrival.position());
        if state != EntryState::Empty && !entry.agrees_with(&arrival.header) {
            return Outcome::silent(Verdict::Mismatch);
        }
        match state {
            EntryState::Forwarded => {}
            EntryState::Final => return Outcome::silent(Verdict::ResultDuplicate),
            _ => return Outcome::silent(Verdict::ResultStale),
        }
        entry.state = EntryState::Final as u8;
        self.checks.note(arrival.position());
        entry.lane_sum = arrival.lane_sum;
        values[..arrival.payload_len].copy_from_slice(arrival.payload());
        let flags = Flags(entry.flags);
        self.address_down(&mut arrival.header, node, Contributor(0), flags);
        arrival.emit(arrival.lane_sum);
        Outcome::to_children(Verdict::ResultStored, arrival.len())
    }

    /// A child's question: the status overwrites the probe.
    pub fn probe(&self, epoch: u32, mut arrival: Arrival) -> Outcome {
        let first = arrival.position();
        let Some(key) = self.keys[usize::from(arrival.header.contributor)] else {
            return Outcome::silent(Verdict::BadContributor);
        };
        let entry = self.slots.entry(self.entry_index(first));
        let state = entry.state_of(epoch, first);
        let contributors = if state == EntryState::Empty { 0 } else { entry.contributors };
        let words = &mut arrival.buffer[HEADER_LEN..][..4 * status::WORDS];
        let (head, bitmaps) = words.split_at_mut(4 * status::HELD_WORD);
        set_word(head, status::STATE_WORD, state as u32);
        set_word(head, status::CONTRIBUTORS_WORD, (contributors >> 32) as u32);
        set_word(head, status::CONTRIBUTORS_WORD + 1, contributors as u32);
        head[4 * (status::ECHO_WORD + 1)..].fill(0);
        for word in 0..GROUP_FRAGMENTS / 32 {
            let child = Contributor(arrival.header.contributor);
            let (held, complete, last) = self.describe(epoch, first.plus(32 * word as u32), child);
            set_word(bitmaps, word, held);
            set_word(bitmaps, status::COMPLETE_WORD - status::HELD_WORD + word, complete);
            set_word(bitmaps, status::FINAL_WORD - status::HELD_WORD + word, last);
        }
        arrival.header.kind = Kind::Status as u8;
        key.prove(&mut arrival.header, words);
        arrival.buffer[..HEADER_LEN].copy_from_slice(arrival.header.as_bytes());
        Outcome::to_one(Verdict::Probed, arrival.source, arrival.len())
    }

    /// Held, complete and final bits of 32 positions.
    fn describe(&self, epoch: u32, first: FragmentId, child: Contributor) -> (u32, u32, u32) {
        let (seat, everyone) = (&self.seats[usize::from(child.0)], self.everyone());
        let mut words = (0, 0, 0);
        for i in 0..32 {
            let position = first.plus(i);
            let entry = self.slots.entry(self.entry_index(position));
            let state = entry.state_of(epoch, position);
            if state == EntryState::Empty {
                continue;
            }
            words.0 |= u32::from(entry.holds(child, seat)) << i;
            words.1 |= u32::from(entry.is_complete(everyone)) << i;
            words.2 |= u32::from(state == EntryState::Final) << i;
        }
        words
    }
}
