//! From actions of the streams to packets.

use wiresum_wire::control::{set_word, status};
use wiresum_wire::{Flags, FragmentId, HEADER_LEN, Kind};

use super::Asked;
use super::stream::{Action, Parent};
use crate::session::rounds::{Rounds, Written};
use wiresum_protocol::Time;
use wiresum_protocol::compose::Draft;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::recovery::Probe;

impl Asked {
    /// Streams of values take turns, packet by packet, so that they progress alike.
    pub(super) fn transmit_values(
        &mut self,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let mut nth = 0;
        while let Some(turn) = self.turns.stream(nth) {
            let index = 1 + turn;
            if let Some(transmit) = self.transmit_of(index, rounds, now, buffer) {
                self.turns.note(nth, self.streams[index].recovery.next());
                return Some(transmit);
            }
            nth += 1;
        }
        None
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
        let duty = |position| rounds.duty(index, position);
        let action = self.streams[index].next_action(positions, duty, may_contribute, now)?;
        let len = match action {
            Action::Ask(probe) => self.write_probe(index, &probe, buffer)?,
            Action::Request(position) => self.write_request(index, position, rounds, buffer)?,
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

    fn write_probe(&mut self, index: usize, probe: &Probe, buffer: &mut [u8]) -> Option<usize> {
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
    ) -> Option<usize> {
        let payload = &mut buffer[HEADER_LEN..][..4 * status::WORDS];
        payload.fill(0);
        set_word(payload, status::ECHO_WORD, echo);
        let draft = Draft { fragment: first.0, ..self.draft(index, Kind::Probe) };
        let key = self.streams[index].key?;
        Some(draft.emit_proven(buffer, 4 * status::WORDS, &key))
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
        if self.streams[index].association.reach(&self.plan, position) {
            self.seats[index].say_hello(now);
        }
        Some(self.emit_values(index, position, &written, flags, buffer))
    }

    /// Asks for the result of a position that the node has completed without this worker.
    fn write_request(
        &mut self,
        index: usize,
        position: FragmentId,
        rounds: &Rounds,
        buffer: &mut [u8],
    ) -> Option<usize> {
        self.counters.requests += 1;
        let written = rounds.write_request(index, position, &mut buffer[HEADER_LEN..])?;
        Some(self.emit_values(index, position, &written, Flags::REQUEST, buffer))
    }

    fn emit_values(
        &self,
        index: usize,
        position: FragmentId,
        written: &Written,
        flags: Flags,
        buffer: &mut [u8],
    ) -> usize {
        let draft = Draft {
            key: self.streams[index].association.key(position),
            round: written.round.0,
            fragment: position.0,
            exponent: written.exponent,
            exchange: written.exchange,
            flags: written.format.with(flags),
            ..self.draft(index, Kind::Contribution)
        };
        let proof = self.hash.as_ref().zip(self.streams[index].key.as_ref());
        draft.emit_values(buffer, (written.len, written.lane_sum), proof)
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
