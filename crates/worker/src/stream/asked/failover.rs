//! Leaving a node above that is gone for its parent, and going home when it is back: "Removal of a node" in
//! `spec/aggregation.md`.
//!
//! Leaving needs no one's consent: the parent takes each fragment from the node or from its children, never both.
//! Going home does, as a fragment half of whose contributions are at either place would be complete at neither. So
//! every worker that was below the node votes in the preambles of its rounds, which all ranks see alike.

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_wire::{Flags, Kind, NodeId, Packet, Round, header_sum};

use super::Asked;
use super::join::{HELLO_INTERVAL, Stage};
use super::pacing::Pace;
use super::stream::{Parent, Stream};
use crate::session::Event;
use crate::session::round::Phase;
use crate::session::rounds::Rounds;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::{Plan, Time};

/// Pause between hellos to the node that a worker has left: a fraction of the second or so that a daemon takes to
/// start, and long beside a round trip.
const VISIT_INTERVAL: Duration = Duration::from_millis(200);
/// For how long its welcome shows that it is back: two of the hellos and their answers may be lost.
const WELCOME_LIFETIME: Duration = VISIT_INTERVAL.saturating_mul(3);
/// Rounds from a vote to the first one that goes home. No more rounds than these are begun while a vote is on its
/// way, so more of them hold up less, and take longer to go home.
const ROUNDS_AHEAD: u32 = 8;

/// Why a worker leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It leaves question after question unanswered.
    Silent,
    /// Nothing listens at its address any more.
    Unreachable,
    /// Its children cannot reach it, or others have left it: so their node, or its parent, says.
    Detached,
}

/// A worker's change from a node to another, in every sub-model where it was below that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchOver {
    /// The node that it leaves.
    pub from: NodeId,
    /// The node that it goes to.
    pub to: NodeId,
    /// Why; `None` if it goes home.
    pub reason: Option<Departure>,
    /// The oldest round that was open.
    pub round: Round,
    /// From the last sign of life of the one to the first result from the other; zero where it goes home.
    pub pause: Duration,
}

/// The time that a stream spends away from its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    /// Which of the stream's refuges it is spent at.
    pub refuge: usize,
    /// Since when the refuge has been asked for a welcome in vain; `None` while nothing is asked of it.
    pub unwelcome_since: Option<Time>,
    /// The first round of which nothing was sent, not even a vote, when it began.
    since: Round,
    /// When to say hello at home next.
    visit_at: Time,
    /// When home has welcomed this worker last, and the number of the hello that it answered.
    welcomed: Option<(Time, u32)>,
    /// Number of the last hello or goodbye before it began.
    last_attempt: u32,
    /// Results that had come at the last visit.
    results: u64,
    /// The first round that goes home, once all children of the node have voted for it.
    returns_at: Option<Round>,
}

/// What has begun and is to be reported when the first result comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    switch: SwitchOver,
    last_heard: Time,
}

impl SwitchOver {
    /// A line for people about worker `rank`.
    #[must_use]
    pub fn describe(&self, plan: &Plan, rank: u32) -> String {
        let name = |node| plan.node(node).map_or("?", |node| node.name.as_str());
        let (from, to, round) = (name(self.from), name(self.to), self.round);
        let why = match self.reason {
            None => return format!("rank {rank}: back at node {to} in collective {round}"),
            Some(Departure::Silent) => "it is silent",
            Some(Departure::Unreachable) => "nothing listens there",
            Some(Departure::Detached) => "it is out of the tree",
        };
        let pause_ms = self.pause.as_millis();
        format!(
            "rank {rank}: left node {from} for {to} in collective {round}, as {why}; pause {pause_ms} ms"
        )
    }
}

impl Asked {
    /// Leaves nodes that have been silent for too long.
    pub(super) fn check_silence(&mut self, rounds: &Rounds, now: Time) {
        let is_over = |stream: &&Stream| stream.silence_ends().is_some_and(|end| end <= now);
        let over: Vec<_> = self.streams.iter().filter(is_over).map(|stream| stream.node).collect();
        over.into_iter().for_each(|node| self.leave_node(node, Departure::Silent, rounds, now));
    }

    /// The host of a node says that nothing listens at this address.
    pub(super) fn leave_address(&mut self, address: SocketAddr, rounds: &Rounds, now: Time) {
        let at = self.streams.iter().find(|stream| stream.address == address);
        if let Some(node) = at.map(|stream| stream.node) {
            self.leave_node(node, Departure::Unreachable, rounds, now);
        }
    }

    /// A node above is out of the tree: it is silent, or workers below it have gone to its parent. Who is joining
    /// joins first.
    pub(super) fn handle_dismissal(
        &mut self,
        index: usize,
        removed: NodeId,
        rounds: &Rounds,
        now: Time,
    ) {
        let stream = &mut self.streams[index];
        if stream.refuges.iter().all(|refuge| refuge.removed != removed) {
            stream.silent_above.get_or_insert((removed, now));
        } else if self.seats[index].is_welcome {
            self.leave_node(removed, Departure::Detached, rounds, now);
        }
    }

