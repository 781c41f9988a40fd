//! Sparse jobs over UDP: hosts (servers of tables, or switches that sum hot rows) as a plane of a node, one for each job,
//! and a worker's client. What happens to a datagram is decided by `wiresum_sparse::live`; here datagrams are moved in
//! batches, each to the host of the job that it names.

mod client;
mod served;
mod snapshots;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use wiresum_protocol::{ControlHalf, Plan, Quota};
use wiresum_sparse::live::{HostError, Job};
use wiresum_wire::{Header, JobId, MAGIC};
use zerocopy::FromBytes;

use crate::clock::Clock;
use crate::node::{Counters, JobReport, Plane};
use crate::takeover::Legacy;
use crate::udp::{ReceiveBatch, SendQueue, Socket};

pub use client::{ClientError, RowClient, Submitted};
use served::{Served, memory_for};
pub use snapshots::{DEFAULT_SNAPSHOT_INTERVAL, SnapshotSettings, Snapshots};

/// Datagrams that each worker may have under way to a host, for the size of its receive buffer.
const UNDER_WAY: usize = 256;
/// Jobs of plans have no place here.
const NO_PLANS: &str = "this daemon serves sparse jobs (--tables): give it a job's file, or start another daemon with this plan";

/// A server of tables, or a switch that sums hot rows, as a plane of a node: a host over a UDP socket.
pub struct Tables {
    node: u16,
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    /// In the order in which they came.
    served: Vec<Served>,
    snapshots: Option<SnapshotSettings>,
    datagrams: u64,
    /// Datagrams that name no job of these.
    strangers: u64,
    clock: Clock,
}

/// Why a host does not begin to serve.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// See [`HostError`].
    #[error(transparent)]
    Host(#[from] HostError),
    /// The folder of snapshots cannot be read.
    #[error("snapshots: {0}")]
    Snapshots(io::Error),
}

impl Tables {
    /// Receives at an address as this node of all jobs that will come.
    ///
    /// # Arguments
    /// * `participants`: workers of the jobs together, for the size of the receive buffer.
    /// * `snapshots`: where servers keep theirs, if they do.
    ///
    /// # Errors
    /// What the kernel says to the address.
    pub fn bind(
        address: SocketAddr,
        node: u16,
        participants: usize,
        snapshots: Option<SnapshotSettings>,
    ) -> io::Result<Self> {
        Ok(Self {
            node,
            socket: Socket::bind(address, UNDER_WAY * participants)?,
            received: ReceiveBatch::default(),
            outgoing: SendQueue::default(),
            served: Vec::new(),
            snapshots,
            datagrams: 0,
            strangers: 0,
            clock: Clock::default(),
        })
    }

    fn flush(&mut self) -> bool {
        self.outgoing.is_empty() || self.outgoing.flush(&self.socket)
    }

    /// The job that a datagram names.
    fn named(bytes: &[u8]) -> Option<JobId> {
        let (header, _) = Header::ref_from_prefix(bytes).ok()?;
        (header.magic.get() == MAGIC).then(|| JobId(header.job.get()))
    }

    /// Why a job's file does not put this node here.
    fn check_address(&self, job: &Job) -> Result<(), String> {
        let placed =
            job.address(self.node).ok_or_else(|| HostError::Node(self.node).to_string())?;
        let address = self.local_address().map_err(|error| error.to_string())?;
        if placed == address {
            return Ok(());
        }
        Err(format!(
            "its file puts node {} at {placed}, but this daemon is at {address}: give the jobs of a daemon one address",
            self.node
        ))
    }
}

impl Plane for Tables {
    fn engine(&self) -> &'static str {
        let is_server = |served: &Served| served.host.server().is_some();
        if self.served.is_empty() || self.served.iter().any(is_server) { "tables" } else { "rows" }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    fn remark(&self) -> Option<String> {
        self.socket.receive_buffer_remark()
    }

