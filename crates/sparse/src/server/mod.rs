//! A server of tables: rounds of pushes, one optimizer step for each row and round, and rows for those who pull.
//!
//! The state table is in `spec/sparse.md`. A round is closed when every sender has said how many packets it had and all of
//! them are in, rows on their way back have come, and what is decided about the map is known. What a row is after a round
//! follows from the gradients alone: sums are exact, and the step is taken once, when the round closes.
//!
//! Weights of after the open round are told as soon as the sums of their rows are complete, before the round closes: senders
//! have an order, so what a server has of each tells what it can have no more of. Thus pushes and pulls overlap.
//!
//! Inputs: [`Server::handle`]. Outputs: [`Server::poll_transmit`], until there are none. A server has no timers and says
//! nothing twice unless it is asked twice.

mod counters;
mod error;
mod round;
mod snapshot;
mod waiting;

pub use counters::Counters;
pub use error::{PushError, SnapshotError};
pub use snapshot::Snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::hot::{HotMap, MapChange, RowId, Tier};
use crate::message::{Closed, FromServer, Sender, ToServer};
use crate::popularity::Tracker;
use crate::sending::{DECISION, END};
use crate::sum::MAX_CONTRIBUTORS;
use crate::table::{Row, Shards, Table, TableError, TableId, TableSpec};
use crate::tracking::{Follow, HotSet};
use round::Round;
use waiting::Waiting;

/// What a server knows from the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Its number among the servers of tables.
    pub shard: u16,
    /// How many there are.
    pub shards: Shards,
    /// The workers.
    pub workers: u32,
    /// Switches, each of which ends rounds here.
    pub switches: u32,
    /// Switches that send it sums, the first ones: position p is summed by number p mod this.
    pub roots: u32,
    /// The job's tables.
    pub tables: Vec<TableSpec>,
    /// Bytes that its rows may take.
    pub memory_bytes: u64,
    /// How the hot set follows popularity; absent if it stays as it is.
    pub hot_set: Option<HotSet>,
}

/// A server of tables.
#[derive(Clone, Debug)]
pub struct Server {
    spec: ServerSpec,
    tables: Vec<Table>,
    /// Hot map of the open round.
    map: HotMap,
    /// Hot map of the round after it, once a change is decided.
    next_map: Option<HotMap>,
    round: Round,
    /// Questions about the open round.
    waiting: Waiting,
    /// What was said when the last round was closed.
    last: Arc<Closed>,
    /// The version from which it was restored: what was lent when that round was closed is not known any more.
    restored: Option<u32>,
    outbox: VecDeque<(Sender, FromServer)>,
    counters: Counters,
    /// Contributors of each row in the last round, for whoever tracks popularity.
    popularity: Vec<(RowId, u32)>,
    /// Counts of all rounds before, where the hot set follows them.
    tracker: Tracker,
    /// What was counted, for a round that may change the map, until it is asked for.
    report: Option<(u32, Vec<(RowId, f32)>)>,
    walk: Option<snapshot::Walk>,
}

/// A server keeps counts of so many rows at least, and of twice as many for a while: 1 MiB.
const LEAST_COUNTED: usize = 30_000;

impl Server {
    /// A server whose rows have their initial values. Those that the map replicates are at the workers.
    ///
    /// # Errors
    /// [`TableError::Spec`]: a table's field, or more memory than planned.
    pub fn new(spec: ServerSpec, map: &HotMap) -> Result<Self, TableError> {
        let mut server = Self::empty(spec, map.clone())?;
        server.report();
        let rows = map.document().rows.iter().filter(|hot| hot.tier == Tier::A);
        for hot in rows {
            if let Some(table) = server.table_of(hot.row) {
                table.lend(hot.row.key, 0)?;
            }
        }
        Ok(server)
    }

