//! Batched UDP: one socket, many datagrams per system call.
//!
//! Sending uses segmentation offload (one call carries up to [`MAX_BATCH_LEN`] bytes of equal datagrams to one
//! destination), receiving uses `recvmmsg` with receive offload; `quinn-udp` falls back to single datagrams where the
//! kernel has neither.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Type};
use wiresum_wire::MAX_PACKET;

/// Most bytes of datagrams that one call sends: the payload of the largest IPv4 datagram, since offload builds one first.
pub const MAX_BATCH_LEN: usize = 65_507;
/// Bytes that the kernel may hold for us: the largest window (1024 fragments) in buffers of 4 KiB twice over.
pub const RECEIVE_BUFFER_LEN: usize = 16 << 20;
/// Bytes queued towards a link before the kernel makes the sender wait; a few batches keep any link busy.
pub const SEND_BUFFER_LEN: usize = 2 << 20;
/// Room for one received buffer: the largest that receive offload may build, and a line more, so that
/// consecutive buffers do not compete for the same cache sets.
const RECEIVE_STRIDE: usize = (1 << 16) + 4096 + 64;

/// A non-blocking UDP socket with large buffers and offloads.
pub struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
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
    /// A socket bound to `address` (port 0: the kernel chooses).
    ///
    /// # Errors
    /// What the kernel says to `socket` and `bind`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket =
            socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // Going beyond the system's limit needs CAP_NET_ADMIN; within it, anyone may ask.
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_LEN).is_err() {
            socket.set_recv_buffer_size(RECEIVE_BUFFER_LEN)?;
        }
        if sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER_LEN).is_err() {
            socket.set_send_buffer_size(SEND_BUFFER_LEN)?;
        }
        socket.bind(&address.into())?;
        let io = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        decline_metadata(&io);
        Ok(Self { io, state })
    }

    /// Where the socket is bound.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// A remark for the log if the kernel grants less receive buffer than [`RECEIVE_BUFFER_LEN`].
    #[must_use]
    pub fn receive_buffer_remark(&self) -> Option<String> {
        // The kernel reports twice what it was asked for, to account for its own overhead.
        let granted = sockopt::socket_recv_buffer_size(&self.io).unwrap_or(0) / 2;
        (granted < RECEIVE_BUFFER_LEN).then(|| {
            format!(
                "the kernel caps the receive buffer at {granted} bytes of {RECEIVE_BUFFER_LEN}: packets may be lost in \
                 bursts and sent again; raise it with `sysctl -w net.core.rmem_max={RECEIVE_BUFFER_LEN}`"
            )
        })
    }

    /// Receives what is there, up to a batch of buffers; returns whether the batch is full, so that more may wait.
    ///
    /// # Errors
    /// What the kernel says to `recvmmsg`, except that nothing is there.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<bool> {
        batch.filled = 0;
        let mut buffers = batch.storage.chunks_exact_mut(RECEIVE_STRIDE).map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| buffers.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        match self.state.recv(UdpSockRef::from(&self.io), &mut buffers, &mut batch.metas) {
            Ok(filled) => batch.filled = filled,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(batch.filled == BATCH_SIZE)
    }

    fn offer(&self, destination: SocketAddr, bytes: &[u8], segment: usize) -> Sent {
        let segment_size = (bytes.len() > segment).then_some(segment);
        let transmit =
            Transmit { destination, ecn: None, contents: bytes, segment_size, src_ip: None };
        match self.state.try_send(UdpSockRef::from(&self.io), &transmit) {
            Ok(()) => Sent::Taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            Err(error) => Sent::Refused(error),
        }
    }

    fn offload_works(&self) -> bool {
        self.state.max_gso_segments() > 1
    }
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

/// Memory for one call of [`Socket::receive`], allocated once.
pub struct ReceiveBatch {
    storage: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
    filled: usize,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self {
            storage: vec![0; BATCH_SIZE * RECEIVE_STRIDE],
            metas: [RecvMeta::default(); BATCH_SIZE],
            filled: 0,
        }
    }
}

impl ReceiveBatch {
    /// The datagrams of the last call in order of arrival, with their sources.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.metas.iter().zip(self.storage.chunks_exact(RECEIVE_STRIDE)).take(self.filled).flat_map(
            |(meta, buffer)| {
                let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
                datagrams.map(|datagram| (meta.addr, datagram))
            },
        )
    }
}

/// Datagrams on their way to the kernel, gathered into batches by destination. Memory is reused, and its amount
/// bounded: the queue is flushed when a batch is full or [`SendQueue::MAX_BATCHES`] are begun.
#[derive(Default)]
pub struct SendQueue {
    batches: Vec<Batch>,
    begun: usize,
    /// What was sent since the queue was made.
    pub counters: SendCounters,
}

/// What a [`SendQueue`] has done.
#[derive(Clone, Debug, Default)]
pub struct SendCounters {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Their bytes, without IP and UDP headers.
    pub bytes: u64,
    /// Batches that the kernel took: system calls, but for refusals and full buffers.
    pub batches: u64,
    /// Datagrams that the kernel refused; to the protocol they are lost.
    pub refused: u64,
    /// Why, at the last refusal, and what to do.
    pub last_refusal: Option<String>,
}

/// Datagrams to one destination, all of `segment` bytes but for a shorter last one.
struct Batch {
    destination: SocketAddr,
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
}

impl Batch {
    fn new(destination: SocketAddr) -> Self {
        Self { destination, bytes: vec![0; MAX_BATCH_LEN], len: 0, segment: 0 }
    }

