//! A switch in user space that sums hot rows: by position, so it knows no keys but those of rows on their way to a server.
//!
//! Sums are complete when every worker has said how many packets it had and all are in; or, as workers send rows in order of
//! position, when every worker has sent rows beyond. They leave as soon as they fill a packet, rounded once to float32: those
//! of tier A to all workers, those of tier B to their servers. Servers say when the map changes. Rows that were sorted by a
//! map that is not known yet are dropped, and come again.

mod beneath;
mod open;

use std::collections::VecDeque;
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_wire::RowKind;

use crate::hot::{HotMap, RowId, Tier};
use crate::message::{Closed, FromSwitch, HotSums, Sender, ToServer, ToSwitch};
use crate::packet::FARTHEST_OFFSET;
use crate::reception::{BEHIND, Reception, position_place};
use crate::sending::{END, Sending};
use crate::server::PushError;
use crate::sum::{MAX_CONTRIBUTORS, RowSums, SumError, float};
use crate::table::{Shards, TableSpec};
use beneath::Beneath;
use open::Open;

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
    /// Whether sums leave while the round is open; workers then have to send rows in order. Else all leave at its end.
    pub is_prompt: bool,
}

/// Complete sums that wait for others to fill a packet with, by position, in order; and packets of the round so far.
#[derive(Clone, Debug, Default)]
struct Leaving {
    positions: VecDeque<u32>,
    packets: u32,
}

/// A switch that sums hot rows, as a state machine: rows and news in, sums out.
#[derive(Clone, Debug)]
pub struct Summer {
    spec: SummerSpec,
    map: HotMap,
    round: u32,
    senders: Vec<Reception>,
    sums: RowSums,
    /// Positions that have a sum which has not left.
    open: Open,
    /// Where a program beneath adds the rows: how far it has come, and been read.
    beneath: Option<Beneath>,
    /// For the workers.
    results: Leaving,
    /// For each server.
    of_servers: Vec<Leaving>,
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
        let (open, beneath, results, outbox, to_workers) = Default::default();
        // A sum stands for many gradients, and many wait for it: as much of a server's link as half of the workers.
        let to_servers = Sending::of((f64::from(spec.workers) / 2.0).max(1.0));
        let of_servers = vec![Leaving::default(); usize::from(spec.shards.0)];
        let round = 1;
        Self {
            spec,
            map,
            round,
            senders,
            sums,
            open,
            beneath,
            results,
            of_servers,
            outbox,
            to_workers,
            to_servers,
        }
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
        self.send_complete();
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
        let ends = positions.iter().min().zip(positions.iter().max());
        let ends = ends.map(|(first, last)| (position_place(*first), position_place(*last)));
        let span = ends.filter(|_| self.spec.is_prompt).unwrap_or((BEHIND, BEHIND));
        reception.check(sequence, span)?;
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
        if self.beneath.is_some() {
            return Err(self.refused_beneath(sequence, positions, values));
        }
        let keys: Vec<u64> = positions.iter().map(|position| u64::from(*position)).collect();
        self.sums.add(from, &keys, values).map_err(|problem| self.named(problem))?;
        positions.iter().for_each(|position| self.open.insert(*position));
        self.senders[from as usize].enter(sequence, span);
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

    /// Sends what is complete, as far as it fills packets; all of it if the round is.
    fn send_complete(&mut self) {
        let is_over = match self.beneath {
            Some(beneath) => beneath.is_over,
            None => self.senders.iter().all(Reception::is_complete),
        };
        if !is_over && !self.spec.is_prompt {
            return;
        }
        self.take_complete(is_over);
        self.send_results(is_over);
        (0..self.spec.shards.0).for_each(|server| self.send_sums(server, is_over));
        if is_over {
            self.begin_next();
        }
    }

    fn begin_next(&mut self) {
        for worker in 0..self.spec.workers {
            // Whoever has ended this round has the results of those before.
            self.to_workers.forget(worker as u16, self.round - 1);
        }
        self.sums.clear();
        self.senders.fill(Reception::default());
        self.results = Leaving::default();
        self.of_servers.fill(Leaving::default());
        self.beneath = self.beneath.map(|_| Beneath::default());
        self.round += 1;
    }

