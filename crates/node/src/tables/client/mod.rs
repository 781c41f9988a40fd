//! A worker of a sparse job, for a program that computes between rounds: every call moves datagrams until it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use thiserror::Error;
use wiresum_protocol::Time;
use wiresum_sparse::hot::RowId;
use wiresum_sparse::live::{Job, Member, MemberError};
use wiresum_sparse::sum::is_summable;
use wiresum_sparse::table::{RowIds, TableId, TableSpec};

use super::UNDER_WAY;
use crate::clock::{Clock, timespec};
use crate::udp::{ReceiveBatch, SendQueue, Socket};

/// How often a waiting call looks whether it is to be given up.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A node that has said nothing for so long is named where a call takes too long.
const SILENCE: Duration = Duration::from_secs(1);

/// Why a call of a [`RowClient`] fails. [`Self::is_usage`] says whether the job can go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientError {
    /// A rank that the job does not have.
    #[error("there is no rank {rank}: the job has {workers} workers")]
    Rank {
        /// The rank.
        rank: u32,
        /// Workers of the job.
        workers: u32,
    },
    /// The kernel refuses the address.
    #[error("cannot receive at {address}: {problem}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        problem: String,
    },
    /// The kernel refuses to go on.
    #[error("the socket fails: {0}")]
    Socket(String),
    /// A table that the job does not have.
    #[error("the job has no table {0}")]
    NoTable(u16),
    /// A row that the table does not have.
    #[error("table {table} has rows 0 to {last}, and row {key} is none: check the index")]
    NoRow {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
        /// The last row.
        last: u64,
    },
    /// Other numbers of values than the rows have.
    #[error("table {table} has rows of {dim} values, and {found} came for {rows} rows")]
    Length {
        /// Name of the table.
        table: String,
        /// Values of a row.
        dim: u16,
        /// Values that came.
        found: usize,
        /// Rows.
        rows: usize,
    },
    /// Inf, NaN, or beyond ±2¹².
    #[error(
        "table {table}: row {key} has a gradient that is not finite or not within ±4096: clip it, or lower the loss scale"
    )]
    Range {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
    },
    /// See [`MemberError`].
    #[error(transparent)]
    Member(#[from] MemberError),
    /// Too long.
    #[error("{what} took longer than {seconds} s: {who}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The bound.
        seconds: u64,
        /// Who is silent, or what else it may be.
        who: String,
    },
    /// The caller gave up.
    #[error("interrupted: the round is not over, and the job cannot go on")]
    Interrupted,
}

impl ClientError {
    /// Whether the call was wrong and changed nothing, so that others may follow.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoTable(_) | Self::NoRow { .. } | Self::Length { .. } | Self::Range { .. }
        )
    }
}

/// See the module.
pub struct RowClient {
    member: Member,
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    clock: Clock,
    timeout: Duration,
    /// Says that a waiting call is to be given up.
    is_given_up: fn() -> bool,
    /// What was pushed for the round that is not begun yet.
    gradients: BTreeMap<RowId, Vec<f32>>,
    /// Why the job cannot go on.
    broken: Option<ClientError>,
}

