//! A worker as a participant.

use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_wire::control::KeyAge;
use wiresum_wire::{Header, Kind, Packet, RowKind, RowPacket};

use super::renewal::WorkerKeys;
use super::seats::{Seats, Standing};
use super::{Job, MemberError};
use crate::hot::RowId;
use crate::message::ToSwitch;
use crate::packet::{Acknowledgements, Assembly, Envelope, from_server, from_switch};
use crate::worker::{Gradients, Worker};

/// A worker of a sparse job with its seats at the nodes: datagrams in, datagrams out.
#[derive(Clone, Debug)]
pub struct Member {
    job: Arc<Job>,
    rank: u32,
    keys: WorkerKeys,
    worker: Worker,
    seats: Seats,
    /// Nodes that hot rows are sent to, by the number that their positions tell.
    leaves: Vec<u16>,
    assembly: Assembly,
    /// Results of switches that have come, by node.
    acknowledgements: Acknowledgements,
    error: Option<MemberError>,
}

impl Member {
    /// A worker before it joins.
    ///
    /// # Panics
    /// If the job has no such rank.
    #[must_use]
    pub fn new(job: &Arc<Job>, rank: u32, incarnation: u64) -> Self {
        assert!(rank < job.workers, "rank {rank} of {}", job.workers);
        let (servers, leaves) = (job.shards().0, job.leaves(rank));
        let nodes = (0..servers).chain(leaves.iter().copied());
        Self {
            job: Arc::clone(job),
            rank,
            keys: WorkerKeys::new(job.keys(), job.renewal, incarnation),
            worker: Worker::new(job.worker_spec(rank), job.map()),
            seats: Seats::new(job, nodes, rank, incarnation),
            leaves,
            assembly: Assembly::default(),
            acknowledgements: Acknowledgements::default(),
            error: None,
        }
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The worker.
    #[must_use]
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Whether every node has welcomed it.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.seats.are_taken()
    }

    /// How far the keys of its packets of rows are renewed.
    #[must_use]
    pub fn key_age(&self) -> KeyAge {
        self.keys.keys().age()
    }

    /// Why it cannot go on, if it cannot.
    #[must_use]
    pub fn error(&self) -> Option<MemberError> {
        self.error.clone().or_else(|| self.worker.error().cloned().map(MemberError::from))
    }

    /// Nodes that have said nothing since, with their addresses.
    pub fn silent_since(&self, since: Time) -> impl Iterator<Item = (u16, SocketAddr)> {
        self.seats.silent_since(since)
    }

    /// Begins the next round with this worker's gradients, each row once.
    ///
    /// # Panics
    /// If the last round is not over.
    pub fn begin(&mut self, gradients: &Gradients) {
        self.worker.begin(gradients);
    }

    /// Asks for the weights of rows as they are after the last round.
    pub fn pull(&mut self, rows: impl IntoIterator<Item = RowId>) {
        self.worker.pull(rows);
    }

    /// Asks for all that is stored of rows after the last round.
    pub fn pull_stored(&mut self, rows: impl IntoIterator<Item = RowId>) {
        self.worker.pull_stored(rows);
    }

    /// Has a row be this after the next round.
    pub fn put(&mut self, row: RowId, values: Vec<f32>) {
        self.worker.put(row, values);
    }

    /// A datagram has come.
    pub fn handle(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        self.worker.set_time(now);
        match RowPacket::parse(bytes) {
            Ok(packet) if self.is_ours(source, packet.header) => {
                if self.keys.hear(packet.header, &mut self.seats, now) {
                    self.rows(&packet, now);
                }
            }
            Ok(_) => {}
            Err(_) => {
                if let Ok(packet) = Packet::parse(bytes) {
                    self.answered(source, &packet, now);
                }
            }
        }
    }

