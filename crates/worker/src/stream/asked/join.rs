//! Becoming and ceasing to be a child: hellos until every parent has welcomed this worker, goodbyes at the end.

use std::time::Duration;

use wiresum_wire::control::{RefusalReason, hello, word};
use wiresum_wire::{HEADER_LEN, Kind, NodeId, Packet};

use super::super::remedy;
use super::Asked;
use super::stream::Parent;
use crate::session::Failure;
use crate::session::rounds::Rounds;
use crate::stream::Evidence;
use wiresum_protocol::Time;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::compose::hello_payload;

/// Pause between hellos: long beside a round trip, short beside what a person notices.
pub(super) const HELLO_INTERVAL: Duration = Duration::from_millis(50);

/// Where a worker is between its construction and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not been told to join.
    Outside,
    /// It says hello.
    Joining,
    /// Every parent has welcomed it.
    Joined,
    /// The job is over.
    Over,
}

/// A worker's standing at the parent in one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seat {
    /// When to say hello next; `None` before joining and once welcome.
    hello_at: Option<Time>,
    pub is_welcome: bool,
    /// A goodbye waits to be sent.
    owes_goodbye: bool,
}

impl Seat {
    /// Another node has to welcome the worker now.
    pub fn ask_again(&mut self, now: Time) {
        *self = Self { hello_at: Some(now), ..Self::default() };
    }

    /// Says no more hellos.
    pub fn stop(&mut self) {
        self.hello_at = None;
    }

    /// Says hello again, though welcome.
    pub fn say_hello(&mut self, now: Time) {
        self.hello_at = Some(now);
    }
}

impl Asked {
    pub(super) fn begin_joining(&mut self, now: Time) {
        self.stage = Stage::Joining;
        self.seats.iter_mut().for_each(|seat| seat.hello_at = Some(now));
    }

    /// Turns to leaving; what was never joined needs no goodbye.
    pub(super) fn begin_leaving(&mut self) {
        let was_outside = self.stage == Stage::Outside;
        for seat in &mut self.seats {
            *seat = Seat { owes_goodbye: !was_outside, ..Seat::default() };
        }
        self.take_leave_at_home();
        self.stage = Stage::Outside;
    }

    /// The next goodbye or hello that is due.
    pub(super) fn transmit_membership(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some(index) = self.seats.iter().position(|seat| seat.owes_goodbye) {
            self.seats[index].owes_goodbye = false;
            let len = self.draft(index, Kind::Goodbye).emit(buffer, 0, 0);
            return Some(Transmit { destination: self.streams[index].address, len });
        }
        if self.is_away || !self.farewells.is_empty() {
            let elsewhere = self.transmit_elsewhere(now, buffer);
            if elsewhere.is_some() {
                return elsewhere;
            }
        }
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let index = self.seats.iter().position(|seat| is_due(seat.hello_at))?;
        self.seats[index].hello_at = Some(now.plus(HELLO_INTERVAL));
        self.counters.hellos += 1;
        let payload = hello_payload(&self.plan, self.incarnation);
        buffer[HEADER_LEN..][..payload.len()].copy_from_slice(&payload);
        let len = self.draft(index, Kind::Hello).emit_summed(buffer, payload.len());
        Some(Transmit { destination: self.streams[index].address, len })
    }

    /// When [`Self::transmit_membership`] is next due.
    pub(super) fn joining_timeout(&self) -> Option<Time> {
        self.seats.iter().filter_map(|seat| seat.hello_at).min()
    }

    /// The first node that has not welcomed this worker.
    pub(super) fn not_welcomed(&self) -> Evidence {
        let index = self.seats.iter().position(|seat| !seat.is_welcome).unwrap_or(0);
        let Parent { node, address, .. } = self.streams[index].parent();
        Evidence::NotWelcomed { node, address }
    }

    pub(super) fn handle_welcome(&mut self, index: usize, now: Time) {
        let was_welcome = self.seats[index].is_welcome;
        self.seats[index] = Seat { is_welcome: true, ..Seat::default() };
        if self.stage == Stage::Joined && !was_welcome {
            self.streams[index].is_open = true;
            self.streams[index].recovery.restart(now);
        }
        if self.stage != Stage::Joined && self.seats.iter().all(|seat| seat.is_welcome) {
            self.stage = Stage::Joined;
            self.streams.iter_mut().for_each(|stream| stream.recovery.note_heard(now));
        }
    }

    pub(super) fn handle_refusal(
        &mut self,
        index: usize,
        packet: &Packet,
        rounds: &Rounds,
        now: Time,
    ) -> Result<(), Failure> {
        let reason = RefusalReason::from_wire(word(packet.payload, hello::REASON_WORD));
        if reason == Some(RefusalReason::Detached) {
            let removed = word(packet.payload, hello::REMOVED_NODE_WORD);
            self.handle_dismissal(index, NodeId(removed as u16), rounds, now);
            return Ok(());
        }
        if self.seats[index].is_welcome {
            return Ok(());
        }
        let reason = remedy(reason).to_owned();
        Err(Failure::Refused { node: self.streams[index].node, reason })
    }
}