impl RowClient {
    /// Joins a job: waits until all servers and switches have welcomed this rank.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn join(
        job: &Arc<Job>,
        rank: u32,
        incarnation: u64,
        address: Option<SocketAddr>,
        timeout: Duration,
        is_given_up: fn() -> bool,
    ) -> Result<Self, ClientError> {
        if rank >= job.workers {
            return Err(ClientError::Rank { rank, workers: job.workers });
        }
        let address = address.unwrap_or_else(|| any_address(job));
        let nodes = job.servers.len() + job.switches.len();
        let socket = Socket::bind(address, UNDER_WAY * nodes)
            .map_err(|error| ClientError::Bind { address, problem: error.to_string() })?;
        let mut client = Self {
            member: Member::new(job, rank, incarnation),
            socket,
            received: ReceiveBatch::default(),
            outgoing: SendQueue::default(),
            clock: Clock::default(),
            timeout,
            is_given_up,
            gradients: BTreeMap::new(),
            broken: None,
        };
        client.wait("joining", Member::has_joined)?;
        Ok(client)
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        self.member.job()
    }

    /// Rounds that are over.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.member.worker().version()
    }

    /// Where this worker receives.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Counts since joining, by name.
    #[must_use]
    pub fn statistics(&self) -> [(&'static str, u64); 4] {
        let sent = &self.outgoing.counters;
        [
            ("rounds", self.version().into()),
            ("datagrams_sent", sent.datagrams),
            ("bytes_sent", sent.bytes),
            ("messages_repeated", self.member.worker().repeated()),
        ]
    }

    /// Fills `weights` with rows as they are after the last round, in the order of `keys`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pull(
        &mut self,
        table: TableId,
        keys: &[u64],
        weights: &mut [f32],
    ) -> Result<(), ClientError> {
        let dim = usize::from(self.check(table, keys, weights.len())?.dim);
        let row = |key: &u64| RowId { table, key: *key };
        let rows: BTreeSet<RowId> = keys.iter().map(row).collect();
        let worker = self.member.worker();
        let missing = rows.into_iter().filter(|row| worker.weights(*row).is_none());
        let missing: Vec<RowId> = missing.collect();
        self.member.pull(missing);
        self.wait("a pull", |member| member.worker().is_idle())?;
        for (key, place) in keys.iter().zip(weights.chunks_exact_mut(dim)) {
            let found = self.member.worker().weights(row(key)).expect("all were pulled");
            place.copy_from_slice(found);
        }
        Ok(())
    }

    /// Adds gradients to those of the round: all, or none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn push(
        &mut self,
        table: TableId,
        keys: &[u64],
        gradients: &[f32],
    ) -> Result<(), ClientError> {
        let spec = self.check(table, keys, gradients.len())?;
        let (dim, name) = (usize::from(spec.dim), spec.name.clone());
        // What is added may leave the range as well, so sums are made aside first.
        let mut added: BTreeMap<RowId, Vec<f32>> = BTreeMap::new();
        for (key, values) in keys.iter().zip(gradients.chunks_exact(dim)) {
            let row = RowId { table, key: *key };
            let before = || self.gradients.get(&row).cloned().unwrap_or_else(|| vec![0.0; dim]);
            let sum = added.entry(row).or_insert_with(before);
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            if !sum.iter().all(|value| is_summable(*value)) {
                return Err(ClientError::Range { table: name, key: *key });
            }
        }
        self.gradients.extend(added);
        Ok(())
    }

    /// Sends what was pushed, and waits until the round is over for all.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn finish_round(&mut self) -> Result<u32, ClientError> {
        self.broken.clone().map_or(Ok(()), Err)?;
        self.member.begin(&std::mem::take(&mut self.gradients));
        self.wait("a round", |member| member.worker().is_idle())?;
        Ok(self.version())
    }

    fn check(&self, table: TableId, keys: &[u64], found: usize) -> Result<&TableSpec, ClientError> {
        let spec = self.job().tables.iter().find(|spec| spec.id == table);
        let spec = spec.ok_or(ClientError::NoTable(table.0))?;
        let (name, dim) = (|| spec.name.clone(), spec.dim);
        if keys.len() * usize::from(dim) != found {
            return Err(ClientError::Length { table: name(), dim, found, rows: keys.len() });
        }
        if let RowIds::Counted(rows) = spec.rows
            && let Some(key) = keys.iter().find(|key| **key >= rows)
        {
            return Err(ClientError::NoRow { table: name(), key: *key, last: rows - 1 });
        }
        Ok(spec)
    }

    /// Moves datagrams until `is_done`. A failure is the end of the job.
    fn wait(
        &mut self,
        what: &'static str,
        is_done: impl Fn(&Member) -> bool,
    ) -> Result<(), ClientError> {
        self.broken.clone().map_or(Ok(()), Err)?;
        let outcome = self.try_wait(what, is_done);
        self.broken = outcome.clone().err();
        outcome
    }

    fn try_wait(
        &mut self,
        what: &'static str,
        is_done: impl Fn(&Member) -> bool,
    ) -> Result<(), ClientError> {
        let deadline = self.clock.now().plus(self.timeout);
        let failed = |error: io::Error| ClientError::Socket(error.to_string());
        loop {
            let is_sent = self.send();
            if let Some(error) = self.member.error() {
                return Err(error.into());
            }
            if is_done(&self.member) {
                return Ok(());
            }
            if self.clock.now() >= deadline {
                return Err(self.timed_out(what));
            }
            if (self.is_given_up)() {
                return Err(ClientError::Interrupted);
            }
            self.sleep(is_sent, deadline).map_err(failed)?;
            self.receive().map_err(failed)?;
        }
    }

    /// Sends what is due; `false` if the kernel cannot take all of it now.
    fn send(&mut self) -> bool {
        let Self { member, socket, outgoing, .. } = self;
        if !outgoing.is_empty() && !outgoing.flush(socket) {
            return false;
        }
        member.poll(self.clock.now(), |to, bytes| {
            if outgoing.push(to, bytes) {
                outgoing.flush(socket);
            }
        });
        outgoing.is_empty() || outgoing.flush(socket)
    }

    fn receive(&mut self) -> io::Result<()> {
        while self.socket.receive(&mut self.received)? {
            self.take();
        }
        self.take();
        Ok(())
    }

    fn take(&mut self) {
        let now = self.clock.now();
        for (source, datagram) in self.received.datagrams() {
            self.member.handle(source, datagram, now);
        }
    }

    fn sleep(&self, is_sent: bool, deadline: Time) -> io::Result<()> {
        let room = if is_sent { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN | room)];
        let now = self.clock.now();
        let due = self.member.poll_timeout().filter(|_| is_sent);
        let until = [due, Some(deadline), Some(now.plus(CHECK_INTERVAL))];
        let until = until.into_iter().flatten().min().expect("there is a deadline");
        match poll(&mut fds, Some(&timespec(until.since(now)))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn timed_out(&self, what: &'static str) -> ClientError {
        let since = Time(self.clock.now().0.saturating_sub(SILENCE.as_micros() as u64));
        let silent = self.member.silent_since(since);
        let silent: Vec<String> =
            silent.map(|(node, address)| format!("node {node} at {address}")).collect();
        let who = match &silent[..] {
            [] => {
                "all nodes answer; another rank has not finished the round, or has left".to_owned()
            }
            silent => format!("{} said nothing: start it with this job's file", silent.join(", ")),
        };
        ClientError::Timeout { what, seconds: self.timeout.as_secs(), who }
    }
}

/// Any address of the family of the servers; the kernel chooses the port.
fn any_address(job: &Job) -> SocketAddr {
    let any = if job.servers[0].is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    SocketAddr::new(any, 0)
}
