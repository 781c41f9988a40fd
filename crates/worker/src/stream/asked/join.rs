//! Becoming and ceasing to be a child: hellos until every parent has welcomed this worker, goodbyes at the end.

use std::time::Duration;

use wiresum_keys::Seat as SeatName;
use wiresum_wire::control::{KeyAge, RefusalReason, hello, hello_payload, word};
use wiresum_wire::{Contributor, Flags, Kind, NodeId, Packet, SubModelId};

use super::super::remedy;
use super::Asked;
use super::stream::Parent;
use crate::session::Failure;
use crate::session::rounds::Rounds;
use crate::stream::Evidence;
use wiresum_protocol::Time;
use wiresum_protocol::association::RENEWAL_INTERVAL;
use wiresum_protocol::compose::{Draft, Transmit};

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
    /// Number of the first hello that this standing rests on: answers to older ones may be recordings.
    since: u32,
}

impl Seat {
    /// Another node has to welcome the worker now, to a hello with this number or a later one.
    pub fn ask_again(&mut self, since: u32, now: Time) {
        *self = Self { hello_at: Some(now), since, ..Self::default() };
    }

    /// The worker has its seat by the welcome to a hello with this number, and owes no other one a hello.
    pub fn rest_on(&mut self, since: u32) {
        *self = Self { is_welcome: true, since, ..Self::default() };
    }

    /// Says no more hellos.
    pub fn stop(&mut self) {
        self.hello_at = None;
    }

    /// Says hello again, though welcome.
    pub fn say_hello(&mut self, now: Time) {
        self.hello_at = Some(now);
    }

    /// Whether the node has heard all that there is to say.
    pub fn is_settled(&self) -> bool {
        self.is_welcome && self.hello_at.is_none()
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
        self.end_heartbeat();
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
            let parent = self.streams[index].parent();
            return self.write_joining(index, parent, Kind::Goodbye, Flags(0), buffer);
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
        let parent = self.streams[index].parent();
        self.write_joining(index, parent, Kind::Hello, Flags(0), buffer)
    }

    /// Writes a hello or goodbye with its number and its proof.
    pub(super) fn write_joining(
        &mut self,
        index: usize,
        parent: Parent,
        kind: Kind,
        flags: Flags,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        self.attempt = self.attempt.wrapping_add(1);
        let draft = Draft { round: self.attempt, flags, ..self.draft_to(index, parent, kind) };
        let age = self.streams[index].association.age();
        let words = hello_payload(self.incarnation, self.digest, age, self.absent);
        let len = draft.emit_joining(buffer, words, &parent.key?);
        Some(Transmit { destination: parent.address, len })
    }

    /// Whether a welcome or refusal has the proof of the seat that it is about, and answers a hello from this one on.
    pub(super) fn is_answer(&self, packet: &Packet, since: u32) -> bool {
        let header = packet.header;
        let (node, stream) = (NodeId(header.node.get()), SubModelId(header.sub_model.get()));
        let seat = SeatName::new(node, stream, Contributor(header.contributor));
        // The key comes last: it takes microseconds to derive.
        header.round.get().wrapping_sub(since) <= self.attempt.wrapping_sub(since)
            && self.keys.seat(seat).is_some_and(|key| key.is_proven(header, packet.payload))
    }

    /// The number of the hello that a stream's standing rests on.
    pub(super) fn stands_since(&self, index: usize) -> u32 {
        self.seats[index].since
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

    pub(super) fn handle_welcome(&mut self, index: usize, packet: &Packet, now: Time) {
        let told = KeyAge::read(packet.payload);
        if !told.covers(self.streams[index].association.age()) {
            return;
        }
        self.learn_renewal(index, told.renewal, now);
        let was_welcome = self.seats[index].is_welcome;
        let since = self.seats[index].since;
        self.seats[index] = Seat { is_welcome: true, since, ..Seat::default() };
        self.streams[index].absence.iter_mut().for_each(|absence| absence.unwelcome_since = None);
        if index == 0 && !was_welcome {
            self.hasten_heartbeat(now);
        }
        if self.stage == Stage::Joined && !was_welcome {
            self.streams[index].is_open = true;
            self.streams[index].recovery.restart(now);
        }
        if self.stage != Stage::Joined && self.seats.iter().all(|seat| seat.is_welcome) {
            self.stage = Stage::Joined;
            for stream in &mut self.streams {
                stream.recovery.note_heard(now);
                stream.renew_at = now.plus(RENEWAL_INTERVAL);
            }
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
