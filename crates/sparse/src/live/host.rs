//! A server of tables, or a switch that sums hot rows, as a participant: who has joined, and what is said to whom.

mod joining;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use thiserror::Error;
use wiresum_keys::SeatKey;
use wiresum_keys::association::{CLOCK_MARGIN_US, ValueKeys};
use wiresum_netem::Time;
use wiresum_wire::{JobKey, Kind, Packet, RowKind, RowPacket};

use super::exchange::Exchange;
use super::renewal::NodeKeys;
use super::seats::{Seats, Standing};
use super::{Datagram, Job};
use crate::message::{FromServer, FromSwitch, Sender, ToServer, ToSwitch};
use crate::packet::{
    Acknowledgements, Assembly, Envelope, from_server, from_switch, to_server, to_switch,
};
use crate::server::{Server, SnapshotError};
use crate::summer::Summer;
use crate::table::TableError;

/// A host that cannot be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HostError {
    /// See [`TableError`].
    #[error(transparent)]
    Table(#[from] TableError),
    /// See [`SnapshotError`].
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A number that is no server's and no switch's.
    #[error("the job has no node {0}: servers are numbered from 0, then switches")]
    Node(u16),
    /// A switch with others beneath it where a program would have to add.
    #[error(
        "node {0} has switches beneath it, whose sums are added in user space: leave --engine and --interface out"
    )]
    Inner(u16),
    /// A server where a switch was asked for.
    #[error(
        "node {0} is a server of tables, which sums in user space: leave --engine and --interface out"
    )]
    Server(u16),
}

/// What was counted since the host began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Packets that were handed to the server or switch.
    pub taken: u64,
    /// Hellos that were answered with a welcome.
    pub welcomed: u64,
    /// Hellos that were refused.
    pub refused: u64,
    /// Packets that are no packets of rows.
    pub malformed: u64,
    /// Packets of another job, another incarnation or another node, or from an address that has not joined.
    pub foreign: u64,
}

#[derive(Clone, Debug)]
enum Role {
    /// With its part in decisions about the hot set, once the job runs, if there are any.
    Server(Box<Server>, Option<Box<Exchange>>),
    /// With its standing at the servers.
    Switch(Box<Summer>, Option<Seats>),
}

/// A node of a sparse job with those who have joined it: datagrams in, datagrams out.
#[derive(Clone, Debug)]
pub struct Host {
    job: Arc<Job>,
    /// The job's fingerprint: every hello is compared with it, and it takes milliseconds where many rows are hot.
    digest: u64,
    node: u16,
    /// The incarnation of this host: a restarted one has a larger one.
    own: u32,
    role: Role,
    /// Whether a program beneath adds rows.
    is_over_program: bool,
    /// Incarnation of the job and its keys, once somebody has said hello.
    running: Option<NodeKeys>,
    /// The newest incarnation that it believes.
    latest: u64,
    /// By contributor, what it proves to be there with: deriving a key takes longer than testing a proof.
    keys: Vec<SeatKey>,
    /// By sender, where it is.
    peers: Vec<Option<SocketAddr>>,
    /// The version that the server can be restored to.
    restorable: u32,
    assembly: Assembly,
    acknowledgements: Acknowledgements,
    /// To the switch above.
    upwards: Acknowledgements,
    outbox: VecDeque<Datagram>,
    counters: HostCounters,
}

impl Host {
    /// A host before the first round.
    ///
    /// # Errors
    /// [`HostError::Node`], [`HostError::Table`].
    pub fn new(job: &Arc<Job>, node: u16, own: u32) -> Result<Self, HostError> {
        let role = Self::role(job, node)?;
        Ok(Self::with_role(job, node, own, role))
    }

