//! Aggregators in several threads: each has a socket at the node's address, and jobs of its own.
//!
//! | file | what it does |
//! | --- | --- |
//! | `serving` | a thread that serves, and lends its aggregators to whoever carries out orders |
//! | `siblings` | what becomes of a packet that came to another thread than its job's |
//! | `relay` | how the node's negotiator hears of the jobs of all threads |
//!
//! The kernel reads the job from a packet and chooses the socket (`carriers/udp/steering.rs`), so threads share nothing on a
//! packet's way. A rank's threads are jobs of their own, so their packets are spread as well. What is not for one job alone,
//! orders and the sharing of links, is done by the node's own thread, which serves no packets.

mod relay;
mod serving;
mod siblings;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use thiserror::Error;
use wiresum_protocol::{ControlHalf, Plan, Quota};
use wiresum_wire::{JobId, MAX_PACKET, NodeId};

use super::adder::{datagrams_under_way, flush};
use super::control::Control;
use super::{JobState, State, UdpAggregators};
use crate::engine::Wake;
use crate::node::{Counters, JobReport, Plane};
use crate::takeover::{Legacy, Remains};
use crate::udp::{SendQueue, Socket};
use relay::{Event, MOST_EVENTS, Relay};
use serving::ServingThread;
pub(super) use siblings::Siblings;

/// Most threads: as many as jobs are served, so that each has one.
pub const MAX_THREADS: usize = 16;

/// Why there are no several threads.
#[derive(Debug, Error)]
pub enum ThreadsError {
    /// One thread could not serve there either.
    #[error(transparent)]
    Bind(io::Error),
    /// One thread can.
    #[error("the kernel does not share the address among sockets ({0})")]
    Share(io::Error),
}

/// The aggregators of one node, in several threads.
pub struct ThreadedAggregators {
    threads: Vec<ServingThread>,
    /// Those of the threads, in order.
    sockets: Vec<Socket>,
    /// The thread of each job, in the order in which jobs came.
    places: Vec<(JobId, usize)>,
    /// What concerns the jobs of all threads.
    control: Control,
    events: Receiver<Event>,
    relay: Relay,
    has_relays: bool,
    /// Something has happened in a thread.
    news: Wake,
    outgoing: SendQueue,
    packet: Box<[u8; MAX_PACKET]>,
}

impl ThreadedAggregators {
    /// Binds a socket for each of `count` threads to `address`, and deals the jobs out.
    ///
    /// # Errors
    /// [`ThreadsError`].
    ///
    /// # Panics
    /// If `node` is not in one of the plans.
    pub fn bind(
        address: SocketAddr,
        plans: &[Plan],
        node: NodeId,
        count: usize,
    ) -> Result<Self, ThreadsError> {
        let mut places = Vec::new();
        for plan in plans {
            places.push((plan.job_id(), idlest(&places, count)));
        }
        let shares: Vec<_> = (0..count).map(|thread| share(plans, &places, thread)).collect();
        let under_way = |share: &[Plan]| datagrams_under_way(share, node);
        let first = Socket::bind(address, under_way(&shares[0])).map_err(ThreadsError::Bind)?;
        let others = shares[1..].iter().map(|share| first.join(under_way(share)));
        let others = others.collect::<io::Result<Vec<_>>>().map_err(ThreadsError::Share)?;
        let sockets = std::iter::once(first).chain(others);
        let aggregators = sockets.zip(&shares);
        let aggregators =
            aggregators.map(|(socket, share)| UdpAggregators::at(socket, share, node));
        Self::new(aggregators.collect(), places).map_err(ThreadsError::Share)
    }

    /// Goes on where another process has stopped, with as many threads as it had.
    ///
    /// # Errors
    /// What the kernel says to the sockets, or that the jobs' states do not fit their plans.
    pub fn inherit(
        sockets: Vec<UdpSocket>,
        plans: &[Plan],
        remains: Remains,
        node: NodeId,
    ) -> io::Result<Self> {
        let state = State::read(remains)?;
        let ids = plans.iter().map(Plan::job_id);
        let places: Vec<_> = ids.zip(state.threads.iter().copied()).collect();
        let is_whole = places.len() == plans.len() && places.iter().all(|p| p.1 < sockets.len());
        if !is_whole {
            return Err(io::Error::other("the offer does not say which thread has which job"));
        }
        let states = state.by_thread(sockets.len());
        let aggregators = sockets.into_iter().zip(states).enumerate();
        let aggregators = aggregators.map(|(thread, (socket, state))| {
            let socket = Socket::inherit(socket)?;
            UdpAggregators::go_on(socket, &share(plans, &places, thread), state, node, None)
        });
        Self::new(aggregators.collect::<io::Result<_>>()?, places)
    }

