//! From packets to results, statuses and welcomes.

use std::net::SocketAddr;

use wiresum_wire::control::{hello, status, word};
use wiresum_wire::{BLOCK_LEN, Flags, FragmentId, Kind, Packet, header_sum};

use super::join::Stage;
use crate::session::{Failure, Worker};
use wiresum_protocol::Time;

/// Results of one fragment whose check fails before its node is held to be broken: beyond what damage on the way can
/// explain, as even a link that damages every tenth packet does this once in 10¹⁶ fragments.
const WRONG_RESULTS: u8 = 16;

impl Worker {
    /// Takes one datagram from the network. Anything that is not for this worker is counted and dropped.
    pub fn handle_datagram(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        if self.failed.is_some() {
            return;
        }
        let Ok(packet) = Packet::parse_unchecked(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(index) = self.addressee(&packet, source) else {
            self.counters.foreign += u64::from(!self.hear_elsewhere(&packet, source, now));
            return;
        };
        let check = header_sum(packet.header).wrapping_add(packet.lane_sum());
        if packet.header.check.get() != check {
            self.counters.damaged += 1;
            return self.suspect_sum(index, &packet);
        }
        self.streams[index].recovery.note_heard(now);
        match packet.kind {
            Kind::Result => self.handle_result(index, &packet, now),
            Kind::Status => self.handle_status(index, &packet, now),
            Kind::Welcome => self.handle_welcome(index, now),
            Kind::Rate => self.handle_rate(index, &packet, now),
            _ => self.handle_refusal(index, &packet, now),
        }
    }

    /// The stream that a packet belongs to, if it comes from that stream's node and is meant for this worker.
    fn addressee(&self, packet: &Packet, source: SocketAddr) -> Option<usize> {
        let header = packet.header;
        let sub_model = header.sub_model.get();
        let index = self.streams.iter().position(|s| s.sub_model.0 == sub_model)?;
        let stream = &self.streams[index];
        let is_ours = header.job.get() == self.plan.job.id
            && header.job_key.get() == self.key.0
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

    fn handle_result(&mut self, index: usize, packet: &Packet, now: Time) {
        let position = FragmentId(packet.header.fragment.get());
        if !self.streams[index].recovery.is_pending(position) {
            self.counters.surplus_results += 1;
            return self.streams[index].recovery.hear(now);
        }
        match self.take_result(index, position, packet) {
            Some(true) => {}
            Some(false) => return self.counters.results_without_room += 1,
            None => return self.counters.mismatches += 1,
        }
        self.counters.results += 1;
        self.streams[index].silent_above = None;
        if !self.pending_switches.is_empty() {
            self.note_result_of(index, now);
        }
        self.streams[index].recovery.complete(position, now);
        self.advance();
    }

    /// Decodes a result into its round, or keeps it until its exponents are agreed: whether there was room for it. `None` if it is
    /// not what this worker's contribution calls for.
    fn take_result(&mut self, index: usize, position: FragmentId, packet: &Packet) -> Option<bool> {
        let format = Flags(packet.header.flags.get()).only(Flags::FORMAT);
        let (round, fragment) = self.streams[index].locate(position)?;
        let (lane_type, is_preamble) = (self.lane_type, index == 0);
        let is_format_ours =
            round.0 == packet.header.round.get() && format == self.format_flags(index);
        let preamble_len = 4 * self.format.preamble_lanes;
        let first = self.rounds.front()?.round;
        let open = self.rounds.get_mut(round.0.wrapping_sub(first.0) as usize)?;
        let (exponent, len) = if is_preamble {
            (0, preamble_len)
        } else {
            let bytes = open.layout.range(fragment).len() * lane_type.width();
            (open.exponent(fragment), bytes.next_multiple_of(BLOCK_LEN))
        };
        if !is_format_ours || packet.header.exponent != exponent || packet.payload.len() != len {
            return None;
        }
        if is_preamble {
            open.decode_preamble(fragment, packet.payload);
            self.extend_preamble(round);
            Some(true)
        } else {
            Some(open.decode_values(fragment, packet.payload))
        }
    }

    fn handle_status(&mut self, index: usize, packet: &Packet, now: Time) {
        let echo = word(packet.payload, status::ECHO_WORD);
        if self.handle_look(index, packet, now) || self.handle_pulse_answer(index, echo, now) {
            return;
        }
        let first = FragmentId(packet.header.fragment.get());
        if self.streams[index].recovery.handle_status(first, packet.payload, now) {
            self.counters.statuses += 1;
        } else {
            self.counters.late_statuses += 1;
        }
    }

    fn handle_rate(&mut self, index: usize, packet: &Packet, now: Time) {
        if let Some(pace) = &mut self.streams[index].pace {
            pace.request.handle_rate(packet.payload, now);
        }
    }

    /// A result whose check fails again and again, although its contributions' did not, was summed wrongly.
    fn suspect_sum(&mut self, index: usize, packet: &Packet) {
        let fragment = packet.header.fragment.get();
        let stream = &mut self.streams[index];
        if packet.kind != Kind::Result || !stream.recovery.is_pending(FragmentId(fragment)) {
            return;
        }
        if stream.recovery.note_damaged(FragmentId(fragment)) >= WRONG_RESULTS {
            let node = stream.node;
            self.fail(Failure::WrongSum { node, fragment });
        }
    }
}