    fn with_role(job: &Arc<Job>, node: u16, own: u32, role: Role) -> Self {
        let participants = job.senders() as usize + job.servers.len();
        Self {
            job: Arc::clone(job),
            digest: job.digest(),
            node,
            own,
            role,
            is_over_program: false,
            running: None,
            latest: u64::MAX,
            keys: job.seat_keys(node),
            peers: vec![None; participants],
            restorable: 0,
            assembly: Assembly::default(),
            acknowledgements: Acknowledgements::default(),
            upwards: Acknowledgements::default(),
            outbox: VecDeque::new(),
            counters: HostCounters::default(),
        }
    }

    fn role(job: &Job, node: u16) -> Result<Role, HostError> {
        let servers = job.shards().0;
        job.address(node).ok_or(HostError::Node(node))?;
        Ok(if node < servers {
            Role::Server(Box::new(Server::new(job.server_spec(node), &job.map())?), None)
        } else {
            Role::Switch(Box::new(Summer::new(job.summer_spec(node - servers), job.map())), None)
        })
    }

    /// A switch above a program that adds the rows, before the first round.
    ///
    /// # Errors
    /// [`HostError::Node`], [`HostError::Server`].
    pub fn over_program(job: &Arc<Job>, node: u16, own: u32) -> Result<Self, HostError> {
        let mut host = Self::new(job, node, own)?;
        let switch = node.checked_sub(job.shards().0).ok_or(HostError::Server(node))?;
        if job.children(switch).iter().any(|child| child.sender >= job.workers) {
            return Err(HostError::Inner(node));
        }
        host.summer_mut().ok_or(HostError::Server(node))?.put_over_program();
        Ok(Self { is_over_program: true, ..host })
    }

