//! A participant's standing at the nodes that it sends to: hellos until each has welcomed it, and again when one is silent,
//! as a node that was restarted knows nobody.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wiresum_keys::SeatKey;
use wiresum_netem::Time;
use wiresum_wire::control::{Absent, KeyAge, RefusalReason, hello, hello_payload, set_word, word};
use wiresum_wire::{Header, JobKey, Kind, Packet};
use zerocopy::{FromBytes, IntoBytes};

use super::keyed::KeyedJob;
use super::{Job, MemberError};

/// Pause between hellos: long beside a round trip, short beside what a person notices.
const HELLO_INTERVAL_US: u64 = 50_000;
/// Silence after which a node may have been restarted.
const SILENCE_US: u64 = 100_000;

/// The seats that a participant has taken, or asks for, at the nodes that it sends to.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    seats: BTreeMap<u16, Seat>,
    hello: Vec<u8>,
    sender: u8,
    /// How far keys are renewed, as hellos say it.
    age: KeyAge,
}

#[derive(Clone, Debug)]
struct Seat {
    address: SocketAddr,
    /// What this participant and the node share.
    key: Option<SeatKey>,
    /// The node's; unknown until it has welcomed this participant.
    incarnation: Option<u32>,
    /// How far keys are renewed, as the node's welcomes say it.
    told: KeyAge,
    heard: Time,
    hello_at: Time,
}

/// What a node's word on its incarnation means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is what it was.
    Same,
    /// It serves this participant for the first time.
    First,
    /// It was restarted.
    Restarted,
    /// It has been restarted since.
    Outdated,
}

impl Seats {
    /// At these nodes of a job, for the sender with this number.
    pub(super) fn new(
        job: &Job,
        nodes: impl Iterator<Item = u16>,
        sender: u32,
        incarnation: u64,
    ) -> Self {
        let place = |node| {
            let address = job.address(node).expect("a node of the job");
            (node, address, job.seat_key(node, sender))
        };
        let names = (job.id, job.key(incarnation), job.digest());
        Self::at(nodes.map(place), names, sender as u8, incarnation)
    }

    /// At these nodes of a job of pairs.
    pub(super) fn of_pairs(job: &KeyedJob, nodes: &[u16], sender: u8, incarnation: u64) -> Self {
        let place = |node: &u16| {
            let address = job.address(*node).expect("a node of the job");
            (*node, address, job.seat_key(*node, sender))
        };
        let names = (job.id, job.key(incarnation), job.digest());
        Self::at(nodes.iter().map(place), names, sender, incarnation)
    }

    fn at(
        places: impl Iterator<Item = (u16, SocketAddr, Option<SeatKey>)>,
        (job, job_key, digest): (u16, JobKey, u64),
        sender: u8,
        incarnation: u64,
    ) -> Self {
        let unknown = |(node, address, key)| {
            let (incarnation, told) = Default::default();
            let (heard, hello_at) = (Time(0), Time(0));
            (node, Seat { address, key, incarnation, told, heard, hello_at })
        };
        let age = KeyAge::default();
        let payload = hello_payload(incarnation, digest, age, Absent::default());
        let header = Header {
            job: job.into(),
            job_key: job_key.0.into(),
            contributor: sender,
            value_count: (hello::WORDS as u16).into(),
            ..Header::new(Kind::Hello)
        };
        let hello = [header.as_bytes(), &payload].concat();
        Self { seats: places.map(unknown).collect(), hello, sender, age }
    }

    pub(super) fn address(&self, node: u16) -> SocketAddr {
        self.seats[&node].address
    }

    /// Whether every node has welcomed this participant.
    pub(super) fn are_taken(&self) -> bool {
        self.seats.values().all(|seat| seat.incarnation.is_some())
    }

    /// Whether every node has said that it knows how far keys are renewed.
    pub(super) fn are_told(&self) -> bool {
        self.seats.values().all(|seat| seat.told.covers(self.age))
    }

    /// Keys are renewed so far: nodes are told until they say that they know.
    pub(super) fn tell(&mut self, age: KeyAge, now: Time) {
        self.age = age;
        let untold = self.seats.values_mut().filter(|seat| !seat.told.covers(age));
        untold.for_each(|seat| seat.hello_at = seat.hello_at.min(now));
    }

    /// A node has welcomed this participant, and says how far keys are renewed.
    pub(super) fn hear_welcome(&mut self, packet: &Packet<'_>) -> KeyAge {
        let age = KeyAge::read(packet.payload);
        if let Some(seat) = self.seats.get_mut(&packet.header.node.get()) {
            seat.told = seat.told.max(age);
        }
        age
    }

