//! How an engine's packets travel: all that its thread asks of the network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Child, Fabric};

use super::{JoinError, log};
use crate::tcp::Dialer;
use crate::udp::{Quote, ReceiveBatch, SendCounters, SendQueue, Socket};

/// A worker's way to its nodes and back: packets in, packets out, in batches, without waiting.
///
/// Its descriptor is readable when [`Self::receive`] has something to do. After a [`Self::flush`] that returned `false` the
/// owner waits until the descriptor is readable or writable.
pub enum Transport {
    /// Datagrams.
    Udp(Box<Udp>),
    /// Connections, for plans whose nodes have the engine `tcp`.
    Tcp(Dialer),
}

/// One socket for all nodes.
pub struct Udp {
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    has_errors: bool,
}

impl Transport {
    /// The transport of `rank`, bound to `address` or, by default, to the plan's address of this worker and a port that the
    /// kernel chooses; with room for the answers to all that the worker may have sent.
    ///
    /// # Errors
    /// [`JoinError::Rank`], [`JoinError::MixedFamilies`], [`JoinError::Bind`].
    pub fn bind(plan: &Plan, rank: u32, address: Option<SocketAddr>) -> Result<Self, JoinError> {
        let planned = planned_address(plan, rank)?;
        let address = address.unwrap_or(planned);
        let bound = if plan.is_over_tcp() {
            Dialer::new(address).map(Self::Tcp)
        } else {
            Udp::bind(plan, rank, address).map(|udp| Self::Udp(Box::new(udp)))
        };
        bound.map_err(|source| JoinError::Bind { address, rank, source })
    }

    /// Where this worker receives; over TCP the port is 0 unless it was asked for, as each connection has its own.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Udp(udp) => udp.socket.local_address(),
            Self::Tcp(dialer) => Ok(dialer.local_address()),
        }
    }

    /// Hands a batch of what has arrived to `take`, with its source; `true` if there may be more.
    ///
    /// # Errors
    /// What the kernel says, if the transport cannot go on.
    pub fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        match self {
            Self::Udp(udp) => {
                let more = udp.socket.receive(&mut udp.received)?;
                udp.received.datagrams().for_each(|(source, packet)| take(source, packet));
                Ok(more)
            }
            Self::Tcp(dialer) => dialer.receive(take),
        }
    }

    /// The next destination that has turned out to have no one listening, and what is quoted of what was sent there.
    pub fn next_refused(&mut self) -> Option<(SocketAddr, Quote)> {
        match self {
            Self::Udp(udp) => {
                udp.has_errors |= udp.socket.has_errors();
                let refused = if udp.has_errors { udp.socket.next_refused() } else { None };
                udp.has_errors = refused.is_some();
                refused
            }
            // Connections are opened again and again; a node that stays away is silent.
            Self::Tcp(_) => None,
        }
    }

    /// Queues a packet; `true` if the queue is due for [`Self::flush`].
    pub fn push(&mut self, destination: SocketAddr, packet: &[u8]) -> bool {
        match self {
            Self::Udp(udp) => udp.outgoing.push(destination, packet),
            Self::Tcp(dialer) => dialer.push(destination, packet),
        }
    }

    /// Hands what is queued to the kernel; `false` if it cannot take all of it now.
    pub fn flush(&mut self) -> bool {
        match self {
            Self::Udp(udp) => udp.outgoing.flush(&udp.socket),
            Self::Tcp(dialer) => dialer.flush(),
        }
    }

    /// What has been sent so far.
    #[must_use]
    pub fn sent(&self) -> &SendCounters {
        match self {
            Self::Udp(udp) => &udp.outgoing.counters,
            Self::Tcp(dialer) => &dialer.counters,
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(udp) => udp.socket.as_fd(),
            Self::Tcp(dialer) => dialer.as_fd(),
        }
    }
}

impl Udp {
    fn bind(plan: &Plan, rank: u32, address: SocketAddr) -> io::Result<Self> {
        let windows = plan.streams.iter().map(|sub_model| sub_model.window as usize).sum();
        let socket = Socket::bind(address, windows)?;
        if let Some(remark) = socket.receive_buffer_remark() {
            log(&format!("wiresum: rank {rank}: {remark}\n"));
        }
        socket.report_errors();
        let (received, outgoing) = (ReceiveBatch::default(), SendQueue::default());
        Ok(Self { socket, received, outgoing, has_errors: false })
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
