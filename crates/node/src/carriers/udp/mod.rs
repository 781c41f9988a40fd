//! Batched UDP: one socket, many datagrams per system call.
//!
//! Sending uses segmentation offload (one call carries up to [`MAX_BATCH_LEN`] bytes of equal datagrams to one
//! destination), receiving uses `recvmmsg` with receive offload; `quinn-udp` falls back to single datagrams where the
//! kernel has neither.

mod filter;
pub(crate) mod guard;
mod queue;
mod receive;
mod steering;
mod unreachable;

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use quinn_udp::{BATCH_SIZE, Transmit, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Type};
use wiresum_wire::PAGE_PACKET;

pub use filter::Known;
pub use queue::{MAX_BATCH_LEN, SendCounters, SendQueue};
pub use receive::ReceiveBatch;
pub use unreachable::Quote;

/// Bounds of the receive buffer in bytes: a burst of control packets, and 20 ms at 25 Gbit/s.
const RECEIVE_BUFFER_LENS: RangeInclusive<usize> = 1 << 20..=64 << 20;
/// Bytes queued towards a link before the kernel makes the sender wait; a few batches keep any link busy.
pub const SEND_BUFFER_LEN: usize = 2 << 20;
/// A non-blocking UDP socket with large buffers and offloads.
pub struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    receive_buffer_wanted: usize,
    /// A call has returned an error that is about an earlier datagram.
    errors: Cell<bool>,
}

/// What became of a batch that was offered to the kernel.
#[derive(Debug)]
enum Sent {
    /// The kernel has it.
    Taken,
    /// The socket's buffer is full: wait until it is writable.
    Full,
    /// The kernel will never take it.
    Refused(io::Error),
}

impl Socket {
    /// A socket bound to `address` (port 0: the kernel chooses), with room for as many datagrams, of a page each, as may be on
    /// their way to it.
    ///
    /// # Errors
    /// What the kernel says to `socket` and `bind`.
    pub fn bind(address: SocketAddr, datagrams: usize) -> io::Result<Self> {
        let (socket, wanted) = Self::make(address, datagrams)?;
        socket.bind(&address.into())?;
        Self::adopt(socket.into(), wanted)
    }

    /// A socket that is not bound yet, and the bytes that its receive buffer should have.
    fn make(address: SocketAddr, datagrams: usize) -> io::Result<(socket2::Socket, usize)> {
        // The kernel doubles what it is asked for, which covers its own overhead: a page for each packet.
        let wanted = datagrams.saturating_mul(PAGE_PACKET);
        let wanted = wanted.clamp(*RECEIVE_BUFFER_LENS.start(), *RECEIVE_BUFFER_LENS.end());
        let socket =
            socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // Going beyond the system's limit needs CAP_NET_ADMIN; within it, anyone may ask.
        if sockopt::set_socket_recv_buffer_size_force(&socket, wanted).is_err() {
            socket.set_recv_buffer_size(wanted)?;
        }
        set_send_buffer(&socket, SEND_BUFFER_LEN)?;
        Ok((socket, wanted))
    }

    /// Has the kernel make the sender wait once about so many bytes are queued towards a link.
    ///
    /// # Errors
    /// What the kernel says to the option.
    pub fn queue_at_most(&self, bytes: usize) -> io::Result<()> {
        // The kernel doubles what it is asked for.
        set_send_buffer(&self.io, bytes / 2)
    }

    /// A socket of another process, with all that has come to it and was not read.
    ///
    /// # Errors
    /// What the kernel says to options.
    pub fn inherit(io: UdpSocket) -> io::Result<Self> {
        let granted = sockopt::socket_recv_buffer_size(&io)? / 2;
        let socket = Self::adopt(io, granted)?;
        // A guard of that process outlives it; where there is none, the kernel says so.
        let _ = socket.unguard();
        Ok(socket)
    }

    fn adopt(io: UdpSocket, wanted: usize) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        decline_metadata(&io);
        Ok(Self { io, state, receive_buffer_wanted: wanted, errors: Cell::new(false) })
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn share(&self) -> io::Result<Self> {
        Self::adopt(self.io.try_clone()?, self.receive_buffer_wanted)
    }

    /// Where the socket is bound.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// A remark for the log if the kernel grants less receive buffer than a full window takes.
    #[must_use]
    pub fn receive_buffer_remark(&self) -> Option<String> {
        let wanted = self.receive_buffer_wanted;
        let granted = sockopt::socket_recv_buffer_size(&self.io).unwrap_or(0) / 2;
        (granted < wanted).then(|| {
            format!(
                "the kernel caps the receive buffer at {granted} bytes of {wanted}: packets may be lost in bursts and \
                 sent again; raise it with `sysctl -w net.core.rmem_max={wanted}`"
            )
        })
    }

