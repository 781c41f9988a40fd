//! A worker's part: gradients sorted into tiers, replicas of hot rows, and weights from the servers for all others.
//!
//! The state table is in `spec/sparse.md`. A round is over when every server has closed it and all results of the switches
//! are in. Then replicas take their step, the round's news about the map takes effect, and the next round may begin. What the
//! next round needs may be asked for while the round is under way: servers answer row by row, as sums become complete.
//!
//! Inputs: [`Worker::begin`], [`Worker::pull`], [`Worker::handle_server`], [`Worker::handle_switch`]. Outputs:
//! [`Worker::poll_to_server`] and [`Worker::poll_to_switch`], until there are none; [`Worker::poll_timeout`] says when there
//! will be more. What is not answered is sent again.

mod gradients;
mod pulled;
mod questions;
mod replicas;
mod round;

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;
use wiresum_netem::Time;
use wiresum_wire::{RowKind, RowValue};

use crate::hot::{HotMap, RowId};
use crate::message::{FromServer, FromSwitch, ToServer, ToSwitch};
use crate::sending::{DECISION, Sending};
use crate::table::{Shards, TableId, TableSpec, narrowest};
pub use gradients::Gradients;
use pulled::Pulled;
use questions::{FIRST_REQUEST, Line, LineId, MOST_ASKED, Pull, server_of_line};
use replicas::Replicas;
use round::{Packets, Round};

/// What a worker knows from the plan.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// Its rank.
    pub rank: u32,
    /// The workers.
    pub workers: u32,
    /// The servers of tables.
    pub shards: Shards,
    /// Switches that sum hot rows: position p is summed by number p mod this. 0 if there are no hot rows.
    pub switches: u16,
    /// The job's tables.
    pub tables: Vec<TableSpec>,
    /// Bytes of a packet after its headers.
    pub room: usize,
}

impl WorkerSpec {
    /// The server of a row. One that the job does not have, or whose table it does not have, gets a server that refuses it
    /// by name.
    fn server_of(&self, row: RowId) -> u16 {
        self.servers_of(row.table)(row.key)
    }

    /// [`Self::server_of`], for many rows of a table.
    fn servers_of(&self, table: TableId) -> impl Fn(u64) -> u16 {
        let table = self.tables.iter().find(|spec| spec.id == table);
        move |key| {
            let server = table.map_or(0, |table| self.shards.of(&table.rows, key));
            server.min(self.shards.0 - 1)
        }
    }

    /// Rows of a table, by their values, that the next push has: where all have 16 bits, about twice as many. At least one,
    /// so that its receiver can refuse it.
    fn rows_of_push(&self, table: TableId, dim: usize, values: &[f32]) -> usize {
        let wide = self.rows_stored(RowKind::Push, table, false);
        let spec = self.tables.iter().find(|spec| spec.id == table);
        let value = spec.map_or(RowValue::Float32, |spec| spec.value.in_packets());
        let most = RowKind::Push.rows_of(self.room, dim, value).min(values.len() / dim.max(1));
        let is_wide = most <= wide || narrowest(&values[..most * dim]) == RowValue::Float32;
        if is_wide { wide } else { most }
    }

    /// Hot rows, of these by their values, that the next packet has; at least one.
    fn rows_of_hot<'a>(&self, dim: usize, rows: impl Iterator<Item = &'a [f32]> + Clone) -> usize {
        let kind = RowKind::HotRows;
        let mut types = self.tables.iter().map(|spec| spec.value.in_packets());
        let value = types.find(|value| *value != RowValue::Float32);
        let most = value.map_or(0, |value| kind.rows_of(self.room, dim, value));
        let is_narrow = || narrowest(rows.clone().take(most).flatten()) != RowValue::Float32;
        let wide = kind.rows_for(self.room, dim).max(1);
        if most > wide && is_narrow() { most } else { wide }
    }

    /// As many as both the question and its answer have room for.
    fn rows_of_pulls(&self, table: TableId, with_state: bool) -> usize {
        let spec = self.tables.iter().find(|spec| spec.id == table);
        let most = |spec: &TableSpec| {
            let value = spec.value_of(with_state).in_packets();
            RowKind::Weights.rows_of(self.room, spec.len_of(with_state), value)
        };
        spec.map_or(1, most).min(RowKind::Pull.rows_for(self.room, 0)).max(1)
    }

    /// Rows that fit a packet of a kind with rows of this table, of float32, with the optimizer's state where there is one;
    /// at least one.
    fn rows_stored(&self, kind: RowKind, table: TableId, with_state: bool) -> usize {
        let spec = self.tables.iter().find(|spec| spec.id == table);
        kind.rows_for(self.room, spec.map_or(1, |spec| spec.len_of(with_state))).max(1)
    }
}

