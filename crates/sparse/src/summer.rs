//! A switch in user space that sums hot rows: by position, so it knows no keys but those of rows on their way to a server.
//!
//! A round's sums are complete when every worker has said how many packets it had and all are in. Sums of tier A go to all
//! workers as float32, rounded once; those of tier B to their servers as they are, with whose gradients are in them.

use std::collections::VecDeque;
use std::sync::Arc;

use wiresum_netem::Time;

use crate::hot::{HotMap, MapChange, Tier};
use crate::message::{FromSwitch, HotSum, Sender, ToServer, ToSwitch};
use crate::reception::Reception;
use crate::sending::{END, Sending};
use crate::sum::{MAX_CONTRIBUTORS, RowSums, float};
use crate::table::{Shards, TableSpec};

/// What a summing switch knows from the plan.
#[derive(Clone, Debug)]
pub struct SummerSpec {
    /// The workers.
    pub workers: u32,
    /// Its number among the switches that sum.
    pub switch: u16,
    /// The servers of tables.
    pub shards: Shards,
    /// The job's tables.
    pub tables: Vec<TableSpec>,
    /// Rows of a packet of results.
    pub rows_per_packet: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Summer {
    spec: SummerSpec,
    map: HotMap,
    round: u32,
    senders: Vec<Reception>,
    sums: RowSums,
    /// The results of the last round, for those who ask again.
    last: Vec<FromSwitch>,
    outbox: VecDeque<(Sender, FromSwitch)>,
    to_servers: Sending<ToServer>,
}

impl Summer {
    /// A switch that has summed nothing yet.
    #[must_use]
    pub fn new(spec: SummerSpec, map: HotMap) -> Self {
        debug_assert!(spec.workers <= MAX_CONTRIBUTORS);
        let senders = vec![Reception::default(); spec.workers as usize];
        let sums = RowSums::new(usize::from(map.document().dim));
        let (last, outbox, to_servers) = Default::default();
        Self { spec, map, round: 1, senders, sums, last, outbox, to_servers }
    }

    /// Something has come from a worker.
    pub fn handle(&mut self, from: Sender, message: &ToSwitch) {
        match message {
            ToSwitch::Rows { round, sequence, .. } if *round < self.round => {
                self.acknowledge(from, *round, *sequence);
            }
            ToSwitch::End { round, .. } if *round < self.round => {
                let again = self.last.iter().filter(|result| result.round() == *round);
                self.outbox.extend(again.map(|result| (from, result.clone())));
            }
            ToSwitch::Rows { round, .. } | ToSwitch::End { round, .. } if *round > self.round => {}
            ToSwitch::Rows { .. } => self.rows(from, message),
            ToSwitch::End { packets, change, .. } => {
                // The map of a round is that of its workers: the first to speak of it brings the change.
                self.take(change.as_deref());
                if self.senders[from as usize].announce(*packets).is_ok() {
                    self.complete();
                }
            }
        }
    }

    fn rows(&mut self, from: Sender, message: &ToSwitch) {
        let ToSwitch::Rows { round, sequence, change, positions, values } = message else { return };
        self.take(change.as_deref());
        let reception = &self.senders[from as usize];
        if !reception.has(*sequence) {
            let keys: Vec<u64> = positions.iter().map(|position| u64::from(*position)).collect();
            let is_known = positions.iter().all(|position| self.map.row(*position).is_some());
            let can_be = reception.check(*sequence).is_ok() && is_known;
            if !can_be || self.sums.add(from, &keys, values).is_err() {
                self.outbox.push_back((from, FromSwitch::Refusal { round: *round }));
                return;
            }
            self.senders[from as usize].enter(*sequence);
        }
        self.acknowledge(from, *round, *sequence);
        self.complete();
    }

    fn take(&mut self, change: Option<&MapChange>) {
        if let Some(change) = change
            && let Ok(map) = change.apply(&self.map)
        {
            self.map = map;
        }
    }

