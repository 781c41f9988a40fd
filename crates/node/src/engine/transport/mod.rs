//! How an engine's packets travel: all that its thread asks of the network.

mod backlog;
mod choice;
mod frames;
mod interfaces;
mod udp;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Child, Fabric};
use wiresum_wire::MAX_PACKET;
use wiresum_xdp::FrameCounters;

use super::{JoinError, log};
use crate::tcp::Dialer;
use crate::udp::{Quote, SendCounters};
pub use choice::Preference;
use frames::Frames;
use udp::Udp;

/// A worker's way to its nodes and back: packets in, packets out, in batches, without waiting.
///
/// Its descriptor is readable when [`Self::receive`] has something to do. After a [`Self::flush`] that returned `false` the
/// owner waits until the descriptor is readable or writable.
pub struct Transport {
    carrier: Carrier,
    said: String,
}

enum Carrier {
    /// Datagrams.
    Udp(Box<Udp>),
    /// Frames past the network stack, and datagrams.
    Frames(Box<Frames>),
    /// Connections, for plans whose nodes have the engine `tcp`.
    Tcp(Box<Tcp>),
}

/// One connection to each node.
struct Tcp {
    dialer: Dialer,
    packet: [u8; MAX_PACKET],
}

impl Transport {
    /// The transport of `rank`, bound to `address` or, by default, to the plan's address of this worker and a port that the
    /// kernel chooses; with room for the answers to all that the worker may have sent.
    ///
    /// # Errors
    /// [`JoinError::Rank`], [`JoinError::MixedFamilies`], [`JoinError::Bind`].
    pub fn bind(
        plan: &Plan,
        rank: u32,
        address: Option<SocketAddr>,
        preference: Preference,
    ) -> Result<Self, JoinError> {
        let planned = planned_address(plan, rank)?;
        let address = address.unwrap_or(planned);
        let bound = if plan.is_over_tcp() {
            Tcp::bind(address).map(Self::over_tcp)
        } else {
            Udp::bind(plan, rank, address).and_then(|udp| Self::over(udp, plan, rank, preference))
        };
        bound.map_err(|source| JoinError::Bind { address, rank, source })
    }

    fn over_tcp(tcp: Tcp) -> Self {
        let said = "TCP connections, as the plan says".to_owned();
        Self { carrier: Carrier::Tcp(Box::new(tcp)), said }
    }

    /// Frames beside the socket where they can be had, or the socket alone.
    fn over(udp: Udp, plan: &Plan, rank: u32, preference: Preference) -> io::Result<Self> {
        let local = udp.socket.local_address()?;
        Ok(match choice::open_frames(plan, rank, local, preference) {
            Ok((xdp, said)) => {
                Self { carrier: Carrier::Frames(Box::new(Frames::new(udp, xdp)?)), said }
            }
            Err(reason) => {
                if preference == Preference::AfXdp {
                    log(&format!("wiresum: rank {rank}: packets go by UDP: {reason}\n"));
                }
                Self { carrier: Carrier::Udp(Box::new(udp)), said: format!("UDP: {reason}") }
            }
        })
    }