    /// A server as it was when a snapshot was taken.
    ///
    /// # Errors
    /// [`HostError::Snapshot`].
    pub fn restore(job: &Arc<Job>, node: u16, own: u32, bytes: &[u8]) -> Result<Self, HostError> {
        let (incarnation, bytes) =
            bytes.split_first_chunk().ok_or(SnapshotError::Damaged(bytes.len()))?;
        let incarnation = u64::from_be_bytes(*incarnation);
        let server = Server::restore(job.server_spec(node), &job.map(), bytes)?;
        let restorable = server.open_round() - 1;
        let exchange = Exchange::new(job, node, incarnation).map(Box::new);
        let host = Self::with_role(job, node, own, Role::Server(Box::new(server), exchange));
        let running = Some(NodeKeys::new(job.keys(), job.renewal, incarnation));
        Ok(Self { running, restorable, ..host })
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// The server, if it is one.
    #[must_use]
    pub fn server(&self) -> Option<&Server> {
        match &self.role {
            Role::Server(server, _) => Some(server),
            Role::Switch(..) => None,
        }
    }

    /// The switch, if it is one.
    #[must_use]
    pub fn summer(&self) -> Option<&Summer> {
        match &self.role {
            Role::Switch(summer, _) => Some(summer),
            Role::Server(..) => None,
        }
    }

    /// The switch, to be told what a program beneath has added.
    pub fn summer_mut(&mut self) -> Option<&mut Summer> {
        match &mut self.role {
            Role::Switch(summer, _) => Some(summer),
            Role::Server(..) => None,
        }
    }

    /// The key of the incarnation that it serves, once somebody has said hello.
    #[must_use]
    pub fn key(&self) -> Option<JobKey> {
        self.running.as_ref().map(NodeKeys::of_joining)
    }

    /// What packets of rows may carry, and log2 of the positions that a round stands for.
    #[must_use]
    pub fn row_keys(&self) -> Option<(u8, ValueKeys)> {
        self.running.as_ref().map(NodeKeys::all)
    }

    /// Workers that have joined, and where they are.
    pub fn workers(&self) -> impl Iterator<Item = (u8, SocketAddr)> {
        let workers = (0..).zip(&self.peers[..self.job.workers as usize]);
        workers.filter_map(|(rank, address)| Some((rank, (*address)?)))
    }

    /// Its number among the job's nodes.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.node
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Tells the time, in microseconds since 1970. Refuses incarnations that are far ahead of it from now on.
    pub fn set_clock(&mut self, unix_us: u64) {
        self.latest = unix_us.saturating_add(CLOCK_MARGIN_US);
    }

    /// Participants that have joined.
    #[must_use]
    pub fn members(&self) -> usize {
        self.peers.iter().flatten().count()
    }

    /// Whether somebody at this address has joined.
    #[must_use]
    pub fn has_joined(&self, address: SocketAddr) -> bool {
        self.peers.contains(&Some(address))
    }

    /// Rounds that are over here.
    #[must_use]
    pub fn version(&self) -> u32 {
        match &self.role {
            Role::Server(server, _) => server.open_round() - 1,
            Role::Switch(summer, _) => summer.round() - 1,
        }
    }

    /// The version that the server can be restored to.
    #[must_use]
    pub fn restorable(&self) -> u32 {
        self.restorable
    }

    /// A datagram has come.
    pub fn handle(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        match RowPacket::parse(bytes) {
            Ok(packet) => self.rows(source, &packet, now),
            Err(_) => match Packet::parse(bytes) {
                Ok(packet) if packet.kind == Kind::Hello => self.hello(source, &packet, now),
                Ok(packet) => self.answered(source, &packet, now),
                Err(_) => self.counters.malformed += 1,
            },
        }
    }

    fn rows(&mut self, source: SocketAddr, packet: &RowPacket<'_>, now: Time) {
        let header = packet.header;
        let is_ours = header.job.get() == self.job.id
            && self.running.as_ref().is_some_and(|keys| keys.takes(header));
        let sender = Sender::from(header.contributor);
        if !is_ours {
            self.counters.foreign += 1;
        } else if header.node.get() != self.node {
            self.hear_node(source, packet, now);
        } else if self.peers.get(sender as usize) != Some(&Some(source)) {
            self.counters.foreign += 1;
        } else {
            self.counters.taken += 1;
            self.take(sender, packet, now);
        }
    }

    /// Something from a participant that has joined.
    fn take(&mut self, from: Sender, packet: &RowPacket<'_>, now: Time) {
        match &mut self.role {
            Role::Server(_, exchange) if packet.kind == RowKind::Report => {
                let server = from.checked_sub(self.job.senders());
                let report = exchange.as_mut().zip(server);
                let taken = report.and_then(|(to, from)| to.handle_report(from as u16, packet));
                if let Some((round, part)) = taken {
                    self.acknowledgements.add(from, round, part, now);
                }
            }
            Role::Server(server, _) => {
                if let Some(message) = to_server(packet, &mut self.assembly) {
                    if self.job.has_room_for_answer(&message) {
                        server.handle(from, &message);
                    } else {
                        self.counters.malformed += 1;
                    }
                }
            }
            Role::Switch(summer, _) => {
                summer.set_time(now);
                to_switch(packet, |message| summer.handle(from, &message));
            }
        }
    }

    /// What a server says to one that sends to it, or the switch above.
    fn hear_node(&mut self, source: SocketAddr, packet: &RowPacket<'_>, now: Time) {
        let (node, incarnation) = (packet.header.node.get(), packet.rows.stamp.get());
        let is_above = Some(node) == self.above();
        let is_from = self.job.address(node) == Some(source);
        if !is_from || !is_above && node >= self.job.shards().0 {
            self.counters.foreign += 1;
            return;
        }
        let (summer, seats) = match &mut self.role {
            Role::Switch(summer, Some(seats)) => (summer, seats),
            Role::Server(_, Some(exchange)) if exchange.hears(node) => {
                self.counters.taken += 1;
                return exchange.hear(node, packet, &mut self.assembly, now);
            }
            _ => return self.counters.foreign += 1,
        };
        self.counters.taken += 1;
        summer.set_time(now);
        seats.heard(node, now);
        if packet.kind == RowKind::Restorable {
            let version = packet.header.round.get();
            match seats.enter(node, incarnation) {
                Standing::Restarted if is_above => summer.fail(&format!(
                    "node {node} at {source} was restarted, and the sums of the round are lost: begin the job anew"
                )),
                Standing::Same if is_above => {}
                Standing::Restarted => summer.handle_restart(node, version),
                Standing::Same => summer.handle_snapshot(node, version),
                Standing::First | Standing::Outdated => {}
            }
        } else if is_above {
            from_switch(packet, |message| summer.handle_above(&message));
        } else if seats.is_current(node, incarnation) {
            from_server(packet, &mut self.assembly, |message| match message {
                FromServer::Acknowledgement { round, sequence } => {
                    summer.handle_acknowledgement(node, round, sequence);
                }
                FromServer::Closed(closed) => summer.handle_closed(node, &closed),
                FromServer::Refusal { .. } | FromServer::Rows { .. } => {}
            });
        }
    }

    /// Gives `send` what is to be sent now.
    pub fn poll(&mut self, now: Time, mut send: impl FnMut(SocketAddr, &[u8])) {
        self.send_hellos(now);
        self.send_decisions(now);
        self.send_answers(now);
        self.send_sums(now);
        self.send_above(now);
        let mut acknowledgements = std::mem::take(&mut self.acknowledgements);
        acknowledgements.emit(
            now,
            |to| self.envelope(self.node, to),
            |to, bytes| self.peers[to as usize].into_iter().for_each(|at| send(at, bytes)),
        );
        self.acknowledgements = acknowledgements;
        self.outbox.drain(..).for_each(|(to, bytes)| send(to, &bytes));
    }

    /// What servers tell each other about the hot set.
    fn send_decisions(&mut self, now: Time) {
        let Self { role, outbox, job, running, own, .. } = self;
        let (Role::Server(server, Some(exchange)), Some(running)) = (role, running) else {
            return;
        };
        exchange.turn(server);
        let (job, room, peer) = (job.job_id(), job.room(), exchange.sender() as u8);
        let (keys, incarnation, may_narrow) = (running.keys(), *own, false);
        let envelope = |node| Envelope { job, keys, node, peer, incarnation, room, may_narrow };
        exchange.poll(now, envelope, |to, bytes| outbox.push_back((to, bytes.to_vec())));
    }

    fn send_answers(&mut self, now: Time) {
        loop {
            match &mut self.role {
                Role::Server(server, _) => match server.poll_transmit() {
                    None => return,
                    Some((to, FromServer::Acknowledgement { round, sequence })) => {
                        self.acknowledgements.add(to, round, sequence, now);
                    }
                    Some((to, message)) => {
                        self.push(to, |envelope, send| envelope.emit_from_server(&message, send));
                    }
                },
                Role::Switch(summer, _) => match summer.poll_transmit(now) {
                    None => return,
                    Some((to, FromSwitch::Acknowledgement { round, sequence })) => {
                        self.acknowledgements.add(to, round, sequence, now);
                    }
                    Some((to, message)) => {
                        self.push(to, |envelope, send| envelope.emit_from_switch(&message, send));
                    }
                },
            }
        }
    }

    /// Queues datagrams for a participant, if it has joined.
    fn push(&mut self, to: Sender, emit: impl FnOnce(&Envelope, &mut dyn FnMut(&[u8]))) {
        let envelope = self.envelope(self.node, to);
        if let Some(address) = self.peers.get(to as usize).copied().flatten() {
            emit(&envelope, &mut |bytes| self.outbox.push_back((address, bytes.to_vec())));
        }
    }

    /// Sums of a switch, for their servers.
    fn send_sums(&mut self, now: Time) {
        let number = self.node.saturating_sub(self.job.shards().0);
        let sender = self.job.sender_of(number);
        while let Some((server, message)) = self.next_sum(now) {
            let envelope = self.envelope(server, sender);
            let Some(address) = self.job.address(server) else { continue };
            envelope.emit_to_server(&message, |bytes| {
                self.outbox.push_back((address, bytes.to_vec()));
            });
        }
    }

    /// The node above, if this is a switch that has one.
    fn above(&self) -> Option<u16> {
        self.node.checked_sub(self.job.shards().0).and_then(|switch| self.job.parent(switch))
    }

    /// What goes to the switch above: sums, and acknowledgements of results.
    fn send_above(&mut self, now: Time) {
        let Some(above) = self.above() else { return };
        let address = self.job.address(above).expect("a node of the job");
        let envelope = self.envelope(above, self.job.sender_of(self.node - self.job.shards().0));
        while let Some(message) = self.next_above(now) {
            if let ToSwitch::Acknowledgement { round, part } = message {
                self.upwards.add(above.into(), round, part, now);
                continue;
            }
            envelope.emit_to_switch(&message, |bytes| {
                self.outbox.push_back((address, bytes.to_vec()));
            });
        }
        let outbox = &mut self.outbox;
        self.upwards.emit(
            now,
            |_| envelope,
            |_, bytes| outbox.push_back((address, bytes.to_vec())),
        );
    }

    fn next_above(&mut self, now: Time) -> Option<ToSwitch> {
        match &mut self.role {
            Role::Switch(summer, Some(seats)) if seats.are_taken() => summer.poll_above(now),
            _ => None,
        }
    }

    fn next_sum(&mut self, now: Time) -> Option<(u16, ToServer)> {
        match &mut self.role {
            Role::Switch(summer, Some(seats)) if seats.are_taken() => summer.poll_to_server(now),
            _ => None,
        }
    }

    /// When there will be more to send, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = match &self.role {
            Role::Switch(summer, Some(seats)) => {
                // What is for servers waits until all have welcomed the switch.
                let due = summer.poll_timeout().filter(|_| seats.are_taken());
                [due, seats.poll_timeout()].into_iter().flatten().min()
            }
            Role::Server(_, Some(exchange)) => exchange.poll_timeout(),
            _ => None,
        };
        let acknowledgements = [&self.acknowledgements, &self.upwards];
        let acknowledgements = acknowledgements.map(Acknowledgements::poll_timeout);
        acknowledgements.into_iter().chain([due]).flatten().min()
    }

    fn envelope(&self, node: u16, peer: Sender) -> Envelope {
        let keys = self.running.as_ref().map(NodeKeys::keys).unwrap_or_default();
        let (job, room) = (self.job.job_id(), self.job.room());
        let (peer, may_narrow) = (peer as u8, self.job.has_narrow_values());
        Envelope { job, keys, node, peer, incarnation: self.own, room, may_narrow }
    }

    /// Begins a snapshot of a server that serves a job; its first piece.
    pub fn begin_snapshot(&mut self) -> Option<Vec<u8>> {
        let incarnation = self.running.as_ref()?.incarnation();
        let Role::Server(server, _) = &mut self.role else { return None };
        let mut piece = incarnation.to_be_bytes().to_vec();
        piece.extend(server.begin_snapshot());
        Some(piece)
    }

    /// The next piece of the snapshot, of at most so many rows.
    pub fn walk_snapshot(&mut self, rows: usize) -> Vec<u8> {
        match &mut self.role {
            Role::Server(server, _) => server.walk_snapshot(rows),
            Role::Switch(..) => Vec::new(),
        }
    }

    /// The last piece of the snapshot, once a round was about to close after all rows were written; with its version.
    pub fn poll_snapshot(&mut self) -> Option<(u32, Vec<u8>)> {
        let Role::Server(server, _) = &mut self.role else { return None };
        server.poll_snapshot().map(|snapshot| (snapshot.version, snapshot.last_piece))
    }

    /// A snapshot of this version is where a crash leaves it: the workers may forget what they kept.
    pub fn confirm_snapshot(&mut self, version: u32) {
        self.restorable = version;
        if let Role::Server(_, Some(exchange)) = &mut self.role {
            exchange.handle_snapshot(version);
        }
        (0..self.peers.len() as Sender).for_each(|to| self.tell_restorable(to));
    }
}