    /// Goes to the parent of a node above in every sub-model where that has a seat for this worker, unless it is
    /// beyond already.
    fn leave_node(&mut self, node: NodeId, reason: Departure, rounds: &Rounds, now: Time) {
        if self.stage != Stage::Joined {
            return;
        }
        let since = self.first_free_round(rounds);
        let results = self.counters.results;
        let (mut to, last_attempt) = (None, self.attempt);
        let mut last_heard = Time(0);
        for (stream, seat) in self.streams.iter_mut().zip(&mut self.seats) {
            let Some(refuge) = stream.refuge_from(node) else { continue };
            let parent = stream.refuges[refuge].parent;
            last_heard = last_heard.max(stream.recovery.last_heard().unwrap_or(now));
            to = Some(parent.node);
            let (unwelcome_since, visit_at, welcomed, returns_at) = (Some(now), now, None, None);
            stream.absence = Some(Absence {
                refuge,
                unwelcome_since,
                since,
                visit_at,
                welcomed,
                last_attempt,
                results,
                returns_at,
            });
            (stream.is_open, stream.silent_above) = (false, None);
            stream.settle(parent);
            seat.ask_again(last_attempt.wrapping_add(1), now);
        }
        let Some(to) = to else { return };
        self.is_away = true;
        let (round, pause) = (rounds.current(), Duration::ZERO);
        let switch = SwitchOver { from: node, to, reason: Some(reason), round, pause };
        self.pending_switches.retain(|pending| pending.switch.to != node);
        self.pending_switches.push(Pending { switch, last_heard });
        self.counters.switch_overs += 1;
    }

    /// The first result from a new node ends the pause.
    pub(super) fn note_result_of(&mut self, index: usize, rounds: &mut Rounds, now: Time) {
        let node = self.streams[index].node;
        let of_node = |pending: &Pending| pending.switch.to == node;
        if let Some(at) = self.pending_switches.iter().position(of_node) {
            let Pending { switch, last_heard } = self.pending_switches.remove(at);
            let pause = now.since(last_heard);
            rounds.events.push_back(Event::Moved(SwitchOver { pause, ..switch }));
        }
    }

    /// The first round without a vote of this worker, and of which it has sent nothing.
    fn first_free_round(&self, rounds: &Rounds) -> Round {
        let streams = self.streams.iter().enumerate();
        let sent = streams.filter_map(|(index, s)| s.last_round(rounds.positions(index)));
        let last = rounds
            .last_voted()
            .into_iter()
            .chain(sent)
            .reduce(|a, b| if a.is_before(b) { b } else { a });
        last.map_or(rounds.current(), |last| Round(last.0.wrapping_add(1)))
    }

    /// This worker's vote in a round: bit i says that it is away in stream i and could go home.
    pub(super) fn vote(&self, round: Round, now: Time) -> i32 {
        let is_back = |stream: &Stream| {
            stream.absence.is_some_and(|absence| {
                let is_welcome = |(at, _)| now.since(at) <= WELCOME_LIFETIME;
                !round.is_before(absence.since)
                    && absence.returns_at.is_none()
                    && absence.welcomed.is_some_and(is_welcome)
            })
        };
        let streams = self.streams.iter().take(VOTES).enumerate();
        streams.filter(|(_, stream)| is_back(stream)).map(|(index, _)| 1 << index).sum()
    }

    /// Counts the votes of every round whose preamble is complete, in order.
    pub(super) fn count_votes(&mut self, rounds: &Rounds) {
        while let Some(open) = rounds.get(self.counted) {
            if open.phase == Phase::Preamble {
                return;
            }
            for (index, stream) in self.streams.iter_mut().take(VOTES).enumerate() {
                let is_for = |rank: &u32| open.votes()[*rank as usize] >> index & 1 == 1;
                let Some(absence) = &mut stream.absence else { continue };
                let counts = !open.round.is_before(absence.since) && absence.returns_at.is_none();
                if counts && stream.refuges[absence.refuge].team.iter().all(is_for) {
                    absence.returns_at = Some(Round(open.round.0.wrapping_add(ROUNDS_AHEAD)));
                }
            }
            self.counted = Round(self.counted.0.wrapping_add(1));
        }
    }

    /// Keeps streams that are away within the rounds that they may begin, and sends home those whose time has come.
    pub(super) fn govern_absences(&mut self, rounds: &mut Rounds, now: Time) {
        let ahead = Round(self.counted.0.wrapping_add(ROUNDS_AHEAD));
        let unplaced = rounds.first_unplaced();
        for index in 0..self.streams.len() {
            let allotted = if index == 0 { rounds.first_unallotted() } else { unplaced };
            let stream = &mut self.streams[index];
            stream.held_from = stream.absence.map(|absence| absence.returns_at.unwrap_or(ahead));
            let is_due = stream.absence.and_then(|a| a.returns_at).is_some_and(|round| {
                let next = stream.next_round(rounds.positions(index)).unwrap_or(allotted);
                stream.is_open && !stream.recovery.is_busy() && !next.is_before(round)
            });
            if is_due {
                self.go_home(index, rounds, now);
            }
        }
    }

