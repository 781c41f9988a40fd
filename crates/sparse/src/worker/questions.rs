//! Questions for weights, and their answers.

use std::collections::{BTreeMap, VecDeque};

use super::Worker;
use crate::hot::{Place, RowId, Tier};
use crate::message::ToServer;
use crate::table::TableId;

/// Numbers of questions begin here: what a server acknowledges is a packet of a round below, and a question from here on.
pub(super) const FIRST_REQUEST: u32 = 1 << 30;

/// Questions of a line that all workers together have asked and that are not answered, about: each answer asks for the next
/// one. Answers to both lines of 256 KiB in all fill 1 Gbit/s at 2 ms a round trip, and fit the queues of most links.
pub(super) const MOST_ASKED: u32 = 128;
/// A worker asks as many at least: the next question is there before an answer has left.
const LEAST_ASKED: u32 = 2;

/// A question for weights.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    line: LineId,
    /// The version that is asked for.
    version: u32,
    table: TableId,
    keys: Vec<u64>,
    /// Whether the optimizer's state is asked for too.
    with_state: bool,
}

/// A server, and whether rows are summed by switches or are cold: questions of a line become answerable in order.
pub(super) type LineId = (u16, bool);

/// Questions that are asked one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    unasked: VecDeque<Pull>,
    /// How many were asked, and not answered.
    asked: u32,
}

impl Worker {
    /// Asks the servers for the weights of rows as they are now, or will be when the round under way is over; those of
    /// replicas need no question.
    pub fn pull(&mut self, rows: impl IntoIterator<Item = RowId>) {
        self.pull_all(rows, false);
    }

    /// Asks for the weights of rows as they are now, with the optimizer's state: for [`Self::stored`].
    ///
    /// # Panics
    /// If the last round is not over: state is told of closed rounds only.
    pub fn pull_stored(&mut self, rows: impl IntoIterator<Item = RowId>) {
        assert!(self.round.is_over, "round {} is not over", self.round.number);
        self.pull_all(rows, true);
    }

    fn pull_all(&mut self, rows: impl IntoIterator<Item = RowId>, with_state: bool) {
        // Rows of one table in the order in which they become complete: of their keys, or of their positions.
        let mut groups: BTreeMap<(LineId, TableId), Vec<(u64, u64)>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| self.replicas.row(*row).is_none()) {
            let place = self.map.place(row).filter(|place| place.tier == Tier::B);
            let order = place.map_or(row.key, |Place { position, .. }| position.into());
            let line = (self.spec.server_of(row), place.is_some());
            groups.entry((line, row.table)).or_default().push((order, row.key));
        }
        self.line_up(groups, with_state);
        self.ask();
    }

    /// What will be complete first is asked for first: servers hold what is not.
    fn line_up(&mut self, groups: BTreeMap<(LineId, TableId), Vec<(u64, u64)>>, with_state: bool) {
        let mut summed = Vec::new();
        for ((line, table), mut rows) in groups {
            rows.sort_unstable();
            for part in rows.chunks(self.spec.rows_of_pulls(table, with_state)) {
                let keys = part.iter().map(|(_, key)| *key).collect();
                let last = part.last().map_or(0, |(order, _)| *order);
                let pull = Pull { line, version: self.round.number, table, keys, with_state };
                if line.1 {
                    summed.push((last, pull));
                } else {
                    self.lines.entry(line).or_default().unasked.push_back(pull);
                }
            }
        }
        // Positions are in order over all tables.
        summed.sort_by_key(|(last, _)| *last);
        for (_, pull) in summed {
            self.lines.entry(pull.line).or_default().unasked.push_back(pull);
        }
    }

    /// Asks as much as may be asked.
    fn ask(&mut self) {
        let most = (MOST_ASKED / self.spec.workers).max(LEAST_ASKED);
        for line in self.lines.values_mut() {
            while line.asked < most
                && let Some(pull) = line.unasked.pop_front()
            {
                line.asked += 1;
                let request = FIRST_REQUEST | self.next_request;
                self.next_request = (self.next_request + 1) % FIRST_REQUEST;
                let (version, table, keys) = (pull.version, pull.table, pull.keys.clone());
                let with_state = pull.with_state;
                let message = ToServer::Pull { version, request, table, keys, with_state };
                self.questions.send((pull.line.0, version, request), message);
                self.pulls.insert(request, pull);
            }
        }
    }

    /// Whether all questions were answered.
    pub(super) fn is_answered(&self) -> bool {
        self.pulls.is_empty() && self.lines.values().all(|line| line.unasked.is_empty())
    }

    /// Rows that have become replicas are asked for no more: their server has lent them.
    pub(super) fn ask_anew(&mut self) {
        let row = |table, key: &u64| RowId { table, key: *key };
        let is_kept = |pull: &Pull| {
            pull.keys.iter().any(|key| self.replicas.row(row(pull.table, key)).is_some())
        };
        let asked = self.pulls.iter().filter(|(_, pull)| is_kept(pull)).map(|(n, _)| *n);
        let mut stale = Vec::new();
        for request in asked.collect::<Vec<_>>() {
            let pull = self.pulls.remove(&request).expect("it was found");
            self.questions.withdraw((pull.line.0, pull.version, request));
            self.lines.entry(pull.line).or_default().asked -= 1;
            stale.push(pull);
        }
        for line in self.lines.values_mut() {
            let (kept, rest): (Vec<Pull>, Vec<Pull>) = line.unasked.drain(..).partition(is_kept);
            line.unasked = rest.into();
            stale.extend(kept);
        }
        let rows = stale.iter().flat_map(|pull| pull.keys.iter().map(|key| row(pull.table, key)));
        self.pull(rows.collect::<Vec<_>>());
    }

    pub(super) fn enter_rows(
        &mut self,
        server: u16,
        version: u32,
        request: u32,
        table: TableId,
        values: &[f32],
    ) {
        let spec = self.spec.tables.iter().find(|spec| spec.id == table);
        let Some(spec) = spec else { return };
        let len = |pull: &Pull| spec.len_of(pull.with_state);
        let is_wanted = |pull: &Pull| {
            (pull.line.0, pull.version, pull.table) == (server, version, table)
                && pull.keys.len() * len(pull) == values.len()
        };
        if !self.pulls.get(&request).is_some_and(is_wanted) {
            return;
        }
        let pull = self.pulls.remove(&request).expect("it was found");
        let len = len(&pull);
        self.questions.settled((server, version, request));
        for (key, weights) in pull.keys.into_iter().zip(values.chunks_exact(len)) {
            let here = self.pulled.entry(RowId { table, key }).or_default();
            // Its weights alone may have been asked for beside its state.
            if here.len() < len {
                *here = weights.to_vec();
            }
        }
        self.lines.entry(pull.line).or_default().asked -= 1;
        self.ask();
    }
}