    fn new(aggregators: Vec<UdpAggregators>, places: Vec<(JobId, usize)>) -> io::Result<Self> {
        let news = Wake::new()?;
        let (sender, events) = sync_channel(MOST_EVENTS);
        let sockets = aggregators.iter().map(|one| one.socket().share());
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        let threads = Self {
            threads: start(aggregators, &news)?,
            sockets,
            places,
            control: Control::default(),
            events,
            relay: Relay::new(sender, news.clone()),
            has_relays: false,
            news,
            outgoing: SendQueue::default(),
            packet: Box::new([0; MAX_PACKET]),
        };
        threads.tell_places()?;
        Ok(threads)
    }

    /// Tells the kernel and all threads which thread has which job.
    fn tell_places(&self) -> io::Result<()> {
        self.sockets[0].steer(&self.places)?;
        self.threads.iter().for_each(|thread| thread.with(|one| one.set_places(&self.places)));
        Ok(())
    }

    fn thread_of(&self, job: JobId) -> Result<usize, String> {
        let place = self.places.iter().find(|(other, _)| *other == job);
        place.map(|(_, thread)| *thread).ok_or_else(|| format!("job {job} is not served here"))
    }

    /// What every thread says, in order.
    fn each<T>(&self, ask: impl Fn(&mut UdpAggregators) -> T) -> impl Iterator<Item = T> {
        self.threads.iter().map(move |thread| thread.with(&ask))
    }

    /// The place of a job in the order in which jobs came.
    fn order_of(&self, job: JobId) -> usize {
        self.places.iter().position(|(other, _)| *other == job).unwrap_or(self.places.len())
    }

    fn hear(&mut self) {
        for event in self.events.try_iter().take(MOST_EVENTS) {
            match event {
                Event::Members(job, members) => self.control.handle_membership(job, &members),
                Event::Packet(source, bytes) => self.control.handle_packet(source, &bytes),
            }
        }
    }

    /// The plans of all jobs with what is known of each, in the order in which jobs came, and what is known beside.
    fn estate(&self) -> (Vec<Plan>, State) {
        let (mut jobs, mut retired) = (Vec::<(Plan, JobState)>::new(), Vec::new());
        for (plans, state) in self.each(|one| one.estate()) {
            jobs.extend(plans.into_iter().zip(state.jobs));
            retired.resize(state.retired.len(), 0);
            retired.iter_mut().zip(state.retired).for_each(|(sum, count)| *sum += count);
        }
        jobs.sort_by_key(|(plan, _)| self.order_of(plan.job_id()));
        let (plans, jobs) = jobs.into_iter().unzip();
        let threads = self.places.iter().map(|(_, thread)| *thread).collect();
        (plans, State { jobs, retired, threads })
    }
}

