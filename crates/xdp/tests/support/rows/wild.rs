//! Random packets for one stream, honest for the most part.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use wiresum_netem::Rng;
use wiresum_wire::{HEADER_LEN, Header, LaneType, RowKind, RowPacket, RowValue, Verdict, seal};
use zerocopy::{FromBytes, IntoBytes};

use super::{POSITIONS, Pair, WORKERS, columns, tier};

/// Steps of workers in rounds.
pub struct Wild {
    rng: Rng,
    /// Positions that each worker has not given yet, and its next number.
    left: Vec<(Vec<u32>, u32)>,
    round: u32,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl Wild {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), left: Vec::new(), round: 0, sent: Vec::new() }
    }

    /// One step at both.
    pub fn step(&mut self, pair: &mut Pair<'_>, at: &str) {
        if self.round != pair.round() {
            self.round = pair.round();
            let rows: Vec<u32> =
                (0..POSITIONS).filter(|position| tier(*position).is_some()).collect();
            self.left = (0..WORKERS).map(|_| (rows.clone(), 0)).collect();
        }
        let rank = self.rng.below(u64::from(WORKERS)) as u32;
        match self.rng.below(20) {
            0..3 => self.end(pair, rank, at),
            3..5 if !self.sent.is_empty() => {
                let again = self.rng.below(self.sent.len() as u64) as usize;
                let (source, datagram) = self.sent[again].clone();
                pair.feed(source, &datagram, at);
            }
            _ => self.rows(pair, rank, at),
        }
    }

    fn end(&mut self, pair: &mut Pair<'_>, rank: u32, at: &str) {
        let wrong =
            |rng: &mut Rng, right: u32| if rng.chance(0.1) { rng.below(4) as u32 } else { right };
        let packets = wrong(&mut self.rng, self.left[rank as usize].1);
        let packets = if self.rng.chance(0.01) { u32::MAX - packets } else { packets };
        let round = if self.rng.chance(0.9) {
            self.round
        } else {
            self.round - 1 + self.rng.below(3) as u32
        };
        pair.end(rank, round, packets, at);
    }

    fn rows(&mut self, pair: &mut Pair<'_>, rank: u32, at: &str) {
        let (source, datagram) = self.honest(pair, rank);
        let (source, datagram) = self.harmed(source, datagram, pair);
        if pair.feed(source, &datagram, at) == Verdict::Added {
            // Whatever became of the packet: these rows are in.
            let packet = RowPacket::parse(&datagram).expect("it was taken");
            let (left, next) = &mut self.left[usize::from(packet.header.contributor)];
            let given: BTreeSet<u32> = packet.positions().collect();
            left.retain(|position| !given.contains(position));
            *next = (*next).max(packet.header.fragment.get() + 1);
        }
        self.sent.push((source, datagram));
        if self.sent.len() > 20 {
            self.sent.remove(0);
        }
    }

    /// The next rows of a worker; now and then some that it has given, or that nobody has.
    fn honest(&mut self, pair: &Pair<'_>, rank: u32) -> (SocketAddr, Vec<u8>) {
        let (rng, dim) = (&mut self.rng, usize::from(pair.stream().dim));
        let (left, next) = &self.left[rank as usize];
        let most = RowKind::HotRows.rows_for(1400.max(4 * dim + 4), dim).min(12) as u64;
        let mut positions = BTreeSet::new();
        for _ in 0..=rng.below(most) {
            let any = rng.below(u64::from(POSITIONS) + 2) as u32;
            let usual =
                (!left.is_empty()).then(|| left[rng.below(left.len().max(1) as u64) as usize]);
            positions.insert(usual.filter(|_| rng.chance(0.99)).unwrap_or(any));
        }
        let number = if rng.chance(0.97) { *next } else { rng.below(120) as u32 };
        let mut draft = pair.draft(RowKind::HotRows, rank, number);
        let first = *positions.first().expect("one at least");
        let base = first - (rng.below(u64::from(first) + 1) as u32).min(40);
        draft.rows.base.set(base);
        draft.rows.rows.set(positions.len() as u16);
        draft.rows.dim.set(dim as u16);
        let offsets: Vec<u16> = positions.iter().map(|position| (position - base) as u16).collect();
        let types = [RowValue::Float32, RowValue::Float16, RowValue::Bfloat16];
        let of_16_bits = pair.stream().is_float && rng.chance(0.5);
        let kind = if of_16_bits { types[1 + rng.below(2) as usize] } else { types[0] };
        if of_16_bits {
            draft.set_value(kind);
        }
        let values: Vec<u32> = (0..positions.len() * dim).map(|_| value(rng, kind)).collect();
        let mut datagram = Vec::new();
        draft.emit(&columns(&offsets, &values, kind), &mut datagram);
        (pair.worker(rank), datagram)
    }

    fn harmed(
        &mut self,
        source: SocketAddr,
        mut datagram: Vec<u8>,
        pair: &Pair<'_>,
    ) -> (SocketAddr, Vec<u8>) {
        let rng = &mut self.rng;
        match rng.below(40) {
            0 => return (pair.worker(rng.below(u64::from(WORKERS) + 1) as u32), datagram),
            7 => {
                let (header, _) = Header::mut_from_prefix(&mut datagram).expect("whole");
                header.round.set(pair.round() - 1 + rng.below(3) as u32);
                reseal(&mut datagram);
            }
            way => harm(rng, way, &mut datagram),
        }
        (source, datagram)
    }
}

