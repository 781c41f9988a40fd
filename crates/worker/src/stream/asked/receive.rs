//! From packets to results, statuses and welcomes.

use std::net::SocketAddr;

use wiresum_keys::is_authentic;
use wiresum_wire::control::{double_word, hello, status, word};
use wiresum_wire::{Exchange, Flags, FragmentId, JobKey, Kind, Packet, Round, header_sum};

use super::join::Stage;
use super::{Asked, LOOK};
use crate::session::Failure;
use crate::session::rounds::{Arrived, Rounds};
use crate::stream::Streams;
use wiresum_protocol::Time;
use wiresum_protocol::recovery::Duty;

/// Results of one fragment whose check fails before its node is held to be broken: beyond what damage on the way can
/// explain, as even a link that damages every tenth packet does this once in 10¹⁶ fragments.
const WRONG_RESULTS: u8 = 16;

impl Asked {
    pub(super) fn receive(
        &mut self,
        source: SocketAddr,
        bytes: &[u8],
        rounds: &mut Rounds,
        now: Time,
    ) -> Result<(), Failure> {
        let Ok(packet) = Packet::parse_unchecked(bytes) else {
            self.counters.malformed += 1;
            return Ok(());
        };
        let Some(index) = self.addressee(&packet, source) else {
            self.counters.foreign += u64::from(!self.hear_elsewhere(&packet, source, now));
            self.ask_about_key(&packet, source, now);
            return Ok(());
        };
        let key = || self.streams[index].key;
        if packet.kind.carries_values() && !is_authentic(self.hash.as_ref(), key, &packet) {
            self.counters.forged += 1;
            return Ok(());
        }
        let check = header_sum(packet.header).wrapping_add(packet.lane_sum());
        if packet.header.check.get() != check {
            self.counters.damaged += 1;
            return self.suspect_sum(index, &packet);
        }
        if !packet.kind.carries_values() && !self.is_proven(index, &packet) {
            self.counters.foreign += 1;
            return Ok(());
        }
        self.renew_with_others(index, &packet, now);
        self.streams[index].recovery.note_heard(now);
        match packet.kind {
            Kind::Result => self.handle_result(index, &packet, rounds, now),
            Kind::Status => self.handle_status(index, &packet, rounds, now),
            Kind::Welcome => self.handle_welcome(index, &packet, now),
            // Nothing asks for rates in the stream of the agreement.
            Kind::Rate if index == 0 => return self.handle_loss(&packet),
            Kind::Rate => self.handle_rate(index, &packet, now),
            _ => return self.handle_refusal(index, &packet, rounds, now),
        }
        Ok(())
    }

    /// The stream that a packet belongs to, if it comes from that stream's node and is meant for this worker.
    fn addressee(&self, packet: &Packet, source: SocketAddr) -> Option<usize> {
        let header = packet.header;
        let sub_model = header.sub_model.get();
        let index = self.streams.iter().position(|s| s.sub_model.0 == sub_model)?;
        let stream = &self.streams[index];
        let is_ours = header.job.get() == self.plan.job.id
            && self.takes_key(index, packet)
            && header.node.get() == stream.node.0
            && header.contributor == stream.contributor.0
            && source == stream.address;
        let is_due = match packet.kind {
            Kind::Result => self.stage == Stage::Joined,
            Kind::Status => {
                self.stage == Stage::Joined && packet.payload.len() == 4 * status::WORDS
            }
            Kind::Rate => self.stage == Stage::Joined,
            Kind::Welcome | Kind::Refusal => packet.payload.len() == 4 * hello::WORDS,
            _ => false,
        };
        (is_ours && is_due).then_some(index)
    }

    /// Whether a packet carries a key of its stream.
    pub(super) fn takes_key(&self, index: usize, packet: &Packet) -> bool {
        let (key, position) = (packet.header.job_key.get(), packet.header.fragment.get());
        match packet.kind.carries_values() {
            true => self.streams[index].association.takes(FragmentId(position), JobKey(key)),
            false => key == self.key.0,
        }
    }

    /// Whether a control packet has the proof of this worker's seat; an answer to a hello has to be new besides.
    fn is_proven(&self, index: usize, packet: &Packet) -> bool {
        if packet.kind.is_joining() {
            return self.is_answer(packet, self.stands_since(index));
        }
        self.streams[index].key.is_some_and(|key| key.is_proven(packet.header, packet.payload))
    }

    fn handle_result(&mut self, index: usize, packet: &Packet, rounds: &mut Rounds, now: Time) {
        let position = FragmentId(packet.header.fragment.get());
        let is_ahead = self.streams[index].recovery.may_come_ahead(position)
            && rounds.duty(index, position) == Duty::Takes;
        if !is_ahead && !self.streams[index].recovery.is_pending(position) {
            self.counters.surplus_results += 1;
            return self.streams[index].recovery.hear(now);
        }
        let arrived = Arrived {
            round: Round(packet.header.round.get()),
            exponent: packet.header.exponent,
            exchange: Exchange(packet.header.priority),
            flags: Flags(packet.header.flags.get()),
            payload: packet.payload,
        };
        match rounds.take(index, position, &arrived) {
            Some(true) => {}
            Some(false) => return self.counters.results_without_room += 1,
            None => return self.counters.mismatches += 1,
        }
        self.counters.results += 1;
        self.streams[index].silent_above = None;
        if !self.pending_switches.is_empty() {
            self.note_result_of(index, rounds, now);
        }
        let recovery = &mut self.streams[index].recovery;
        if is_ahead {
            recovery.complete_ahead(position, now);
        } else {
            recovery.complete(position, now);
        }
        self.count_votes(rounds);
    }

    fn handle_status(&mut self, index: usize, packet: &Packet, rounds: &mut Rounds, now: Time) {
        let echo = word(packet.payload, status::ECHO_WORD);
        if self.handle_look(index, packet) || self.handle_pulse_answer(index, echo, now) {
            return;
        }
        let first = FragmentId(packet.header.fragment.get());
        if self.streams[index].recovery.handle_status(first, packet.payload, now) {
            self.counters.statuses += 1;
            while let Some(position) = self.streams[index].recovery.next_released() {
                rounds.settle(index, position);
            }
        } else {
            self.counters.late_statuses += 1;
        }
    }

    /// Takes the answer to a look. Whether it was one.
    fn handle_look(&mut self, index: usize, packet: &Packet) -> bool {
        let is_look = index == 0 && word(packet.payload, status::ECHO_WORD) == LOOK;
        if is_look {
            let contributors = double_word(packet.payload, status::CONTRIBUTORS_WORD);
            // Beyond the children's numbers there are their substitutes'.
            let children = contributors & u64::MAX >> (u64::BITS - self.gathering().1);
            self.looked = Some((FragmentId(packet.header.fragment.get()), children));
        }
        is_look
    }

    fn handle_rate(&mut self, index: usize, packet: &Packet, now: Time) {
        if let Some(pace) = &mut self.streams[index].pace {
            pace.request.handle_rate(packet.payload, now);
        }
    }

    /// A result whose check fails again and again, although its contributions' did not, was summed wrongly.
    fn suspect_sum(&mut self, index: usize, packet: &Packet) -> Result<(), Failure> {
        let fragment = packet.header.fragment.get();
        let stream = &mut self.streams[index];
        if packet.kind != Kind::Result || !stream.recovery.is_pending(FragmentId(fragment)) {
            return Ok(());
        }
        if stream.recovery.note_damaged(FragmentId(fragment)) >= WRONG_RESULTS {
            return Err(Failure::WrongSum { node: stream.node, fragment });
        }
        Ok(())
    }
}
