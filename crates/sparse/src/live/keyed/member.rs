//! A worker as a participant of a job of pairs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_switch::keyed::{Packet, Pair};
use wiresum_wire::control::KeyAge;
use wiresum_wire::{Kind, Packet as Control, RowKind, RowPacket};

use super::job::{MAP_VERSION, SERVER, SWITCH, TABLE};
use super::{KeyedJob, datagram};
use crate::keyed::{Host, HotKeys};
use crate::live::MemberError;
use crate::live::renewal::WorkerKeys;
use crate::live::seats::{Seats, Standing};

/// A worker with its seats at the switch and the server.
pub struct KeyedMember {
    job: Arc<KeyedJob>,
    keys: WorkerKeys,
    host: Host,
    hot: HotKeys,
    seats: Seats,
    round: u32,
    error: Option<MemberError>,
}

impl KeyedMember {
    /// A worker before it joins.
    ///
    /// # Panics
    /// If the job has no such rank.
    #[must_use]
    pub fn new(job: &Arc<KeyedJob>, rank: u8, incarnation: u64) -> Self {
        assert!(rank < job.workers, "rank {rank} of {}", job.workers);
        Self {
            job: Arc::clone(job),
            keys: WorkerKeys::new(job.keys(), job.renewal, incarnation),
            host: Host::new(rank, TABLE, MAP_VERSION, [SERVER]),
            hot: job.hot_keys(),
            seats: Seats::of_pairs(job, &[SERVER, SWITCH], rank, incarnation),
            round: 0,
            error: None,
        }
    }

    /// Whether switch and server have welcomed it.
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.seats.are_taken()
    }

    /// How far the keys of its packets of pairs are renewed.
    #[must_use]
    pub fn key_age(&self) -> KeyAge {
        self.keys.keys().age()
    }

    /// Why it cannot go on, if it cannot.
    #[must_use]
    pub fn error(&self) -> Option<&MemberError> {
        self.error.as_ref()
    }

    /// Nodes that have said nothing since, with their addresses.
    pub fn silent_since(&self, since: Time) -> impl Iterator<Item = (u16, SocketAddr)> {
        self.seats.silent_since(since)
    }

    /// Packets that were sent again.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.host.repeated()
    }

    /// Begins the next iteration with this worker's gradients, each key once.
    ///
    /// # Panics
    /// If it does not have the sums of the last one.
    pub fn begin(&mut self, gradients: &[Pair]) {
        assert!(self.round == 0 || self.sums().is_some(), "iteration {} goes on", self.round);
        self.round += 1;
        self.host.begin(self.round);
        let (hot, cold) = self.hot.pack(gradients);
        self.host.send(SWITCH, self.round, hot);
        self.host.send(SERVER, self.round, cold);
    }

    /// The sums of the iteration, of all keys that anybody touched, once it is over.
    #[must_use]
    pub fn sums(&self) -> Option<&BTreeMap<u64, i32>> {
        self.host.sums()
    }

    /// A datagram has come.
    pub fn handle(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        if let Ok(packet) = RowPacket::parse(bytes) {
            let (node, header) = (packet.header.node.get(), packet.header);
            let is_ours = header.job.get() == self.job.id && self.job.address(node) == Some(source);
            if is_ours && self.keys.hear(header, &mut self.seats, now) {
                self.seats.heard(node, now);
                self.taken(node, &packet, now);
            }
        } else if let Ok(packet) = Control::parse(bytes) {
            self.answered(source, &packet, now);
        }
    }

    /// A node's packet: sums and acknowledgements, or which incarnation of the node it is.
    fn taken(&mut self, node: u16, packet: &RowPacket<'_>, now: Time) {
        if packet.kind != RowKind::Restorable {
            Packet::of(packet).iter().for_each(|packet| self.host.handle(now, node, packet));
        } else if self.seats.enter(node, packet.rows.stamp.get()) == Standing::Restarted {
            let address = self.seats.address(node);
            self.error.get_or_insert(MemberError::Restarted { node, address });
        }
    }

    /// A node welcomes or refuses this worker.
    fn answered(&mut self, source: SocketAddr, packet: &Control<'_>, now: Time) {
        let node = packet.header.node.get();
        let is_from_node = self.job.address(node) == Some(source);
        let is_of_job = packet.header.job.get() == self.job.id;
        let is_ours = is_of_job && self.keys.is_of_incarnation(packet.header);
        let is_answer = is_ours && self.seats.is_answer(packet);
        if !is_from_node || !is_answer {
            return;
        }
        if packet.kind == Kind::Welcome {
            self.seats.heard(node, now);
            let age = self.seats.hear_welcome(packet);
            self.keys.learn(age, &mut self.seats, now);
        } else if packet.kind == Kind::Refusal {
            let refused = self.seats.refused(packet);
            self.error.get_or_insert(refused);
        }
    }

    /// Gives `send` what is to be sent now.
    pub fn poll(&mut self, now: Time, mut send: impl FnMut(SocketAddr, &[u8])) {
        self.keys.turn(self.round, &mut self.seats, now);
        while let Some((to, bytes)) = self.seats.poll(now, self.round) {
            send(to, &bytes);
        }
        while self.has_joined()
            && let Some((node, packet)) = self.host.poll_transmit(now)
        {
            send(self.seats.address(node), &datagram(&self.job, self.keys.keys(), node, &packet));
        }
    }

    /// When there will be more to send, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.host.poll_timeout().filter(|_| self.has_joined());
        let renewal = self.keys.poll_timeout(&self.seats);
        [due, self.seats.poll_timeout(), renewal].into_iter().flatten().min()
    }
}