    /// A node welcomes or refuses this worker. A refusal that was late, so that rounds have ended since, says nothing.
    fn answered(&mut self, source: SocketAddr, packet: &Packet<'_>, now: Time) {
        let is_ours =
            self.is_ours(source, packet.header) && self.keys.is_of_incarnation(packet.header);
        if !is_ours || !self.seats.is_answer(packet) {
            return;
        }
        let is_late = packet.header.round.get() < self.worker.version();
        if packet.kind == Kind::Welcome {
            let age = self.seats.hear_welcome(packet);
            self.keys.learn(age, &mut self.seats, now);
        } else if packet.kind == Kind::Refusal && !is_late {
            let refused = self.seats.refused(packet);
            self.error.get_or_insert(refused);
        }
    }

    /// Whether a packet is for this worker, from the node that it names.
    fn is_ours(&self, source: SocketAddr, header: &Header) -> bool {
        header.job.get() == self.job.id
            && u32::from(header.contributor) == self.rank
            && self.job.address(header.node.get()) == Some(source)
    }

    fn rows(&mut self, packet: &RowPacket<'_>, now: Time) {
        let (node, incarnation) = (packet.header.node.get(), packet.rows.stamp.get());
        let servers = self.job.shards().0;
        self.seats.heard(node, now);
        if packet.kind == RowKind::Restorable {
            let version = packet.header.round.get();
            match self.seats.enter(node, incarnation) {
                Standing::Restarted if node >= servers => {
                    let address = self.seats.address(node);
                    self.error.get_or_insert(MemberError::Restarted { node, address });
                }
                Standing::Restarted => {
                    if let Err(lost) = self.worker.handle_restart(node, version) {
                        self.error.get_or_insert(lost.into());
                    }
                }
                Standing::Same if node < servers => self.worker.handle_snapshot(node, version),
                Standing::Same | Standing::First | Standing::Outdated => {}
            }
        } else if node >= servers {
            let Some(switch) = self.leaves.iter().position(|leaf| *leaf == node) else { return };
            from_switch(packet, |message| self.worker.handle_switch(switch as u16, &message));
        } else if self.seats.is_current(node, incarnation) {
            let worker = &mut self.worker;
            from_server(packet, &mut self.assembly, |m| worker.handle_server(node, &m));
        }
    }

    /// Gives `send` what is to be sent now.
    pub fn poll(&mut self, now: Time, mut send: impl FnMut(SocketAddr, &[u8])) {
        self.keys.turn(self.worker.version() + 1, &mut self.seats, now);
        while let Some((to, bytes)) = self.seats.poll(now, self.worker.version()) {
            send(to, &bytes);
        }
        if !self.has_joined() {
            return;
        }
        while let Some((server, message)) = self.worker.poll_to_server(now) {
            let to = self.seats.address(server);
            self.envelope(server).emit_to_server(&message, |bytes| send(to, bytes));
        }
        while let Some((switch, message)) = self.worker.poll_to_switch(now) {
            let node = self.leaves[usize::from(switch)];
            if let ToSwitch::Acknowledgement { round, part } = message {
                self.acknowledgements.add(node.into(), round, part, now);
                continue;
            }
            let to = self.seats.address(node);
            self.envelope(node).emit_to_switch(&message, |bytes| send(to, bytes));
        }
        let mut acknowledgements = std::mem::take(&mut self.acknowledgements);
        acknowledgements.emit(
            now,
            |node| self.envelope(node as u16),
            |node, bytes| send(self.seats.address(node as u16), bytes),
        );
        self.acknowledgements = acknowledgements;
    }

    /// When there will be more to send, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let worker = self.worker.poll_timeout().filter(|_| self.has_joined());
        let acknowledgements = self.acknowledgements.poll_timeout();
        let renewal = self.keys.poll_timeout(&self.seats);
        [worker, self.seats.poll_timeout(), acknowledgements, renewal].into_iter().flatten().min()
    }

    fn envelope(&self, node: u16) -> Envelope {
        let (job, keys, room) = (self.job.job_id(), self.keys.keys(), self.job.room());
        let (peer, may_narrow) = (self.rank as u8, self.job.has_narrow_values());
        Envelope { job, keys, node, peer, incarnation: 0, room, may_narrow }
    }
}
