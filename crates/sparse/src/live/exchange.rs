//! A server's part in decisions about the hot map: it reports what it has counted to the coordinator, or is the one beside
//! which the coordinator is, which is the first.

use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_wire::{RowKind, RowPacket};

use super::Job;
use super::seats::{Seats, Standing};
use crate::coordinator::Coordinator;
use crate::hot::RowId;
use crate::message::{FromServer, Report, Sender, ToServer};
use crate::packet::{self, Assembly, Envelope};
use crate::sending::Sending;
use crate::server::Server;
use crate::tracking::HotSet;

/// The server beside which the coordinator is.
pub(super) const COORDINATING: u16 = 0;

/// A server's reports to the coordinator, and the coordinator itself beside the first server.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    job: Arc<Job>,
    hot_set: HotSet,
    sender: Sender,
    /// At the servers that it sends to.
    seats: Seats,
    part: Part,
}

#[derive(Clone, Debug)]
enum Part {
    Coordinator(Coordinator),
    Reporter(Sending<Report>),
}

/// Something for another server.
enum Message {
    Decision(ToServer),
    Report(Report),
}

impl Exchange {
    /// The part of server `shard`, if the hot set of this job changes.
    pub(super) fn new(job: &Arc<Job>, shard: u16, incarnation: u64) -> Option<Self> {
        let hot_set = job.hot_set()?;
        let shards = job.shards();
        let sender = job.senders() + Sender::from(shard);
        let (part, nodes) = if shard == COORDINATING {
            (Part::Coordinator(Coordinator::new(shards)), COORDINATING + 1..shards.0)
        } else {
            (Part::Reporter(Sending::default()), COORDINATING..COORDINATING + 1)
        };
        let seats = Seats::new(job, nodes, sender, incarnation);
        Some(Self { job: Arc::clone(job), hot_set, sender, seats, part })
    }

    /// Whether it sends to this server.
    pub(super) fn hears(&self, node: u16) -> bool {
        match self.part {
            Part::Coordinator(_) => node != COORDINATING && node < self.job.shards().0,
            Part::Reporter(_) => node == COORDINATING,
        }
    }

    /// Its number as a sender.
    pub(super) fn sender(&self) -> Sender {
        self.sender
    }

    /// Its seats at the servers that it sends to.
    pub(super) fn seats_mut(&mut self) -> &mut Seats {
        &mut self.seats
    }

    /// Another server has counted: the round and the part that are to be acknowledged. Counts of rows that are not that
    /// server's, or cannot be hot, are not taken.
    pub(super) fn handle_report(
        &mut self,
        server: u16,
        packet: &RowPacket<'_>,
    ) -> Option<(u32, u32)> {
        let Part::Coordinator(coordinator) = &mut self.part else { return None };
        let report = packet::report(packet)?;
        let dim = self.job.map().document().dim;
        let mut tables = self.job.tables.iter().filter(|table| table.dim == dim);
        let table = tables.find(|table| table.id == report.table);
        let is_its_row = |key: &u64| {
            table.is_some_and(|t| self.job.shards().part(&t.rows, server).holds(&t.rows, *key))
        };
        if !report.keys.iter().all(is_its_row) {
            return None;
        }
        coordinator.handle_report(server, &report);
        Some((report.round, report.part))
    }

    /// Another server says something to this one as a sender.
    pub(super) fn hear(
        &mut self,
        node: u16,
        packet: &RowPacket<'_>,
        assembly: &mut Assembly,
        now: Time,
    ) {
        let (incarnation, version) = (packet.rows.stamp.get(), packet.header.round.get());
        self.seats.heard(node, now);
        if packet.kind == RowKind::Restorable {
            let standing = self.seats.enter(node, incarnation);
            match (&mut self.part, standing) {
                (Part::Coordinator(to), Standing::Restarted) => to.handle_restart(node, version),
                (Part::Coordinator(to), Standing::Same) => to.handle_snapshot(node, version),
                (Part::Reporter(to), Standing::Restarted) => to.restarted(node, version),
                (Part::Reporter(to), Standing::Same) => to.forget(node, version),
                (_, Standing::First | Standing::Outdated) => {}
            }
        } else if self.seats.is_current(node, incarnation) {
            packet::from_server(packet, assembly, |message| {
                let FromServer::Acknowledgement { round, sequence } = message else { return };
                match &mut self.part {
                    Part::Coordinator(to) => to.handle_acknowledgement(node, round),
                    Part::Reporter(to) => to.answered((node, round, sequence)),
                }
            });
        }
    }

    /// What the server beside has a snapshot of need not be decided again.
    pub(super) fn handle_snapshot(&mut self, version: u32) {
        if let Part::Coordinator(coordinator) = &mut self.part {
            coordinator.handle_snapshot(COORDINATING, version);
        }
    }

    /// Takes the server's report, decides if all have reported, and tells the server beside. What is for other servers is sent
    /// by [`Self::poll`].
    pub(super) fn turn(&mut self, server: &mut Server) {
        loop {
            if let Some((round, counts)) = server.poll_report() {
                self.report(round, &counts);
            }
            let Part::Coordinator(coordinator) = &mut self.part else { return };
            let round = server.open_round();
            let Some(ranking) = coordinator.poll_ranking(round) else { return };
            let wanted = self.hot_set.wanted(server.map(), &ranking);
            let change = coordinator.decide(round, server.map(), &wanted);
            let change = change.expect("as many rows as there are positions, each once");
            server.handle(self.sender, &ToServer::Decision { round, change });
            coordinator.handle_acknowledgement(COORDINATING, round);
        }
    }

    fn report(&mut self, round: u32, counts: &[(RowId, f32)]) {
        for report in Report::packets(round, counts, self.job.room()) {
            match &mut self.part {
                Part::Coordinator(to) => to.handle_report(COORDINATING, &report),
                Part::Reporter(to) => to.send((COORDINATING, round, report.part), report),
            }
        }
    }

    /// Gives `send` what is due for other servers, once all have welcomed this one.
    pub(super) fn poll(
        &mut self,
        now: Time,
        envelope: impl Fn(u16) -> Envelope,
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) {
        while let Some((node, message)) = self.next(now) {
            let (to, envelope) = (self.seats.address(node), envelope(node));
            match message {
                Message::Decision(message) => envelope.emit_to_server(&message, |b| send(to, b)),
                Message::Report(report) => envelope.emit_report(&report, |b| send(to, b)),
            }
        }
    }

    fn next(&mut self, now: Time) -> Option<(u16, Message)> {
        if !self.seats.are_taken() {
            return None;
        }
        match &mut self.part {
            Part::Coordinator(coordinator) => {
                let (node, message) = coordinator.poll_to_server(now)?;
                Some((node, Message::Decision(message)))
            }
            Part::Reporter(reports) => {
                let (node, report) = reports.poll(now)?;
                Some((node, Message::Report(report)))
            }
        }
    }

    /// When there will be more to send, if nothing comes before.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let due = match &self.part {
            Part::Coordinator(coordinator) => coordinator.poll_timeout(),
            Part::Reporter(reports) => reports.next_due(),
        };
        let due = due.filter(|_| self.seats.are_taken());
        [due, self.seats.poll_timeout()].into_iter().flatten().min()
    }
}