    fn acknowledge(&mut self, to: Sender, round: u32, sequence: u32) {
        self.outbox.push_back((to, FromSwitch::Acknowledgement { round, sequence }));
    }

    fn complete(&mut self) {
        if !self.senders.iter().all(Reception::is_complete) {
            return;
        }
        self.send_results();
        self.send_sums();
        self.sums.clear();
        self.senders.fill(Reception::default());
        self.round += 1;
    }

    fn send_results(&mut self) {
        let replicated = |position: u64| {
            let row = self.map.row(position as u32).expect("positions were checked");
            self.map.is_replicated(row)
        };
        let result = |(position, contributors, lanes): (u64, u64, &[i64])| HotSum {
            position: position as u32,
            contributors: contributors.count_ones(),
            values: lanes.iter().map(|sum| float(*sum)).collect(),
        };
        let sums: Vec<HotSum> =
            self.sums.iter().filter(|sum| replicated(sum.0)).map(result).collect();
        // An empty round has a result too: workers have to know that there is nothing.
        let parts: Vec<Arc<[HotSum]>> = match sums.chunks(self.spec.rows_per_packet) {
            parts if parts.len() == 0 => vec![Arc::new([])],
            parts => parts.map(Arc::from).collect(),
        };
        let (round, count) = (self.round, parts.len() as u32);
        let numbered = (0..).zip(parts);
        self.last = numbered
            .map(|(part, rows)| FromSwitch::Results { round, part, parts: count, rows })
            .collect();
        for worker in 0..self.spec.workers {
            self.outbox.extend(self.last.iter().map(|result| (worker, result.clone())));
        }
    }

    fn send_sums(&mut self) {
        let mut sent = vec![0; usize::from(self.spec.shards.0)];
        for (position, contributors, lanes) in self.sums.iter() {
            let row = self.map.row(position as u32).expect("positions were checked");
            if self.map.place(row).is_none_or(|place| place.tier == Tier::A) {
                continue;
            }
            let table = self.spec.tables.iter().find(|table| table.id == row.table);
            let Some(table) = table else { continue };
            let server = self.spec.shards.of(&table.rows, row.key);
            let sequence = sent[usize::from(server)];
            sent[usize::from(server)] += 1;
            let (round, map_version, lanes) = (self.round, self.map.version(), lanes.to_vec());
            let sum = ToServer::Sum { round, sequence, map_version, row, contributors, lanes };
            self.to_servers.send((server, round, sequence), sum);
        }
        for (server, packets) in (0..).zip(sent) {
            let end = ToServer::End { round: self.round, packets, counts: Vec::new() };
            self.to_servers.send((server, self.round, END), end);
        }
    }

    /// A server has a packet.
    pub fn handle_acknowledgement(&mut self, server: u16, round: u32, sequence: u32) {
        self.to_servers.answered((server, round, sequence));
    }

    /// A server has closed a round.
    pub fn handle_closed(&mut self, server: u16, round: u32) {
        self.to_servers.all_answered(server, round);
    }

    /// A server has restarted from a snapshot of after round `version`.
    pub fn handle_restart(&mut self, server: u16, version: u32) {
        self.to_servers.restarted(server, version);
    }

    /// A server has a snapshot of after round `version`.
    pub fn handle_snapshot(&mut self, server: u16, version: u32) {
        self.to_servers.forget(server, version);
    }

    /// The sums of the open round, by position.
    #[must_use]
    pub fn sums(&self) -> &RowSums {
        &self.sums
    }

    /// The next thing for a worker.
    pub fn poll_transmit(&mut self) -> Option<(Sender, FromSwitch)> {
        self.outbox.pop_front()
    }

    /// The next thing for a server.
    pub fn poll_to_server(&mut self, now: Time) -> Option<(u16, ToServer)> {
        self.to_servers.poll(now)
    }

    /// When something is due for a server.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.to_servers.next_due()
    }
}