    /// What packets travel by, and why, for people.
    #[must_use]
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Where this worker receives; over TCP the port is 0 unless it was asked for, as each connection has its own.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match &self.carrier {
            Carrier::Udp(udp) => udp.socket.local_address(),
            Carrier::Frames(frames) => frames.udp().socket.local_address(),
            Carrier::Tcp(tcp) => Ok(tcp.dialer.local_address()),
        }
    }

    /// Hands a batch of what has arrived to `take`, with its source; `true` if there may be more.
    ///
    /// # Errors
    /// What the kernel says, if the transport cannot go on.
    pub fn receive(&mut self, take: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        match &mut self.carrier {
            Carrier::Udp(udp) => udp.receive(take),
            Carrier::Frames(frames) => frames.receive(take),
            Carrier::Tcp(tcp) => tcp.dialer.receive(take),
        }
    }

    /// The next destination that has turned out to have no one listening, and what is quoted of what was sent there.
    pub fn next_refused(&mut self) -> Option<(SocketAddr, Quote)> {
        match &mut self.carrier {
            Carrier::Udp(udp) => udp.next_refused(),
            Carrier::Frames(frames) => frames.next_refused(),
            // Connections are opened again and again; a node that stays away is silent.
            Carrier::Tcp(_) => None,
        }
    }

    /// Memory for the next packet of this plan, where possible that from which it will leave.
    pub fn room(&mut self) -> &mut [u8] {
        match &mut self.carrier {
            Carrier::Udp(udp) => udp.outgoing.room(),
            Carrier::Frames(frames) => frames.room(),
            Carrier::Tcp(tcp) => &mut tcp.packet[..],
        }
    }

    /// Queues the packet of `len` bytes that was written to [`Self::room`]; `true` if the queue is due for [`Self::flush`].
    pub fn push_room(&mut self, destination: SocketAddr, len: usize) -> bool {
        match &mut self.carrier {
            Carrier::Udp(udp) => udp.outgoing.push_room(destination, len),
            Carrier::Frames(frames) => frames.push_room(destination, len),
            Carrier::Tcp(tcp) => tcp.dialer.push(destination, &tcp.packet[..len]),
        }
    }

    /// Queues a packet from elsewhere, as [`Self::push_room`] does.
    pub fn push(&mut self, destination: SocketAddr, packet: &[u8]) -> bool {
        self.room()[..packet.len()].copy_from_slice(packet);
        self.push_room(destination, packet.len())
    }

    /// Hands what is queued to the kernel; `false` if it cannot take all of it now.
    pub fn flush(&mut self) -> bool {
        match &mut self.carrier {
            Carrier::Udp(udp) => udp.flush(),
            Carrier::Frames(frames) => frames.flush(),
            Carrier::Tcp(tcp) => tcp.dialer.flush(),
        }
    }

    /// What has been sent so far.
    #[must_use]
    pub fn sent(&self) -> &SendCounters {
        match &self.carrier {
            Carrier::Udp(udp) => &udp.outgoing.counters,
            Carrier::Frames(frames) => &frames.udp().outgoing.counters,
            Carrier::Tcp(tcp) => &tcp.dialer.counters,
        }
    }

    /// What went past the network stack.
    #[must_use]
    pub fn frames(&self) -> FrameCounters {
        match &self.carrier {
            Carrier::Frames(frames) => frames.counters(),
            Carrier::Udp(_) | Carrier::Tcp(_) => FrameCounters::default(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.carrier {
            Carrier::Udp(udp) => udp.socket.as_fd(),
            Carrier::Frames(frames) => frames.as_fd(),
            Carrier::Tcp(tcp) => tcp.dialer.as_fd(),
        }
    }
}

impl Tcp {
    fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { dialer: Dialer::new(address)?, packet: [0; MAX_PACKET] })
    }
}

/// The plan's address of this worker, or any address of the family of its nodes; the kernel chooses the port.
fn planned_address(plan: &Plan, rank: u32) -> Result<SocketAddr, JoinError> {
    let workers = plan.workers.len();
    let worker = plan.workers.get(rank as usize).ok_or(JoinError::Rank { rank, workers })?;
    if let Some(address) = plan.fabric.as_ref().and_then(|fabric| address_at_switches(fabric, rank))
    {
        return Ok(address);
    }
    let parents = plan.streams.iter().filter_map(|s| s.parent_of(Child::Worker(rank)));
    let mut ipv4 = parents.filter_map(|(node, _)| plan.node(node)).map(|n| n.address.is_ipv4());
    let first = ipv4.next().unwrap_or(true);
    if ipv4.any(|other| other != first) {
        return Err(JoinError::MixedFamilies(rank));
    }
    let any =
        if first { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    Ok(SocketAddr::new(worker.address.unwrap_or(any), 0))
}

/// Where a worker's neighbours send to: the address of its link, or, with several links, any address with their port.
fn address_at_switches(fabric: &Fabric, rank: u32) -> Option<SocketAddr> {
    let ends = fabric.links.iter().flat_map(|link| &link.ends);
    let mut own = ends.filter(|end| end.at == Child::Worker(rank)).map(|end| end.address);
    let first = own.next()?;
    let any = match first.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let is_one = own.all(|address| address == first);
    Some(if is_one { first } else { SocketAddr::new(any, first.port()) })
}
