//! A switch in user space that sums hot rows: by position, so it knows no keys but those of rows on their way to a server.
//!
//! Sums are complete when every worker has said how many packets it had and all are in; or, as workers send rows in order of
//! position, when every worker has sent rows beyond. They leave as soon as they fill a packet, rounded once to float32: those
//! of tier A to all workers, those of tier B to their servers. Servers say when the map changes. Rows that were sorted by a
//! map that is not known yet are dropped, and come again.
//!
//! Switches may form a tree. One that has another above it sends that its sums as they are, and has results from there for
//! those beneath.

mod above;
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
use above::Above;
use beneath::Beneath;
use open::Open;

/// Who sends to a switch: a worker, or a switch beneath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its number among senders.
    pub sender: Sender,
    /// The workers whose rows it may send, a bit for each rank.
    pub workers: u64,
}

impl Child {
    /// A worker.
    #[must_use]
    pub fn worker(rank: u32) -> Self {
        Self { sender: rank, workers: 1 << rank }
    }

    /// All workers of a job.
    #[must_use]
    pub fn workers(count: u32) -> Vec<Self> {
        (0..count).map(Self::worker).collect()
    }
}

/// What a summing switch knows from the plan.
#[derive(Clone, Debug)]
pub struct SummerSpec {
    /// The workers.
    pub workers: u32,
    /// Who sends to it: workers, whose senders' numbers are their ranks, and switches beneath, whose numbers come after.
    pub children: Vec<Child>,
    /// Whether it sends its sums to a switch above.
    pub has_parent: bool,
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
    /// For the children.
    results: Leaving,
    /// To the switch above, if there is one.
    above: Option<Above>,
    /// For each server.
    of_servers: Vec<Leaving>,
    outbox: VecDeque<(Sender, FromSwitch)>,
    /// Results, until they are acknowledged, by sender.
    to_children: Sending<FromSwitch>,
    to_servers: Sending<ToServer>,
}

