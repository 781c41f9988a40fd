//! The seam between a [`Node`](super::Node), which has the loop and the service, and what serves its jobs: something
//! that sums, and what carries packets to it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFd;
use wiresum_protocol::{ControlHalf, Plan, Quota, transmitter};
use wiresum_sparse::live::Job;
use wiresum_wire::{JobId, SubModelId};
use wiresum_xdp::FrameCounters;

use crate::takeover::Legacy;
use crate::udp::SendCounters;

/// Sparse jobs have a place at daemons of tables alone.
const NO_TABLES: &str =
    "this daemon serves plans: give it a plan, or start another daemon with this job (--tables)";

/// What serves a node's jobs: a data plane together with its carrier.
pub trait Plane: Send {
    /// What sums here, as in a plan.
    fn engine(&self) -> &'static str;

    /// Threads that share the jobs.
    fn threads(&self) -> usize {
        1
    }

    /// Where packets are sent to.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// A remark for the log on what the kernel does not grant.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Bytes of memory for values; fixed while no job comes or goes.
    fn memory_bytes(&self) -> usize;

    /// What has become of every packet so far.
    fn counters(&self) -> Counters;

    /// What wakes the node up.
    fn watched(&self) -> Vec<PollFd<'_>>;

    /// How long nothing is due by the clock; `None` until something arrives.
    fn idle_time(&self) -> Option<Duration>;

    /// Deals with a batch of packets, and with what is due; `true` if there may be more.
    ///
    /// # Errors
    /// What the kernel says when it is asked for packets.
    fn turn(&mut self) -> io::Result<bool>;

    /// Lets a part that has timers take part. It learns who takes part already.
    fn add_control(&mut self, half: Box<dyn ControlHalf>);

    /// Lets parts that have timers take part, each made for the jobs of one thread: what concerns one job alone stays in
    /// its thread.
    fn add_control_by_job(&mut self, make: &dyn Fn() -> Box<dyn ControlHalf>) {
        self.add_control(make());
    }

    /// Every job, in the order in which they came.
    fn jobs(&self) -> Vec<JobReport>;

    /// Bytes of memory that one more job would take.
    ///
    /// # Errors
    /// Why it cannot be served here, whatever memory there is.
    fn memory_for(&self, plan: &Plan) -> Result<u64, String>;

    /// Serves one more job, which is in no other way served here.
    ///
    /// # Errors
    /// Why not; then nothing has changed.
    fn add(&mut self, plan: &Plan) -> Result<(), String>;

    /// Reaches the neighbours of a job that is served at the addresses of this plan, which differs in nothing else.
    ///
    /// # Errors
    /// Why not; then nothing has changed.
    fn readdress(&mut self, _plan: &Plan) -> Result<(), String> {
        Err("this daemon has no links of a fabric, whose addresses could change".to_owned())
    }

    /// Bytes of memory that one more sparse job would take.
    ///
    /// # Errors
    /// Why it cannot be served here, whatever memory there is.
    fn memory_for_tables(&self, _job: &Job) -> Result<u64, String> {
        Err(NO_TABLES.to_owned())
    }

    /// Serves one more sparse job, which is in no other way served here.
    ///
    /// # Errors
    /// Why not; then nothing has changed.
    fn add_tables(&mut self, _job: &Arc<Job>) -> Result<(), String> {
        Err(NO_TABLES.to_owned())
    }

    /// Serves a job no more.
    ///
    /// # Errors
    /// Why not.
    fn remove(&mut self, job: JobId) -> Result<(), String>;

    /// Bounds what the senders of a job send together.
    ///
    /// # Errors
    /// Why it cannot be bounded here.
    fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), String>;

    /// How often the kernel was asked to refuse a flood.
    fn floods(&self) -> u64 {
        0
    }

    /// What another process needs to go on with the jobs, while this one pauses.
    ///
    /// # Errors
    /// Why none can.
    fn legacy(&self) -> Result<Legacy<'_>, String>;

    /// Takes back what a successor that has failed may have changed.
    fn reclaim(&self) {}

    /// Leaves packets where they come, if threads of its own deal with them.
    fn pause(&mut self) {}

    /// Has these threads go on. They pause at first.
    fn resume(&mut self) {}
}

/// A job that is served.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// Its number.
    pub job: JobId,
    /// The jobs of its groups, here or at other nodes, which end with it.
    pub groups: Vec<JobId>,
    /// Whether an incarnation of it runs.
    pub is_running: bool,
    /// Senders that have joined: children of an aggregator, workers at a switch.
    pub members: usize,
    /// Senders that there are when everyone has joined.
    pub expected_members: usize,
    /// Bytes of memory for values.
    pub memory_bytes: u64,
    /// Bytes of the packets that named it.
    pub bytes: u64,
    /// These packets by verdict.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Where switches sum in user space: how much of each stream comes and leaves.
    pub streams: Vec<StreamReport>,
    /// Where rows of tables live: how many, how far they are, and what became of hot ones, by name.
    pub tables: Vec<(&'static str, u64)>,
}

/// A stream of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Its number.
    pub sub_model: SubModelId,
    /// Contributions that came.
    pub arrived: u64,
    /// Contributions that left, sums among them.
    pub departed: u64,
}

/// What a node has done since it was made.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Packets by verdict, of all jobs, wherever they were dealt with.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Datagrams that the socket has received.
    pub datagrams_received: u64,
    /// Those among them that the XDP program should have dealt with: it is not on the interface that they came through.
    pub strays: u64,
    /// Those that came to another thread than their job's, and were passed on.
    pub passed_on: u64,
    /// What the socket has sent.
    pub sent: SendCounters,
    /// What everything beside the data counts, by name.
    pub control: Vec<(&'static str, u64)>,
    /// What the transmitters have done.
    pub transmitters: transmitter::Counters,
    /// What the AF_XDP sockets have done.
    pub frames: FrameCounters,
    /// What has become of connections, where there are any.
    pub connections: ConnectionCounters,
}

/// What has become of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounters {
    /// Accepted from children, and from strangers.
    pub accepted: u64,
    /// Closed at once, as there were too many.
    pub refused: u64,
    /// Closed because something came that was no packet, or one of another job than the first.
    pub garbage: u64,
    /// Closed because no child of the plan said hello on it.
    pub unwelcome: u64,
}

impl Counters {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        let Self { verdicts, datagrams_received, strays, passed_on, sent, control, .. } = self;
        add_by_name(verdicts, &other.verdicts);
        add_by_name(control, &other.control);
        *datagrams_received += other.datagrams_received;
        *strays += other.strays;
        *passed_on += other.passed_on;
        sent.add(&other.sent);
        self.transmitters.add(&other.transmitters);
    }

    /// The socket's totals by name.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { sent, frames, connections, .. } = self;
        [
            ("datagrams_received", self.datagrams_received),
            ("strays", self.strays),
            ("datagrams_passed_on", self.passed_on),
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

fn add_by_name(sum: &mut Vec<(&'static str, u64)>, counts: &[(&'static str, u64)]) {
    for (name, count) in counts {
        match sum.iter_mut().find(|(other, _)| other == name) {
            Some((_, total)) => *total += count,
            None => sum.push((name, *count)),
        }
    }
}
