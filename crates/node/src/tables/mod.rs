//! Sparse jobs over UDP: a host (a server of tables, or a switch that sums hot rows) as a plane of a node, and a worker's
//! client. What happens to a datagram is decided by `wiresum_sparse::live`; here datagrams are moved in batches.

mod client;
mod snapshots;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use wiresum_protocol::{ControlHalf, Plan, Quota};
use wiresum_sparse::live::{Host, HostError, Job};
use wiresum_wire::JobId;

use crate::clock::{Clock, unix_time};
use crate::node::{Counters, JobReport, Plane};
use crate::takeover::Legacy;
use crate::udp::{ReceiveBatch, SendQueue, Socket};

pub use client::{ClientError, RowClient, Submitted};
pub use snapshots::{DEFAULT_SNAPSHOT_INTERVAL, Snapshots};

/// Datagrams that each worker may have under way to a host, for the size of its receive buffer.
const UNDER_WAY: usize = 256;
/// Jobs of plans have no place here.
const NO_PLANS: &str =
    "this daemon serves one sparse job (--tables): start another daemon with this plan";

/// A server of tables, or a switch that sums hot rows, as a plane of a node: a host over a UDP socket.
pub struct Tables {
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    host: Host,
    snapshots: Option<Snapshots>,
    datagrams: u64,
    clock: Clock,
}

/// Why a host does not begin to serve.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// See [`HostError`].
    #[error(transparent)]
    Host(#[from] HostError),
    /// The kernel refuses the address.
    #[error("{0}")]
    Socket(io::Error),
    /// The folder of snapshots cannot be read.
    #[error("snapshots: {0}")]
    Snapshots(io::Error),
}

impl Tables {
    /// Serves a node of a job at its address; a server goes on from its last snapshot, if there is one.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn bind(
        job: &Arc<Job>,
        node: u16,
        snapshots: Option<Snapshots>,
    ) -> Result<Self, TablesError> {
        let address = job.address(node).ok_or(HostError::Node(node))?;
        let last = snapshots.as_ref().map(Snapshots::last).transpose();
        let own = incarnation();
        let host = match last.map_err(TablesError::Snapshots)?.flatten() {
            Some(bytes) => Host::restore(job, node, own, &bytes)?,
            None => Host::new(job, node, own)?,
        };
        let datagrams = UNDER_WAY * job.workers as usize;
        Ok(Self {
            socket: Socket::bind(address, datagrams).map_err(TablesError::Socket)?,
            received: ReceiveBatch::default(),
            outgoing: SendQueue::default(),
            host,
            snapshots,
            datagrams: 0,
            clock: Clock::default(),
        })
    }

    fn flush(&mut self) -> bool {
        self.outgoing.is_empty() || self.outgoing.flush(&self.socket)
    }

    /// Server's memory, if it is one.
    fn table_bytes(&self) -> u64 {
        use wiresum_sparse::table::Table;
        let tables = self.host.server().into_iter().flat_map(|server| server.tables());
        tables.map(|table| Table::bytes_for(table.spec(), table.part())).sum()
    }

    /// What a server of tables has, by name.
    fn gauges(&self) -> Vec<(&'static str, u64)> {
        let Some(server) = self.host.server() else { return Vec::new() };
        let counters = server.counters();
        let mut all = vec![
            ("rows", server.tables().iter().map(|table| table.len()).sum()),
            ("rounds", self.host.version().into()),
            ("map_version", server.map().version().into()),
            ("hot_gradients", counters.hot),
            ("cold_gradients", counters.cold),
            ("rows_lent", counters.lent),
            ("rows_returning", counters.returning),
            ("restorable", self.host.restorable().into()),
        ];
        let age = self.snapshots.as_ref().and_then(Snapshots::age);
        all.extend(age.map(|age| ("snapshot_age_ms", age.as_millis() as u64)));
        all
    }

    /// What the host and its server count, by name.
    fn verdicts(&self) -> Vec<(&'static str, u64)> {
        let host = self.host.counters();
        let mut all = vec![
            ("taken", host.taken),
            ("welcomed", host.welcomed),
            ("refused_hellos", host.refused),
            ("malformed", host.malformed),
            ("foreign", host.foreign),
        ];
        if let Some(server) = self.host.server() {
            let counters = server.counters();
            all.extend([
                ("rows_added", counters.rows),
                ("rows_pulled", counters.pulled),
                ("duplicates", counters.duplicates),
                ("late", counters.late),
                ("early", counters.early),
                ("refused", counters.refused),
            ]);
        }
        all
    }
}

/// Incarnation of this process: milliseconds since 1970, modulo 2³², so that one that is started later has a later one.
fn incarnation() -> u32 {
    unix_time().as_millis() as u32
}

impl Plane for Tables {
    fn engine(&self) -> &'static str {
        if self.host.server().is_some() { "tables" } else { "rows" }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    fn remark(&self) -> Option<String> {
        self.socket.receive_buffer_remark()
    }

    fn memory_bytes(&self) -> usize {
        usize::try_from(self.table_bytes()).unwrap_or(usize::MAX)
    }

    fn counters(&self) -> Counters {
        let mut control = vec![
            ("rounds", self.host.version().into()),
            ("restorable", self.host.restorable().into()),
        ];
        if let Some(server) = self.host.server() {
            control.push(("rows", server.tables().iter().map(|table| table.len()).sum()));
        }
        Counters {
            verdicts: self.verdicts(),
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
        let due = self.host.poll_timeout().map(|due| due.since(now));
        let snapshot = self.snapshots.as_ref().map(Snapshots::idle_time);
        [due, snapshot].into_iter().flatten().min()
    }

    fn turn(&mut self) -> io::Result<bool> {
        if !self.flush() {
            return Ok(false);
        }
        let now = self.clock.now();
        let more = self.socket.receive(&mut self.received)?;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            self.host.handle(source, datagram, now);
        }
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.turn(&mut self.host);
        }
        let Self { host, outgoing, socket, .. } = self;
        host.poll(self.clock.now(), |to, bytes| {
            if outgoing.push(to, bytes) {
                outgoing.flush(socket);
            }
        });
        self.flush();
        Ok(more)
    }

    /// Nothing is negotiated: windows follow delay and loss.
    fn add_control(&mut self, _half: Box<dyn ControlHalf>) {}

    fn jobs(&self) -> Vec<JobReport> {
        let job = self.host.job();
        vec![JobReport {
            job: job.job_id(),
            is_running: self.host.members() > 0,
            members: self.host.members(),
            expected_members: job.workers as usize
                + if self.host.server().is_some() { job.switches.len() } else { 0 },
            memory_bytes: self.table_bytes(),
            bytes: 0,
            verdicts: self.verdicts(),
            streams: Vec::new(),
            tables: self.gauges(),
        }]
    }

    fn memory_for(&self, _plan: &Plan) -> Result<u64, String> {
        Err(NO_PLANS.to_owned())
    }

    fn add(&mut self, _plan: &Plan) -> Result<(), String> {
        Err(NO_PLANS.to_owned())
    }

    fn remove(&mut self, _job: JobId) -> Result<(), String> {
        Err("the daemon serves this job alone: stop the daemon".to_owned())
    }

    fn set_quota(&mut self, _job: JobId, quota: Option<Quota>) -> Result<(), String> {
        let problem = "a host of tables has no quotas: participants send by windows";
        quota.map_or(Ok(()), |_| Err(problem.to_owned()))
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        Err("tables cannot be handed over: restart the daemon, which goes on from its snapshot"
            .to_owned())
    }
}