impl Summer {
    /// A switch that has summed nothing yet.
    #[must_use]
    pub fn new(spec: SummerSpec, map: HotMap) -> Self {
        debug_assert!(spec.workers <= MAX_CONTRIBUTORS);
        let senders = vec![Reception::default(); spec.children.len()];
        let sums = RowSums::new(usize::from(map.document().dim));
        let (open, beneath, results, outbox, to_children) = Default::default();
        // A sum stands for many gradients, and many wait for it: as much of a server's link as half of the workers.
        let flows = |workers: u32| (f64::from(workers) / 2.0).max(1.0);
        let to_servers = Sending::of(flows(spec.workers));
        let beneath_it = spec.children.iter().map(|child| child.workers.count_ones()).sum();
        let above = spec.has_parent.then(|| Above::of(flows(beneath_it)));
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
            above,
            of_servers,
            outbox,
            to_children,
            to_servers,
        }
    }

    /// The round that is being summed.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether it hears this sender.
    pub(crate) fn has_child(&self, sender: Sender) -> bool {
        self.spec.children.iter().any(|child| child.sender == sender)
    }

    /// Something has come from a sender; from one that is none of the children, nothing counts.
    pub fn handle(&mut self, from: Sender, message: &ToSwitch) {
        let Some(child) = self.spec.children.iter().position(|child| child.sender == from) else {
            return;
        };
        match message {
            ToSwitch::Acknowledgement { round, part } => {
                self.to_children.settled((from as u16, *round, *part));
            }
            ToSwitch::Rows { .. } if from >= self.spec.workers => {}
            ToSwitch::Sums { .. } if from < self.spec.workers => {}
            ToSwitch::Rows { round, .. }
            | ToSwitch::Sums { round, .. }
            | ToSwitch::End { round, .. }
                if *round > self.round => {}
            ToSwitch::Rows { round, sequence, .. } | ToSwitch::Sums { round, sequence, .. }
                if *round < self.round =>
            {
                self.acknowledge(from, *round, *sequence);
            }
            ToSwitch::End { round, .. } if *round < self.round => {
                self.acknowledge(from, *round, END);
            }
            // Even a round without rows waits for its map, as the change after the next does not apply to this one.
            ToSwitch::Rows { map_version, .. }
            | ToSwitch::Sums { map_version, .. }
            | ToSwitch::End { map_version, .. }
                if *map_version > self.map.version() => {}
            ToSwitch::Rows { sequence, map_version, positions, values, .. } => {
                let taken = self.take(
                    child,
                    (*sequence, *map_version),
                    positions,
                    values.len(),
                    |summer| summer.add_rows(from, *sequence, positions, values),
                );
                self.answer(from, *sequence, taken);
            }
            ToSwitch::Sums { sequence, map_version, rows, .. } => {
                let taken = self.take(
                    child,
                    (*sequence, *map_version),
                    &rows.positions,
                    rows.lanes.len(),
                    |summer| summer.add_sums(child, rows),
                );
                self.answer(from, *sequence, taken);
            }
            ToSwitch::End { packets, .. } => {
                let announced = self.senders[child].announce(*packets);
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
        child: usize,
        (sequence, found): (u32, u32),
        positions: &[u32],
        values: usize,
        add: impl FnOnce(&mut Self) -> Result<(), PushError>,
    ) -> Result<(), PushError> {
        let reception = &self.senders[child];
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
        if positions.len() * dim != values {
            let rows = positions.len();
            return Err(PushError::HotLength { expected: dim, rows, found: values });
        }
        if let Some(position) = positions.iter().find(|p| self.map.row(**p).is_none()) {
            return Err(PushError::Position(*position));
        }
        add(self)?;
        positions.iter().for_each(|position| self.open.insert(*position));
        self.senders[child].enter(sequence, span);
        Ok(())
    }

    /// Adds a worker's rows.
    fn add_rows(
        &mut self,
        from: Sender,
        sequence: u32,
        positions: &[u32],
        values: &[f32],
    ) -> Result<(), PushError> {
        if self.beneath.is_some() {
            return Err(self.refused_beneath(sequence, positions, values));
        }
        self.sums.add(from, &keys(positions), values).map_err(|problem| self.named(problem))
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
        self.send_above(is_over);
        self.send_results(is_over);
        (0..self.spec.shards.0).for_each(|server| self.send_sums(server, is_over));
        if is_over {
            self.begin_next();
        }
    }

    fn begin_next(&mut self) {
        for child in &self.spec.children {
            // Whoever has ended this round has the results of those before.
            self.to_children.forget(child.sender as u16, self.round - 1);
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
            if let Some(above) = &mut self.above {
                above.leaving.positions.push_back(position);
                continue;
            }
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
        if self.spec.has_parent {
            return;
        }
        let most = self.most();
        while self.results.has_packet(most) || is_over {
            let rows = next_packet(&mut self.results, &self.sums, most);
            let is_last = is_over && self.results.positions.is_empty();
            let (round, part) = (self.round, self.results.packets - 1);
            let parts = if is_last { self.results.packets } else { 0 };
            self.send_part(round, part, parts, &rows);
            if is_last {
                return;
            }
        }
    }

    /// A part of the results, for all children.
    fn send_part(&mut self, round: u32, part: u32, parts: u32, rows: &Arc<HotSums>) {
        for child in &self.spec.children {
            let results = FromSwitch::Results { round, part, parts, rows: Arc::clone(rows) };
            self.to_children.send((child.sender as u16, round, part), results);
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

    /// The next thing for a child.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(Sender, FromSwitch)> {
        let result = |(child, result)| (Sender::from(child), result);
        self.outbox.pop_front().or_else(|| self.to_children.poll(now).map(result))
    }

    /// What time it is, before what comes is handled: answers are timed by it.
    pub fn set_time(&mut self, now: Time) {
        self.to_servers.set_time(now);
        self.to_children.set_time(now);
        self.above.iter_mut().for_each(|above| above.set_time(now));
    }

    /// The next thing for a server.
    pub fn poll_to_server(&mut self, now: Time) -> Option<(u16, ToServer)> {
        self.to_servers.poll(now)
    }

    /// When something is due, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let at_once = (!self.outbox.is_empty()).then_some(Time(0));
        let above = self.above.as_ref().and_then(Above::poll_timeout);
        let due = [self.to_servers.next_due(), self.to_children.next_due(), above, at_once];
        due.into_iter().flatten().min()
    }
}

impl Leaving {
    /// Positions of the next packet.
    fn next(&self, most: usize) -> usize {
        let base = self.positions.front().copied().unwrap_or_default();
        self.positions.partition_point(|position| position - base <= FARTHEST_OFFSET).min(most)
    }

    /// Takes the positions of the next packet.
    fn take(&mut self, most: usize) -> Vec<u32> {
        self.packets += 1;
        self.positions.drain(..self.next(most)).collect()
    }

    /// Whether a packet is full: no more rows fit, or none that may come are near enough.
    fn has_packet(&self, most: usize) -> bool {
        let next = self.next(most);
        next == most || next < self.positions.len()
    }
}

/// Positions as keys of sums.
fn keys(positions: &[u32]) -> Vec<u64> {
    positions.iter().map(|position| u64::from(*position)).collect()
}

/// Takes the sums of the next packet.
fn next_packet(leaving: &mut Leaving, sums: &RowSums, most: usize) -> Arc<HotSums> {
    let positions = leaving.take(most);
    let (mut contributors, mut values) = (Vec::with_capacity(positions.len()), Vec::new());
    for position in &positions {
        let (workers, lanes) = sums.get((*position).into()).expect("a position with a sum");
        contributors.push(workers.count_ones() as u8);
        values.extend(lanes.iter().map(|sum| float(*sum)));
    }
    Arc::new(HotSums { positions, contributors, values })
}
