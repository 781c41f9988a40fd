//! The daemon's half of an aggregator: one thread, one socket, every job that this node serves.
//!
//! What happens to a packet is decided by [`wiresum_protocol::Aggregator`]; here datagrams are moved in batches. In user
//! space, without privileges, that is all there is. With a [`Kernel`] beside it, the XDP program sums, and the socket gets
//! only who joins and leaves; then the aggregators' slot memory is never touched, so it takes no pages.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::{Plan, Verdict};
use wiresum_wire::{Header, Kind, MAX_PACKET, NodeId};
use zerocopy::FromBytes;

use crate::clock::timespec;
use crate::jobs::Jobs;
use crate::kernel::Kernel;
use crate::udp::{ReceiveBatch, SendCounters, SendQueue, Socket};

/// How long the whole aggregator waits for a full link before it drops what it cannot send: longer than a full send
/// buffer takes at 1 Gbit/s, shorter than a worker takes to probe for what is lost.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// An aggregator of one node for one or more jobs.
pub struct Server {
    socket: Socket,
    received: ReceiveBatch,
    datagrams: u64,
    adder: Adder,
}

/// What sums, and what it has to send.
struct Adder {
    jobs: Jobs,
    kernel: Option<Kernel>,
    /// Datagrams that the kernel should have dealt with.
    strays: u64,
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
    pub fn bind(
        address: SocketAddr,
        plans: &[Plan],
        node: NodeId,
        kernel: Option<Kernel>,
    ) -> io::Result<Self> {
        let under_way = if kernel.is_some() { 0 } else { datagrams_under_way(plans, node) };
        let adder = Adder {
            jobs: Jobs::new(plans, node),
            kernel,
            strays: 0,
            packet: Box::new([0; MAX_PACKET]),
            outgoing: SendQueue::default(),
        };
        let socket = Socket::bind(address, under_way)?;
        Ok(Self { socket, received: ReceiveBatch::default(), datagrams: 0, adder })
    }

    /// The socket, for its address and remarks.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// What sums here: `xdp` or `udp`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        if self.adder.kernel.is_some() { "xdp" } else { "udp" }
    }

    /// Jobs served.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.adder.jobs.count()
    }

    /// Bytes of slot memory of all jobs; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let Adder { jobs, kernel, .. } = &self.adder;
        kernel.as_ref().map_or_else(|| jobs.memory_bytes(), Kernel::memory_bytes)
    }

    /// What has become of every datagram so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            verdicts: self.adder.verdicts(),
            datagrams_received: self.datagrams,
            strays: self.adder.strays,
            sent: self.adder.outgoing.counters.clone(),
        }
    }

    /// Serves until `stop` becomes readable, and calls `report` at every `interval`.
    ///
    /// # Errors
    /// What the kernel says to `poll` and `recvmmsg`.
    pub fn run(
        &mut self,
        stop: impl AsFd,
        interval: Option<Duration>,
        mut report: impl FnMut(&Self),
    ) -> io::Result<()> {
        let mut next_report = interval.map(|interval| Instant::now() + interval);
        let mut more = false;
        while self
            .sleep(stop.as_fd(), if more { Some(Duration::ZERO) } else { until(next_report) })?
        {
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
            self.adder.handle(&self.socket, source, datagram);
        }
        self.adder.flush(&self.socket);
        Ok(more)
    }
}

/// What an aggregator has done since it was made.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Packets by verdict, of all jobs, wherever they were dealt with.
    pub verdicts: Vec<(Verdict, u64)>,
    /// Datagrams that the socket has received.
    pub datagrams_received: u64,
    /// Those among them that the XDP program should have dealt with: it is not on the interface that they came through.
    pub strays: u64,
    /// What the socket has sent.
    pub sent: SendCounters,
}

impl Counters {
    /// The socket's totals by name.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let sent = &self.sent;
        [
            ("datagrams_received", self.datagrams_received),
            ("strays", self.strays),
            ("datagrams_sent", sent.datagrams),
            ("bytes_sent", sent.bytes),
            ("send_calls", sent.batches),
            ("datagrams_refused", sent.refused),
        ]
        .into_iter()
    }
}

impl Adder {
    fn verdicts(&self) -> Vec<(Verdict, u64)> {
        let mut verdicts = self.jobs.verdicts();
        let kernel = self.kernel.as_ref().and_then(|kernel| kernel.counters().ok());
        // Control packets are counted where they are decided on, not again where they pass.
        let kernel = kernel.into_iter().flatten().filter(|(v, _)| *v != Verdict::Control);
        for (verdict, count) in kernel {
            verdicts[verdict as usize].1 += count;
        }
        verdicts.to_vec()
    }

    fn handle(&mut self, socket: &Socket, source: SocketAddr, datagram: &[u8]) {
        if self.kernel.is_some() && carries_data(datagram) {
            self.strays += 1;
            return;
        }
        // What is too long cannot be ours; as an empty datagram it is counted as malformed.
        let datagram = if datagram.len() > MAX_PACKET { &[] } else { datagram };
        self.packet[..datagram.len()].copy_from_slice(datagram);
        let index = self.jobs.index_of(datagram);
        let Self { jobs, kernel, packet, outgoing, .. } = self;
        let outcome = jobs.handle(index, source, &mut packet[..], datagram.len());
        if outcome.verdict == Verdict::Control
            && let Some(kernel) = kernel
        {
            let (job, membership) = jobs.membership(index);
            if let Err(error) = kernel.tell(job, &membership) {
                // Without an answer the child asks again, and the program is told again.
                eprintln!("wiresum-node: {error}");
                return;
            }
        }
        let push = |destination, packet: &[u8]| outgoing.push(destination, packet);
        if jobs.deliver(index, outcome, &mut packet[..], push) {
            self.flush(socket);
        }
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

/// Most datagrams that may be on their way to a node: a window from each child, and one from each parent.
fn datagrams_under_way(plans: &[Plan], node: NodeId) -> usize {
    let sub_models = plans.iter().flat_map(|plan| &plan.sub_models);
    let placed = sub_models.filter_map(|s| s.place(node).map(|place| (s, place)));
    placed.map(|(s, place)| (place.children.len() + 1) * s.window as usize).sum()
}

/// Whether a datagram is of a kind that the XDP program deals with.
fn carries_data(datagram: &[u8]) -> bool {
    let kind = Header::ref_from_prefix(datagram).ok().and_then(|(h, _)| Kind::from_wire(h.kind));
    matches!(kind, Some(Kind::Contribution | Kind::Result | Kind::Probe))
}

fn until(moment: Option<Instant>) -> Option<Duration> {
    moment.map(|moment| moment.saturating_duration_since(Instant::now()))
}