/// Why a job cannot go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WorkerError {
    /// A server refused something.
    #[error("server {server} refused a packet of round {round}: {problem}")]
    Refused {
        /// The server.
        server: u16,
        /// The round.
        round: u32,
        /// What it said.
        problem: String,
    },
    /// A switch refused something.
    #[error("switch {switch} refused a packet of round {round}: {problem}")]
    RefusedBySwitch {
        /// The switch.
        switch: u16,
        /// The round.
        round: u32,
        /// What it said.
        problem: String,
    },
    /// A server has lost more than is kept for it.
    #[error(
        "server {server} is back as it was after round {version}, and what it was sent until round {forgotten} is not \
         kept any more: start it with its last snapshot, or begin the job anew from a checkpoint"
    )]
    ServerForgot {
        /// The server.
        server: u16,
        /// Its last round.
        version: u32,
        /// The last round of which something is lost.
        forgotten: u32,
    },
}

/// A worker of a sparse job as a state machine: messages in, messages and weights out.
#[derive(Clone, Debug)]
pub struct Worker {
    spec: WorkerSpec,
    map: HotMap,
    replicas: Replicas,
    round: Round,
    to_servers: Sending<ToServer>,
    to_switches: Sending<ToSwitch>,
    /// To switches, of results.
    acknowledgements: VecDeque<(u16, ToSwitch)>,
    /// By line.
    questions: Sending<ToServer>,
    pulls: BTreeMap<u32, Pull>,
    lines: BTreeMap<LineId, Line>,
    pulled: Pulled,
    /// Rows to be put in the next round.
    puts: BTreeMap<RowId, Vec<f32>>,
    next_request: u32,
    error: Option<WorkerError>,
}

impl Worker {
    /// A worker before the first round. Replicas have their rows' initial values, which everybody can tell.
    #[must_use]
    pub fn new(spec: WorkerSpec, map: HotMap) -> Self {
        let replicas = Replicas::initial(&spec.tables, &map);
        let round = Round::none(spec.shards.0, spec.switches);
        let (to_servers, to_switches, acknowledgements) = Default::default();
        // How many are asked is bounded by lines.
        let questions = Sending::of(MOST_ASKED.into());
        let (pulls, lines, puts) = Default::default();
        let pulled = Pulled::new(&spec.tables);
        let (next_request, error) = (0, None);
        Self {
            spec,
            map,
            replicas,
            round,
            to_servers,
            to_switches,
            acknowledgements,
            questions,
            pulls,
            lines,
            pulled,
            puts,
            next_request,
            error,
        }
    }

    /// The last round that is over.
    #[must_use]
    pub fn version(&self) -> u32 {
        if self.round.is_over { self.round.number } else { self.round.number - 1 }
    }

