//! What sums in user space, or beside the kernel: from a packet to what is sent for it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::quota::Budget;
use wiresum_protocol::transmitter::DataPlane;
use wiresum_protocol::{Aggregator, Outcome, Plan, Quota, Recipients, Transmit, Verdict};
use wiresum_wire::{Header, JobId, Kind, MAX_PACKET, NodeId, SubModelId};
use wiresum_xdp::{AfXdp, Arrival};
use zerocopy::FromBytes;

use super::jobs::{Jobs, Served};
use super::kernel::Kernel;
use super::transmitters::Transmitters;
use super::{JobState, State, by_name};
use crate::carriers::frames::{FRAMES_PER_TURN, Outgoing, is_from_a_member};
use crate::clock::{Clock, timespec};
use crate::node::JobReport;
use crate::udp::{SendQueue, Socket};

/// How long the whole aggregator waits for a full link before it drops what it cannot send: longer than a full send
/// buffer takes at 1 Gbit/s, shorter than a worker takes to probe for what is lost.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// The jobs, and what they have to send.
pub(crate) struct Adder {
    pub jobs: Jobs,
    pub transmitters: Transmitters,
    pub kernel: Option<Kernel>,
    /// Datagrams that the kernel should have dealt with.
    pub strays: u64,
    /// Datagrams that the kernel could have refused, had it been asked to.
    pub refused: u64,
    packet: Box<[u8; MAX_PACKET]>,
    pub outgoing: Outgoing,
    /// Refusals that may still be sent: the answers to a flood of hellos must not fill the link that sums share.
    refusals: Budget,
    clock: Clock,
}

impl Adder {
    /// Allocates the memory of all jobs.
    pub fn new(plans: &[Plan], node: NodeId, kernel: Option<Kernel>) -> Self {
        Self {
            jobs: Jobs::new(plans, node),
            transmitters: Transmitters::new(plans, node),
            kernel,
            strays: 0,
            refused: 0,
            packet: Box::new([0; MAX_PACKET]),
            outgoing: Outgoing::default(),
            refusals: Budget::new(Quota::strangers()),
            clock: Clock::default(),
        }
    }

    /// Goes on with jobs of another process; their transmitters start anew, and look where those were.
    pub fn inherit(&mut self, plans: &[Plan], mut states: State, node: NodeId) -> io::Result<()> {
        for (plan, state) in plans.iter().zip(&states.jobs) {
            self.jobs.inherit(plan, state, node).map_err(io::Error::other)?;
            let index = self.jobs.count() - 1;
            self.transmitters.add(plan, node);
            let aggregator = self.jobs.aggregator(index);
            self.transmitters.resume(index, aggregator);
            if let Some(kernel) = &mut self.kernel {
                kernel.remember(plan.job_id(), aggregator.membership());
            }
        }
        self.jobs.set_retired(&std::mem::take(&mut states.retired));
        Ok(())
    }

    /// What another process needs to go on with the jobs. Slots in the kernel go with its maps.
    pub fn state(&self) -> State {
        let slots = self.kernel.is_none();
        let job =
            |job: &Served| JobState { bytes: job.bytes, snapshot: job.aggregator.snapshot(slots) };
        let jobs = self.jobs.iter().map(job).collect();
        State { jobs, retired: self.jobs.retired().to_vec(), threads: Vec::new() }
    }

    /// Bytes of slot memory of a job, wherever it is summed.
    pub fn memory_for(&self, plan: &Plan, node: NodeId) -> u64 {
        let of_kernel = self.kernel.as_ref().map(|kernel| kernel.memory_for(plan, node) as u64);
        of_kernel.unwrap_or_else(|| Aggregator::bytes_for(plan, node))
    }

    /// What there is to say of each job.
    pub fn reports(&self, node: NodeId) -> Vec<JobReport> {
        let report = |job: &Served| {
            let memory_bytes = self.memory_for(job.aggregator.plan(), node);
            let mut report = job.report(memory_bytes);
            if let Some(Ok((counted, bytes))) =
                self.kernel.as_ref().map(|kernel| kernel.job_counters(job.job))
            {
                add_to(&mut report.verdicts, counted);
                report.bytes = bytes;
            }
            report
        };
        self.jobs.iter().map(report).collect()
    }

    /// Packets by verdict, wherever they were dealt with.
    pub fn verdicts(&self) -> Vec<(&'static str, u64)> {
        let mut verdicts = by_name(self.jobs.verdicts());
        let kernel = self.kernel.as_ref().and_then(|kernel| kernel.counters().ok());
        add_to(&mut verdicts, kernel.unwrap_or_default());
        verdicts
    }

