//! Batches of datagrams by destination.

use std::io;
use std::net::SocketAddr;

use wiresum_wire::MAX_PACKET;

use super::{Sent, Socket};

/// Most bytes of datagrams that one call sends: the payload of the largest IPv4 datagram, since offload builds one first.
pub const MAX_BATCH_LEN: usize = 65_507;

/// Datagrams on their way to the kernel, gathered into batches by destination. Memory is reused, and its amount
/// bounded: the queue is flushed when a batch is full or [`SendQueue::MAX_BATCHES`] are begun.
#[derive(Default)]
pub struct SendQueue {
    batches: Vec<Batch>,
    begun: usize,
    /// Where the last [`Self::room`] is: batch and offset.
    room: (usize, usize),
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

impl SendCounters {
    /// Adds those of another socket.
    pub fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.batches += other.batches;
        self.refused += other.refused;
        self.last_refusal = self.last_refusal.take().or_else(|| other.last_refusal.clone());
    }
}

/// Datagrams to one destination, all of `segment` bytes but for a shorter last one.
struct Batch {
    destination: SocketAddr,
    bytes: Vec<u8>,
    len: usize,
    segment: usize,
}

impl Batch {
    /// Memory, for no one yet.
    fn new() -> Self {
        let destination = SocketAddr::from(([0; 4], 0));
        Self { destination, bytes: vec![0; MAX_BATCH_LEN + MAX_PACKET], len: 0, segment: 0 }
    }

    /// Whether a datagram of `len` bytes may follow what is there.
    fn accepts(&self, destination: SocketAddr, len: usize) -> bool {
        let fits = self.len == 0 || len <= self.segment;
        self.destination == destination && fits && self.is_open()
    }

    /// Whether any datagram may follow.
    fn is_open(&self) -> bool {
        let ended = self.len > 0 && !self.len.is_multiple_of(self.segment);
        !ended && !self.is_full()
    }

    fn append(&mut self, datagram: &[u8]) {
        self.bytes[self.len..self.len + datagram.len()].copy_from_slice(datagram);
        self.extend(datagram.len());
    }

    /// Takes the next `len` bytes in its memory for a datagram.
    fn extend(&mut self, len: usize) {
        if self.len == 0 {
            self.segment = len;
        }
        self.len += len;
    }

    fn is_full(&self) -> bool {
        self.len + self.segment > MAX_BATCH_LEN
    }
}

impl SendQueue {
    /// Batches that one queue holds: one per child of the largest aggregator, and some that a short datagram ended.
    pub const MAX_BATCHES: usize = wiresum_wire::MAX_CONTRIBUTORS + 16;

    /// Queues a datagram. Returns whether the queue is due for [`Self::flush`].
    pub fn push(&mut self, destination: SocketAddr, datagram: &[u8]) -> bool {
        let index = self.batch_for(destination, datagram.len());
        self.batches[index].append(datagram);
        self.is_due(index)
    }

    /// Memory for the next datagram. Where the datagram continues the batch that was written to last, it lies in its place
    /// already.
    pub fn room(&mut self) -> &mut [u8; MAX_PACKET] {
        let continued = self.room.0;
        let goes_on = continued < self.begun && self.batches[continued].is_open();
        let index = if goes_on { continued } else { self.begun };
        if index == self.batches.len() {
            self.batches.push(Batch::new());
        }
        let start = if goes_on { self.batches[index].len } else { 0 };
        self.room = (index, start);
        let room = &mut self.batches[index].bytes[start..start + MAX_PACKET];
        room.try_into().expect("as long as a packet")
    }

    /// Queues the datagram that was written to the beginning of [`Self::room`]; returns as [`Self::push`] does.
    pub fn push_room(&mut self, destination: SocketAddr, len: usize) -> bool {
        let (from, start) = self.room;
        let index = self.batch_for(destination, len);
        if (index, self.batches[index].len) == (from, start) {
            self.batches[index].extend(len);
        } else {
            let bytes = std::mem::take(&mut self.batches[from].bytes);
            self.batches[index].append(&bytes[start..start + len]);
            self.batches[from].bytes = bytes;
        }
        self.room = (index, 0);
        self.is_due(index)
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

    /// The batch that a datagram of `len` bytes to a destination belongs to.
    fn batch_for(&mut self, destination: SocketAddr, len: usize) -> usize {
        let begun = &self.batches[..self.begun];
        // The last batch to a destination is the one to continue, or datagrams would overtake each other.
        let last = begun.iter().rposition(|batch| batch.destination == destination);
        let open = last.filter(|index| begun[*index].accepts(destination, len));
        open.unwrap_or_else(|| self.begin(destination))
    }

    fn begin(&mut self, destination: SocketAddr) -> usize {
        let index = self.begun;
        if index == self.batches.len() {
            self.batches.push(Batch::new());
        }
        (self.batches[index].destination, self.batches[index].len) = (destination, 0);
        self.begun += 1;
        index
    }

    fn is_due(&self, index: usize) -> bool {
        self.batches[index].is_full() || self.begun == Self::MAX_BATCHES
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
