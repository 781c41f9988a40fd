//! From actions of the streams to packets.

use wiresum_wire::control::{set_word, status};
use wiresum_wire::{Flags, FragmentId, HEADER_LEN, Kind};

use super::Asked;
use super::stream::{Action, Parent};
use crate::session::rounds::Rounds;
use wiresum_protocol::Time;
use wiresum_protocol::compose::Draft;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::recovery::Probe;

impl Asked {
    /// Streams of values take turns, packet by packet.
    pub(super) fn transmit_values(
        &mut self,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let count = self.streams.len() - 1;
        (0..count).find_map(|_| {
            self.turn = (self.turn + 1) % count;
            self.transmit_of(1 + self.turn, rounds, now, buffer)
        })
    }

    pub(super) fn transmit_of(
        &mut self,
        index: usize,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if let Some(pulse) = self.transmit_pulse(index, now, buffer) {
            return Some(pulse);
        }
        let may_contribute = self.may_contribute(index, rounds, now);
        let positions = rounds.positions(index);
        let len = match self.streams[index].next_action(positions, may_contribute, now)? {
            Action::Ask(probe) => self.write_probe(index, &probe, buffer),
            Action::Contribute { position, is_repetition } => {
                self.counters.contributions += 1;
                self.counters.repetitions += u64::from(is_repetition);
                let flags = if is_repetition { Flags::RETRANSMISSION } else { Flags(0) };
                let len = self.write_contribution(index, position, flags, rounds, now, buffer)?;
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
    pub(super) fn write_question(
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

    /// Encodes a position's lanes straight from the collective's source into the packet.
    fn write_contribution(
        &mut self,
        index: usize,
        position: FragmentId,
        flags: Flags,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let vote = if self.is_away && index == 0 {
            self.vote(rounds.positions(0).round_of(position)?, now)
        } else {
            0
        };
        let written = rounds.write(index, position, vote, &mut buffer[HEADER_LEN..])?;
        let draft = Draft {
            round: written.round.0,
            fragment: position.0,
            exponent: written.exponent,
            flags: rounds.format_flags(index).with(flags),
            ..self.draft(index, Kind::Contribution)
        };
        Some(draft.emit(buffer, written.len, written.lane_sum))
    }

    pub(super) fn draft(&self, index: usize, kind: Kind) -> Draft {
        self.draft_to(index, self.streams[index].parent(), kind)
    }

    /// A packet of a stream for a node that may be another than the one that it contributes to.
    pub(super) fn draft_to(&self, index: usize, parent: Parent, kind: Kind) -> Draft {
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
