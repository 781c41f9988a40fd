//! A switch in user space that sums hot rows: by position, so it knows no keys but those of rows on their way to a server.
//!
//! A round's sums are complete when every worker has said how many packets it had and all are in. Sums of tier A go to all
//! workers as float32, rounded once; those of tier B to their servers as they are, with whose gradients are in them. Servers
//! say when the map changes. Rows that were sorted by a map that is not known yet are dropped, and come again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_wire::RowKind;

use crate::hot::{HotMap, RowId, Tier};
use crate::message::{Closed, FromSwitch, HotSum, Sender, ToServer, ToSwitch};
use crate::packet::FARTHEST_OFFSET;
use crate::reception::Reception;
use crate::sending::{END, Sending};
use crate::server::PushError;
use crate::sum::{MAX_CONTRIBUTORS, RowSums, SumError, float};
use crate::table::{Shards, TableId, TableSpec};

/// A row's key, whose gradients are in its sum, and the lanes.
type Sum<'a> = (u64, u64, &'a [i64]);

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
    /// Bytes of a packet after its headers.
    pub room: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Summer {
    spec: SummerSpec,
    map: HotMap,
    round: u32,
    senders: Vec<Reception>,
    sums: RowSums,
    outbox: VecDeque<(Sender, FromSwitch)>,
    /// Results, until they are acknowledged.
    to_workers: Sending<FromSwitch>,
    to_servers: Sending<ToServer>,
}

impl Summer {
    /// A switch that has summed nothing yet.
    #[must_use]
    pub fn new(spec: SummerSpec, map: HotMap) -> Self {
        debug_assert!(spec.workers <= MAX_CONTRIBUTORS);
        let senders = vec![Reception::default(); spec.workers as usize];
        let sums = RowSums::new(usize::from(map.document().dim));
        let (outbox, to_workers, to_servers) = Default::default();
        Self { spec, map, round: 1, senders, sums, outbox, to_workers, to_servers }
    }

    /// The round that is being summed.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Something has come from a worker.
    pub fn handle(&mut self, from: Sender, message: &ToSwitch) {
        match message {
            ToSwitch::Acknowledgement { round, part } => {
                self.to_workers.settled((from as u16, *round, *part));
            }
            ToSwitch::Rows { round, .. } | ToSwitch::End { round, .. } if *round > self.round => {}
            ToSwitch::Rows { round, sequence, .. } if *round < self.round => {
                self.acknowledge(from, *round, *sequence);
            }
            ToSwitch::End { round, .. } if *round < self.round => {
                self.acknowledge(from, *round, END);
            }
            // Even a round without rows waits for its map, as the change after the next does not apply to this one.
            ToSwitch::Rows { map_version, .. } | ToSwitch::End { map_version, .. }
                if *map_version > self.map.version() => {}
            ToSwitch::Rows { sequence, map_version, positions, values, .. } => {
                let taken = self.take(from, *sequence, *map_version, positions, values);
                self.answer(from, *sequence, taken);
            }
            ToSwitch::End { packets, .. } => {
                let announced = self.senders[from as usize].announce(*packets);
                self.answer(from, END, announced.map(drop));
            }
        }
    }

    fn answer(&mut self, to: Sender, sequence: u32, outcome: Result<(), PushError>) {
        let round = self.round;
        match outcome {
            Ok(()) => self.acknowledge(to, round, sequence),
            Err(problem) => {
                let problem = problem.to_string();
                self.outbox.push_back((to, FromSwitch::Refusal { round, problem }));
            }
        }
        self.complete();
    }

    /// Adds the rows of a packet, as a whole or not at all; nothing of one that has come before.
    fn take(
        &mut self,
        from: Sender,
        sequence: u32,
        found: u32,
        positions: &[u32],
        values: &[f32],
    ) -> Result<(), PushError> {
        let reception = &self.senders[from as usize];
        if reception.has(sequence) {
            return Ok(());
        }
        reception.check(sequence)?;
        let expected = self.map.version();
        if found != expected {
            return Err(PushError::Map { found, expected });
        }
        let dim = usize::from(self.map.document().dim);
        if positions.len() * dim != values.len() {
            let (rows, found) = (positions.len(), values.len());
            return Err(PushError::HotLength { expected: dim, rows, found });
        }
        if let Some(position) = positions.iter().find(|p| self.map.row(**p).is_none()) {
            return Err(PushError::Position(*position));
        }
        let keys: Vec<u64> = positions.iter().map(|position| u64::from(*position)).collect();
        self.sums.add(from, &keys, values).map_err(|problem| self.named(problem))?;
        self.senders[from as usize].enter(sequence);
        Ok(())
    }

    /// A problem with the row at a position as one with the row.
    fn named(&self, problem: SumError) -> PushError {
        let row = |position| self.row(position);
        let (table, problem) = match problem {
            SumError::Range(at) => (row(at).table, SumError::Range(row(at).key)),
            SumError::Twice(at) => (row(at).table, SumError::Twice(row(at).key)),
        };
        PushError::Sum { table: table.0, problem }
    }

