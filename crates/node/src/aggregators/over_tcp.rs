//! The aggregator over TCP: one thread, one listener, every job that this node serves.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};
use wiresum_protocol::plan::{Child, PlanStream};
use wiresum_protocol::{Aggregator, ControlHalf, Plan, Quota, Recipients, Transmit, Verdict};
use wiresum_wire::{HEADER_LEN, Header, JobId, Kind, MAX_PACKET, NodeId};
use zerocopy::FromBytes;

use super::by_name;
use super::jobs::{Jobs, Served};
use super::transmitters::Transmitters;
use crate::node::{ConnectionCounters, Counters, JobReport, Plane};
use crate::takeover::Legacy;
use crate::tcp::peers::{Peer, Peers};

const LISTENER: usize = 0;
const FIRST_PEER: usize = 1;

/// Connections beyond two for each child (its own, and a broken one that has not been noticed yet): children of wrong
/// plans, who learn from a refusal that they are wrong.
const STRANGERS: usize = 16;
/// How long a connection may be silent, or unwelcome, before it is closed.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// Hellos in vain after which a connection is closed: one is for each stream of a worker with another plan, who reads
/// the refusals; who goes on asking takes time from those who sum.
const MAX_REFUSALS: u32 = 64;
/// Pause between looks at connections on which nothing happens.
const TICK: Duration = Duration::from_millis(500);
/// Callers who wait to be accepted.
const BACKLOG: i32 = 128;

/// The aggregators of one node.
pub struct TcpAggregators {
    listener: TcpListener,
    local: SocketAddr,
    peers: Peers,
    jobs: Jobs,
    /// For what a broken connection has lost.
    transmitters: Transmitters,
    /// A packet whose answers may be longer than itself.
    packet: Box<[u8; MAX_PACKET]>,
    packets: u64,
    connections: ConnectionCounters,
    most_children: usize,
    /// The listener is not watched, as the process has no descriptor left.
    is_deaf: bool,
    next_tick: Instant,
    node: NodeId,
}

impl TcpAggregators {
    /// Listens at `address` and allocates the memory of all jobs.
    ///
    /// # Errors
    /// What the kernel says to the address.
    ///
    /// # Panics
    /// If `plans` is empty, or `node` is not in one of them.
    pub fn bind(address: SocketAddr, plans: &[Plan], node: NodeId) -> io::Result<Self> {
        let listener = listen(address)?;
        let local = listener.local_addr()?;
        let jobs = Jobs::new(plans, node);
        let mut peers = Peers::new(FIRST_PEER, SocketAddr::new(local.ip(), 0))?;
        plans.iter().for_each(|plan| peers.add_job(&ancestors(plan, node)));
        peers.poller.add(&listener, LISTENER, EventFlags::IN)?;
        Ok(Self {
            listener,
            local,
            peers,
            jobs,
            transmitters: Transmitters::new(plans, node),
            packet: Box::new([0; MAX_PACKET]),
            packets: 0,
            connections: ConnectionCounters::default(),
            most_children: STRANGERS + plans.iter().map(most_children).sum::<usize>(),
            is_deaf: false,
            next_tick: Instant::now() + TICK,
            node,
        })
    }

    fn needs_ticks(&self) -> bool {
        self.is_deaf || self.peers.child_count() > 0
    }

