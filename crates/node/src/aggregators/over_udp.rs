//! The daemon's half of an aggregator: one thread, one socket, every job that this node serves.
//!
//! What happens to a packet is decided by [`wiresum_protocol::Aggregator`]; here datagrams are moved in batches, and what
//! acts by the clock ([`ControlHalf`]) gets its turn after each. In user space, without privileges, that is all there is. With a
//! [`Kernel`] beside it, the XDP program sums, and the socket gets only who joins and leaves, and what the control halves say
//! to each other; then the aggregators' slot memory is never touched, so it takes no pages. With AF_XDP, what is summed comes as
//! frames, and the socket gets the rest.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::{ControlHalf, Plan, Verdict, transmitter};
use wiresum_wire::NodeId;
use wiresum_xdp::{AfXdp, FrameCounters};

use super::ConnectionCounters;
use super::adder::{Adder, datagrams_under_way};
use crate::aggregators::jobs::Jobs;
use crate::aggregators::kernel::Kernel;
use crate::clock::{Clock, timespec};
use crate::service::{Limits, Orders};
use crate::takeover::{JobState, Upgrade};
use crate::udp::guard::Guard;
use crate::udp::{ReceiveBatch, SendCounters, Socket};

/// An aggregator of one node for one or more jobs.
pub struct Server {
    pub(crate) socket: Socket,
    pub(crate) received: ReceiveBatch,
    pub(crate) datagrams: u64,
    pub(crate) adder: Adder,
    pub(crate) guard: Guard,
    pub(crate) node: NodeId,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    /// Where plans have to put this node; absent: anywhere.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) orders: Option<Orders>,
    pub(crate) upgrade: Option<Upgrade>,
    /// Another process serves the node: this one is not to touch anything any more.
    pub(crate) is_handed_over: bool,
}

impl Server {
    /// Binds `address` and allocates the memory of all jobs.
    ///
    /// # Errors
    /// What the kernel says to the address.
    ///
    /// # Panics
    /// If `node` is not in one of the plans.
    pub fn bind(
        address: SocketAddr,
        plans: &[Plan],
        node: NodeId,
        kernel: Option<Kernel>,
    ) -> io::Result<Self> {
        let under_way = if kernel.is_some() { 0 } else { datagrams_under_way(plans, node) };
        let adder = Adder::new(plans, node, kernel);
        let socket = Socket::bind(address, under_way)?;
        Ok(Self::new(socket, adder, node))
    }

    /// Goes on where another process has stopped, with its jobs as they are.
    ///
    /// # Errors
    /// What the kernel says to the socket, or that the jobs' states do not fit their plans.
    pub fn inherit(
        socket: UdpSocket,
        jobs: &[JobState],
        retired: &[u64],
        node: NodeId,
        kernel: Option<Kernel>,
    ) -> io::Result<Self> {
        let mut adder = Adder::new(&[], node, kernel);
        jobs.iter().try_for_each(|job| adder.inherit(job, node)).map_err(io::Error::other)?;
        adder.jobs.set_retired(retired);
        Ok(Self::new(Socket::inherit(socket)?, adder, node))
    }

    fn new(socket: Socket, adder: Adder, node: NodeId) -> Self {
        Self {
            socket,
            received: ReceiveBatch::default(),
            datagrams: 0,
            adder,
            guard: Guard::default(),
            node,
            clock: Clock::default(),
            limits: Limits::default(),
            address: None,
            orders: None,
            upgrade: None,
            is_handed_over: false,
        }
    }

    /// Lets jobs come and go: takes orders, admits what the limits allow, and only plans that put this node at `address`, if
    /// one is given.
    pub fn take_orders(&mut self, orders: Orders, limits: Limits, address: Option<SocketAddr>) {
        (self.orders, self.limits, self.address) = (Some(orders), limits, address);
    }

    /// Takes what is to be summed from AF_XDP sockets, too.
    #[must_use]
    pub fn with_frames(mut self, frames: AfXdp) -> Self {
        self.adder.outgoing.frames = Some(frames);
        self
    }

    /// Lets a part that has timers take part in the node's work. It learns who takes part already.
    pub fn add_control(&mut self, half: Box<dyn ControlHalf>) {
        self.adder.jobs.control.add(half);
        self.adder.jobs.announce();
    }

    /// The socket, for its address and remarks.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Lets clients of the control socket start a successor.
    pub fn allow_upgrades(&mut self, upgrade: Upgrade) {
        self.upgrade = Some(upgrade);
    }