    /// Whether the next round can begin.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.round.is_over && self.is_answered()
    }

    /// Why the job cannot go on, if it cannot.
    #[must_use]
    pub fn error(&self) -> Option<&WorkerError> {
        self.error.as_ref()
    }

    /// The map of the next round, or of the one under way.
    #[must_use]
    pub fn map(&self) -> &HotMap {
        &self.map
    }

    /// Begins the next round with this worker's gradients, each row once.
    ///
    /// # Panics
    /// If the last round is not over.
    pub fn begin(&mut self, gradients: &Gradients) {
        assert!(self.is_idle(), "round {} is not over", self.round.number);
        self.pulled.clear();
        self.round = Round::begin(self.round.number + 1, self.spec.shards.0, self.spec.switches);
        let mut packets = Packets::new(&self.spec, self.round.number, &self.map);
        for (row, values) in std::mem::take(&mut self.puts) {
            packets.add_put(row, &values);
        }
        gradients.tables().for_each(|(table, rows)| packets.add_gradients(table, rows));
        for (row, values) in self.replicas.take_leaving(self.spec.rank, self.spec.workers) {
            packets.add_return(row, values);
        }
        packets.send(&mut self.to_servers, &mut self.to_switches, self.replicas.counts());
    }

    /// Has a row be this after the next round, whatever its gradients: weights and state, as many as are stored. One worker
    /// puts a row in a round; all will see it.
    pub fn put(&mut self, row: RowId, values: Vec<f32>) {
        self.puts.insert(row, values);
    }

    /// Something has come from a server.
    pub fn handle_server(&mut self, server: u16, message: &FromServer) {
        match message {
            FromServer::Acknowledgement { round, sequence }
                if (FIRST_REQUEST..DECISION).contains(sequence) =>
            {
                // What is said late is no news: a closed round's questions were all answered.
                if !self.round.is_closed(server, *round) {
                    self.question_is_held(server, *round, *sequence);
                }
            }
            FromServer::Acknowledgement { round, sequence } => {
                self.to_servers.acknowledged((server, *round, *sequence));
            }
            FromServer::Refusal { round, problem } => {
                let (round, problem) = (*round, problem.clone());
                self.error.get_or_insert(WorkerError::Refused { server, round, problem });
            }
            FromServer::Closed(closed) => {
                self.to_servers.all_answered(server, closed.round);
                self.hasten_questions(server);
                self.round.enter_closed(server, closed);
                self.end_if_complete();
            }
            FromServer::Rows { version, request, table, values, .. } => {
                self.enter_rows(server, *version, *request, *table, values);
            }
        }
    }

    /// Something has come from a switch.
    pub fn handle_switch(&mut self, switch: u16, message: &FromSwitch) {
        match message {
            FromSwitch::Acknowledgement { round, sequence } => {
                self.to_switches.answered((switch, *round, *sequence));
            }
            FromSwitch::Refusal { round, problem } => {
                let (round, problem) = (*round, problem.clone());
                self.error.get_or_insert(WorkerError::RefusedBySwitch { switch, round, problem });
            }
            FromSwitch::Results { round, part, parts, rows } => {
                let dim = usize::from(self.map.document().dim);
                if rows.values.len() != rows.positions.len() * dim {
                    return;
                }
                if *round <= self.round.number {
                    let acknowledgement = ToSwitch::Acknowledgement { round: *round, part: *part };
                    self.acknowledgements.push_back((switch, acknowledgement));
                }
                if *round == self.round.number
                    && self.round.enter_results(switch, *part, *parts, rows)
                {
                    self.to_switches.forget(switch, *round);
                }
                self.end_if_complete();
            }
        }
    }

    fn end_if_complete(&mut self) {
        if self.round.is_over || !self.round.is_complete() {
            return;
        }
        self.round.is_over = true;
        let (number, workers) = (self.round.number, self.spec.workers);
        self.replicas.step(number, workers, self.round.results());
        let change = self.round.change();
        let map = change.as_ref().and_then(|change| change.apply(&self.map).ok());
        let maps = (&self.map, map.as_ref().unwrap_or(&self.map));
        let applied = change.as_deref().filter(|_| map.is_some());
        self.replicas.exchange(applied, maps, self.round.lent());
        if let Some(map) = map {
            self.map = map;
            self.ask_anew();
        }
        // A restarted server has to learn again what was decided; all workers know.
        for server in 0..self.spec.shards.0 {
            let decision = ToServer::Decision { round: number, change: change.clone() };
            self.to_servers.keep((server, number, DECISION), decision);
        }
    }

    /// A row's weights after the last round, or the one under way, from its replica or as pulled; `None` if they are not here.
    #[must_use]
    pub fn weights(&self, row: RowId) -> Option<&[f32]> {
        let table = self.spec.tables.iter().find(|table| table.id == row.table)?;
        let replica = self.replica(row);
        let values = replica.or_else(|| self.pulled.weights(row));
        values.map(|values| &values[..usize::from(table.dim)])
    }

    /// Rounds weights of a table to its type, as they are told: replicas are float32, and what was pulled is rounded.
    pub fn round(&self, table: TableId, weights: &mut [f32]) {
        let spec = self.spec.tables.iter().find(|spec| spec.id == table);
        spec.into_iter().for_each(|spec| spec.value.round(weights));
    }

    /// A row's weights and state after the last round, from its replica or as pulled by [`Self::pull_stored`].
    #[must_use]
    pub fn stored(&self, row: RowId) -> Option<&[f32]> {
        self.replica(row).or_else(|| self.pulled.stored(row))
    }

    /// A row's replica, which is that of after a round once the round is over.
    fn replica(&self, row: RowId) -> Option<&[f32]> {
        if self.round.is_over { self.replicas.row(row, &self.map) } else { None }
    }

    /// A server has restarted from a snapshot of after round `version`.
    ///
    /// # Errors
    /// [`WorkerError::ServerForgot`].
    pub fn handle_restart(&mut self, server: u16, version: u32) -> Result<(), WorkerError> {
        if let Some(forgotten) = self.to_servers.forgotten_after(server, version) {
            return Err(WorkerError::ServerForgot { server, version, forgotten });
        }
        self.to_servers.restarted(server, version);
        self.hasten_questions(server);
        Ok(())
    }

    /// A server has a snapshot of after round `version`: what was kept for it until then is not needed any more.
    pub fn handle_snapshot(&mut self, server: u16, version: u32) {
        self.to_servers.forget(server, version);
    }

    /// The next thing for a server.
    pub fn poll_to_server(&mut self, now: Time) -> Option<(u16, ToServer)> {
        self.ask();
        let question = |(line, question)| (server_of_line(line), question);
        self.to_servers.poll(now).or_else(|| self.questions.poll(now).map(question))
    }

    /// The next thing for a switch.
    pub fn poll_to_switch(&mut self, now: Time) -> Option<(u16, ToSwitch)> {
        self.acknowledgements.pop_front().or_else(|| self.to_switches.poll(now))
    }

    /// What time it is, before what comes is handled: answers are timed by it.
    pub fn set_time(&mut self, now: Time) {
        self.to_servers.set_time(now);
        self.to_switches.set_time(now);
        self.questions.set_time(now);
    }

    /// Messages that were sent more than once.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.to_servers.repeated() + self.to_switches.repeated() + self.questions.repeated()
    }

    /// When there will be more to send, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let is_pressing = !self.acknowledgements.is_empty() || self.may_ask();
        let at_once = is_pressing.then_some(Time(0));
        let sending = [&self.to_servers, &self.questions].map(Sending::next_due);
        let due = sending.into_iter().chain([self.to_switches.next_due(), at_once]);
        due.flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::{FORMAT, HotRows};
    use crate::optimizer::{Optimizer, Sgd};
    use crate::table::{Initial, RowIds, ValueType};

    #[test]
    fn what_the_job_does_not_have_is_asked_of_a_server_that_it_has() {
        let table = TableSpec {
            id: TableId(1),
            name: "t".into(),
            rows: RowIds::Counted(10),
            dim: 2,
            value: ValueType::default(),
            optimizer: Optimizer::Sgd(Sgd { lr: 0.1 }),
            initial: Initial::Zeros,
            seed: 1,
            is_averaged: false,
            steps_before: 0,
            expire_after: None,
        };
        let (tables, shards) = (vec![table], Shards(3));
        let spec = WorkerSpec { rank: 0, workers: 1, shards, switches: 0, tables, room: 100 };
        let (format, rows) = (FORMAT.into(), Vec::new());
        let map =
            HotRows { format, version: 1, dim: 2, positions: 1, block: 0, rows, digest: None };
        let mut worker = Worker::new(spec, HotMap::new(map).unwrap());
        let row = |table, key| RowId { table: TableId(table), key };
        worker.pull([row(1, 0), row(1, 9), row(1, 12), row(2, 0)]);
        let sent = std::iter::from_fn(|| worker.poll_to_server(Time(0)));
        let mut asked: Vec<(u16, Vec<u64>)> = sent
            .map(|(server, message)| match message {
                ToServer::Pull { keys, .. } => (server, keys),
                other => panic!("{other:?}"),
            })
            .collect();
        asked.sort();
        assert_eq!(asked, [(0, vec![0]), (0, vec![0]), (2, vec![9, 12])]);
    }
}
