//! Frames past the kernel's network stack, and beside them the UDP socket for all that they do not carry: who joins, what is
//! asked and answered, what the network has split, what goes to a node that has not been heard for a while.
//!
//! How to reach a node is learnt from its frames, and believed for as long as they come. So whatever befalls the way – another
//! Ethernet address, another port, a link that goes down – the next packet after [`SILENCE`] goes through the kernel's stack,
//! which finds the way anew, and the answer to it shows the way to frames.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use wiresum_wire::{Header, JobKey};
use wiresum_xdp::{AfXdp, Flushed, FrameCounters, Sending};
use zerocopy::FromBytes;

use super::super::log;
use super::udp::Udp;
use crate::carriers::poller::Poller;
use crate::udp::Quote;

/// A node that has not been heard for so long is written to through the kernel's stack: some round trips of a busy network,
/// and far less than it takes until a question is asked again and again.
const SILENCE: Duration = Duration::from_millis(50);
/// Frames of one queue that are dealt with before the other queues, and sending, have their turn.
const FRAMES_PER_TURN: usize = 64;
/// Turns with frames before the UDP socket is looked at; without frames it is at each.
const TURNS_OF_FRAMES: u32 = 8;
/// Frames queued before the kernel is told: as many as it sends at one call where it copies.
const FLUSH_FRAMES: usize = 32;

/// Sockets for frames, and one for datagrams.
pub struct Frames {
    udp: Udp,
    /// Absent once an interface has gone.
    xdp: Option<AfXdp>,
    poller: Poller,
    nodes: BTreeMap<SocketAddr, Node>,
    now: Instant,
    turns: u32,
    /// Frames since the last flush.
    queued: usize,
    /// Whether the last room is in a frame.
    is_in_frame: bool,
    /// What sockets did that are no more.
    counters: FrameCounters,
}

/// What is known of a node.
#[derive(Default)]
struct Node {
    /// The job's key in the last packet to it: who has it in a frame is no stranger.
    key: Option<JobKey>,
    heard: Option<Instant>,
}

impl Node {
    /// Notes a packet from it in a frame; whether the sender knows the job's key.
    fn hear(&mut self, packet: &[u8], now: Instant) -> bool {
        let is_peer = self.key.is_some() && self.key == key_of(packet);
        if is_peer {
            self.heard = Some(now);
        }
        is_peer
    }

    fn is_heard(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now.saturating_duration_since(heard) < SILENCE)
    }
}

impl Frames {
    /// Both, watched together.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new(udp: Udp, xdp: AfXdp) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&udp.socket, 0, EventFlags::IN)?;
        for descriptor in xdp.descriptors() {
            poller.add(descriptor, 0, EventFlags::IN)?;
        }
        Ok(Self {
            udp,
            xdp: Some(xdp),
            poller,
            nodes: BTreeMap::new(),
            now: Instant::now(),
            turns: 0,
            queued: 0,
            is_in_frame: false,
            counters: FrameCounters::default(),
        })
    }

    /// The socket for datagrams.
    pub fn udp(&self) -> &Udp {
        &self.udp
    }

    /// What the sockets for frames have done.
    pub fn counters(&self) -> FrameCounters {
        self.xdp.as_ref().map_or(self.counters, AfXdp::counters)
    }

    /// As [`Udp::receive`], frames first.
    ///
    /// # Errors
    /// What the kernel says to `recvmmsg`.
    pub fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        self.now = Instant::now();
        let most = self.receive_frames(&mut take);
        self.turns += 1;
        if most == 0 || self.turns >= TURNS_OF_FRAMES {
            self.turns = 0;
            return Ok(self.udp.receive(take)? || most == FRAMES_PER_TURN);
        }
        Ok(most == FRAMES_PER_TURN)
    }

    /// The most frames that a queue had.
    fn receive_frames(&mut self, take: &mut impl FnMut(SocketAddr, &[u8])) -> usize {
        let Self { xdp: Some(xdp), nodes, now, .. } = self else { return 0 };
        let mut judge = |source, packet: &[u8]| {
            take(source, packet);
            nodes.get_mut(&source).is_some_and(|node| node.hear(packet, *now))
        };
        let ports = 0..xdp.port_count();
        ports.map(|port| xdp.receive_in_place(port, FRAMES_PER_TURN, &mut judge)).max().unwrap_or(0)
    }

    /// As [`Udp::next_refused`].
    pub fn next_refused(&mut self) -> Option<(SocketAddr, Quote)> {
        self.udp.next_refused()
    }

    /// Memory for the next packet: in a frame, unless the kernel has them all.
    pub fn room(&mut self) -> &mut [u8] {
        let Self { udp, xdp, is_in_frame, .. } = self;
        let in_frame = xdp.as_mut().and_then(AfXdp::room);
        *is_in_frame = in_frame.is_some();
        match in_frame {
            Some(frame) => frame,
            None => udp.outgoing.room(),
        }
    }

    /// Queues the packet of `len` bytes in the room; `true` if it is time for [`Self::flush`].
    pub fn push_room(&mut self, destination: SocketAddr, len: usize) -> bool {
        let Self { udp, xdp, nodes, now, .. } = self;
        let Some(xdp) = xdp.as_mut().filter(|_| self.is_in_frame) else {
            return udp.outgoing.push_room(destination, len);
        };
        let packet = &xdp.room().expect("the room is in a frame")[..len];
        let node = nodes.entry(destination).or_default();
        node.key = key_of(packet);
        if !node.is_heard(*now) {
            return udp.outgoing.push(destination, packet);
        }
        if xdp.send_room(destination, len) == Sending::Queued {
            udp.outgoing.counters.datagrams += 1;
            udp.outgoing.counters.bytes += len as u64;
            self.queued += 1;
            return self.queued >= FLUSH_FRAMES;
        }
        // It was heard before the routes became too many.
        let packet = &xdp.room().expect("the room is in a frame")[..len];
        udp.outgoing.push(destination, packet)
    }

    /// Hands what is queued to the kernel; `false` if the UDP socket is full. Frames that the kernel does not take now it takes
    /// at a later call.
    pub fn flush(&mut self) -> bool {
        // Turns begin with it, those in which nothing has come, too.
        self.now = Instant::now();
        self.queued = 0;
        if self.xdp.as_mut().is_some_and(|xdp| xdp.flush() == Flushed::Gone) {
            self.counters = self.counters();
            self.xdp = None;
            log(
                "wiresum: the interface of the AF_XDP socket is gone: packets go through UDP from here on\n",
            );
        }
        self.udp.flush()
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// The key in a packet's header.
fn key_of(packet: &[u8]) -> Option<JobKey> {
    let (header, _) = Header::ref_from_prefix(packet).ok()?;
    Some(JobKey(header.job_key.get()))
}
