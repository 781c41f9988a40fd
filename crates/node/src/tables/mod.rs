//! Sparse jobs over UDP: hosts (servers of tables, or switches that sum hot rows) as a plane of a node, one for each job,
//! and a worker's client. What happens to a datagram is decided by `wiresum_sparse::live`; here datagrams are moved in
//! batches, each to the host of the job that it names. With [`KernelRows`] beneath, hot rows are added before they come here.

mod client;
mod kernel;
mod served;
mod snapshots;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use wiresum_protocol::quota::Budget;
use wiresum_protocol::{ControlHalf, Plan, Quota};
use wiresum_sparse::live::{HostError, Job};
use wiresum_wire::{Header, JobId, MAGIC};
use zerocopy::FromBytes;

use crate::clock::{Clock, unix_us};
use crate::node::{Counters, JobReport, Plane};
use crate::takeover::Legacy;
use crate::udp::{ReceiveBatch, SendQueue, Socket};

pub use client::{ClientError, RowClient, Submitted};
pub use kernel::KernelRows;
pub(crate) use served::incarnation;
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
    /// Adds hot rows in the kernel, if it does.
    kernel: Option<KernelRows>,
    /// What the kernel refused, as it was logged last.
    logged: String,
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
            kernel: None,
            logged: String::new(),
            datagrams: 0,
            strangers: 0,
            clock: Clock::default(),
        })
    }

    /// The same beside a switch in the kernel, which adds the hot rows of all jobs.
    #[must_use]
    pub fn over(self, kernel: KernelRows) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    /// Has the program in the kernel and the hosts tell each other what is new. What the kernel refuses is tried again with
    /// each batch of packets, and is logged once.
    fn follow_kernel(&mut self) {
        let Self { kernel: Some(kernel), served, logged, .. } = self else { return };
        kernel.take_notes();
        for Served { host, .. } in served {
            if let Err(error) = kernel.follow(host) {
                let problem = format!("{error}");
                if problem != *logged {
                    eprintln!("wiresum-node: {problem}");
                    *logged = problem;
                }
            }
        }
    }

    /// Packets by fate of all jobs, or one, at the program in the kernel.
    fn kernel_verdicts(&self, job: Option<JobId>) -> (Vec<(&'static str, u64)>, u64) {
        let Some(kernel) = &self.kernel else { return Default::default() };
        let counted = match job {
            Some(job) => kernel.job_counters(job),
            None => kernel.counters().map(|verdicts| (verdicts, 0)),
        };
        let (verdicts, bytes) = counted.unwrap_or_else(|error| {
            eprintln!("wiresum-node: {error}");
            Default::default()
        });
        (verdicts.into_iter().map(|(verdict, count)| (verdict.name(), count)).collect(), bytes)
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
        if self.kernel.is_some() {
            return "xdp";
        }
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
        let in_kernel = self.kernel.as_ref().map_or(0, KernelRows::memory_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(in_kernel)
    }

    fn counters(&self) -> Counters {
        let mut verdicts: Vec<(&'static str, u64)> = Vec::new();
        let here = self.served.iter().flat_map(Served::verdicts);
        for (name, count) in here.chain(self.kernel_verdicts(None).0) {
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

    /// Datagrams, and notes of the program in the kernel; where some datagrams wait to be sent, room for them.
    fn watched(&self) -> Vec<PollFd<'_>> {
        let flags = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        let socket = PollFd::new(&self.socket, flags);
        let kernel = self.kernel.as_ref().filter(|_| self.outgoing.is_empty());
        let notes = kernel.map(KernelRows::note_descriptor);
        let notes = notes.map(|notes| PollFd::from_borrowed_fd(notes, PollFlags::IN));
        [Some(socket), notes].into_iter().flatten().collect()
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
        let unix_us = unix_us();
        self.served.iter_mut().for_each(|served| served.host.set_clock(unix_us));
        let more = self.socket.receive(&mut self.received)?;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            let job = Self::named(datagram);
            let is_its = |served: &&mut Served| Some(served.host.job().job_id()) == job;
            match self.served.iter_mut().find(is_its) {
                Some(served) => {
                    served.bytes += datagram.len() as u64;
                    if served.is_over_quota(source, datagram.len(), now) {
                        continue;
                    }
                    served.host.handle(source, datagram, now);
                }
                None => self.strangers += 1,
            }
        }
        self.follow_kernel();
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
        let whole = |served: &Served| {
            let mut report = served.report();
            let (verdicts, bytes) = self.kernel_verdicts(Some(report.job));
            report.verdicts.extend(verdicts);
            let memory = self.kernel.as_ref().map(|kernel| kernel.memory_for(served.host.job()));
            report.memory_bytes += memory.unwrap_or(0);
            JobReport { bytes: report.bytes + bytes, ..report }
        };
        self.served.iter().map(whole).collect()
    }

    fn memory_for(&self, _plan: &Plan) -> Result<u64, String> {
        Err(NO_PLANS.to_owned())
    }

    fn add(&mut self, _plan: &Plan) -> Result<(), String> {
        Err(NO_PLANS.to_owned())
    }

    fn memory_for_tables(&self, job: &Job) -> Result<u64, String> {
        self.check_address(job)?;
        let bytes = memory_for(job, self.node).map_err(|error| error.to_string())?;
        Ok(bytes + self.kernel.as_ref().map_or(0, |kernel| kernel.memory_for(job)))
    }

    fn add_tables(&mut self, job: &Arc<Job>) -> Result<(), String> {
        let served = if let Some(kernel) = &mut self.kernel {
            let served = Served::begin_over_program(job, self.node);
            let served = served.map_err(|error| error.to_string())?;
            kernel.add(job).map_err(|error| error.to_string())?;
            served
        } else {
            let served = Served::begin(job, self.node, self.snapshots.as_ref());
            served.map_err(|error| error.to_string())?
        };
        self.served.push(served);
        Ok(())
    }

    fn remove(&mut self, job: JobId) -> Result<(), String> {
        self.served.retain(|served| served.host.job().job_id() != job);
        let removed = self.kernel.as_mut().map_or(Ok(()), |kernel| kernel.remove(job));
        removed.map_err(|error| error.to_string())
    }

    fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), String> {
        if let Some(kernel) = &mut self.kernel {
            return kernel.set_quota(job, quota).map_err(|error| error.to_string());
        }
        for served in &mut self.served {
            if served.host.job().job_id() == job {
                served.budget = quota.map(Budget::new);
            }
        }
        Ok(())
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        Err("tables cannot be handed over: restart the daemon, which goes on from its snapshots"
            .to_owned())
    }
}
