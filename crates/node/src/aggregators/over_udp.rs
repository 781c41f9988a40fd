//! Aggregators over datagrams and frames: one socket, every job that this node serves.
//!
//! What happens to a packet is decided by [`wiresum_protocol::Aggregator`]; here datagrams are moved in batches, and
//! what acts by the clock ([`ControlHalf`]) gets its turn after each. In user space, without privileges, that is all
//! there is. With a [`Kernel`] beside it, the XDP program sums, and the socket gets only who joins and leaves, and what
//! the control halves say to each other; then the aggregators' slot memory is never touched, so it takes no pages. With
//! AF_XDP, what is summed comes as frames, and the socket gets the rest.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use wiresum_protocol::{Aggregator, ControlHalf, Plan, Quota};
use wiresum_wire::{JobId, NodeId};
use wiresum_xdp::AfXdp;

use super::State;
use super::adder::{Adder, datagrams_under_way};
use super::kernel::Kernel;
use super::threads::Siblings;
use crate::clock::Clock;
use crate::node::{Counters, JobReport, Plane};
use crate::takeover::{Legacy, Remains};
use crate::udp::guard::Guard;
use crate::udp::{ReceiveBatch, Socket};

/// The aggregators of one node.
pub struct UdpAggregators {
    socket: Socket,
    received: ReceiveBatch,
    datagrams: u64,
    adder: Adder,
    guard: Guard,
    /// Other threads at this address.
    siblings: Option<Siblings>,
    node: NodeId,
    clock: Clock,
}

impl UdpAggregators {
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
        plans: &[Plan],
        remains: Remains,
        node: NodeId,
        kernel: Option<Kernel>,
    ) -> io::Result<Self> {
        Self::go_on(Socket::inherit(socket)?, plans, State::read(remains)?, node, kernel)
    }

    /// Goes on with jobs as they are.
    pub(super) fn go_on(
        socket: Socket,
        plans: &[Plan],
        state: State,
        node: NodeId,
        kernel: Option<Kernel>,
    ) -> io::Result<Self> {
        let mut adder = Adder::new(&[], node, kernel);
        adder.inherit(plans, state, node)?;
        Ok(Self::new(socket, adder, node))
    }

    /// Begins at a socket, and allocates the memory of all jobs.
    pub(super) fn at(socket: Socket, plans: &[Plan], node: NodeId) -> Self {
        Self::new(socket, Adder::new(plans, node, None), node)
    }

    fn new(socket: Socket, adder: Adder, node: NodeId) -> Self {
        Self {
            socket,
            received: ReceiveBatch::default(),
            datagrams: 0,
            adder,
            guard: Guard::default(),
            siblings: None,
            node,
            clock: Clock::default(),
        }
    }

    /// Takes what is to be summed from AF_XDP sockets, too.
    #[must_use]
    pub fn with_frames(mut self, frames: AfXdp) -> Self {
        self.adder.outgoing.frames = Some(frames);
        self
    }

    /// Has other threads beside it.
    pub(super) fn among(self, siblings: Siblings) -> Self {
        Self { siblings: Some(siblings), ..self }
    }

    /// Where its packets come.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Learns which thread has which job.
    pub(super) fn set_places(&mut self, places: &[(JobId, usize)]) {
        self.siblings.iter_mut().for_each(|siblings| siblings.set_places(places));
    }

    /// The plans of its jobs, and what it knows.
    pub(super) fn estate(&self) -> (Vec<Plan>, State) {
        let plans = self.adder.jobs.iter().map(|job| job.aggregator.plan().clone()).collect();
        (plans, self.adder.state())
    }

    /// Deals with packets that came to other threads.
    fn take_strays(&mut self) {
        let arrivals = self.siblings.iter().flat_map(Siblings::arrivals);
        for (source, datagram) in arrivals {
            self.adder.handle(&self.socket, source, &datagram);
        }
    }

    fn index_of(&self, job: JobId) -> Result<usize, String> {
        self.adder.jobs.index_of_job(job).ok_or_else(|| format!("job {job} is not served here"))
    }
}