    /// Receives what is there, up to a batch of buffers; returns whether the batch is full, so that more may wait.
    ///
    /// # Errors
    /// What the kernel says to `recvmmsg`, except that nothing is there.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<bool> {
        let filled = batch
            .fill(|buffers, metas| self.state.recv(UdpSockRef::from(&self.io), buffers, metas));
        match filled {
            Ok(filled) => Ok(filled == BATCH_SIZE),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if unreachable::is_of_a_destination(&error) => {
                self.errors.set(true);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn offer(&self, destination: SocketAddr, bytes: &[u8], segment: usize) -> Sent {
        let segment_size = (bytes.len() > segment).then_some(segment);
        let transmit =
            Transmit { destination, ecn: None, contents: bytes, segment_size, src_ip: None };
        let mut sent = self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        if sent.as_ref().is_err_and(unreachable::is_of_a_destination) {
            // It is about an earlier datagram most likely, and told only once then.
            self.errors.set(true);
            sent = self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        }
        match sent {
            Ok(()) => Sent::Taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            Err(error) => Sent::Refused(error),
        }
    }

    fn offload_works(&self) -> bool {
        self.state.max_gso_segments() > 1
    }
}

fn set_send_buffer(socket: &impl AsFd, len: usize) -> io::Result<()> {
    // Going beyond the system's limit needs CAP_NET_ADMIN; within it, anyone may ask.
    sockopt::set_socket_send_buffer_size_force(socket, len)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, len))?;
    Ok(())
}

/// Declines what `quinn-udp` asks the kernel to tell about each datagram: nobody reads it here, and the time stamps alone
/// take a twentieth of the engine's time.
fn decline_metadata(socket: &UdpSocket) {
    let off: libc::c_int = 0;
    for (level, option) in [
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
        (libc::IPPROTO_IP, libc::IP_PKTINFO),
        (libc::IPPROTO_IP, libc::IP_RECVTOS),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    ] {
        let len = size_of_val(&off) as libc::socklen_t;
        // SAFETY: the descriptor is open and the option's value is an integer that outlives the call. A refusal (IPv6
        // options on an IPv4 socket) changes nothing.
        unsafe {
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const off).cast(), len)
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Socket, Socket) {
        let any = "127.0.0.1:0".parse().expect("an address");
        (Socket::bind(any, 64).expect("a socket"), Socket::bind(any, 64).expect("a socket"))
    }

    fn receive_all(socket: &Socket, count: usize) -> Vec<Vec<u8>> {
        let mut batch = ReceiveBatch::default();
        let mut received = Vec::new();
        while received.len() < count {
            let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
            let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
            let ready = rustix::event::poll(&mut fds, Some(&patience)).expect("poll");
            assert!(ready > 0, "only {} of {count} datagrams arrived", received.len());
            socket.receive(&mut batch).expect("receive");
            received.extend(batch.datagrams().map(|(_, datagram)| datagram.to_vec()));
        }
        received
    }

    #[test]
    fn datagrams_keep_their_bounds_and_order() {
        let (source, target) = pair();
        let address = target.local_address().expect("bound");
        let mut queue = SendQueue::default();
        let lengths = [2982, 2982, 2982, 70, 2982, 454, 454, 2982, 38];
        for (index, len) in lengths.into_iter().enumerate() {
            queue.push(address, &vec![index as u8; len]);
        }
        assert!(queue.flush(&source));
        assert!(queue.is_empty());
        let expected: Vec<_> = lengths.iter().enumerate().map(|(i, l)| vec![i as u8; *l]).collect();
        assert_eq!(receive_all(&target, lengths.len()), expected);
        assert_eq!(queue.counters.datagrams, lengths.len() as u64);
        assert_eq!(queue.counters.bytes, lengths.iter().sum::<usize>() as u64);
    }

    #[test]
    fn datagrams_written_in_place_are_those_that_were_pushed() {
        let (source, target) = pair();
        let (_, elsewhere) = pair();
        let [here, there] = [&target, &elsewhere].map(|end| end.local_address().expect("bound"));
        let mut queue = SendQueue::default();
        // Ends of batches, other destinations in between, and datagrams longer than the batch's.
        let sent = [(here, 2982), (here, 2982), (there, 70), (here, 2982), (here, 38), (here, 454)];
        for (index, (destination, len)) in sent.into_iter().enumerate() {
            queue.room()[..len].fill(index as u8);
            assert!(!queue.push_room(destination, len));
        }
        queue.push(here, &[6; 454]);
        queue.room()[..100].fill(7);
        queue.push_room(here, 100);
        assert!(queue.flush(&source));
        let expected = [(0, 2982), (1, 2982), (3, 2982), (4, 38), (5, 454), (6, 454), (7, 100)];
        let expected = expected.map(|(byte, len)| vec![byte; len]);
        assert_eq!(receive_all(&target, expected.len()), expected);
        assert_eq!(receive_all(&elsewhere, 1), [vec![2; 70]]);
    }

    #[test]
    fn a_full_batch_asks_for_a_flush() {
        let (source, target) = pair();
        let address = target.local_address().expect("bound");
        let mut queue = SendQueue::default();
        let full = (1..).find(|_| queue.push(address, &[7; PAGE_PACKET])).expect("a bound");
        assert_eq!(full, MAX_BATCH_LEN / PAGE_PACKET);
        assert!(queue.flush(&source));
        assert_eq!(queue.counters.batches, 1, "one call carries the whole batch");
        assert_eq!(receive_all(&target, full).len(), full);
    }

    #[test]
    fn a_refusal_is_counted_with_its_remedy() {
        let (source, _target) = pair();
        let mut queue = SendQueue::default();
        // A socket bound to loopback has no route to a public documentation address.
        queue.push("203.0.113.1:9".parse().expect("an address"), &[0; 34]);
        assert!(queue.flush(&source));
        assert_eq!(queue.counters.refused, 1);
        assert!(queue.counters.last_refusal.expect("a reason").contains("203.0.113.1:9"));
    }
}