    /// Whether another process serves this node now.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    pub(crate) fn orders(&self) -> Option<&Orders> {
        self.orders.as_ref()
    }

    pub(crate) fn kernel(&self) -> Option<&Kernel> {
        self.adder.kernel.as_ref()
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.adder.jobs
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Takes back what a successor that has failed may have changed.
    pub(crate) fn reclaim(&self) {
        if let Some(Err(error)) = self.kernel().map(Kernel::reattach) {
            eprintln!("wiresum-node: {error}");
        }
    }

    /// What sums here: `xdp`, `af_xdp` or `udp`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match (&self.adder.kernel, &self.adder.outgoing.frames) {
            (Some(_), _) => "xdp",
            (None, Some(_)) => "af_xdp",
            (None, None) => "udp",
        }
    }

    /// Jobs served.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.adder.jobs.count()
    }

    /// Bytes of slot memory of all jobs, and of frames; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let Adder { jobs, kernel, .. } = &self.adder;
        let slots = kernel.as_ref().map_or_else(|| jobs.memory_bytes(), Kernel::memory_bytes);
        slots + self.adder.outgoing.frames.as_ref().map_or(0, AfXdp::memory_bytes)
    }

    /// What has become of every datagram so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            verdicts: self.adder.verdicts(),
            datagrams_received: self.datagrams,
            strays: self.adder.strays,
            sent: self.adder.outgoing.datagrams.counters.clone(),
            control: self.adder.jobs.control.counters(),
            transmitters: self.adder.transmitters.counters(),
            frames: self.adder.outgoing.frames.as_ref().map(AfXdp::counters).unwrap_or_default(),
            connections: ConnectionCounters::default(),
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
        while self.sleep(stop.as_fd(), self.patience(more, next_report))? {
            more = self.turn()?;
            if self.is_handed_over {
                return Ok(());
            }
            if let (Some(due), Some(interval)) = (next_report, interval)
                && due <= Instant::now()
            {
                report(self);
                next_report = Some(Instant::now() + interval);
            }
        }
        Ok(())
    }

    /// How long to wait for a datagram: until the next thing that the clock calls for.
    fn patience(&self, more: bool, next_report: Option<Instant>) -> Option<Duration> {
        let at_once = more.then_some(Duration::ZERO);
        let guard = self.guard.idle_time(self.clock.now());
        let due = [at_once, until(next_report), self.adder.idle_time(), guard];
        due.into_iter().flatten().min()
    }

    /// Waits for a datagram, at most `timeout`; `false` if it is time to stop.
    fn sleep(&self, stop: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        let mut fds = vec![
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
        ];
        fds.extend(self.orders.iter().map(|orders| PollFd::new(orders, PollFlags::IN)));
        let frames = self.adder.outgoing.frames.iter().flat_map(AfXdp::descriptors);
        fds.extend(frames.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let checks = self.adder.kernel.as_ref().map(Kernel::check_descriptor);
        fds.extend(checks.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deals with one batch of datagrams and one of frames from each queue, and with what has become due; `true` if there may be more.
    fn turn(&mut self) -> io::Result<bool> {
        self.answer_orders();
        if self.is_handed_over {
            return Ok(false);
        }
        self.adder.jobs.set_time(self.clock.now());
        let more_frames = self.adder.handle_frames(&self.socket);
        let more = self.socket.receive(&mut self.received)? || more_frames;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            self.adder.handle(&self.socket, source, datagram);
        }
        self.adder.follow_clock(&self.socket);
        self.guard.follow(self.clock.now(), self.adder.refused, &self.adder.jobs, &self.socket);
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
    /// What the control halves count, by name.
    pub control: Vec<(&'static str, u64)>,
    /// What the transmitters have done.
    pub transmitters: transmitter::Counters,
    /// What the AF_XDP sockets have done.
    pub frames: FrameCounters,
    /// What has become of connections, where there are any.
    pub connections: ConnectionCounters,
}

impl Counters {
    /// The socket's totals by name.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { sent, frames, connections, .. } = self;
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
            ("connections_accepted", connections.accepted),
            ("connections_refused", connections.refused),
            ("connections_garbage", connections.garbage),
            ("connections_unwelcome", connections.unwelcome),
        ]
        .into_iter()
    }
}

fn until(moment: Option<Instant>) -> Option<Duration> {
    moment.map(|moment| moment.saturating_duration_since(Instant::now()))
}