    /// Accepts everyone who waits, up to the bound.
    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(_) if self.peers.child_count() >= self.most_children => {
                    self.connections.refused += 1;
                }
                Ok((socket, address)) => {
                    self.connections.accepted += 1;
                    if let Err(error) = self.peers.admit(socket, address) {
                        eprintln!("wiresum-node: the connection from {address} is closed: {error}");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The caller has gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    eprintln!(
                        "wiresum-node: no connections are accepted for a while ({error}): raise the limit of open files (`ulimit -n`)"
                    );
                    return self.listen_to_callers(false);
                }
            }
        }
    }

    /// Watches the listener, or lets callers wait.
    fn listen_to_callers(&mut self, listens: bool) {
        self.is_deaf = !listens;
        let interest = if listens { EventFlags::IN } else { EventFlags::empty() };
        if let Err(error) = self.peers.poller.modify(&self.listener, LISTENER, interest) {
            eprintln!("wiresum-node: cannot watch for connections: {error}");
        }
    }

    /// Something has happened to a peer.
    fn serve(&mut self, peer: usize, happened: EventFlags) {
        if self.peers.read(peer, happened) {
            self.take_packets(peer);
        } else {
            self.peers.close(peer, "the connection has ended");
        }
    }

    /// Deals with what a peer has sent, as far as others do not have to be waited for.
    fn take_packets(&mut self, peer: usize) {
        let Some(mut inbox) = self.peers.take_inbox(peer) else { return };
        while self.peers.may_go_on(peer) {
            let is_packet = match inbox.next_packet() {
                Ok(Some((memory, len))) => self.handle(peer, memory, len),
                Ok(None) => return self.peers.put_back(peer, inbox, false),
                Err(_) => self.count_malformed(peer),
            };
            if !is_packet {
                self.connections.garbage += 1;
                return self.peers.close(peer, "garbage came");
            }
            if self.peers.get(peer).is_some_and(|peer| peer.refusals > MAX_REFUSALS) {
                self.connections.unwelcome += 1;
                return self.peers.close(peer, "it does not stop saying hello in vain");
            }
        }
        self.peers.put_back(peer, inbox, true);
    }

    /// Gives a packet to its job; `false` if the peer must not send it.
    fn handle(&mut self, peer: usize, memory: &mut [u8], len: usize) -> bool {
        let Some(sender) = self.peers.get(peer) else { return false };
        if self.jobs.count() == 0 {
            self.jobs.count_unclaimed(Verdict::Foreign);
            return false;
        }
        let job = self.jobs.index_of(&memory[..len]);
        if *sender.job.get_or_insert(job) != job {
            return false;
        }
        self.packets += 1;
        let source = sender.address;
        let Self { jobs, transmitters, peers, packet, .. } = self;
        // What carries values is answered in its own length, so it may stay where it is, before the next packet.
        let memory = if carries_values(&memory[..len]) {
            memory
        } else {
            packet[..len].copy_from_slice(&memory[..len]);
            &mut packet[..]
        };
        let outcome = jobs.handle(job, source, memory, len);
        transmitters.observe(job, outcome, memory, jobs.aggregator(job));
        let is_a = |kind: Kind| {
            Header::ref_from_prefix(memory).is_ok_and(|(header, _)| header.kind == kind as u8)
        };
        let is_refused = is_a(Kind::Refusal) && outcome.recipients == Recipients::One(source)
            || is_a(Kind::Hello) && outcome.verdict == Verdict::Foreign;
        if is_refused && let Some(sender) = peers.get(peer) {
            sender.refusals += 1;
        }
        let push = |destination, packet: &[u8]| peers.push(job, destination, packet);
        if jobs.deliver(job, outcome, memory, push) {
            peers.write_due(Instant::now());
        }
        true
    }

    /// Gives the transmitters and the control halves their turn.
    fn follow_clock(&mut self) {
        let Self { jobs, transmitters, peers, packet, .. } = self;
        for job in 0..jobs.count() {
            let push = |transmit: Transmit, packet: &[u8]| {
                peers.push(job, transmit.destination, packet);
            };
            transmitters.advance(job, jobs.aggregator(job), &mut packet[..], push);
            while let Some(sub_model) = transmitters.next_orphan(job) {
                let outcome = jobs.lose_parent(job, sub_model, &mut packet[..]);
                let push = |destination, packet: &[u8]| peers.push(job, destination, packet);
                jobs.deliver(job, outcome, &mut packet[..], push);
            }
        }
        jobs.control.handle_timeouts();
        while let Some(transmit) = jobs.control.poll_transmit(&mut packet[..]) {
            let job = jobs.index_of(&packet[..transmit.len]);
            peers.push(job, transmit.destination, &packet[..transmit.len]);
        }
    }

    /// Counts what is no packet where packets are counted, at the job of the connection.
    fn count_malformed(&mut self, peer: usize) -> bool {
        let Some(sender) = self.peers.get(peer) else { return false };
        let (job, source) = (sender.job.unwrap_or(0), sender.address);
        self.packets += 1;
        if self.jobs.count() == 0 {
            self.jobs.count_unclaimed(Verdict::Malformed);
        } else {
            self.jobs.handle(job, source, &mut [0; MAX_PACKET], HEADER_LEN);
        }
        false
    }

    /// Sends what waits, and lets those go on who need not wait any more. It ends, as nothing is read meanwhile.
    fn settle(&mut self) {
        loop {
            self.peers.write_all(Instant::now());
            let released = self.peers.released();
            if released.is_empty() {
                return;
            }
            released.into_iter().for_each(|peer| self.take_packets(peer));
        }
    }

    /// Closes the connections of strangers.
    fn tick(&mut self, now: Instant) {
        if self.is_deaf {
            self.listen_to_callers(true);
        }
        let members: BTreeSet<_> = (0..self.jobs.count())
            .flat_map(|job| self.jobs.membership(job).1.children.into_values())
            .collect();
        let is_unwelcome = |peer: &Peer| {
            let is_known = peer.is_parent() || members.contains(&peer.address);
            !is_known && now >= peer.since + HELLO_PATIENCE
        };
        let unwelcome: Vec<_> =
            self.peers.iter().filter(|(_, peer)| is_unwelcome(peer)).map(|(n, _)| n).collect();
        for peer in unwelcome {
            self.connections.unwelcome += 1;
            self.peers.close(peer, "no hello");
        }
    }
}

