//! Aggregation in user space without the kernel's network stack: a small XDP program on each interface hands the packets that
//! are to be summed to an AF_XDP socket for each receive queue, and answers leave through the same sockets.
//!
//! One thread owns all sockets, because it owns all slots: contributions to a fragment come in by the queues of different
//! children, and a slot that two threads share needs a lock for each packet. Hellos and their like still come through the
//! daemon's UDP socket; what is not known how to reach yet (a parent that has only welcomed us) is to be sent there too.

mod headers;
mod queues;
mod ring;
mod sending;
mod socket;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use wiresum_wire::{JobKey, MAX_CONTRIBUTORS, PAGE_PACKET};
use zerocopy::FromZeros;

use crate::kernel::{self, Kernel, STEER};
use crate::layout::{Directory, Endpoint, Hearing, MAX_ENDPOINTS, MAX_STREAMS, Peer};
use crate::streams::limit;
use crate::{AttachMode, XdpError, peers};
pub use sending::{Flushed, FrameCounters, Sending};
use socket::Socket;

/// Bounds of a socket's depth in frames each way: some batches, and 32 MiB.
const DEPTHS: std::ops::RangeInclusive<usize> = 256..=4096;
/// Peers whose place is remembered; a plan has fewer, so this is reached only if many incarnations come from new ports.
const MAX_ROUTES: usize = MAX_STREAMS * MAX_CONTRIBUTORS;
/// How often, and how long each time, a full socket is given to drain before a packet is dropped: 20 ms, as over UDP.
const FULL_PAUSES: u32 = 100;
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// The sockets of one aggregator.
pub struct AfXdp {
    ports: Vec<Port>,
    routes: BTreeMap<SocketAddr, Route>,
    counters: FrameCounters,
    /// The port whose frame is the next [`Self::room`]: the one that has sent last.
    roomy: usize,
    /// Keep the steering programs attached; they go with the process.
    _links: Vec<OwnedFd>,
    _steering: Vec<Kernel>,
}

/// One receive queue of one interface.
struct Port {
    ifindex: u32,
    socket: Socket,
}

/// How to reach a peer.
struct Route {
    port: usize,
    hearing: Hearing,
    peer: Peer,
}

/// A datagram that has come in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: SocketAddr,
    /// Bytes of it in the buffer; if none, it was longer than any packet of ours.
    pub len: usize,
    port: usize,
    hearing: Hearing,
}

impl AfXdp {
    /// Steers what comes to `addresses` through these interfaces of this namespace to sockets, until this object is dropped or
    /// the process dies. `datagrams` may be on their way to each socket at once.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel or a privilege lacks, and what to do.
    pub fn open(
        interfaces: &[String],
        addresses: &[SocketAddr],
        datagrams: usize,
        mode: AttachMode,
    ) -> Result<Self, XdpError> {
        if !kernel::is_permitted() {
            return Err(XdpError::NotPermitted);
        }
        let depth = datagrams.next_power_of_two().clamp(*DEPTHS.start(), *DEPTHS.end()) as u32;
        let directory = listen(addresses)?;
        let mut this = Self {
            ports: Vec::new(),
            routes: BTreeMap::new(),
            counters: FrameCounters::default(),
            roomy: 0,
            _links: Vec::new(),
            _steering: Vec::new(),
        };
        interfaces
            .iter()
            .try_for_each(|interface| this.open_interface(interface, &directory, depth, mode))?;
        Ok(this)
    }

    fn open_interface(
        &mut self,
        interface: &str,
        directory: &Directory,
        depth: u32,
        mode: AttachMode,
    ) -> Result<(), XdpError> {
        let ifindex = kernel::interface_index(interface)?;
        let queues = queues::receive_queues(interface);
        let steering = Kernel::load_steering(&STEER, directory, queues)?;
        self._links.push(kernel::link(steering.program("steer").as_fd(), interface, mode)?);
        for queue in 0..queues {
            let socket = Socket::open(ifindex, queue, depth)
                .map_err(|(action, error)| refusal(action, interface, queue, &error))?;
            steering.put("queue_sockets", &queue, &socket.as_fd().as_raw_fd())?;
            self.ports.push(Port { ifindex, socket });
        }
        self._steering.push(steering);
        Ok(())
    }

