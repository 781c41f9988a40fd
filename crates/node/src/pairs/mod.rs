//! Jobs of Zebra's program over UDP (`spec/keyed.md`): the server, or the switch with its station, as the plane of a node,
//! and a worker. What happens to a datagram is decided by `wiresum_sparse::live::keyed`; with [`KernelPairs`] beneath, the
//! switch's program runs in the kernel.

mod client;
mod kernel;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use wiresum_protocol::quota::Budget;
use wiresum_protocol::{ControlHalf, Plan, Quota, Verdict};
use wiresum_sparse::live::keyed::{KeyedJob, KeyedNode, SWITCH};
use wiresum_sparse::live::{HostError, Job};
use wiresum_wire::JobId;

use crate::clock::{Clock, unix_us};
use crate::node::{Counters, JobReport, Plane};
use crate::tables::incarnation;
use crate::takeover::Legacy;
use crate::udp::{ReceiveBatch, SendQueue, Socket};

pub use client::PairClient;
pub use kernel::KernelPairs;

/// Datagrams that each worker may have under way, for the size of the receive buffer.
const UNDER_WAY: usize = 256;

/// The server or switch of a job of pairs as a plane of a node.
pub struct Pairs {
    node: KeyedNode,
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    kernel: Option<KernelPairs>,
    /// What the kernel refused, as it was logged last.
    logged: String,
    datagrams: u64,
    bytes: u64,
    /// What senders may still send; absent without a quota, and where the kernel has it.
    budget: Option<Budget>,
    /// Datagrams beyond it, which were dropped.
    over_quota: u64,
    /// From when an iteration was known to be complete until its sums were on their way, of all together.
    station: Duration,
    clock: Clock,
}

impl Pairs {
    /// Receives as this node of the job.
    ///
    /// # Errors
    /// What the kernel says to the job's address of the node, or that there is no such node.
    pub fn bind(job: &Arc<KeyedJob>, number: u16, kernel: Option<KernelPairs>) -> io::Result<Self> {
        let refused = |error: HostError| io::Error::other(error);
        let node = KeyedNode::new(job, number, incarnation(), kernel.is_some()).map_err(refused)?;
        let address = job.address(number).expect("it has such a node");
        Ok(Self {
            node,
            socket: Socket::bind(address, UNDER_WAY * usize::from(job.workers))?,
            received: ReceiveBatch::default(),
            outgoing: SendQueue::default(),
            kernel,
            logged: String::new(),
            datagrams: 0,
            bytes: 0,
            budget: None,
            over_quota: 0,
            station: Duration::ZERO,
            clock: Clock::default(),
        })
    }

    fn flush(&mut self) -> bool {
        self.outgoing.is_empty() || self.outgoing.flush(&self.socket)
    }

    /// Sends what is due.
    fn send(&mut self) {
        let Self { node, outgoing, socket, clock, .. } = self;
        node.poll(clock.now(), |to, bytes| {
            if outgoing.push(to, bytes) {
                outgoing.flush(socket);
            }
        });
        self.flush();
    }

    /// Has the program in the kernel and the station tell each other what is new. What the kernel refuses is tried again
    /// with each batch of packets, and is logged once.
    fn follow_kernel(&mut self) {
        let Self { kernel: Some(kernel), node, logged, .. } = self else { return };
        if let Err(error) = kernel.follow(node) {
            let problem = format!("{error}");
            if problem != *logged {
                eprintln!("wiresum-node: {problem}");
                *logged = problem;
            }
        }
    }

    /// Why no other job comes here, and this one does not go.
    fn only_job(&self) -> String {
        let (job, address) = (self.node.job().job_id(), self.node.address());
        format!(
            "this daemon at {address} serves job {job} of pairs alone, from its start to its end: \
             start another daemon at another port for another job"
        )
    }