    /// Sorts sums that are complete by where they go.
    fn take_complete(&mut self, is_over: bool) {
        let reached = match self.beneath {
            // What was read is complete.
            Some(_) => Some(BEHIND),
            None => self.senders.iter().map(Reception::reached).min().flatten(),
        };
        let is_complete = |position: &u32| {
            is_over || reached.is_some_and(|reached| position_place(*position) <= reached)
        };
        while let Some(position) = self.open.first().filter(is_complete) {
            self.open.remove_first();
            let (row, tier) = self.map.at(position).expect("positions were checked");
            let table = self.spec.tables.iter().find(|table| table.id == row.table);
            match table.filter(|_| tier == Tier::B) {
                None => self.results.positions.push_back(position),
                Some(table) => {
                    let server = self.spec.shards.of(&table.rows, row.key);
                    self.of_servers[usize::from(server)].positions.push_back(position);
                }
            }
        }
    }

    /// Results by packet. The last one says how many there are, and has no row if all have left.
    fn send_results(&mut self, is_over: bool) {
        let most = self.most();
        while self.results.has_packet(most) || is_over {
            let rows = next_packet(&mut self.results, &self.sums, most);
            let is_last = is_over && self.results.positions.is_empty();
            let (round, part) = (self.round, self.results.packets - 1);
            let parts = if is_last { self.results.packets } else { 0 };
            for worker in 0..self.spec.workers {
                let results = FromSwitch::Results { round, part, parts, rows: rows.clone() };
                self.to_workers.send((worker as u16, round, part), results);
            }
            if is_last {
                return;
            }
        }
    }

    fn send_sums(&mut self, server: u16, is_over: bool) {
        let (round, map_version) = (self.round, self.map.version());
        let most = self.most();
        let leaving = &mut self.of_servers[usize::from(server)];
        while leaving.has_packet(most) || is_over && !leaving.positions.is_empty() {
            let rows = next_packet(leaving, &self.sums, most);
            let sequence = leaving.packets - 1;
            let sums = ToServer::Sums { round, sequence, map_version, rows };
            self.to_servers.send((server, round, sequence), sums);
        }
        if is_over {
            let end = ToServer::End { round, packets: leaving.packets };
            self.to_servers.send((server, round, END), end);
        }
    }

    /// Rows of a packet.
    fn most(&self) -> usize {
        RowKind::HotSums.rows_for(self.spec.room, self.map.document().dim.into()).max(1)
    }

    /// A server has a packet.
    pub fn handle_acknowledgement(&mut self, server: u16, round: u32, sequence: u32) {
        self.to_servers.acknowledged((server, round, sequence));
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

impl Leaving {
    /// Positions of the next packet.
    fn next(&self, most: usize) -> usize {
        let base = self.positions.front().copied().unwrap_or_default();
        self.positions.partition_point(|position| position - base <= FARTHEST_OFFSET).min(most)
    }

    /// Whether a packet is full: no more rows fit, or none that may come are near enough.
    fn has_packet(&self, most: usize) -> bool {
        let next = self.next(most);
        next == most || next < self.positions.len()
    }
}

/// Takes the sums of the next packet.
fn next_packet(leaving: &mut Leaving, sums: &RowSums, most: usize) -> Arc<HotSums> {
    leaving.packets += 1;
    let positions: Vec<u32> = leaving.positions.drain(..leaving.next(most)).collect();
    let (mut contributors, mut values) = (Vec::with_capacity(positions.len()), Vec::new());
    for position in &positions {
        let (workers, lanes) = sums.get((*position).into()).expect("a position with a sum");
        contributors.push(workers.count_ones() as u8);
        values.extend(lanes.iter().map(|sum| float(*sum)));
    }
    Arc::new(HotSums { positions, contributors, values })
}
