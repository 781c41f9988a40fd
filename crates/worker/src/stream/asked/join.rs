//! Becoming and ceasing to be a child: hellos until every parent has welcomed this worker, goodbyes at the end.

use std::time::Duration;

use wiresum_wire::control::{RefusalReason, hello, word};
use wiresum_wire::{HEADER_LEN, Kind, NodeId, Packet};

use crate::session::{Event, Failure, Worker};
use wiresum_protocol::Time;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::compose::hello_payload;

/// Pause between hellos: long beside a round trip, short beside what a person notices.
pub(crate) const HELLO_INTERVAL: Duration = Duration::from_millis(50);

/// Where a worker is between its construction and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not been told to join.
    Outside,
    /// It says hello.
    Joining { began: Time, deadline: Time },
    /// Every parent has welcomed it.
    Joined,
}

/// A worker's standing at the parent in one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seat {
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

    /// Says hello again, though welcome.
    pub fn say_hello(&mut self, now: Time) {
        self.hello_at = Some(now);
    }
}

impl Worker {
    pub(crate) fn begin_joining(&mut self, deadline: Time, now: Time) {
        if self.stage == Stage::Outside && self.failed.is_none() {
            self.stage = Stage::Joining { began: now, deadline };
            self.seats.iter_mut().for_each(|seat| seat.hello_at = Some(now));
        }
    }

    /// Turns to leaving; what was never joined needs no goodbye.
    pub(crate) fn begin_leaving(&mut self) {
        let was_outside = self.stage == Stage::Outside;
        for seat in &mut self.seats {
            *seat = Seat { owes_goodbye: !was_outside, ..Seat::default() };
        }
        self.take_leave_at_home();
        self.stage = Stage::Outside;
    }

    /// The next goodbye or hello that is due.
    pub(crate) fn transmit_membership(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
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

    /// When [`Self::transmit_membership`] or the deadline is next due.
    pub(crate) fn joining_timeout(&self) -> Option<Time> {
        let deadline = match self.stage {
            Stage::Outside => return None,
            Stage::Joining { deadline, .. } => Some(deadline),
            Stage::Joined => None,
        };
        self.seats.iter().filter_map(|seat| seat.hello_at).chain(deadline).min()
    }

    /// The deadline of joining.
    pub(crate) fn check_joining(&mut self, now: Time) {
        if let Stage::Joining { deadline, .. } = self.stage
            && deadline <= now
        {
            self.fail(self.not_welcomed(now));
        }
    }

    /// The reason why joining takes long.
    pub(crate) fn not_welcomed(&self, now: Time) -> Failure {
        let began = match self.stage {
            Stage::Joining { began, .. } => began,
            // A round was submitted to a worker that was never told to join.
            _ => self.rounds.front().map_or(now, |round| round.submitted),
        };
        let index = self.seats.iter().position(|seat| !seat.is_welcome).unwrap_or(0);
        let stream = &self.streams[index];
        Failure::NotWelcomed {
            node: stream.node,
            address: stream.address,
            waited: now.since(began),
        }
    }

    pub(crate) fn handle_welcome(&mut self, index: usize, now: Time) {
        let was_welcome = self.seats[index].is_welcome;
        self.seats[index] = Seat { is_welcome: true, ..Seat::default() };
        if self.stage == Stage::Joined && !was_welcome {
            self.streams[index].is_open = true;
            self.streams[index].recovery.restart(now);
        }
        if self.stage != Stage::Joined && self.seats.iter().all(|seat| seat.is_welcome) {
            self.stage = Stage::Joined;
            self.streams.iter_mut().for_each(|stream| stream.recovery.note_heard(now));
            self.events.push_back(Event::Joined);
        }
    }

    pub(crate) fn handle_refusal(&mut self, index: usize, packet: &Packet, now: Time) {
        let reason = RefusalReason::from_wire(word(packet.payload, hello::REASON_WORD));
        if reason == Some(RefusalReason::Detached) {
            let removed = word(packet.payload, hello::REMOVED_NODE_WORD);
            return self.handle_dismissal(index, NodeId(removed as u16), now);
        }
        if self.seats[index].is_welcome {
            return;
        }
        let reason = describe(reason).to_owned();
        self.fail(Failure::Refused { node: self.streams[index].node, reason });
    }
}

fn describe(reason: Option<RefusalReason>) -> &'static str {
    match reason {
        Some(RefusalReason::UnknownJob) => {
            "it has no plan for this job: start it with the plan of the workers"
        }
        Some(RefusalReason::WrongSecret) => {
            "the job's secret differs: give all hosts the same plan file"
        }
        Some(RefusalReason::OtherPlan) => {
            "it runs another version of the plan: give all hosts the same plan file"
        }
        Some(RefusalReason::Superseded) => {
            "a newer run of this job has begun: stop it, or this one"
        }
        Some(RefusalReason::NotExpected) => {
            "the plan does not place this worker there: check the node's id and address"
        }
        Some(RefusalReason::Detached) => "it is out of the tree for now",
        None => {
            "it gives a reason that this version does not know: run the same version everywhere"
        }
    }
}