    fn empty(spec: ServerSpec, map: HotMap) -> Result<Self, TableError> {
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
        let reported = spec.hot_set.map_or(0, |hot_set| hot_set.reported());
        let tracker = Tracker::bounded(LEAST_COUNTED.max(2 * reported));
        let (waiting, last, outbox, counters) = Default::default();
        Ok(Self {
            spec,
            tables,
            map,
            next_map: None,
            round,
            waiting,
            last,
            restored: None,
            outbox,
            counters,
            popularity: Vec::new(),
            tracker,
            report: None,
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

    /// The map of the open round.
    #[must_use]
    pub fn map(&self) -> &HotMap {
        &self.map
    }

    /// What was counted before a round that may change the map: for the coordinator, once for each such round.
    pub fn poll_report(&mut self) -> Option<(u32, Vec<(RowId, f32)>)> {
        self.report.take()
    }

    /// How many workers had a gradient for each row of this server in the last closed round, as far as it knows.
    #[must_use]
    pub fn popularity(&self) -> &[(RowId, u32)] {
        &self.popularity
    }

    /// Something has come from who has joined the job: a sender, or the coordinator, which decides only.
    pub fn handle(&mut self, from: Sender, message: &ToServer) {
        let is_sender = from < self.spec.workers + self.spec.switches;
        match message {
            ToServer::Decision { round, change } => self.decide(from, *round, change.clone()),
            _ if !is_sender => self.counters.refused += 1,
            ToServer::Pull { version, request, table, keys, with_state } => {
                self.pull(from, *version, (*request, *with_state), *table, keys);
            }
            ToServer::End { round, packets } => self.end(from, *round, *packets),
            ToServer::Push { round, sequence, .. }
            | ToServer::Sums { round, sequence, .. }
            | ToServer::Counts { round, sequence, .. }
            | ToServer::Put { round, sequence, .. }
            | ToServer::Return { round, sequence, .. } => {
                self.packet(from, *round, *sequence, message);
            }
        }
        self.answer_waiting();
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
        match self.round.enter(from, sequence, message, &mut self.tables, &self.map) {
            Ok(rows) => {
                self.counters.rows += rows as u64;
                match message {
                    ToServer::Push { .. } => self.counters.cold += rows as u64,
                    ToServer::Sums { .. } => self.counters.hot += rows as u64,
                    ToServer::Counts { counts, .. } => {
                        self.counters.hot +=
                            counts.iter().map(|count| u64::from(*count)).sum::<u64>();
                    }
                    _ => {}
                }
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
            Ok(is_new) => {
                self.counters.duplicates += u64::from(!is_new);
                self.acknowledge(from, round, END);
            }
            Err(problem) => self.refuse(from, round, &problem),
        }
    }

    fn decide(&mut self, from: Sender, round: u32, change: Option<Arc<MapChange>>) {
        if round > self.round.number {
            self.counters.early += 1;
            return;
        }
        if round < self.round.number || self.round.decision.is_some() {
            self.counters.duplicates += 1;
        } else if let Err(problem) = self.check_change(change.as_deref()) {
            self.counters.refused += 1;
            let to_all = 0..self.spec.workers + self.spec.switches;
            to_all.for_each(|to| {
                let problem = problem.to_string();
                self.outbox.push_back((to, FromServer::Refusal { round, problem }));
            });
            return;
        } else {
            self.round.decision = Some(change);
        }
        self.acknowledge(from, round, DECISION);
    }

    /// Whether a decision leads on from the map of the open round, and there is room for the rows that the workers will hold:
    /// theirs is kept here.
    fn check_change(&mut self, change: Option<&MapChange>) -> Result<(), PushError> {
        let Some(change) = change else { return Ok(()) };
        let next_map = change.apply(&self.map)?;
        for hot in change.promoted.iter().filter(|hot| hot.tier == Tier::A) {
            self.round.make_room(hot.row, &mut self.tables)?;
        }
        self.next_map = Some(next_map);
        Ok(())
    }

    fn pull(
        &mut self,
        from: Sender,
        version: u32,
        (request, with_state): (u32, bool),
        table: TableId,
        keys: &[u64],
    ) {
        let open = self.round.number;
        // State is told of closed rounds only: who asks for it early asks a restarted server, and will ask again.
        if version == open && !with_state {
            return self.wait(from, request, table, keys);
        }
        if version.checked_add(1) != Some(open) {
            // An older version was answered before its worker went on; of a newer one a restarted server does not know yet.
            self.counters.late += u64::from(version < open);
            self.counters.early += u64::from(version >= open);
            return;
        }
        let weights = self.read(version, table, keys, with_state);
        // Its worker asked before it knew that it was to hold such a row, and asks anew.
        let is_lent = |lent: &(RowId, Row)| lent.0.table == table && keys.contains(&lent.0.key);
        let is_away = |of: &Table| of.spec().id == table && keys.iter().any(|key| of.is_away(*key));
        let may_be_lent = self.restored == Some(version) && self.tables.iter().any(is_away);
        if weights.is_err() && (may_be_lent || self.last.lent.iter().any(is_lent)) {
            self.counters.late += 1;
            return;
        }
        self.answer(from, version, request, table, weights);
    }

    /// Values of a row, and those of all rows.
    fn read(
        &self,
        version: u32,
        id: TableId,
        keys: &[u64],
        with_state: bool,
    ) -> Result<(u16, Vec<f32>), PushError> {
        let table = self.tables.iter().find(|table| table.spec().id == id);
        let table = table.ok_or(PushError::NoTable(id.0))?;
        let dim = table.spec().dim;
        if with_state {
            return Ok((table.spec().stride() as u16, table.stored(keys, version)?));
        }
        let mut values = vec![0.0; keys.len() * usize::from(dim)];
        table.read_all(keys, version, &mut values)?;
        table.spec().value.round(&mut values);
        Ok((dim, values))
    }

    fn close_if_complete(&mut self) {
        let is_decided = !self.may_change() || self.round.decision.is_some();
        if is_decided && self.round.is_complete(&self.tables) {
            self.finish_snapshot();
            self.close();
        }
    }

    /// Whether the map may change when the open round closes.
    fn may_change(&self) -> bool {
        self.spec.hot_set.is_some_and(|hot_set| hot_set.tracking.is_due(self.round.number))
    }

    fn close(&mut self) {
        let may_change = self.may_change();
        let next = Round::new(self.round.number + 1, &self.spec);
        let closed = std::mem::replace(&mut self.round, next);
        self.popularity = closed.step(&mut self.tables, self.spec.workers);
        let mut lent = closed.take_puts(&mut self.tables);
        self.answer_rest(closed.number);
        self.count(closed.number, may_change);
        self.report();
        let change = closed.decision.flatten();
        if let Some(change) = &change {
            lent.extend(self.exchange(closed.number, change));
        }
        self.last = Arc::new(Closed { round: closed.number, change, lent });
        for sender in 0..self.spec.workers + self.spec.switches {
            self.outbox.push_back((sender, FromServer::Closed(self.last.clone())));
        }
    }

    /// Counts a closed round. Counts decay after the report that they were in, so what is reported for a round follows from the
    /// counts of those before, also after a restart.
    fn count(&mut self, closed: u32, may_change: bool) {
        let Some(HotSet { tracking, .. }) = self.spec.hot_set else { return };
        if may_change {
            self.tracker.decay(tracking.decay());
        }
        let dim = self.map.document().dim;
        let has_room = |id| self.tables.iter().any(|t| t.spec().id == id && t.spec().dim == dim);
        let counted = |(row, workers): &(RowId, u32)| {
            let count = tracking.counted(closed, *row, *workers);
            (count > 0 && has_room(row.table)).then_some((*row, count))
        };
        let counted: Vec<(RowId, u32)> = self.popularity.iter().filter_map(counted).collect();
        self.tracker.observe(&counted);
    }

    /// Reports, if the map may change when the open round closes.
    fn report(&mut self) {
        let Some(hot_set) = self.spec.hot_set.filter(|_| self.may_change()) else { return };
        self.report = Some((self.round.number, self.tracker.candidates(hot_set.reported())));
    }

    /// Lends what becomes hot, and expects what is hot no longer.
    fn exchange(&mut self, round: u32, change: &MapChange) -> Vec<(RowId, Row)> {
        self.map = self.next_map.take().expect("a decision was checked");
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
