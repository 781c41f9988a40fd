//! A switch or server of a fabric: one socket, every job that the node serves.
//!
//! What happens to a datagram is decided by [`Station`]; here they are moved in batches. Each hop is a datagram from one neighbour to the
//! next, so the kernel routes nothing: which link a datagram takes follows from the address that the plan gives its other end. With a
//! [`KernelSwitch`] below the station, packets of values are summed and sent on before they come here, and what comes are hellos and
//! their answers, and values for a server that is here.

mod kernel;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use thiserror::Error;
use wiresum_protocol::{Plan, transmitter};
use wiresum_switch::live::{Station, StationError};
use wiresum_wire::NodeId;
use wiresum_xdp::FrameCounters;

use crate::aggregators::ConnectionCounters;
use crate::aggregators::Counters;
use crate::clock::timespec;
use crate::udp::{ReceiveBatch, SendQueue, Socket};

pub use kernel::{KernelSwitch, LoadError};

/// Least time between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub struct FabricServer {
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    station: Station,
    engine: &'static str,
    datagrams: u64,
    logged: Option<Instant>,
}

/// Why a node does not begin to serve.
#[derive(Debug, Error)]
pub enum BindError {
    /// Its plans do not fit.
    #[error(transparent)]
    Station(#[from] StationError),
    /// The kernel refuses its address.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

impl FabricServer {
    /// Binds `address` and allocates the memory of all jobs in this process.
    ///
    /// # Errors
    /// What the kernel says to the address, or why the plans' streams do not fit.
    pub fn bind(address: SocketAddr, plans: &[Plan], node: NodeId) -> io::Result<Self> {
        let station = Station::new(plans, node).map_err(io::Error::other)?;
        Self::with_station(address, plans, station, "udp")
    }

    /// Binds `address` beside a switch in the kernel.
    ///
    /// # Errors
    /// What the kernel says to the address.
    pub fn bind_beside(
        address: SocketAddr,
        plans: &[Plan],
        node: NodeId,
        switch: KernelSwitch,
    ) -> Result<Self, BindError> {
        let station = Station::over(Box::new(switch), plans, node)?;
        Ok(Self::with_station(address, plans, station, "xdp")?)
    }

    fn with_station(
        address: SocketAddr,
        plans: &[Plan],
        station: Station,
        engine: &'static str,
    ) -> io::Result<Self> {
        let windows = |plan: &Plan| {
            let windows = plan.sub_models.iter().map(|sub_model| sub_model.window as usize);
            windows.sum::<usize>() * plan.workers.len()
        };
        let socket = Socket::bind(address, plans.iter().map(windows).sum())?;
        let (received, outgoing) = (ReceiveBatch::default(), SendQueue::default());
        Ok(Self { socket, received, outgoing, station, engine, datagrams: 0, logged: None })
    }

    /// What sums here, as in a plan.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// The socket, for its address and remarks.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// What decides.
    #[must_use]
    pub fn station(&self) -> &Station {
        &self.station
    }

    /// What has become of every datagram so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            verdicts: Vec::new(),
            datagrams_received: self.datagrams,
            strays: 0,
            sent: self.outgoing.counters.clone(),
            control: self.station.counters(),
            transmitters: transmitter::Counters::default(),
            frames: FrameCounters::default(),
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
        loop {
            let until = next_report.map(|at| at.saturating_duration_since(Instant::now()));
            let patience = if more { Some(Duration::ZERO) } else { until };
            if !self.sleep(stop.as_fd(), patience)? {
                return Ok(());
            }
            more = self.turn()?;
            if let (Some(due), Some(interval)) = (next_report, interval)
                && due <= Instant::now()
            {
                report(self);
                next_report = Some(Instant::now() + interval);
            }
        }
    }

    /// Waits for a datagram, or for room where some wait to be sent; `false` if it is time to stop.
    fn sleep(&self, stop: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        let room = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [
            PollFd::new(&self.socket, PollFlags::IN | room),
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds[1].revents().is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deals with one batch of datagrams; `true` if there may be more. While the kernel takes none, none are received: its queue is where
    /// datagrams wait, or are lost as at a switch.
    fn turn(&mut self) -> io::Result<bool> {
        if !self.outgoing.flush(&self.socket) {
            return Ok(false);
        }
        let more = self.socket.receive(&mut self.received)?;
        let Self { station, outgoing, socket, .. } = self;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            station.handle(source, datagram, |destination, bytes| {
                if outgoing.push(destination, bytes) {
                    outgoing.flush(socket);
                }
            });
        }
        self.outgoing.flush(&self.socket);
        if let Some(problem) = self.station.take_problem() {
            self.log(&problem);
        }
        Ok(more)
    }

    /// Whoever is ignored says hello again and again; a line a second is enough.
    fn log(&mut self, problem: &str) {
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            eprintln!("wiresum-node: {problem}");
            self.logged = Some(Instant::now());
        }
    }
}