    /// The row of a sum.
    fn row(&self, position: u64) -> RowId {
        self.map.row(position as u32).expect("positions were checked")
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
        for worker in 0..self.spec.workers {
            // Whoever has ended this round has the results of those before.
            self.to_workers.forget(worker as u16, self.round - 1);
        }
        self.sums.clear();
        self.senders.fill(Reception::default());
        self.round += 1;
    }

    fn send_results(&mut self) {
        let result = |(position, contributors, lanes): (u64, u64, &[i64])| HotSum {
            position: position as u32,
            contributors: contributors.count_ones(),
            values: lanes.iter().map(|sum| float(*sum)).collect(),
        };
        let replicated = self.sums.iter().filter(|sum| self.map.is_replicated(self.row(sum.0)));
        let mut sums: Vec<HotSum> = replicated.map(result).collect();
        sums.sort_unstable_by_key(|sum| sum.position);
        let parts = self.parts(&sums);
        let (round, count) = (self.round, parts.len() as u32);
        for (part, rows) in (0..).zip(parts) {
            for worker in 0..self.spec.workers {
                let results = FromSwitch::Results { round, part, parts: count, rows: rows.clone() };
                self.to_workers.send((worker as u16, round, part), results);
            }
        }
    }

    /// Results by packet. An empty round has one too: workers have to know that there is nothing.
    fn parts(&self, mut sums: &[HotSum]) -> Vec<Arc<[HotSum]>> {
        let dim = self.map.document().dim.into();
        let most = RowKind::HotSums.rows_for(self.spec.room, dim).max(1);
        let mut parts = Vec::new();
        while let Some(HotSum { position: base, .. }) = sums.first() {
            let near = sums.partition_point(|sum| sum.position - base <= FARTHEST_OFFSET);
            let (part, behind) = sums.split_at(near.min(most));
            parts.push(Arc::from(part));
            sums = behind;
        }
        if parts.is_empty() { vec![Arc::from([])] } else { parts }
    }

    fn send_sums(&mut self) {
        let mut sorted: BTreeMap<(u16, TableId), Vec<Sum<'_>>> = BTreeMap::new();
        for (position, contributors, lanes) in self.sums.iter() {
            let row = self.row(position);
            let table = self.spec.tables.iter().find(|table| table.id == row.table);
            let is_summed = self.map.place(row).is_some_and(|place| place.tier == Tier::B);
            let Some(table) = table.filter(|_| is_summed) else { continue };
            let server = self.spec.shards.of(&table.rows, row.key);
            sorted.entry((server, row.table)).or_default().push((row.key, contributors, lanes));
        }
        let mut sent = vec![0; usize::from(self.spec.shards.0)];
        let (round, map_version) = (self.round, self.map.version());
        let most = RowKind::RowSums.rows_for(self.spec.room, self.map.document().dim.into()).max(1);
        for ((server, table), sums) in sorted {
            for part in sums.chunks(most) {
                let sequence = sent[usize::from(server)];
                sent[usize::from(server)] += 1;
                let keys = part.iter().map(|sum| sum.0).collect();
                let contributors = part.iter().map(|sum| sum.1).collect();
                let lanes = part.iter().flat_map(|sum| sum.2).copied().collect();
                let sums = ToServer::Sums {
                    round,
                    sequence,
                    map_version,
                    table,
                    keys,
                    contributors,
                    lanes,
                };
                self.to_servers.send((server, round, sequence), sums);
            }
        }
        for (server, packets) in (0..).zip(sent) {
            self.to_servers.send((server, round, END), ToServer::End { round, packets });
        }
    }

    /// A server has a packet.
    pub fn handle_acknowledgement(&mut self, server: u16, round: u32, sequence: u32) {
        self.to_servers.answered((server, round, sequence));
    }

    /// A server has closed a round. All servers name the same map for the next one, so the first to say so is believed.
    pub fn handle_closed(&mut self, server: u16, closed: &Closed) {
        self.to_servers.all_answered(server, closed.round);
        if let Some(change) = &closed.change
            && let Ok(map) = change.apply(&self.map)
        {
            self.map = map;
        }
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
    pub fn poll_transmit(&mut self, now: Time) -> Option<(Sender, FromSwitch)> {
        let result = |(worker, result)| (Sender::from(worker), result);
        self.outbox.pop_front().or_else(|| self.to_workers.poll(now).map(result))
    }

    /// What time it is, before what comes is handled: answers are timed by it.
    pub fn set_time(&mut self, now: Time) {
        self.to_servers.set_time(now);
        self.to_workers.set_time(now);
    }

    /// The next thing for a server.
    pub fn poll_to_server(&mut self, now: Time) -> Option<(u16, ToServer)> {
        self.to_servers.poll(now)
    }

    /// When something is due, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let at_once = (!self.outbox.is_empty()).then_some(Time(0));
        let due = [self.to_servers.next_due(), self.to_workers.next_due(), at_once];
        due.into_iter().flatten().min()
    }
}