/// Harms a datagram in one of the ways 1 to 6; any other leaves it as it is.
pub fn harm(rng: &mut Rng, way: u64, datagram: &mut Vec<u8>) {
    match way {
        1 => flip(rng, datagram, 0),
        // In the headers, and in the columns' beginning, with a check that matches.
        2..4 => {
            let reach = (HEADER_LEN + 40).min(datagram.len());
            flip(rng, &mut datagram[..reach], 4);
            reseal(datagram);
        }
        4 => {
            flip(rng, datagram, HEADER_LEN);
            reseal(datagram);
        }
        5 => datagram.truncate(rng.below(datagram.len() as u64) as usize),
        6 => datagram.extend([0; 4]),
        _ => {}
    }
}

/// Changes a few bits from a place on.
fn flip(rng: &mut Rng, bytes: &mut [u8], from: usize) {
    for _ in 0..=rng.below(2) {
        let index = from + rng.below((bytes.len() - from) as u64) as usize;
        bytes[index] ^= 1 << rng.below(8);
    }
}

/// Bits of a number of any size within the range, at times one at its edges, and seldom one beyond.
fn value(rng: &mut Rng, kind: RowValue) -> u32 {
    match kind {
        RowValue::Float32 => float(rng),
        RowValue::Bfloat16 => float(rng) >> 16,
        RowValue::Float16 if rng.chance(0.001) => rng.next() as u32 & 0xffff,
        RowValue::Float16 => {
            // All exponents that are in range, 0 too.
            let exponent = rng.below(27) as u32;
            (rng.next() as u32 & 0x83ff) | exponent << 10
        }
    }
}

/// A float32.
fn float(rng: &mut Rng) -> u32 {
    const EDGES: [f32; 8] =
        [0.0, -0.0, 4095.9998, -4095.9998, 2.842_171e-14, -1.0e-14, 1.0e-40, 1.0];
    match rng.below(1000) {
        0 => rng.next() as u32,
        1..100 => EDGES[rng.below(8) as usize].to_bits(),
        _ => {
            let exponent = 60 + rng.below(79) as u32;
            (rng.next() as u32 & 0x807f_ffff) | exponent << 23
        }
    }
}

/// The headers' check, made to match what the packet has become.
fn reseal(datagram: &mut [u8]) {
    let (mut header, rest) = Header::read_from_prefix(datagram).expect("whole");
    let whole = rest.len() / 4 * 4;
    seal(&mut header, LaneType::I32Le.sum(&rest[..whole]));
    datagram[..HEADER_LEN].copy_from_slice(header.as_bytes());
}
