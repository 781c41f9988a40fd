//! A node: the jobs that it serves, whatever sums them and whatever carries their packets.
//!
//! Everything about a daemon that does not depend on these is here, once: the loop, reports, the control socket's
//! orders, limits and quotas, and the end, by a signal or a successor.

mod orders;
mod plane;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::{Aggregator, ControlHalf, Plan};
use wiresum_switch::live::Station;
use wiresum_wire::{JobId, NodeId};

use crate::aggregators::{TcpAggregators, ThreadedAggregators, ThreadsError, UdpAggregators};
use crate::clock::timespec;
use crate::service::{JobQuota, Limits, Orders};
use crate::station::UdpStation;
use crate::takeover::Upgrade;

pub use plane::{ConnectionCounters, Counters, JobReport, Plane, StreamReport};

/// The daemon: a loop, a control socket and limits over a [`Plane`].
pub struct Node {
    id: NodeId,
    plane: Box<dyn Plane>,
    limits: Limits,
    /// Jobs without a quota are not in here.
    quotas: BTreeMap<JobId, JobQuota>,
    /// Where plans have to put this node; absent: anywhere.
    address: Option<SocketAddr>,
    orders: Option<Orders>,
    upgrade: Option<Upgrade>,
    /// Another process serves the node: this one is not to touch anything any more.
    is_handed_over: bool,
    begun: Instant,
}

impl Node {
    /// A node with its jobs, which are those of the plane.
    #[must_use]
    pub fn new(id: NodeId, plane: impl Plane + 'static) -> Self {
        Self {
            id,
            plane: Box::new(plane),
            limits: Limits::default(),
            quotas: BTreeMap::new(),
            address: None,
            orders: None,
            upgrade: None,
            is_handed_over: false,
            begun: Instant::now(),
        }
    }

    /// A node in user space: takes `address` and allocates the memory of all jobs. The first plan says what carries
    /// packets.
    ///
    /// # Errors
    /// What the kernel says to the address, or why the plans' streams do not fit.
    ///
    /// # Panics
    /// If `plans` is empty, or `id` is not in one of them.
    pub fn bind(address: SocketAddr, plans: &[Plan], id: NodeId) -> io::Result<Self> {
        Ok(if plans[0].fabric.is_some() {
            let station = UdpStation::bind(address, plans, id).map_err(io::Error::other)?;
            Self::new(id, station)
        } else if plans[0].is_over_tcp() {
            Self::new(id, TcpAggregators::bind(address, plans, id)?)
        } else {
            Self::new(id, UdpAggregators::bind(address, plans, id, None)?)
        })
    }

    /// As [`Self::bind`], with jobs that are shared by `threads`.
    ///
    /// # Errors
    /// [`ThreadsError`].
    ///
    /// # Panics
    /// As [`Self::bind`]. The plans are for servers over UDP.
    pub fn bind_threads(
        address: SocketAddr,
        plans: &[Plan],
        id: NodeId,
        threads: usize,
    ) -> Result<Self, ThreadsError> {
        let plane = ThreadedAggregators::bind(address, plans, id, threads)?;
        Ok(Self::new(id, plane))
    }

    /// Whether the slots of some plans fit into the memory of a daemon, said before any of it is taken: whoever asks for
    /// more than there is would be killed in the middle of it.
    ///
    /// # Errors
    /// How much they need, or why one node cannot serve them all.
    pub fn require_memory(plans: &[Plan], id: NodeId, limits: Limits) -> Result<(), String> {
        let Some(most) = limits.memory_bytes else { return Ok(()) };
        let (of_switches, of_servers): (Vec<Plan>, Vec<Plan>) =
            plans.iter().cloned().partition(|plan| plan.fabric.is_some());
        let of_servers: u64 = of_servers.iter().map(|plan| Aggregator::bytes_for(plan, id)).sum();
        let of_switches =
            Station::bytes_for(&of_switches, id).map_err(|error| error.to_string())?;
        let needed = of_servers + of_switches;
        let refusal = || {
            format!(
                "the plans together need {needed} bytes of memory here, and this daemon has {most}: plan with fewer slots, \
                 or raise --memory"
            )
        };
        if needed <= most { Ok(()) } else { Err(refusal()) }
    }