impl Plane for TcpAggregators {
    fn engine(&self) -> &'static str {
        "tcp"
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn memory_bytes(&self) -> usize {
        self.jobs.memory_bytes()
    }

    fn counters(&self) -> Counters {
        Counters {
            verdicts: by_name(self.jobs.verdicts()),
            datagrams_received: self.packets,
            sent: self.peers.counters.clone(),
            control: self.jobs.control.counters(),
            transmitters: self.transmitters.counters(),
            connections: self.connections,
            ..Counters::default()
        }
    }

    fn watched(&self) -> Vec<PollFd<'_>> {
        vec![PollFd::new(&self.peers.poller, PollFlags::IN)]
    }

    fn idle_time(&self) -> Option<Duration> {
        let tick = self.next_tick.saturating_duration_since(Instant::now());
        let tick = self.needs_ticks().then_some(tick);
        let others = [self.jobs.control.idle_time(), self.transmitters.idle_time()];
        others.into_iter().chain([tick]).flatten().min()
    }

    fn turn(&mut self) -> io::Result<bool> {
        for (token, happened) in self.peers.poller.wait(Some(Duration::ZERO))? {
            match token {
                LISTENER => self.accept(),
                token => self.serve(token - FIRST_PEER, happened),
            }
        }
        self.follow_clock();
        self.settle();
        let now = Instant::now();
        if self.next_tick <= now {
            self.tick(now);
            self.next_tick = now + TICK;
        }
        // What did not fit into this batch of events keeps the poller readable.
        Ok(false)
    }

    fn add_control(&mut self, half: Box<dyn ControlHalf>) {
        self.jobs.control.add(half);
    }

    fn jobs(&self) -> Vec<JobReport> {
        let report = |job: &Served| job.report(job.aggregator.memory_bytes() as u64);
        self.jobs.iter().map(report).collect()
    }

    fn memory_for(&self, plan: &Plan) -> Result<u64, String> {
        super::require_tree(plan, true)?;
        Ok(Aggregator::bytes_for(plan, self.node))
    }

    fn add(&mut self, plan: &Plan) -> Result<(), String> {
        self.jobs.add(plan.job_id(), Aggregator::new(plan, self.node));
        self.jobs.control.handle_job(plan);
        self.transmitters.add(plan, self.node);
        self.peers.add_job(&ancestors(plan, self.node));
        self.most_children += most_children(plan);
        Ok(())
    }

    fn remove(&mut self, job: JobId) -> Result<(), String> {
        let index = self.jobs.index_of_job(job);
        let index = index.ok_or_else(|| format!("job {job} is not served here"))?;
        self.most_children -= most_children(self.jobs.aggregator(index).plan());
        self.jobs.remove(index);
        self.transmitters.remove(index);
        self.peers.remove_job(index);
        Ok(())
    }

    fn set_quota(&mut self, _job: JobId, quota: Option<Quota>) -> Result<(), String> {
        quota.map_or(Ok(()), |_| Err("TCP's own flow control replaces quotas".to_owned()))
    }

    fn legacy(&self) -> Result<Legacy<'_>, String> {
        Err("the engine `tcp` cannot be handed over, as half-read packets are not: restart the daemon, \
             between two jobs".to_owned())
    }
}

fn carries_values(packet: &[u8]) -> bool {
    let kind = Header::ref_from_prefix(packet).ok().and_then(|(h, _)| Kind::from_wire(h.kind));
    kind.is_some_and(Kind::carries_values)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A daemon that is started again need not wait for the connections of the one before.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The nodes above `node`, each once: its parents, and those that may take their place.
fn ancestors(plan: &Plan, node: NodeId) -> Vec<SocketAddr> {
    let above = |stream: &PlanStream| {
        let parent = |id: &NodeId| Some(stream.parent_of(Child::Node(id.0))?.0);
        std::iter::successors(parent(&node), parent).collect::<Vec<_>>()
    };
    let ids = plan.streams.iter().flat_map(above);
    let addresses = ids.filter_map(|id| plan.node(id)).map(|node| node.address);
    addresses.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Connections of a job's children at most: those of a node that has gone come to one above it, so it may be everyone
/// in the plan. Each may have a broken connection that has not been noticed yet.
fn most_children(plan: &Plan) -> usize {
    2 * (plan.workers.len() + plan.nodes.len())
}