impl Plane for ThreadedAggregators {
    fn engine(&self) -> &'static str {
        "udp"
    }

    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.sockets[0].local_address()
    }

    fn remark(&self) -> Option<String> {
        self.sockets.iter().find_map(Socket::receive_buffer_remark)
    }

    fn memory_bytes(&self) -> usize {
        self.each(|one| one.memory_bytes()).sum()
    }

    fn counters(&self) -> Counters {
        let mut sum = self.each(|one| one.counters()).reduce(|mut sum, one| {
            sum.add(&one);
            sum
        });
        let sum = sum.get_or_insert_default();
        sum.add(&Counters {
            sent: self.outgoing.counters.clone(),
            control: self.control.counters(),
            ..Counters::default()
        });
        std::mem::take(sum)
    }

    fn watched(&self) -> Vec<PollFd<'_>> {
        vec![PollFd::from_borrowed_fd(self.news.as_fd(), PollFlags::IN)]
    }

    fn idle_time(&self) -> Option<Duration> {
        self.control.idle_time()
    }

    /// What concerns the jobs of all threads; packets are theirs.
    fn turn(&mut self) -> io::Result<bool> {
        self.news.clear();
        self.hear();
        self.control.handle_timeouts();
        while let Some(transmit) = self.control.poll_transmit(&mut self.packet[..]) {
            if self.outgoing.push(transmit.destination, &self.packet[..transmit.len]) {
                flush(&mut self.outgoing, &self.sockets[0]);
            }
        }
        flush(&mut self.outgoing, &self.sockets[0]);
        self.threads.iter().try_for_each(ServingThread::check)?;
        Ok(false)
    }

    fn add_control(&mut self, half: Box<dyn ControlHalf>) {
        self.control.add(half);
        if !std::mem::replace(&mut self.has_relays, true) {
            self.each(|one| one.add_control(Box::new(self.relay.clone()))).for_each(drop);
        }
    }

    fn add_control_by_job(&mut self, make: &dyn Fn() -> Box<dyn ControlHalf>) {
        self.each(|one| one.add_control(make())).for_each(drop);
    }

    fn jobs(&self) -> Vec<JobReport> {
        let mut reports: Vec<_> = self.each(|one| one.jobs()).flatten().collect();
        reports.sort_by_key(|report| self.order_of(report.job));
        reports
    }

    fn memory_for(&self, plan: &Plan) -> Result<u64, String> {
        self.threads[0].with(|one| one.memory_for(plan))
    }

    /// The job goes to the thread that has the fewest. Its packets come there once it is ready.
    fn add(&mut self, plan: &Plan) -> Result<(), String> {
        let thread = idlest(&self.places, self.threads.len());
        self.control.handle_job(plan);
        self.threads[thread].with(|one| one.add(plan))?;
        self.places.push((plan.job_id(), thread));
        self.tell_places().map_err(|error| {
            let undone = self.remove(plan.job_id());
            format!("the kernel puts no packets into this job's thread: {error}; {undone:?}")
        })
    }

    fn remove(&mut self, job: JobId) -> Result<(), String> {
        let thread = self.thread_of(job)?;
        self.threads[thread].with(|one| one.remove(job))?;
        self.places.retain(|(other, _)| *other != job);
        self.tell_places().map_err(|error| error.to_string())
    }

    fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), String> {
        let thread = self.thread_of(job)?;
        self.threads[thread].with(|one| one.set_quota(job, quota))
    }

    fn floods(&self) -> u64 {
        self.each(|one| one.floods()).sum()
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        let (plans, state) = self.estate();
        let sockets = self.sockets.iter().map(AsFd::as_fd).collect();
        Ok(Legacy { sockets, kernel: None, plans, remains: state.write() })
    }

    fn pause(&mut self) {
        self.threads.iter().for_each(ServingThread::hold);
    }

    fn resume(&mut self) {
        self.threads.iter().for_each(ServingThread::release);
    }
}

/// A thread for each of these, which waits.
fn start(aggregators: Vec<UdpAggregators>, news: &Wake) -> io::Result<Vec<ServingThread>> {
    let wakes = aggregators.iter().map(|_| Wake::new()).collect::<io::Result<Vec<_>>>()?;
    let siblings = Siblings::of(&wakes);
    let all = aggregators.into_iter().zip(siblings).zip(wakes).enumerate();
    let started = all.map(|(number, ((aggregators, siblings), wake))| {
        ServingThread::start(number, aggregators.among(siblings), wake, news.clone())
    });
    started.collect()
}

/// The thread that has the fewest jobs, of several the first.
fn idlest(places: &[(JobId, usize)], count: usize) -> usize {
    let jobs_of = |thread: &usize| places.iter().filter(|(_, other)| other == thread).count();
    (0..count).min_by_key(jobs_of).unwrap_or(0)
}

/// The plans of a thread's jobs.
fn share(plans: &[Plan], places: &[(JobId, usize)], thread: usize) -> Vec<Plan> {
    let of_thread = plans.iter().zip(places).filter(|(_, (_, place))| *place == thread);
    of_thread.map(|(plan, _)| plan.clone()).collect()
}
