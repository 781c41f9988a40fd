//! Random packets for one table, honest for the most part.

use std::net::SocketAddr;

use wiresum_netem::Rng;
use wiresum_switch::keyed::{Body, Packet, Pair as KeyAndValue};
use wiresum_wire::Verdict;

use super::super::rows::wild::harm;
use super::{FIRST_KEY, KEYS, PACKETS, Pair, WORKERS};

/// Steps of workers in iterations.
pub struct Wild {
    rng: Rng,
    /// The next number of each worker.
    next: [u32; WORKERS as usize],
    round: u32,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl Wild {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), next: [0; WORKERS as usize], round: 0, sent: Vec::new() }
    }

    /// One step at both.
    pub fn step(&mut self, pair: &mut Pair<'_>, at: &str) {
        if self.round != pair.round {
            (self.round, self.next) = (pair.round, [0; WORKERS as usize]);
        }
        if self.rng.below(10) == 0 && !self.sent.is_empty() {
            let again = self.rng.below(self.sent.len() as u64) as usize;
            let (source, datagram) = self.sent[again].clone();
            pair.feed(source, &datagram, at);
            return;
        }
        let rank = self.rng.below(WORKERS.into()) as u8;
        let packet =
            if self.rng.below(6) == 0 { self.end(pair, rank) } else { self.pairs(pair, rank) };
        let (source, datagram) = self.harmed(pair, packet);
        let verdict = pair.feed(source, &datagram, at);
        let next = &mut self.next[usize::from(rank)];
        if verdict == Verdict::Added {
            // An end does not keep its worker from sending more: then the iteration never ends.
            *next += 1;
        }
        self.sent.push((source, datagram));
        if self.sent.len() > 20 {
            self.sent.remove(0);
        }
    }

    fn end(&mut self, pair: &Pair<'_>, rank: u8) -> Packet {
        let packets = match self.rng.below(20) {
            0 => PACKETS + self.rng.below(2) as u32,
            1 => self.rng.below(4) as u32,
            2 => u32::MAX,
            _ => self.next[usize::from(rank)],
        };
        pair.packet(rank, Packet::END, Body::End { packets })
    }

    /// Pairs of a worker; now and then for a key that is not hot, or with a number that it has not reached.
    fn pairs(&mut self, pair: &Pair<'_>, rank: u8) -> Packet {
        let rng = &mut self.rng;
        let most = if rng.chance(0.95) { 4 } else { 11 };
        let key = |rng: &mut Rng| {
            let is_hot = rng.chance(0.995);
            if is_hot { FIRST_KEY + rng.below(KEYS) } else { rng.next() >> rng.below(64) }
        };
        let pairs = (0..=rng.below(most))
            .map(|_| KeyAndValue { key: key(rng), value: rng.next() as i32 })
            .collect();
        let next = self.next[usize::from(rank)];
        let number = if rng.chance(0.97) { next } else { rng.below(u64::from(PACKETS) + 2) as u32 };
        let mut packet = pair.packet(rank, number, Body::Pairs(pairs));
        match rng.below(60) {
            0 => packet.round = pair.round - 1 + rng.below(3) as u32,
            1 => packet.map_version = packet.map_version - 1 + rng.below(3) as u32,
            _ => {}
        }
        packet
    }

    fn harmed(&mut self, pair: &Pair<'_>, packet: Packet) -> (SocketAddr, Vec<u8>) {
        let (mut source, mut datagram) = (pair.worker(packet.worker), pair.datagram(&packet));
        let rng = &mut self.rng;
        match rng.below(40) {
            0 => source = pair.worker(rng.below(u64::from(WORKERS) + 1) as u8),
            way => harm(rng, way, &mut datagram),
        }
        (source, datagram)
    }
}
