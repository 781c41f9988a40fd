//! A switch or server of a fabric: one socket, every job that the node serves.
//!
//! What happens to a datagram is decided by [`Station`]; here they are moved in batches. Each hop is a datagram from
//! one neighbour to the next, so the kernel routes nothing: which link a datagram takes follows from the address that
//! the plan gives its other end. With a [`KernelSwitch`] below the station, packets of values are summed and sent on
//! before they come here, and what comes are hellos and their answers, and values for a server that is here.

mod kernel;

use std::any::Any;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_protocol::{ControlHalf, Plan, Quota};
use wiresum_switch::live::parts::Room;
use wiresum_switch::live::plane::{DataPlane, Here};
use wiresum_switch::live::{Report, Station, StationError};
use wiresum_wire::{JobId, JobKey, NodeId};
use wiresum_xdp::Estate;

use crate::clock::{Clock, unix_us};
use crate::node::{Counters, JobReport, Plane, StreamReport};
use crate::takeover::{Legacy, Remains};
use crate::udp::guard::Guard;
use crate::udp::{Known, ReceiveBatch, SendQueue, Socket};

pub use kernel::{KernelSwitch, LoadError};

/// Least time between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A station behind one UDP socket, for every job that the node serves.
pub struct UdpStation {
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    station: Station,
    engine: &'static str,
    datagrams: u64,
    guard: Guard,
    clock: Clock,
    logged: Option<Instant>,
}

/// What tells a successor how to read what a station knows.
#[derive(Serialize, Deserialize)]
struct Facts {
    /// It is a station's.
    station: bool,
    /// The program and memory of the switch in the kernel, if one sums.
    room: Option<Room>,
}

/// Why a node does not begin to serve.
#[derive(Debug, Error)]
pub enum BindError {
    /// Its plans do not fit.
    #[error(transparent)]
    Station(#[from] StationError),
    /// The switch in the kernel cannot be taken over.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel refuses its address.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

impl UdpStation {
    /// Binds `address` and allocates the memory of all jobs in this process.
    ///
    /// # Errors
    /// Why the plans' streams do not fit, or what the kernel says to the address.
    pub fn bind(address: SocketAddr, plans: &[Plan], node: NodeId) -> Result<Self, BindError> {
        Ok(Self::with_station(address, plans, Station::new(plans, node)?, "udp")?)
    }

    /// Binds `address` beside a switch in the kernel.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_beside(
        address: SocketAddr,
        plans: &[Plan],
        node: NodeId,
        switch: KernelSwitch,
    ) -> Result<Self, BindError> {
        let station = Station::over(Box::new(switch), plans, node)?;
        Ok(Self::with_station(address, plans, station, "xdp")?)
    }

    /// Goes on where another process has stopped, with its jobs as they are; `estate` is what that had in the kernel.
    ///
    /// # Errors
    /// What the kernel says to the socket or the program, or that the state does not fit the plans.
    pub fn inherit(
        socket: UdpSocket,
        plans: &[Plan],
        remains: &Remains,
        estate: Option<Estate>,
        node: NodeId,
    ) -> Result<Self, BindError> {
        let Facts { room, .. } = Facts::deserialize(&remains.facts).map_err(io::Error::from)?;
        let address = socket.local_addr()?;
        let (plane, engine): (Box<dyn DataPlane>, _) = match (room, estate) {
            (Some(room), Some(estate)) => {
                (Box::new(KernelSwitch::take_over(plans, node, address, room, estate)?), "xdp")
            }
            (None, None) => (Box::new(Here::new(node)), "udp"),
            _ => return Err(io::Error::other("the offer lacks what is in the kernel").into()),
        };
        let state = serde_json::from_slice(&remains.memory).map_err(io::Error::from)?;
        let station = Station::resumed(plane, plans, node, state)?;
        Ok(Self::over(Socket::inherit(socket)?, station, engine))
    }

    /// The switch in the kernel, if one sums here.
    fn kernel(&self) -> Option<&KernelSwitch> {
        let plane: &dyn Any = self.station.plane();
        plane.downcast_ref()
    }

    fn with_station(
        address: SocketAddr,
        plans: &[Plan],
        station: Station,
        engine: &'static str,
    ) -> io::Result<Self> {
        let windows = |plan: &Plan| {
            let windows = plan.streams.iter().map(|sub_model| sub_model.window as usize);
            windows.sum::<usize>() * plan.workers.len()
        };
        let socket = Socket::bind(address, plans.iter().map(windows).sum())?;
        Ok(Self::over(socket, station, engine))
    }

    fn over(socket: Socket, station: Station, engine: &'static str) -> Self {
        Self {
            socket,
            received: ReceiveBatch::default(),
            outgoing: SendQueue::default(),
            station,
            engine,
            datagrams: 0,
            guard: Guard::default(),
            clock: Clock::default(),
            logged: None,
        }
    }

    /// Whoever is ignored says hello again and again; a line a second is enough.
    fn log(&mut self, problem: &str) {
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            eprintln!("wiresum-node: {problem}");
            self.logged = Some(Instant::now());
        }
    }
}