    fn go_home(&mut self, index: usize, rounds: &mut Rounds, now: Time) {
        let stream = &mut self.streams[index];
        let (from, home) = (stream.parent(), stream.home);
        let welcomed = stream.absence.and_then(|absence| absence.welcomed);
        welcomed.into_iter().for_each(|(_, attempt)| self.seats[index].rest_on(attempt));
        (stream.absence, stream.held_from) = (None, None);
        stream.settle(home);
        stream.recovery.restart(now);
        stream.pace.iter_mut().for_each(Pace::begin_anew);
        self.leave_watchers(index);
        self.farewells.push_back((index, from, Flags::HOME));
        self.is_away = self.streams.iter().any(|stream| !stream.is_home());
        if !self.streams.iter().any(|stream| stream.home.node == home.node && !stream.is_home()) {
            let (round, to, pause) = (rounds.current(), home.node, Duration::ZERO);
            let switch = SwitchOver { from: from.node, to, reason: None, round, pause };
            rounds.events.push_back(Event::Moved(switch));
            self.counters.returns += 1;
        }
    }

    /// A packet from the node that a stream is away from, or from the one that it has left for home. Returns whether
    /// it is one.
    pub(super) fn hear_elsewhere(
        &mut self,
        packet: &Packet,
        source: SocketAddr,
        now: Time,
    ) -> bool {
        let header = packet.header;
        let is_ours = header.job.get() == self.plan.job.id
            && header.check.get() == header_sum(header).wrapping_add(packet.lane_sum());
        let sub_model = header.sub_model.get();
        let of_stream = |stream: &Stream| is_ours && stream.sub_model.0 == sub_model;
        let Some(index) = self.streams.iter().position(of_stream) else { return false };
        if !self.takes_key(index, packet) {
            return false;
        }
        let since = self.streams[index].absence.map_or(0, |a| a.last_attempt.wrapping_add(1));
        if packet.kind.is_joining() && !self.is_answer(packet, since) {
            return false;
        }
        let stream = &mut self.streams[index];
        let is_from = |parent: Parent| {
            parent.node.0 == header.node.get()
                && parent.contributor.0 == header.contributor
                && parent.address == source
        };
        let refuge = stream.refuges.iter().map(|refuge| refuge.parent).find(|at| is_from(*at));
        match (&mut stream.absence, refuge) {
            (Some(absence), _) if is_from(stream.home) => match packet.kind {
                Kind::Welcome => absence.welcomed = Some((now, header.round.get())),
                Kind::Refusal => absence.welcomed = None,
                _ => return false,
            },
            (None, Some(refuge)) if packet.kind == Kind::Result => {
                // The goodbye was lost, and every result comes twice.
                if stream.farewell_at <= now {
                    stream.farewell_at = now.plus(HELLO_INTERVAL);
                    self.farewells.push_back((index, refuge, Flags::HOME));
                }
            }
            _ => return false,
        }
        true
    }

    /// The next goodbye to a node where this worker had a seat, or hello to one where it will.
    pub(super) fn transmit_elsewhere(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some((index, parent, flags)) = self.farewells.pop_front() {
            return self.write_joining(index, parent, Kind::Goodbye, flags, buffer);
        }
        let is_due = |stream: &Stream| stream.absence.is_some_and(|a| a.visit_at <= now);
        let index = self.streams.iter().position(is_due).filter(|_| self.is_away)?;
        let is_busy = self.streams.iter().any(|stream| stream.recovery.is_busy());
        let (stream, results) = (&mut self.streams[index], self.counters.results);
        let absence = stream.absence.as_mut()?;
        absence.visit_at = now.plus(VISIT_INTERVAL);
        // If nothing comes, in any stream, others may still be with the node that this worker has left, and its parent has to
        // tell it again. They may lack the result of a stream in which this worker lacks none, and hold up the others.
        if std::mem::replace(&mut absence.results, results) == results && is_busy {
            absence.unwelcome_since.get_or_insert(now);
            self.seats[index].say_hello(now);
        }
        let home = stream.home;
        self.counters.hellos += 1;
        self.write_joining(index, home, Kind::Hello, Flags(0), buffer)
    }

    /// Says goodbye at home too, where home is back.
    pub(super) fn take_leave_at_home(&mut self) {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if stream.absence.take().is_some_and(|absence| absence.welcomed.is_some()) {
                self.farewells.push_back((index, stream.home, Flags(0)));
            }
        }
        self.is_away = false;
    }

    /// When something here is next due.
    pub(super) fn failover_timeout(&self) -> Option<Time> {
        if self.stage != Stage::Joined {
            return None;
        }
        let silences = self.streams.iter().filter_map(Stream::silence_ends);
        let visits = self.streams.iter().filter_map(|stream| Some(stream.absence?.visit_at));
        silences.chain(visits).min()
    }
}

/// Streams that can be voted on: the bits of a lane without its sign.
const VOTES: usize = 31;