    /// Deals with one datagram.
    pub fn handle(&mut self, socket: &Socket, source: SocketAddr, datagram: &[u8]) {
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
    pub fn handle_frames(&mut self, socket: &Socket) -> bool {
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
        let Some(arrival) = frames.and_then(|frames| frames.receive(port, &mut packet[..])) else {
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
        let Self { jobs, transmitters, kernel, packet, outgoing, refused, .. } = self;
        if jobs.count() == 0 {
            *refused += u64::from(arrival.is_none());
            return jobs.count_unclaimed(Verdict::Foreign);
        }
        let index = jobs.index_of(&packet[..len]);
        let outcome = jobs.handle(index, source, &mut packet[..], len);
        let is_refused = matches!(outcome.verdict, Verdict::Malformed | Verdict::Foreign);
        *refused += u64::from(is_refused && arrival.is_none());
        if let (Some(arrival), Some(frames)) = (arrival, &mut outgoing.frames)
            && is_from_a_member(outcome.verdict)
        {
            frames.learn(arrival);
        }
        transmitters.follow(index, outcome, jobs.aggregator(index));
        with_plane(jobs, kernel.as_ref(), index, |plane| {
            transmitters.hear(index, outcome, &packet[..], plane);
        });
        let may_concern_members =
            outcome.verdict == Verdict::Control && outcome.recipients != Recipients::ControlHalf;
        // Without an answer the child asks again, and the program is told again.
        if may_concern_members && !tell(kernel.as_mut(), jobs.membership(index)) {
            return;
        }
        if is_refusal(outcome, &packet[..]) && !self.refusals.take(self.clock.now(), outcome.len) {
            *refused += 1;
            return jobs.count_unclaimed(Verdict::OverQuota);
        }
        let push = |destination, packet: &[u8]| outgoing.push(destination, packet);
        if jobs.deliver(index, outcome, &mut packet[..], push) {
            self.flush(socket);
        }
    }

    /// When the clock next calls for something.
    pub fn idle_time(&self) -> Option<Duration> {
        [self.jobs.control.idle_time(), self.transmitters.idle_time()].into_iter().flatten().min()
    }

    /// Gives the transmitters and the control halves their turn.
    pub fn follow_clock(&mut self, socket: &Socket) {
        for index in 0..self.jobs.count() {
            self.advance_transmitter(socket, index);
            while let Some(sub_model) = self.transmitters.next_orphan(index) {
                self.lose_parent(socket, index, sub_model);
            }
        }
        self.jobs.control.handle_timeouts();
        while let Some(transmit) = self.jobs.control.poll_transmit(&mut self.packet[..]) {
            if self.outgoing.datagrams.push(transmit.destination, &self.packet[..transmit.len]) {
                self.flush(socket);
            }
        }
    }

    /// A job's parent in a sub-model is silent: its children learn it, and so does the program.
    fn lose_parent(&mut self, socket: &Socket, index: usize, sub_model: SubModelId) {
        let Self { jobs, kernel, packet, outgoing, .. } = self;
        let outcome = jobs.lose_parent(index, sub_model, &mut packet[..]);
        // What the program refuses it is told again with the next change.
        tell(kernel.as_mut(), jobs.membership(index));
        let push = |destination, packet: &[u8]| outgoing.push(destination, packet);
        if jobs.deliver(index, outcome, &mut packet[..], push) {
            self.flush(socket);
        }
    }

    fn advance_transmitter(&mut self, socket: &Socket, index: usize) {
        let Self { jobs, transmitters, kernel, packet, outgoing, .. } = self;
        let push = |transmit: Transmit, datagram: &[u8]| {
            if outgoing.datagrams.push(transmit.destination, datagram) {
                flush(&mut outgoing.datagrams, socket);
            }
        };
        with_plane(jobs, kernel.as_ref(), index, |plane| {
            transmitters.advance(index, plane, &mut packet[..], push);
        });
    }

    /// Sends what waits.
    pub fn flush(&mut self, socket: &Socket) {
        flush(&mut self.outgoing.datagrams, socket);
    }
}

/// Sends what waits, and waits for a full link a little; what is left then is lost, and asked for again.
pub(super) fn flush(datagrams: &mut SendQueue, socket: &Socket) {
    while !datagrams.flush(socket) {
        let mut fds = [PollFd::new(socket, PollFlags::OUT)];
        if poll(&mut fds, Some(&timespec(SEND_PATIENCE))).is_ok_and(|ready| ready == 0) {
            datagrams.discard();
        }
    }
}

/// Tells the program, where one runs, who takes part in a job; `false`, and a line in the log, if it cannot serve
/// someone.
fn tell(kernel: Option<&mut Kernel>, (job, membership): (JobId, Membership)) -> bool {
    let told = kernel.map_or(Ok(()), |kernel| kernel.tell(job, &membership));
    told.inspect_err(|error| eprintln!("wiresum-node: {error}")).is_ok()
}

/// The slots of a job, wherever they are.
fn with_plane(
    jobs: &mut Jobs,
    kernel: Option<&Kernel>,
    index: usize,
    use_plane: impl FnOnce(&mut dyn DataPlane),
) {
    match kernel {
        Some(kernel) => use_plane(&mut kernel.slots(jobs.id(index))),
        None => use_plane(jobs.aggregator(index)),
    }
}

/// Most datagrams that may be on their way to a node, in pages: a window from each child, and one from each parent.
pub(crate) fn datagrams_under_way(plans: &[Plan], node: NodeId) -> usize {
    let of_plan = |plan: &Plan| {
        let placed = plan.streams.iter().filter(|s| s.place(node).is_some());
        let datagrams = placed.map(|s| (s.fan_in(node) + 1) * s.window as usize);
        datagrams.sum::<usize>() * plan.packet_pages()
    };
    plans.iter().map(of_plan).sum()
}

/// Whether the packet that was left is a refusal of this node's own, not one that it passes down.
fn is_refusal(outcome: Outcome, packet: &[u8]) -> bool {
    matches!(outcome.recipients, Recipients::One(_))
        && Header::ref_from_prefix(packet).is_ok_and(|(h, _)| h.kind == Kind::Refusal as u8)
}

/// Adds what the kernel has counted. Control packets are counted where they are decided on, not again where they pass.
fn add_to(verdicts: &mut [(&'static str, u64)], of_kernel: Vec<(Verdict, u64)>) {
    for (verdict, count) in of_kernel.into_iter().filter(|(v, _)| *v != Verdict::Control) {
        verdicts[verdict as usize].1 += count;
    }
}

/// Whether a datagram is of a kind that the XDP program deals with.
fn carries_data(datagram: &[u8]) -> bool {
    let kind = Header::ref_from_prefix(datagram).ok().and_then(|(h, _)| Kind::from_wire(h.kind));
    matches!(kind, Some(Kind::Contribution | Kind::Result | Kind::Probe))
}
