//! The daemon's half of an aggregator: one thread, one socket, every job that this node serves.
//!
//! What happens to a packet is decided by [`wiresum_protocol::Aggregator`]; here datagrams are moved in batches. In user
//! space, without privileges, that is all there is. With a [`Kernel`] beside it, the XDP program sums, and the socket gets
//! only who joins and leaves; then the aggregators' slot memory is never touched, so it takes no pages. With AF_XDP, what is
//! summed comes as frames, and the socket gets the rest.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::{Aggregator, Plan, Recipients, Verdict};
use wiresum_wire::{Header, JobId, Kind, MAX_PACKET, NodeId};
use wiresum_xdp::{AfXdp, Arrival, FrameCounters};
use zerocopy::FromBytes;

use crate::af_xdp::{FRAMES_PER_TURN, Outgoing, is_from_a_member};
use crate::clock::timespec;
use crate::kernel::Kernel;
use crate::udp::{ReceiveBatch, SendCounters, Socket};

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
    kernel: Option<Kernel>,
    /// Datagrams that the kernel should have dealt with.
    strays: u64,
    packet: Box<[u8; MAX_PACKET]>,
    outgoing: Outgoing,
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
        assert!(!plans.is_empty(), "an aggregator serves at least one job");
        let aggregator = |plan: &Plan| (plan.job_id(), Aggregator::new(plan, node));
        let under_way = if kernel.is_some() { 0 } else { datagrams_under_way(plans, node) };
        let jobs = Jobs {
            aggregators: plans.iter().map(aggregator).collect(),
            kernel,
            strays: 0,
            packet: Box::new([0; MAX_PACKET]),
            outgoing: Outgoing::default(),
        };
        let socket = Socket::bind(address, under_way)?;
        Ok(Self { socket, received: ReceiveBatch::default(), datagrams: 0, jobs })
    }

    /// Takes what is to be summed from AF_XDP sockets, too.
    #[must_use]
    pub fn with_frames(mut self, frames: AfXdp) -> Self {
        self.jobs.outgoing.frames = Some(frames);
        self
    }

    /// The socket, for its address and remarks.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// What sums here: `xdp`, `af_xdp` or `udp`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match (&self.jobs.kernel, &self.jobs.outgoing.frames) {
            (Some(_), _) => "xdp",
            (None, Some(_)) => "af_xdp",
            (None, None) => "udp",
        }
    }

    /// Jobs served.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.jobs.aggregators.len()
    }

    /// Bytes of slot memory of all jobs, and of frames; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let here = || self.jobs.aggregators.iter().map(|(_, job)| job.memory_bytes()).sum();
        let slots: usize = self.jobs.kernel.as_ref().map_or_else(here, Kernel::memory_bytes);
        slots + self.jobs.outgoing.frames.as_ref().map_or(0, AfXdp::memory_bytes)
    }

    /// What has become of every datagram so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            verdicts: self.jobs.verdicts(),
            datagrams_received: self.datagrams,
            strays: self.jobs.strays,
            sent: self.jobs.outgoing.datagrams.counters.clone(),
            frames: self.jobs.outgoing.frames.as_ref().map(AfXdp::counters).unwrap_or_default(),
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
        let mut fds = vec![
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
        ];
        let frames = self.jobs.outgoing.frames.iter().flat_map(AfXdp::descriptors);
        fds.extend(frames.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deals with one batch of datagrams and one of frames from each queue; `true` if there may be more.
    fn turn(&mut self) -> io::Result<bool> {
        let more_frames = self.jobs.handle_frames(&self.socket);
        let more = self.socket.receive(&mut self.received)? || more_frames;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            self.jobs.handle(&self.socket, source, datagram);
        }
        self.jobs.flush(&self.socket);
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
    /// What the AF_XDP sockets have done.
    pub frames: FrameCounters,
}

impl Counters {
    /// The socket's totals by name.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (sent, frames) = (&self.sent, &self.frames);
        [
            ("datagrams_received", self.datagrams_received),
            ("strays", self.strays),
            ("datagrams_sent", sent.datagrams),
            ("bytes_sent", sent.bytes),
            ("send_calls", sent.batches),
            ("datagrams_refused", sent.refused),
            ("frames_received", frames.received),
            ("frames_sent", frames.sent),
            ("frames_refused", frames.refused),
            ("frames_dropped", frames.dropped),
        ]
        .into_iter()
    }
}

