//! A server of tables: rounds of pushes, one optimizer step for each row and round, and rows for those who pull.
//!
//! The state table is in `spec/sparse.md`. A round is closed when every sender has said how many packets it had and all of
//! them are in, rows on their way back have come, and what is decided about the map is known. What a row is after a round
//! follows from the gradients alone: sums are exact, and the step is taken once, when the round closes.
//!
//! Inputs: [`Server::handle`]. Outputs: [`Server::poll_transmit`], until there are none. A server has no timers and says
//! nothing twice unless it is asked twice.

mod counters;
mod error;
mod round;
mod snapshot;

pub use counters::Counters;
pub use error::{PushError, SnapshotError};
pub use snapshot::Snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::hot::{HotMap, MapChange, RowId, Tier};
use crate::message::{Closed, FromServer, Sender, ToServer};
use crate::sending::DECISION;
use crate::sum::MAX_CONTRIBUTORS;
use crate::table::{Row, Shards, Table, TableError, TableId, TableSpec};
use round::Round;

/// What a server knows from the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Its number among the servers of tables.
    pub shard: u16,
    /// How many there are.
    pub shards: Shards,
    /// The workers.
    pub workers: u32,
    /// Switches that send it sums.
    pub switches: u32,
    /// The job's tables.
    pub tables: Vec<TableSpec>,
    /// Bytes that its rows may take.
    pub memory_bytes: u64,
    /// Rounds that are multiples of this may change the map; 0: none.
    pub period: u32,
}

/// A server of tables.
#[derive(Clone, Debug)]
pub struct Server {
    spec: ServerSpec,
    tables: Vec<Table>,
    map_version: u32,
    round: Round,
    /// What was said when the last round was closed.
    last: Arc<Closed>,
    outbox: VecDeque<(Sender, FromServer)>,
    counters: Counters,
    /// Contributors of each row in the last round, for whoever tracks popularity.
    popularity: Vec<(RowId, u32)>,
    walk: Option<snapshot::Walk>,
}

impl Server {
    /// A server whose rows have their initial values. Those that the map replicates are at the workers.
    ///
    /// # Errors
    /// [`TableError::Spec`]: a table's field, or more memory than planned.
    pub fn new(spec: ServerSpec, map: &HotMap) -> Result<Self, TableError> {
        let mut server = Self::empty(spec, map.version())?;
        let rows = map.document().rows.iter().filter(|hot| hot.tier == Tier::A);
        for hot in rows {
            if let Some(table) = server.table_of(hot.row) {
                table.lend(hot.row.key, 0)?;
            }
        }
        Ok(server)
    }

    fn empty(spec: ServerSpec, map_version: u32) -> Result<Self, TableError> {
        let mut left = spec.memory_bytes;
        let mut tables = Vec::new();
        for table in &spec.tables {
            let part = spec.shards.part(&table.rows, spec.shard);
            let bytes = Table::bytes_for(table, &part);
            left = left.checked_sub(bytes).ok_or_else(|| error::no_memory(table, bytes, left))?;
            tables.push(Table::new(table.clone(), part)?);
        }
        debug_assert!(spec.workers <= MAX_CONTRIBUTORS);
        let round = Round::new(1, &spec);
        let (last, outbox, counters) = Default::default();
        Ok(Self {
            spec,
            tables,
            map_version,
            round,
            last,
            outbox,
            counters,
            popularity: Vec::new(),
            walk: None,
        })
    }

