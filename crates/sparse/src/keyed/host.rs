//! A sender and receiver of pairs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wiresum_netem::Time;
use wiresum_switch::keyed::{Body, Packet, Pair};

use super::packing::{Packed, chunks};
use crate::reception::{BEHIND, MAX_PACKETS, Reception};
use crate::sending::{END, Sending};

/// A host or a switch of the job.
pub type Address = u16;

/// A worker, the server, or a switch's station.
pub struct Host {
    /// The worker number that its packets have.
    number: u8,
    table: u16,
    map_version: u32,
    round: u32,
    /// The workers that send it pairs.
    senders: BTreeSet<Address>,
    receptions: BTreeMap<Address, Reception>,
    sums: BTreeMap<u64, i32>,
    sending: Sending<Packet>,
    answers: VecDeque<(Address, Packet)>,
}

impl Host {
    /// A host that sums what `senders` send it, before its first iteration.
    #[must_use]
    pub fn new(
        number: u8,
        table: u16,
        map_version: u32,
        senders: impl IntoIterator<Item = Address>,
    ) -> Self {
        Self {
            number,
            table,
            map_version,
            round: 0,
            senders: senders.into_iter().collect(),
            receptions: BTreeMap::new(),
            sums: BTreeMap::new(),
            sending: Sending::default(),
            answers: VecDeque::new(),
        }
    }

    /// Begins an iteration: sums start at zero.
    pub fn begin(&mut self, round: u32) {
        self.round = round;
        self.receptions.clear();
        self.sums.clear();
    }

    /// Sends packets, and the end behind them, until they are acknowledged.
    pub fn send(&mut self, to: Address, round: u32, packets: Packed) {
        let (worker, table, map_version) = (self.number, self.table, self.map_version);
        let packet = |number, body| Packet { table, worker, round, number, map_version, body };
        let end = packet(END, Body::End { packets: packets.len() as u32 });
        for (number, pairs) in (0..).zip(packets) {
            self.sending.send((to, round, number), packet(number, Body::Pairs(pairs)));
        }
        self.sending.send((to, round, END), end);
    }

    /// Sends sums, `most` a packet.
    pub fn send_sums(&mut self, to: Address, round: u32, sums: &BTreeMap<u64, i32>, most: u32) {
        let pairs: Vec<Pair> = sums.iter().map(|(&key, &value)| Pair { key, value }).collect();
        self.send(to, round, chunks(&pairs, most));
    }

    /// The sums of the iteration, once all senders' packets are in.
    #[must_use]
    pub fn sums(&self) -> Option<&BTreeMap<u64, i32>> {
        let is_in = |from| self.receptions.get(from).is_some_and(Reception::is_complete);
        self.senders.iter().all(is_in).then_some(&self.sums)
    }

    /// Deals with a packet. What is of a later iteration is dropped, and comes again.
    pub fn handle(&mut self, now: Time, from: Address, packet: &Packet) {
        self.sending.set_time(now);
        if packet.body == Body::Acknowledgement {
            return self.sending.settled((from, packet.round, packet.number));
        }
        if packet.round > self.round || !self.senders.contains(&from) {
            return;
        }
        if packet.round == self.round && !self.enter(from, packet) {
            return;
        }
        self.answers.push_back((from, packet.acknowledgement()));
    }

    /// Takes a packet of the open iteration; whether it can be acknowledged.
    fn enter(&mut self, from: Address, packet: &Packet) -> bool {
        let reception = self.receptions.entry(from).or_default();
        match &packet.body {
            Body::End { packets } => return reception.announce(*packets).is_ok(),
            _ if packet.number >= MAX_PACKETS => return false,
            _ if reception.has(packet.number) => return true,
            _ => {}
        }
        // Pairs come in no order of their keys.
        reception.enter(packet.number, (BEHIND, BEHIND));
        let Body::Pairs(pairs) = &packet.body else { return false };
        for pair in pairs {
            let sum = self.sums.entry(pair.key).or_default();
            *sum = sum.wrapping_add(pair.value);
        }
        true
    }

    /// The next packet to send, and to whom.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(Address, Packet)> {
        self.answers.pop_front().or_else(|| self.sending.poll(now))
    }

    /// When the next packet is due, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.answers.is_empty() { self.sending.next_due() } else { Some(Time(0)) }
    }

    /// Packets that were sent again.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.sending.repeated()
    }
}