impl Jobs {
    fn verdicts(&self) -> Vec<(Verdict, u64)> {
        let jobs = self.aggregators.iter().flat_map(|(_, job)| job.counters());
        let kernel = self.kernel.as_ref().and_then(|kernel| kernel.counters().ok());
        let mut verdicts = Verdict::ALL.map(|verdict| (verdict, 0));
        // Control packets are counted where they are decided on, not again where they pass.
        let kernel = kernel.into_iter().flatten().filter(|(v, _)| *v != Verdict::Control);
        for (verdict, count) in jobs.chain(kernel) {
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
        self.aggregate(socket, source, datagram.len(), None);
    }

    /// Deals with a batch of frames from each AF_XDP socket; `true` if there may be more.
    fn handle_frames(&mut self, socket: &Socket) -> bool {
        let ports = self.outgoing.frames.as_ref().map_or(0, AfXdp::port_count);
        let mut more = false;
        for port in 0..ports {
            let mut left = FRAMES_PER_TURN;
            while left > 0 && self.handle_frame(socket, port) {
                left -= 1;
            }
            more |= left == 0;
        }
        if let Some(frames) = &mut self.outgoing.frames {
            frames.flush();
        }
        more
    }

    /// Deals with the next frame of a port; `false` if there is none.
    fn handle_frame(&mut self, socket: &Socket, port: usize) -> bool {
        let Self { outgoing, packet, .. } = self;
        let frames = outgoing.frames.as_mut();
        let Some(arrival) = frames.and_then(|frames| frames.receive(port, packet)) else {
            return false;
        };
        self.aggregate(socket, arrival.source, arrival.len, Some(&arrival));
        true
    }

    /// Deals with the packet in the buffer, which came in by a frame if there is an `arrival`.
    fn aggregate(
        &mut self,
        socket: &Socket,
        source: SocketAddr,
        len: usize,
        arrival: Option<&Arrival>,
    ) {
        let index = self.job_of(&self.packet[..len]);
        let Self { aggregators, kernel, packet, outgoing, .. } = self;
        let (job, aggregator) = &mut aggregators[index];
        let outcome = aggregator.handle_datagram(source, &mut packet[..], len);
        if let (Some(arrival), Some(frames)) = (arrival, &mut outgoing.frames)
            && is_from_a_member(outcome.verdict)
        {
            frames.learn(arrival);
        }
        if outcome.verdict == Verdict::Control
            && let Some(kernel) = kernel
            && let Err(error) = kernel.tell(*job, &aggregator.membership())
        {
            // Without an answer the child asks again, and the program is told again.
            eprintln!("wiresum-node: {error}");
            return;
        }
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
        while !self.outgoing.datagrams.flush(socket) {
            let mut fds = [PollFd::new(socket, PollFlags::OUT)];
            if poll(&mut fds, Some(&timespec(SEND_PATIENCE))).is_ok_and(|ready| ready == 0) {
                self.outgoing.datagrams.discard();
            }
        }
    }
}

/// Most datagrams that may be on their way to a node: a window from each child, and one from each parent.
pub(crate) fn datagrams_under_way(plans: &[Plan], node: NodeId) -> usize {
    let sub_models = plans.iter().flat_map(|plan| &plan.sub_models);
    let placed = sub_models.filter_map(|s| s.place(node).map(|place| (s, place)));
    placed.map(|(s, place)| (place.children.len() + 1) * s.window as usize).sum()
}

/// Whether a datagram is of a kind that the XDP program deals with.
fn carries_data(datagram: &[u8]) -> bool {
    let kind = Header::ref_from_prefix(datagram).ok().and_then(|(h, _)| Kind::from_wire(h.kind));
    matches!(kind, Some(Kind::Contribution | Kind::Result | Kind::Probe))
}

/// Queues a copy for each child; `true` if the queue is due for a flush.
fn push_to_children(aggregator: &Aggregator, packet: &mut [u8], outgoing: &mut Outgoing) -> bool {
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