    /// Descriptors that become readable when a frame comes.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().map(|port| port.socket.as_fd())
    }

    /// Receive queues, each with a socket.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Takes the next datagram of a port into `buffer`; `None` if there is none.
    ///
    /// # Panics
    /// If there is no such port, or the buffer is shorter than [`PAGE_PACKET`] bytes.
    pub fn receive(&mut self, port: usize, buffer: &mut [u8]) -> Option<Arrival> {
        let Self { ports, counters, .. } = self;
        let Port { socket, ifindex } = &mut ports[port];
        loop {
            let arrival = socket.receive(|frame| {
                let (source, hearing, datagram) = headers::parse(frame, *ifindex)?;
                let fitting = if datagram.len() > PAGE_PACKET { &[] } else { datagram };
                buffer[..fitting.len()].copy_from_slice(fitting);
                Some(Arrival { source, len: fitting.len(), port, hearing })
            })?;
            counters.received += 1;
            // A frame that is no datagram after all was not steered here by our program; there are as many as the ring holds.
            if arrival.is_some() {
                return arrival;
            }
        }
    }

    /// Shows up to `most` datagrams of a port to `judge` where they lie, with their sources, and returns how many there were.
    /// A sender that `judge` calls a peer is remembered with the way to it, as by [`Self::learn`].
    ///
    /// # Panics
    /// If there is no such port.
    pub fn receive_in_place(
        &mut self,
        port: usize,
        most: usize,
        mut judge: impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> usize {
        let Self { ports, routes, counters, .. } = self;
        let Port { socket, ifindex } = &mut ports[port];
        let mut show = |frame: &[u8]| {
            let (source, hearing, datagram) = headers::parse(frame, *ifindex)?;
            let is_peer = datagram.len() <= PAGE_PACKET && judge(source, datagram);
            is_peer.then(|| learn(routes, source, port, &hearing))
        };
        let count = (0..most).take_while(|_| socket.receive(&mut show).is_some()).count();
        counters.received += count as u64;
        count
    }

    /// Remembers how a peer was heard. Only for packets that have passed the gate, so that no stranger can redirect a peer's.
    pub fn learn(&mut self, arrival: &Arrival) {
        learn(&mut self.routes, arrival.source, arrival.port, &arrival.hearing);
    }

    /// Memory for the next datagram, in the frame in which it is most likely to leave; `None` if the kernel has all frames.
    pub fn room(&mut self) -> Option<&mut [u8; PAGE_PACKET]> {
        self.ports.get_mut(self.roomy)?.socket.room()
    }

    /// Queues the datagram of `len` bytes that was written to the beginning of [`Self::room`].
    ///
    /// # Panics
    /// If there was no room.
    pub fn send_room(&mut self, destination: SocketAddr, len: usize) -> Sending {
        let Some(Route { port, peer, .. }) = self.routes.get(&destination) else {
            return Sending::NoRoute;
        };
        if *port != self.roomy {
            let room = self.room().expect("there was room");
            let datagram = room[..len].to_vec();
            return self.send(destination, &datagram);
        }
        let socket = &mut self.ports[*port].socket;
        socket.send_room(headers::len(peer), len, |frame| headers::write(frame, peer));
        self.counters.sent += 1;
        Sending::Queued
    }

    /// Queues a datagram.
    pub fn send(&mut self, destination: SocketAddr, datagram: &[u8]) -> Sending {
        let Some(Route { port, peer, .. }) = self.routes.get(&destination) else {
            return Sending::NoRoute;
        };
        self.roomy = *port;
        let socket = &mut self.ports[*port].socket;
        for _ in 0..FULL_PAUSES {
            if let Some(room) = socket.room() {
                room[..datagram.len()].copy_from_slice(datagram);
                let write = |frame: &mut [u8]| headers::write(frame, peer);
                socket.send_room(headers::len(peer), datagram.len(), write);
                self.counters.sent += 1;
                return Sending::Queued;
            }
            socket.flush();
            thread::sleep(FULL_PAUSE);
        }
        self.counters.refused += 1;
        Sending::Dropped
    }

    /// Sends what is queued, and gives the kernel the frames that were read.
    pub fn flush(&mut self) -> Flushed {
        let each = self.ports.iter_mut().map(|port| {
            port.socket.recycle();
            port.socket.flush()
        });
        each.max().unwrap_or(Flushed::All)
    }

    /// What the sockets have done.
    #[must_use]
    pub fn counters(&self) -> FrameCounters {
        let dropped = self.ports.iter().map(|port| port.socket.dropped()).sum();
        let calls = self.ports.iter().map(|port| port.socket.calls()).sum();
        FrameCounters { dropped, calls, ..self.counters }
    }

    /// Sockets whose driver reads and writes the frames itself.
    #[must_use]
    pub fn zero_copy_ports(&self) -> usize {
        self.ports.iter().filter(|port| port.socket.is_zero_copy()).count()
    }

    /// Bytes of frames; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.ports.iter().map(|port| port.socket.memory_bytes()).sum()
    }
}

/// Remembers how a peer was heard.
fn learn(
    routes: &mut BTreeMap<SocketAddr, Route>,
    source: SocketAddr,
    port: usize,
    hearing: &Hearing,
) {
    let known = routes.get(&source);
    if known.is_some_and(|route| route.port == port && route.hearing == *hearing) {
        return;
    }
    if routes.len() >= MAX_ROUTES {
        routes.clear();
    }
    // Job keys are the program's way to know incarnations; here that is the aggregator's business.
    let peer = peers::peer(source, JobKey(0), hearing);
    routes.insert(source, Route { port, hearing: *hearing, peer });
}

/// What the steering program has to know: only where it listens.
fn listen(addresses: &[SocketAddr]) -> Result<Directory, XdpError> {
    limit("addresses to listen on", addresses.len(), MAX_ENDPOINTS)?;
    let mut directory = Directory::new_zeroed();
    directory.endpoint_count = addresses.len() as u32;
    for (endpoint, address) in directory.endpoints.iter_mut().zip(addresses) {
        *endpoint = Endpoint::from(*address);
    }
    Ok(directory)
}

fn refusal(action: &str, interface: &str, queue: u32, error: &std::io::Error) -> XdpError {
    let remedy = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "; this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use the engine `xdp` or `udp`"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "; it needs CAP_NET_RAW: run as root, or `setcap` it too"
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            "; locked memory is limited: raise `ulimit -l`, or give the daemon CAP_IPC_LOCK"
        }
        Some(libc::EBUSY) => "; another AF_XDP socket has this queue: is another daemon running?",
        Some(libc::EOPNOTSUPP | libc::EINVAL) => {
            "; the driver may lack queues both ways: see `ethtool -l`, or use the engine `xdp` or `udp`"
        }
        _ => "",
    };
    XdpError::Kernel {
        action: format!("{action} (queue {queue} of `{interface}`)"),
        cause: format!("{error}{remedy}"),
    }
}