impl Plane for UdpAggregators {
    fn engine(&self) -> &'static str {
        match (&self.adder.kernel, &self.adder.outgoing.frames) {
            (Some(_), _) => "xdp",
            (None, Some(_)) => "af_xdp",
            (None, None) => "udp",
        }
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()
    }

    fn remark(&self) -> Option<String> {
        self.socket.receive_buffer_remark()
    }

    /// Those of slots, and of frames.
    fn memory_bytes(&self) -> usize {
        let Adder { jobs, kernel, .. } = &self.adder;
        let slots = kernel.as_ref().map_or_else(|| jobs.memory_bytes(), Kernel::memory_bytes);
        slots + self.adder.outgoing.frames.as_ref().map_or(0, AfXdp::memory_bytes)
    }

    fn counters(&self) -> Counters {
        Counters {
            verdicts: self.adder.verdicts(),
            datagrams_received: self.datagrams,
            strays: self.adder.strays,
            passed_on: self.siblings.as_ref().map_or(0, |siblings| siblings.passed_on),
            sent: self.adder.outgoing.datagrams.counters.clone(),
            control: self.adder.jobs.control.counters(),
            transmitters: self.adder.transmitters.counters(),
            frames: self.adder.outgoing.frames.as_ref().map(AfXdp::counters).unwrap_or_default(),
            ..Counters::default()
        }
    }

    fn watched(&self) -> Vec<PollFd<'_>> {
        let frames = self.adder.outgoing.frames.iter().flat_map(AfXdp::descriptors);
        let checks = self.adder.kernel.iter().map(Kernel::check_descriptor);
        let all = std::iter::once(self.socket.as_fd()).chain(frames).chain(checks);
        all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect()
    }

    fn idle_time(&self) -> Option<Duration> {
        let guard = self.guard.idle_time(self.clock.now());
        [self.adder.idle_time(), guard].into_iter().flatten().min()
    }

    /// One batch of datagrams, and one of frames from each queue.
    fn turn(&mut self) -> io::Result<bool> {
        self.adder.jobs.set_time(self.clock.now());
        let more_frames = self.adder.handle_frames(&self.socket);
        let more = self.socket.receive(&mut self.received)? || more_frames;
        for (source, datagram) in self.received.datagrams() {
            self.datagrams += 1;
            let is_passed_on =
                self.siblings.as_mut().is_some_and(|others| others.pass_on(source, datagram));
            if !is_passed_on {
                self.adder.handle(&self.socket, source, datagram);
            }
        }
        self.take_strays();
        self.adder.follow_clock(&self.socket);
        let (refused, jobs) = (self.adder.refused, &self.adder.jobs);
        self.guard.follow(self.clock.now(), refused, || jobs.known(), &self.socket);
        self.adder.flush(&self.socket);
        Ok(more)
    }

    fn add_control(&mut self, half: Box<dyn ControlHalf>) {
        self.adder.jobs.control.add(half);
        self.adder.jobs.announce();
    }

    fn jobs(&self) -> Vec<JobReport> {
        self.adder.reports(self.node)
    }

    /// In the kernel slots are the pool's, so what is needed there is more than the plan says.
    fn memory_for(&self, plan: &Plan) -> Result<u64, String> {
        super::require_tree(plan, false)?;
        if self.adder.outgoing.frames.is_some() {
            return Err("the engine `af_xdp` has frames for the jobs that it was started with: restart it with one \
                        more --plan".to_owned());
        }
        Ok(self.adder.memory_for(plan, self.node))
    }

    fn add(&mut self, plan: &Plan) -> Result<(), String> {
        let Adder { jobs, transmitters, kernel, .. } = &mut self.adder;
        if let Some(kernel) = kernel {
            kernel.add_job(plan, self.node).map_err(|error| error.to_string())?;
        }
        jobs.add(plan.job_id(), Aggregator::new(plan, self.node));
        jobs.control.handle_job(plan);
        transmitters.add(plan, self.node);
        Ok(())
    }

    fn remove(&mut self, job: JobId) -> Result<(), String> {
        let index = self.index_of(job)?;
        let Adder { jobs, transmitters, kernel, .. } = &mut self.adder;
        jobs.remove(index);
        transmitters.remove(index);
        let removed = kernel.as_mut().map_or(Ok(()), |kernel| kernel.remove_job(job));
        removed.map_err(|error| error.to_string())
    }

    fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), String> {
        let index = self.index_of(job)?;
        let of_kernel = self.adder.kernel.as_mut().map_or(Ok(()), |k| k.set_quota(job, quota));
        of_kernel.map_err(|error| error.to_string())?;
        self.adder.jobs.set_quota(index, quota);
        Ok(())
    }

    fn floods(&self) -> u64 {
        self.guard.floods
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        if self.adder.outgoing.frames.is_some() {
            return Err("the engine `af_xdp` cannot be handed over, as frames are this process's memory: restart \
                        the daemon, between two jobs".to_owned());
        }
        let kernel = self.adder.kernel.as_ref();
        let (plans, state) = self.estate();
        Ok(Legacy {
            plans,
            sockets: vec![self.socket.as_fd()],
            kernel: kernel.map(Kernel::descriptors),
            remains: state.write(),
        })
    }

    fn reclaim(&self) {
        if let Some(Err(error)) = self.adder.kernel.as_ref().map(Kernel::reattach) {
            eprintln!("wiresum-node: {error}");
        }
    }
}
