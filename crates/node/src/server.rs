//! The user-space aggregator: one thread, one socket, every job that this node serves.
//!
//! It needs no privileges. What happens to a packet is decided by [`wiresum_protocol::Aggregator`]; here datagrams are
//! moved in batches.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::{Aggregator, Plan, Recipients, Verdict};
use wiresum_wire::{Header, JobId, MAX_PACKET, NodeId};
use zerocopy::FromBytes;

use crate::clock::timespec;
use crate::udp::{ReceiveBatch, SendCounters, SendQueue, Socket};

/// How long the whole aggregator waits for a full link before it drops what it cannot send: longer than a full send
/// buffer takes at 1 Gbit/s, shorter than a worker takes to probe for what is lost.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// An aggregator of one node for one or more jobs.
pub struct Server {
    socket: Socket,
    received: ReceiveBatch,
    datagrams: u64,
    jobs: Jobs,
}

/// The jobs, and what they have to send.
struct Jobs {
    aggregators: Vec<(JobId, Aggregator)>,
    packet: Box<[u8; MAX_PACKET]>,
    outgoing: SendQueue,
}

impl Server {
    /// Binds `address` and allocates the memory of all jobs.
    ///
    /// # Errors
    /// What the kernel says to the address.
    ///
    /// # Panics
    /// If `plans` is empty, or `node` is not in one of them.
    pub fn bind(address: SocketAddr, plans: &[Plan], node: NodeId) -> io::Result<Self> {
        assert!(!plans.is_empty(), "an aggregator serves at least one job");
        let aggregator = |plan: &Plan| (plan.job_id(), Aggregator::new(plan, node));
        let jobs = Jobs {
            aggregators: plans.iter().map(aggregator).collect(),
            packet: Box::new([0; MAX_PACKET]),
            outgoing: SendQueue::default(),
        };
        let socket = Socket::bind(address)?;
        Ok(Self { socket, received: ReceiveBatch::default(), datagrams: 0, jobs })
    }

    /// The socket, for its address and remarks.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Bytes of slot memory of all jobs; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.jobs.aggregators.iter().map(|(_, aggregator)| aggregator.memory_bytes()).sum()
    }

    /// Datagrams received.
    #[must_use]
    pub fn datagrams_received(&self) -> u64 {
        self.datagrams
    }

    /// What was sent.
    #[must_use]
    pub fn sent(&self) -> &SendCounters {
        &self.jobs.outgoing.counters
    }

    /// Datagrams by job and verdict.
    pub fn counters(&self) -> impl Iterator<Item = (JobId, Vec<(Verdict, u64)>)> {
        self.jobs.aggregators.iter().map(|(job, aggregator)| (*job, aggregator.counters()))
    }

    /// Serves until `stop` becomes readable, and calls `report` at every `interval`.
    ///
    /// # Errors
    /// What the kernel says to `poll` and `recvmmsg`.
    pub fn run(
        &mut self,
        stop: BorrowedFd<'_>,
        interval: Option<Duration>,
        mut report: impl FnMut(&Self),
    ) -> io::Result<()> {
        let mut next_report = interval.map(|interval| Instant::now() + interval);
        let mut more = false;
        while self.sleep(stop, if more { Some(Duration::ZERO) } else { until(next_report) })? {
            more = self.turn()?;
            if let (Some(due), Some(interval)) = (next_report, interval)
                && due <= Instant::now()
            {
                report(self);
                next_report = Some(Instant::now() + interval);
            }
        }
        Ok(())
    }

    /// Waits for a datagram, at most `timeout`; `false` if it is time to stop.
    fn sleep(&self, stop: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        let mut fds = [
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deals with one batch of datagrams; `true` if there may be more.
    fn turn(&mut self) -> io::Result<bool> {
        let more = self.socket.receive(&mut self.received)?;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            self.jobs.handle(&self.socket, source, datagram);
        }
        self.jobs.flush(&self.socket);
        Ok(more)
    }
}

impl Jobs {
    fn handle(&mut self, socket: &Socket, source: SocketAddr, datagram: &[u8]) {
        // What is too long cannot be ours; as an empty datagram it is counted as malformed.
        let datagram = if datagram.len() > MAX_PACKET { &[] } else { datagram };
        self.packet[..datagram.len()].copy_from_slice(datagram);
        let job = self.job_of(datagram);
        let Self { aggregators, packet, outgoing } = self;
        let aggregator = &mut aggregators[job].1;
        let outcome = aggregator.handle_datagram(source, &mut packet[..], datagram.len());
        let packet = &mut packet[..outcome.len];
        let due = match outcome.recipients {
            Recipients::None => false,
            Recipients::One(destination) => outgoing.push(destination, packet),
            Recipients::Children => push_to_children(aggregator, packet, outgoing),
        };
        if due {
            self.flush(socket);
        }
    }

    /// The index of the job that the datagram names; the first one counts what names none of them.
    fn job_of(&self, datagram: &[u8]) -> usize {
        let header = Header::ref_from_prefix(datagram);
        let id = header.map_or(JobId(0), |(header, _)| JobId(header.job.get()));
        self.aggregators.iter().position(|(job, _)| *job == id).unwrap_or(0)
    }

    /// Sends what waits, and waits for a full link a little; what is left then is lost, and asked for again.
    fn flush(&mut self, socket: &Socket) {
        while !self.outgoing.flush(socket) {
            let mut fds = [PollFd::new(socket, PollFlags::OUT)];
            if poll(&mut fds, Some(&timespec(SEND_PATIENCE))).is_ok_and(|ready| ready == 0) {
                self.outgoing.discard();
            }
        }
    }
}

/// Queues a copy for each child; `true` if the queue is due for a flush.
fn push_to_children(aggregator: &Aggregator, packet: &mut [u8], outgoing: &mut SendQueue) -> bool {
    let mut due = false;
    for child in 0..aggregator.child_count() {
        if let Some(destination) = aggregator.address_to_child(child, packet) {
            due |= outgoing.push(destination, packet);
        }
    }
    due
}

fn until(moment: Option<Instant>) -> Option<Duration> {
    moment.map(|moment| moment.saturating_duration_since(Instant::now()))
}
