//! From actions of the streams to packets.

use wiresum_wire::control::{set_word, status};
use wiresum_wire::{BLOCK_LEN, Flags, FragmentId, HEADER_LEN, Kind};

use super::join::Stage;
use super::stream::{Action, Parent};
use crate::session::Worker;
use wiresum_protocol::Time;
use wiresum_protocol::compose::Draft;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::recovery::Probe;

impl Worker {
    /// Writes the next datagram to `buffer` (at least [`wiresum_wire::MAX_PACKET`] bytes).
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_membership(now, buffer) {
            return Some(transmit);
        }
        if self.failed.is_some() || self.stage != Stage::Joined {
            return None;
        }
        if self.is_away {
            self.govern_absences(now);
        }
        let first = self.transmit_of(0, now, buffer);
        let values = first.or_else(|| self.transmit_values(now, buffer));
        let ready = values.or_else(|| self.transmit_ready(now, buffer));
        ready.or_else(|| self.transmit_look(now, buffer))
    }

    /// Streams of values take turns, packet by packet.
    fn transmit_values(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let count = self.streams.len() - 1;
        (0..count).find_map(|_| {
            self.turn = (self.turn + 1) % count;
            self.transmit_of(1 + self.turn, now, buffer)
        })
    }

    fn transmit_of(&mut self, index: usize, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some(pulse) = self.transmit_pulse(index, now, buffer) {
            return Some(pulse);
        }
        let may_contribute = self.may_contribute(index, now);
        let len = match self.streams[index].next_action(may_contribute, now)? {
            Action::Ask(probe) => self.write_probe(index, &probe, buffer),
            Action::Contribute { position, is_repetition } => {
                self.counters.contributions += 1;
                self.counters.repetitions += u64::from(is_repetition);
                let len = self.write_contribution(index, position, is_repetition, now, buffer)?;
                self.note_pace(index, len, now);
                len
            }
        };
        Some(Transmit { destination: self.streams[index].address, len })
    }

    fn write_probe(&mut self, index: usize, probe: &Probe, buffer: &mut [u8]) -> usize {
        self.counters.probes += 1;
        self.write_question(index, probe.first, probe.echo, buffer)
    }

    /// Asks about the group that begins at `first`; `echo` comes back.
    pub(crate) fn write_question(
        &self,
        index: usize,
        first: FragmentId,
        echo: u32,
        buffer: &mut [u8],
    ) -> usize {
        let payload = &mut buffer[HEADER_LEN..][..4 * status::WORDS];
        payload.fill(0);
        set_word(payload, status::ECHO_WORD, echo);
        let draft = Draft { fragment: first.0, ..self.draft(index, Kind::Probe) };
        draft.emit(buffer, 4 * status::WORDS, echo)
    }

    /// Encodes a position's lanes straight from the collective's buffer into the packet.
    fn write_contribution(
        &mut self,
        index: usize,
        position: FragmentId,
        is_repetition: bool,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let (round, fragment) = self.streams[index].locate(position)?;
        let flags = if is_repetition { Flags::RETRANSMISSION } else { Flags(0) };
        let mut draft = Draft {
            round: round.0,
            fragment: position.0,
            flags: self.format_flags(index).with(flags),
            ..self.draft(index, Kind::Contribution)
        };
        let vote = if self.is_away { self.vote(round, now) } else { 0 };
        let first = self.rounds.front()?.round;
        let open = self.rounds.get_mut(round.0.wrapping_sub(first.0) as usize)?;
        let payload_len = if index == 0 {
            4 * self.format.preamble_lanes
        } else {
            let bytes = open.layout.range(fragment).len() * self.lane_type.width();
            bytes.next_multiple_of(BLOCK_LEN)
        };
        let payload = &mut buffer[HEADER_LEN..][..payload_len];
        let lane_sum = if index == 0 {
            open.encode_preamble(fragment, vote, payload)
        } else {
            draft.exponent = open.exponent(fragment);
            open.encode_values(fragment, draft.exponent, payload)
        };
        Some(draft.emit(buffer, payload_len, lane_sum))
    }

    /// How the lanes of a stream's packets are read and combined.
    pub(crate) fn format_flags(&self, index: usize) -> Flags {
        if index == 0 {
            self.format.preamble_type.flags().with(Flags::MAXIMUM)
        } else {
            self.lane_type.flags()
        }
    }

    pub(crate) fn draft(&self, index: usize, kind: Kind) -> Draft {
        self.draft_to(index, self.streams[index].parent(), kind)
    }

    /// A packet of a stream for a node that may be another than the one that it contributes to.
    pub(crate) fn draft_to(&self, index: usize, parent: Parent, kind: Kind) -> Draft {
        Draft {
            kind,
            job: self.plan.job_id(),
            node: parent.node,
            key: self.key,
            sub_model: self.streams[index].sub_model,
            contributor: parent.contributor.0,
            expected: parent.fan_in,
            ..Draft::default()
        }
    }
}