    /// The round that is open: all before it are closed.
    #[must_use]
    pub fn open_round(&self) -> u32 {
        self.round.number
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The tables.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// How many workers had a gradient for each row of this server in the last closed round, as far as it knows.
    #[must_use]
    pub fn popularity(&self) -> &[(RowId, u32)] {
        &self.popularity
    }

    /// Something has come from a sender who has joined the job.
    pub fn handle(&mut self, from: Sender, message: &ToServer) {
        match message {
            ToServer::Pull { version, request, table, keys } => {
                self.pull(from, *version, *request, *table, keys);
            }
            ToServer::Decision { round, change } => self.decide(from, *round, change.clone()),
            ToServer::End { round, packets } => self.end(from, *round, *packets),
            ToServer::Push { round, sequence, .. }
            | ToServer::Sums { round, sequence, .. }
            | ToServer::Counts { round, sequence, .. }
            | ToServer::Return { round, sequence, .. } => {
                self.packet(from, *round, *sequence, message);
            }
        }
        self.close_if_complete();
    }

    /// The next thing to send, and to whom.
    pub fn poll_transmit(&mut self) -> Option<(Sender, FromServer)> {
        self.outbox.pop_front()
    }

    fn packet(&mut self, from: Sender, round: u32, sequence: u32, message: &ToServer) {
        if round > self.round.number {
            self.counters.early += 1;
            return;
        }
        if round < self.round.number {
            // It was counted before its round was closed: its sender lacks the acknowledgement.
            self.counters.late += 1;
            self.acknowledge(from, round, sequence);
            return;
        }
        if self.round.reception(from).has(sequence) {
            self.counters.duplicates += 1;
            self.acknowledge(from, round, sequence);
            return;
        }
        match self.round.enter(from, sequence, message, &mut self.tables, self.map_version) {
            Ok(rows) => {
                self.counters.rows += rows as u64;
                self.acknowledge(from, round, sequence);
            }
            Err(problem) => self.refuse(from, round, &problem),
        }
    }

    fn acknowledge(&mut self, to: Sender, round: u32, sequence: u32) {
        self.outbox.push_back((to, FromServer::Acknowledgement { round, sequence }));
    }

    fn refuse(&mut self, to: Sender, round: u32, problem: &PushError) {
        self.counters.refused += 1;
        let problem = problem.to_string();
        self.outbox.push_back((to, FromServer::Refusal { round, problem }));
    }

    fn end(&mut self, from: Sender, round: u32, packets: u32) {
        if round > self.round.number {
            self.counters.early += 1;
        } else if round < self.round.number {
            // Its sender lacks the news that the round is closed, or has told a restarted server everything again.
            self.counters.late += 1;
            self.outbox.push_back((from, FromServer::Closed(self.last.clone())));
        } else {
            self.announce(from, round, packets);
        }
    }

    fn announce(&mut self, from: Sender, round: u32, packets: u32) {
        match self.round.reception(from).announce(packets) {
            Ok(is_new) => self.counters.duplicates += u64::from(!is_new),
            Err(problem) => self.refuse(from, round, &problem),
        }
    }

    fn decide(&mut self, from: Sender, round: u32, change: Option<Arc<MapChange>>) {
        if round > self.round.number {
            self.counters.early += 1;
            return;
        }
        self.acknowledge(from, round, DECISION);
        if round < self.round.number || self.round.decision.is_some() {
            self.counters.duplicates += 1;
        } else {
            self.round.decision = Some(change);
        }
    }

    fn pull(&mut self, from: Sender, version: u32, request: u32, table: TableId, keys: &[u64]) {
        let closed = self.round.number - 1;
        if version != closed {
            // An older version was answered before its worker went on; a newer one nobody can know of.
            self.counters.late += u64::from(version < closed);
            self.counters.early += u64::from(version > closed);
            return;
        }
        match self.weights(version, table, keys) {
            Ok((dim, values)) => {
                self.counters.pulled += keys.len() as u64;
                let rows = FromServer::Rows { version, request, table, dim, values };
                self.outbox.push_back((from, rows));
            }
            Err(problem) => self.refuse(from, version, &problem),
        }
    }

    /// Values of a row, and those of all rows.
    fn weights(
        &self,
        version: u32,
        id: TableId,
        keys: &[u64],
    ) -> Result<(u16, Vec<f32>), PushError> {
        let table = self.tables.iter().find(|table| table.spec().id == id);
        let table = table.ok_or(PushError::NoTable(id.0))?;
        let dim = table.spec().dim;
        let mut values = vec![0.0; keys.len() * usize::from(dim)];
        table.read_all(keys, version, &mut values)?;
        Ok((dim, values))
    }

    fn close_if_complete(&mut self) {
        let number = self.round.number;
        let may_change = self.spec.period > 0 && number.is_multiple_of(self.spec.period);
        let is_decided = !may_change || self.round.decision.is_some();
        if is_decided && self.round.is_complete(&self.tables) {
            self.finish_snapshot();
            self.close();
        }
    }

    fn close(&mut self) {
        let next = Round::new(self.round.number + 1, &self.spec);
        let closed = std::mem::replace(&mut self.round, next);
        self.popularity = closed.step(&mut self.tables, self.spec.workers);
        let change = closed.decision.flatten();
        let lent = change.as_ref().map(|change| self.exchange(closed.number, change));
        self.last =
            Arc::new(Closed { round: closed.number, change, lent: lent.unwrap_or_default() });
        for sender in 0..self.spec.workers + self.spec.switches {
            self.outbox.push_back((sender, FromServer::Closed(self.last.clone())));
        }
    }

    /// Lends what becomes hot, and expects what is hot no longer.
    fn exchange(&mut self, round: u32, change: &MapChange) -> Vec<(RowId, Row)> {
        self.map_version = change.version;
        for row in &change.demoted {
            if let Some(table) = self.table_of(*row) {
                // Rows of tier B never left.
                self.counters.returning += u64::from(table.expect_back(row.key).is_ok());
            }
        }
        let mut lent = Vec::new();
        for hot in change.promoted.iter().filter(|hot| hot.tier == Tier::A) {
            let Some(table) = self.table_of(hot.row) else { continue };
            if let Ok(row) = table.lend(hot.row.key, round) {
                lent.push((hot.row, row));
            }
        }
        self.counters.lent += lent.len() as u64;
        lent
    }

    /// The table of a row, if the row is this server's.
    fn table_of(&mut self, row: RowId) -> Option<&mut Table> {
        let table = self.tables.iter_mut().find(|table| table.spec().id == row.table)?;
        table.part().holds(&table.spec().rows, row.key).then_some(table)
    }
}

#[cfg(test)]
mod tests;
