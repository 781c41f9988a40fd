//! A participant's standing at the nodes that it sends to: hellos until each has welcomed it, and again when one is silent,
//! as a node that was restarted knows nobody.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wiresum_keys::SeatKey;
use wiresum_netem::Time;
use wiresum_wire::control::{KeyAge, RefusalReason, hello, hello_payload, set_word, word};
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
}

#[derive(Clone, Debug)]
struct Seat {
    address: SocketAddr,
    /// What this participant and the node share.
    key: Option<SeatKey>,
    /// The node's; unknown until it has welcomed this participant.
    incarnation: Option<u32>,
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
            let (heard, hello_at) = (Time(0), Time(0));
            (node, Seat { address, key, incarnation: None, heard, hello_at })
        };
        let payload = hello_payload(incarnation, digest, KeyAge::default());
        let header = Header {
            job: job.into(),
            job_key: job_key.0.into(),
            contributor: sender,
            value_count: (hello::WORDS as u16).into(),
            ..Header::new(Kind::Hello)
        };
        let hello = [header.as_bytes(), &payload].concat();
        Self { seats: places.map(unknown).collect(), hello }
    }

    pub(super) fn address(&self, node: u16) -> SocketAddr {
        self.seats[&node].address
    }

    /// Whether every node has welcomed this participant.
    pub(super) fn are_taken(&self) -> bool {
        self.seats.values().all(|seat| seat.incarnation.is_some())
    }

    /// Nodes that have said nothing since.
    pub(super) fn silent_since(&self, since: Time) -> impl Iterator<Item = (u16, SocketAddr)> {
        let is_silent = move |(_, seat): &(u16, &Seat)| seat.heard <= since;
        let seats = self.seats.iter().map(|(node, seat)| (*node, seat));
        seats.filter(is_silent).map(|(node, seat)| (node, seat.address))
    }

    /// A node has said something.
    pub(super) fn heard(&mut self, node: u16, now: Time) {
        if let Some(seat) = self.seats.get_mut(&node) {
            (seat.heard, seat.hello_at) = (now, Time(now.0 + SILENCE_US));
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
            _ => "it does not serve this job",
        };
        MemberError::Refused { node, address: self.address(node), reason }
    }

    /// The next hello that is due. `version` is what rounds are over for this participant.
    pub(super) fn poll(&mut self, now: Time, version: u32) -> Option<(SocketAddr, Vec<u8>)> {
        let (node, seat) = self.seats.iter_mut().find(|(_, seat)| seat.hello_at <= now)?;
        seat.hello_at = Time(now.0 + HELLO_INTERVAL_US);
        let mut hello = self.hello.clone();
        let (header, payload) = Header::mut_from_prefix(&mut hello).expect("a whole header");
        (header.node, header.round) = ((*node).into(), version.into());
        seat.key?.prove(header, payload);
        Some((seat.address, hello))
    }

    /// When the next hello is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.seats.values().map(|seat| seat.hello_at).min()
    }
}

/// The answer to a hello: what it said, with the proof of the node that it names.
pub(super) fn answer(
    packet: &Packet<'_>,
    kind: Kind,
    reason: Option<RefusalReason>,
    key: &SeatKey,
) -> Vec<u8> {
    let mut header = Header { kind: kind as u8, ..*packet.header };
    let mut payload = packet.payload.to_vec();
    if let Some(reason) = reason {
        set_word(&mut payload, hello::REASON_WORD, reason as u32);
    }
    key.prove(&mut header, &mut payload);
    [header.as_bytes(), &payload[..]].concat()
}