impl Plane for UdpStation {
    fn engine(&self) -> &'static str {
        self.engine
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    fn remark(&self) -> Option<String> {
        self.socket.receive_buffer_remark()
    }

    fn memory_bytes(&self) -> usize {
        self.station.memory_bytes()
    }

    fn counters(&self) -> Counters {
        Counters {
            verdicts: self.station.counters(),
            datagrams_received: self.datagrams,
            sent: self.outgoing.counters.clone(),
            control: vec![("through_process", self.station.handled())],
            ..Counters::default()
        }
    }

    /// Datagrams; where some wait to be sent, room for them.
    fn watched(&self) -> Vec<PollFd<'_>> {
        let is_clear = self.outgoing.is_empty();
        vec![PollFd::new(&self.socket, if is_clear { PollFlags::IN } else { PollFlags::OUT })]
    }

    fn idle_time(&self) -> Option<Duration> {
        self.guard.idle_time(self.clock.now())
    }

    /// Deals with one batch of datagrams; `true` if there may be more. While the kernel takes none, none are
    /// received: its queue is where
    /// datagrams wait, or are lost as at a switch.
    fn turn(&mut self) -> io::Result<bool> {
        if !self.outgoing.flush(&self.socket) {
            return Ok(false);
        }
        let now = self.clock.now();
        self.station.set_time(now);
        self.station.set_clock(unix_us());
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
        let (refused, station) = (self.station.refused(), &self.station);
        self.guard.follow(now, refused, || known(station), &self.socket);
        if let Some(problem) = self.station.take_problem() {
            self.log(&problem);
        }
        Ok(more)
    }

    /// Nothing is negotiated at switches.
    fn add_control(&mut self, _half: Box<dyn ControlHalf>) {}

    fn jobs(&self) -> Vec<JobReport> {
        self.station.reports().into_iter().map(JobReport::from).collect()
    }

    fn memory_for(&self, plan: &Plan) -> Result<u64, String> {
        Ok(self.station.memory_for(plan).map_err(|error| error.to_string())? as u64)
    }

    fn add(&mut self, plan: &Plan) -> Result<(), String> {
        self.station.add(plan).map_err(|error| error.to_string())
    }

    fn readdress(&mut self, plan: &Plan) -> Result<(), String> {
        self.station.readdress(plan).map_err(|error| error.to_string())
    }

    fn remove(&mut self, job: JobId) -> Result<(), String> {
        self.station.remove(job).map_err(|error| error.to_string())
    }

    fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), String> {
        self.station.set_quota(job, quota).map_err(|error| error.to_string())
    }

    fn floods(&self) -> u64 {
        self.guard.floods
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        let state = self.station.state().map_err(|error| error.to_string())?;
        let memory = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
        let facts = Facts { station: true, room: self.kernel().map(KernelSwitch::room) };
        Ok(Legacy {
            sockets: vec![self.socket.as_fd()],
            kernel: self.kernel().map(KernelSwitch::descriptors),
            plans: self.station.plans().cloned().collect(),
            remains: Remains::new(&facts, memory),
        })
    }

    fn reclaim(&self) {
        if let Some(Err(error)) = self.kernel().map(KernelSwitch::reattach) {
            eprintln!("wiresum-node: {error}");
        }
    }
}

impl From<Report> for JobReport {
    fn from(report: Report) -> Self {
        let stream = |(sub_model, arrived, departed)| StreamReport { sub_model, arrived, departed };
        Self {
            job: report.job,
            groups: Vec::new(),
            is_running: report.is_running,
            members: report.known.into(),
            expected_members: report.workers.into(),
            memory_bytes: report.memory_bytes as u64,
            bytes: report.bytes,
            verdicts: report.verdicts,
            streams: report.streams.into_iter().map(stream).collect(),
            tables: Vec::new(),
        }
    }
}

/// What a filter may let through. Answers to hellos are handed on as they came, without the key of an incarnation. Hellos come
/// from neighbours alone.
fn known(station: &Station) -> Vec<Known> {
    let of_job = |(job, keys): (JobId, Vec<JobKey>)| {
        let keys = keys.into_iter().chain([JobKey(0)]).collect();
        Known { job, keys, greeters: Some(station.neighbours(job).clone()) }
    };
    station.known().map(of_job).collect()
}