    /// Whether a datagram of `len` bytes may follow what is there.
    fn accepts(&self, destination: SocketAddr, len: usize) -> bool {
        let ended = self.len > 0 && !self.len.is_multiple_of(self.segment);
        let fits = self.len == 0 || len <= self.segment;
        self.destination == destination && fits && !ended && !self.is_full()
    }

    fn append(&mut self, datagram: &[u8]) {
        if self.len == 0 {
            self.segment = datagram.len();
        }
        self.bytes[self.len..self.len + datagram.len()].copy_from_slice(datagram);
        self.len += datagram.len();
    }

    fn is_full(&self) -> bool {
        self.len + MAX_PACKET > MAX_BATCH_LEN
    }
}

impl SendQueue {
    /// Batches that one queue holds: one per child of the largest aggregator, and some that a short datagram ended.
    pub const MAX_BATCHES: usize = wiresum_wire::MAX_CONTRIBUTORS + 16;

    /// Queues a datagram. Returns whether the queue is due for [`Self::flush`].
    pub fn push(&mut self, destination: SocketAddr, datagram: &[u8]) -> bool {
        let begun = &mut self.batches[..self.begun];
        // The last batch to a destination is the one to continue, or datagrams would overtake each other.
        let last = begun.iter().rposition(|batch| batch.destination == destination);
        let index = match last.filter(|index| begun[*index].accepts(destination, datagram.len())) {
            Some(index) => index,
            None => self.begin(destination),
        };
        self.batches[index].append(datagram);
        self.batches[index].is_full() || self.begun == Self::MAX_BATCHES
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.begun == 0
    }

    /// Hands the batches to the kernel; `false` if its buffer is full and some are left.
    pub fn flush(&mut self, socket: &Socket) -> bool {
        let begun = self.begun;
        let left = (0..begun).find(|index| !self.send(*index, socket));
        let sent = left.unwrap_or(begun);
        // The memory of the batches that went moves behind those that wait.
        self.batches[..begun].rotate_left(sent);
        self.begun = begun - sent;
        left.is_none()
    }

    /// Drops what waits, and counts it as refused.
    pub fn discard(&mut self) {
        for batch in &self.batches[..self.begun] {
            let reason = io::Error::from(io::ErrorKind::WouldBlock);
            self.counters.count_refused(batch.len, batch.segment, batch.destination, &reason);
        }
        self.begun = 0;
    }

    fn begin(&mut self, destination: SocketAddr) -> usize {
        let index = self.begun;
        match self.batches.get_mut(index) {
            Some(batch) => (batch.destination, batch.len) = (destination, 0),
            None => self.batches.push(Batch::new(destination)),
        }
        self.begun += 1;
        index
    }

    /// Sends one batch; `false` if the socket's buffer is full.
    fn send(&mut self, index: usize, socket: &Socket) -> bool {
        let Batch { destination, ref bytes, len, segment } = self.batches[index];
        let at_once = if socket.offload_works() { len } else { segment };
        let mut start = 0;
        while start < len {
            let part = &bytes[start..len.min(start + at_once)];
            match socket.offer(destination, part, segment) {
                Sent::Taken => self.counters.count_taken(part.len(), segment),
                Sent::Full => {
                    self.batches[index].keep_from(start);
                    return false;
                }
                // Offload has just turned out not to work here: the same bytes again, one by one.
                Sent::Refused(_) if part.len() > segment && !socket.offload_works() => {
                    self.batches[index].keep_from(start);
                    return self.send(index, socket);
                }
                Sent::Refused(error) => {
                    self.counters.count_refused(part.len(), segment, destination, &error);
                }
            }
            start += part.len();
        }
        true
    }
}

impl Batch {
    fn keep_from(&mut self, start: usize) {
        self.bytes.copy_within(start..self.len, 0);
        self.len -= start;
    }
}

impl SendCounters {
    fn count_taken(&mut self, len: usize, segment: usize) {
        self.batches += 1;
        self.bytes += len as u64;
        self.datagrams += len.div_ceil(segment) as u64;
    }

    fn count_refused(&mut self, len: usize, segment: usize, to: SocketAddr, error: &io::Error) {
        self.refused += len.div_ceil(segment) as u64;
        let remedy = match rustix::io::Errno::from_io_error(error) {
            Some(rustix::io::Errno::MSGSIZE) => {
                "; the packets do not fit the interface's MTU: raise it or lower the plan's job.values_per_packet"
            }
            Some(rustix::io::Errno::NETUNREACH | rustix::io::Errno::HOSTUNREACH) => {
                "; check the node's address in the plan and the routes of this host"
            }
            _ => "",
        };
        self.last_refusal =
            Some(format!("sending {segment} bytes to {to} failed: {error}{remedy}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Socket, Socket) {
        let any = "127.0.0.1:0".parse().expect("an address");
        (Socket::bind(any).expect("a socket"), Socket::bind(any).expect("a socket"))
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
        let lengths = [2978, 2978, 2978, 66, 2978, 450, 450, 2978, 34];
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
    fn a_full_batch_asks_for_a_flush() {
        let (source, target) = pair();
        let address = target.local_address().expect("bound");
        let mut queue = SendQueue::default();
        let full = (1..).find(|_| queue.push(address, &[7; MAX_PACKET])).expect("a bound");
        assert_eq!(full, MAX_BATCH_LEN / MAX_PACKET);
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
