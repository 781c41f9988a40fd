//! Whom a sender sends to, and what it sends at once.

use std::net::SocketAddr;

use wiresum_wire::{Kind, Packet, SwitchPacket};

use super::world::Endpoint;

/// Who sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender {
    Host(usize),
    Daemon(usize),
    Party(usize),
}

/// Someone who was sent to before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub job: usize,
    pub to: SocketAddr,
    pub endpoint: Endpoint,
    /// The address that the sender has towards it.
    pub source: SocketAddr,
    /// The way there.
    pub way: u32,
}

/// Those that one sender sends to. Most of the time it is the one after the last, or the same again.
#[derive(Default)]
pub(super) struct Peers {
    known: Vec<Peer>,
    next: usize,
}

impl Peers {
    #[inline]
    pub fn find(&mut self, job: usize, to: SocketAddr) -> Option<Peer> {
        let is_it = |peer: &Peer| peer.job == job && peer.to == to;
        let (before, after) = self.known.split_at(self.next.min(self.known.len()));
        let index = match after.iter().position(is_it) {
            Some(index) => self.next + index,
            None => before.iter().position(is_it)?,
        };
        self.next = index + 1;
        Some(self.known[index])
    }

    pub fn add(&mut self, peer: Peer) {
        self.known.push(peer);
        self.next = self.known.len();
    }
}

/// Bytes that are looked at together when zeros are skipped.
const CHUNK_BYTES: usize = 64;

/// A datagram without the zeros at its end: where sums are not compared all values are zeros, and a large network's packets would fill
/// every cache with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel<'a> {
    pub bytes: &'a [u8],
    /// Length of the whole datagram.
    pub len: usize,
    /// It is a contribution.
    pub is_added: bool,
    /// The stream, and the bytes of its values.
    pub sub_model: u16,
    pub payload_bytes: u32,
}

impl<'a> Parcel<'a> {
    pub fn of(datagram: &'a [u8]) -> Self {
        let is_zero = |chunk: &&[u8]| chunk.iter().fold(0, |all, byte| all | byte) == 0;
        let zeros: usize = datagram.rchunks(CHUNK_BYTES).take_while(is_zero).map(<[u8]>::len).sum();
        let of_server = Packet::parse_unchecked(datagram).map(|p| (p.kind, p.header, p.payload));
        let of_switch = |_| SwitchPacket::parse(datagram).map(|p| (p.kind, p.header, p.payload));
        let parsed = of_server.or_else(of_switch).ok();
        Self {
            bytes: &datagram[..datagram.len() - zeros],
            len: datagram.len(),
            is_added: parsed.is_some_and(|(kind, ..)| kind == Kind::Contribution),
            sub_model: parsed.map_or(0, |(_, header, _)| header.sub_model.get()),
            payload_bytes: parsed.map_or(0, |(.., payload)| payload.len() as u32),
        }
    }
}

/// Datagrams that a node sends at once, in one piece of memory that is used again.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Job, address, end among the bytes, and what else there is of each.
    ends: Vec<(usize, SocketAddr, usize, Parcel<'static>)>,
}

impl Outbox {
    /// What takes datagrams.
    pub fn opening(&mut self) -> impl FnMut(usize, SocketAddr, &[u8]) + '_ {
        |job, to, datagram| {
            let parcel = Parcel::of(datagram);
            self.bytes.extend_from_slice(parcel.bytes);
            self.ends.push((job, to, self.bytes.len(), Parcel { bytes: &[], ..parcel }));
        }
    }

    /// Gives them away, in order.
    pub fn empty(&mut self, mut send: impl FnMut(usize, SocketAddr, Parcel)) {
        let mut begin = 0;
        for &(job, to, end, parcel) in &self.ends {
            send(job, to, Parcel { bytes: &self.bytes[begin..end], ..parcel });
            begin = end;
        }
        self.bytes.clear();
        self.ends.clear();
    }
}