    /// Goes on with the quotas of another process, within limits of one's own.
    ///
    /// # Errors
    /// Why a job cannot be bounded here.
    pub fn inherit(
        &mut self,
        quotas: BTreeMap<JobId, JobQuota>,
        limits: Limits,
    ) -> Result<(), String> {
        self.limits = limits;
        quotas.into_iter().try_for_each(|(job, quota)| self.bound(job, quota))
    }

    /// Lets a part that has timers take part in the node's work.
    pub fn add_control(&mut self, half: Box<dyn ControlHalf>) {
        self.plane.add_control(half);
    }

    /// Lets jobs come and go: takes orders, and only plans that put this node at `address`, if one is given.
    pub fn take_orders(&mut self, orders: Orders, address: Option<SocketAddr>) {
        (self.orders, self.address) = (Some(orders), address);
    }

    /// Lets clients of the control socket start a successor.
    pub fn allow_upgrades(&mut self, upgrade: Upgrade) {
        self.upgrade = Some(upgrade);
    }

    /// Lets parts that have timers take part, each made for the jobs of one thread.
    pub fn add_control_by_job(&mut self, make: &dyn Fn() -> Box<dyn ControlHalf>) {
        self.plane.add_control_by_job(make);
    }

    /// Whether another process serves this node now.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Its number in plans.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// What serves its jobs.
    #[must_use]
    pub fn plane(&self) -> &dyn Plane {
        &*self.plane
    }

    pub(crate) fn orders(&self) -> Option<&Orders> {
        self.orders.as_ref()
    }

    /// Jobs served.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.plane.jobs().len()
    }

    /// What has become of every packet so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.plane.counters()
    }

    /// Where packets are sent to.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.plane.local_address()
    }

    /// Serves until `stop` becomes readable or another process has taken over, and calls `report` at every `interval`.
    ///
    /// # Errors
    /// What the kernel says when it is asked for packets.
    pub fn run(
        &mut self,
        stop: impl AsFd,
        interval: Option<Duration>,
        report: impl FnMut(&Counters),
    ) -> io::Result<()> {
        self.plane.resume();
        let end = self.serve(stop, interval, report);
        self.plane.pause();
        end
    }

    fn serve(
        &mut self,
        stop: impl AsFd,
        interval: Option<Duration>,
        mut report: impl FnMut(&Counters),
    ) -> io::Result<()> {
        let mut next_report = interval.map(|interval| Instant::now() + interval);
        let mut more = false;
        while self.sleep(stop.as_fd(), self.patience(more, next_report))? {
            self.answer_orders();
            if self.is_handed_over {
                return Ok(());
            }
            more = self.plane.turn()?;
            if next_report.is_some_and(|due| due <= Instant::now()) {
                report(&self.counters());
                next_report = interval.map(|interval| Instant::now() + interval);
            }
        }
        Ok(())
    }

    /// How long to wait for something to happen: until the next thing that the clock calls for.
    fn patience(&self, more: bool, next_report: Option<Instant>) -> Option<Duration> {
        let at_once = more.then_some(Duration::ZERO);
        let report = next_report.map(|due| due.saturating_duration_since(Instant::now()));
        [at_once, report, self.plane.idle_time()].into_iter().flatten().min()
    }

    /// Waits for packets and orders, at most `timeout`; `false` if it is time to stop.
    fn sleep(&self, stop: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        let mut fds = self.plane.watched();
        fds.extend(self.orders.iter().map(|orders| PollFd::new(orders, PollFlags::IN)));
        fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                Ok(fds.last().is_some_and(|stop| stop.revents().is_empty()))
            }
            Err(error) => Err(error.into()),
        }
    }
}