    /// Nodes that have said nothing since.
    pub(super) fn silent_since(&self, since: Time) -> impl Iterator<Item = (u16, SocketAddr)> {
        let is_silent = move |(_, seat): &(u16, &Seat)| seat.heard <= since;
        let seats = self.seats.iter().map(|(node, seat)| (*node, seat));
        seats.filter(is_silent).map(|(node, seat)| (node, seat.address))
    }

    /// A node has said something.
    pub(super) fn heard(&mut self, node: u16, now: Time) {
        let Some(seat) = self.seats.get_mut(&node) else { return };
        seat.heard = now;
        if seat.told.covers(self.age) {
            seat.hello_at = Time(now.0 + SILENCE_US);
        }
    }

    /// Whether a packet is of the node's incarnation that is known.
    pub(super) fn is_current(&self, node: u16, incarnation: u32) -> bool {
        let seat = self.seats.get(&node);
        seat.is_some_and(|seat| seat.incarnation == Some(incarnation))
    }

    /// A node that does not tell its incarnations apart has welcomed this participant.
    pub(super) fn welcomed(&mut self, node: u16, now: Time) {
        self.enter(node, 0);
        self.heard(node, now);
    }

    /// A node says which incarnation it is.
    pub(super) fn enter(&mut self, node: u16, incarnation: u32) -> Standing {
        let Some(seat) = self.seats.get_mut(&node) else { return Standing::Outdated };
        let standing = match seat.incarnation {
            None => Standing::First,
            Some(known) if known == incarnation => Standing::Same,
            // Serial arithmetic: a clock made these numbers.
            Some(known) if (incarnation.wrapping_sub(known) as i32) > 0 => Standing::Restarted,
            Some(_) => return Standing::Outdated,
        };
        if standing == Standing::Restarted {
            seat.told = KeyAge::default();
        }
        seat.incarnation = Some(incarnation);
        standing
    }

    /// Whether a welcome or refusal has the proof of the node that it names.
    pub(super) fn is_answer(&self, packet: &Packet<'_>) -> bool {
        let seat = self.seats.get(&packet.header.node.get());
        let key = seat.and_then(|seat| seat.key);
        key.is_some_and(|key| key.is_proven(packet.header, packet.payload))
    }

    /// A node refuses this participant.
    pub(super) fn refused(&self, packet: &Packet<'_>) -> MemberError {
        let node = packet.header.node.get();
        let reason = RefusalReason::from_wire(word(packet.payload, hello::REASON_WORD));
        let reason = match reason {
            Some(RefusalReason::OtherPlan) => "its job file is another one: give all the same",
            Some(RefusalReason::Superseded) => {
                "it serves a newer incarnation, or rounds of this one are over: give a larger one"
            }
            Some(RefusalReason::NotExpected) => "the job has no participant with this number",
            Some(RefusalReason::AheadOfClock) => {
                "its clock is ahead: by the node's, keys were renewed before half of their time was over; set it right and begin the job anew"
            }
            _ => "it does not serve this job",
        };
        MemberError::Refused { node, address: self.address(node), rank: self.sender, reason }
    }

    /// The next hello that is due. `version` is what rounds are over for this participant.
    pub(super) fn poll(&mut self, now: Time, version: u32) -> Option<(SocketAddr, Vec<u8>)> {
        let (node, seat) = self.seats.iter_mut().find(|(_, seat)| seat.hello_at <= now)?;
        seat.hello_at = Time(now.0 + HELLO_INTERVAL_US);
        let mut hello = self.hello.clone();
        let (header, payload) = Header::mut_from_prefix(&mut hello).expect("a whole header");
        (header.node, header.round) = ((*node).into(), version.into());
        self.age.write(payload);
        seat.key?.prove(header, payload);
        Some((seat.address, hello))
    }

    /// When the next hello is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.seats.values().map(|seat| seat.hello_at).min()
    }
}

/// The answer to a hello, with the proof of the node that it names: what the hello said, and how far the node's keys are
/// renewed, or why it refuses.
pub(super) fn answer(
    packet: &Packet<'_>,
    verdict: Result<KeyAge, RefusalReason>,
    key: &SeatKey,
) -> Vec<u8> {
    let kind = if verdict.is_ok() { Kind::Welcome } else { Kind::Refusal };
    let mut header = Header { kind: kind as u8, ..*packet.header };
    let mut payload = packet.payload.to_vec();
    match verdict {
        Ok(age) => age.write(&mut payload),
        Err(reason) => set_word(&mut payload, hello::REASON_WORD, reason as u32),
    }
    key.prove(&mut header, &mut payload);
    [header.as_bytes(), &payload[..]].concat()
}