    /// What it is, in words of a report.
    fn gauges(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("iterations", u64::from(self.node.round().saturating_sub(1))),
            ("station_us", self.station.as_micros() as u64),
            ("messages_repeated", self.node.repeated()),
        ]
    }

    /// Packets by fate, here and at the program in the kernel.
    fn verdicts(&self) -> Vec<(&'static str, u64)> {
        let counters = self.node.counters();
        let own = [
            ("welcomed", counters.welcomed),
            ("refused_hellos", counters.refused),
            ("recirculations", counters.recirculations),
            (Verdict::Malformed.name(), counters.malformed),
            (Verdict::Foreign.name(), counters.foreign),
            (Verdict::Wrong.name(), counters.wrong),
            (Verdict::Added.name(), counters.added),
            (Verdict::Duplicate.name(), counters.duplicates),
            (Verdict::OverQuota.name(), self.over_quota),
        ];
        let of_kernel = self.kernel.as_ref().map(KernelPairs::counters).unwrap_or_default();
        let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
        own.into_iter().chain(of_kernel).for_each(|(name, count)| {
            *all.entry(name).or_default() += count;
        });
        all.into_iter().collect()
    }
}

impl Plane for Pairs {
    fn engine(&self) -> &'static str {
        if self.kernel.is_some() { "xdp" } else { "pairs" }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    fn remark(&self) -> Option<String> {
        self.socket.receive_buffer_remark()
    }

    fn memory_bytes(&self) -> usize {
        if self.node.number() == SWITCH { self.node.job().arrangement().bytes() } else { 0 }
    }

    fn counters(&self) -> Counters {
        Counters {
            verdicts: self.verdicts(),
            datagrams_received: self.datagrams,
            sent: self.outgoing.counters.clone(),
            control: self.gauges(),
            ..Counters::default()
        }
    }

    fn watched(&self) -> Vec<PollFd<'_>> {
        let flags = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        let notes = self.kernel.as_ref().map(KernelPairs::note_descriptor);
        let notes = notes.map(|notes| PollFd::from_borrowed_fd(notes, PollFlags::IN));
        [Some(PollFd::new(&self.socket, flags)), notes].into_iter().flatten().collect()
    }

    fn idle_time(&self) -> Option<Duration> {
        self.node.poll_timeout().map(|due| due.since(self.clock.now()))
    }

    fn turn(&mut self) -> io::Result<bool> {
        if !self.flush() {
            return Ok(false);
        }
        let (begun, round) = (Instant::now(), self.node.round());
        let now = self.clock.now();
        self.node.set_clock(unix_us());
        let more = self.socket.receive(&mut self.received)?;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            self.bytes += datagram.len() as u64;
            let budget = self.budget.as_mut().filter(|_| self.node.has_joined(source));
            if budget.is_some_and(|budget| !budget.take(now, datagram.len())) {
                self.over_quota += 1;
                continue;
            }
            self.node.handle(source, datagram, now);
        }
        self.follow_kernel();
        self.send();
        if round > 0 && self.node.round() > round {
            self.station += begun.elapsed();
        }
        Ok(more)
    }

    /// Nothing is negotiated: windows follow delay and loss.
    fn add_control(&mut self, _half: Box<dyn ControlHalf>) {}

    fn jobs(&self) -> Vec<JobReport> {
        vec![JobReport {
            job: self.node.job().job_id(),
            groups: Vec::new(),
            is_running: self.node.key().is_some(),
            members: self.node.members().count(),
            expected_members: self.node.expected_members(),
            memory_bytes: self.memory_bytes() as u64,
            bytes: self.bytes,
            verdicts: self.verdicts(),
            streams: Vec::new(),
            tables: self.gauges(),
        }]
    }

    fn memory_for(&self, _plan: &Plan) -> Result<u64, String> {
        Err(self.only_job())
    }

    fn add(&mut self, _plan: &Plan) -> Result<(), String> {
        Err(self.only_job())
    }

    fn memory_for_tables(&self, _job: &Job) -> Result<u64, String> {
        Err(self.only_job())
    }

    fn add_tables(&mut self, _job: &Arc<Job>) -> Result<(), String> {
        Err(self.only_job())
    }

    fn remove(&mut self, _job: JobId) -> Result<(), String> {
        Err(self.only_job())
    }

    fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), String> {
        match (&mut self.kernel, quota) {
            (Some(kernel), quota) => {
                kernel.set_quota(job, quota).map_err(|error| error.to_string())
            }
            (None, quota) => {
                self.budget = quota.map(Budget::new);
                Ok(())
            }
        }
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        Err("pairs cannot be handed over: begin the job anew".to_owned())
    }
}