    fn memory_bytes(&self) -> usize {
        let bytes = self.served.iter().map(Served::memory_bytes).sum::<u64>();
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn counters(&self) -> Counters {
        let mut verdicts: Vec<(&'static str, u64)> = Vec::new();
        for (name, count) in self.served.iter().flat_map(Served::verdicts) {
            match verdicts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => verdicts.push((name, count)),
            }
        }
        verdicts.push(("strangers", self.strangers));
        let hosts = || self.served.iter().map(|served| &served.host);
        let mut control = vec![
            ("rounds", hosts().map(|host| u64::from(host.version())).sum()),
            ("restorable", hosts().map(|host| u64::from(host.restorable())).sum()),
        ];
        if hosts().any(|host| host.server().is_some()) {
            control.push(("rows", self.served.iter().map(Served::rows).sum()));
        }
        Counters {
            verdicts,
            datagrams_received: self.datagrams,
            sent: self.outgoing.counters.clone(),
            control,
            ..Counters::default()
        }
    }

    /// Datagrams; where some wait to be sent, room for them.
    fn watched(&self) -> Vec<PollFd<'_>> {
        let flags = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        vec![PollFd::new(&self.socket, flags)]
    }

    fn idle_time(&self) -> Option<Duration> {
        let now = self.clock.now();
        let times = |served: &Served| {
            let due = served.host.poll_timeout().map(|due| due.since(now));
            [due, served.snapshots.as_ref().map(Snapshots::idle_time)]
        };
        self.served.iter().flat_map(times).flatten().min()
    }

    fn turn(&mut self) -> io::Result<bool> {
        if !self.flush() {
            return Ok(false);
        }
        let now = self.clock.now();
        let more = self.socket.receive(&mut self.received)?;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            let job = Self::named(datagram);
            let is_its = |served: &&mut Served| Some(served.host.job().job_id()) == job;
            match self.served.iter_mut().find(is_its) {
                Some(served) => {
                    served.bytes += datagram.len() as u64;
                    served.host.handle(source, datagram, now);
                }
                None => self.strangers += 1,
            }
        }
        let Self { served, outgoing, socket, clock, .. } = self;
        for Served { host, snapshots, .. } in served {
            if let Some(snapshots) = snapshots {
                snapshots.turn(host);
            }
            host.poll(clock.now(), |to, bytes| {
                if outgoing.push(to, bytes) {
                    outgoing.flush(socket);
                }
            });
        }
        self.flush();
        Ok(more)
    }

    /// Nothing is negotiated: windows follow delay and loss.
    fn add_control(&mut self, _half: Box<dyn ControlHalf>) {}

    fn jobs(&self) -> Vec<JobReport> {
        self.served.iter().map(Served::report).collect()
    }

    fn memory_for(&self, _plan: &Plan) -> Result<u64, String> {
        Err(NO_PLANS.to_owned())
    }

    fn add(&mut self, _plan: &Plan) -> Result<(), String> {
        Err(NO_PLANS.to_owned())
    }

    fn memory_for_tables(&self, job: &Job) -> Result<u64, String> {
        self.check_address(job)?;
        memory_for(job, self.node).map_err(|error| error.to_string())
    }

    fn add_tables(&mut self, job: &Arc<Job>) -> Result<(), String> {
        let served = Served::begin(job, self.node, self.snapshots.as_ref());
        self.served.push(served.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn remove(&mut self, job: JobId) -> Result<(), String> {
        self.served.retain(|served| served.host.job().job_id() != job);
        Ok(())
    }

    fn set_quota(&mut self, _job: JobId, quota: Option<Quota>) -> Result<(), String> {
        let problem = "a host of tables bounds no rates: participants send by windows";
        quota.map_or(Ok(()), |_| Err(problem.to_owned()))
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        Err("tables cannot be handed over: restart the daemon, which goes on from its snapshots"
            .to_owned())
    }
}
