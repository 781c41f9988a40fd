//! Questions for weights, and their answers.

use std::collections::VecDeque;

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
    /// Where its last row is in the order in which the line's rows become complete.
    order: (TableId, u64),
    /// The version that is asked for.
    version: u32,
    table: TableId,
    keys: Vec<u64>,
    /// Whether the optimizer's state is asked for too.
    with_state: bool,
}

/// A server, and whether rows are summed by switches or are cold: questions of a line become answerable in order.
pub(super) type LineId = (u16, bool);

/// The number of a line as a receiver of questions: those of one line are answered in order, so answers tell which are
/// lost.
fn number_of_line((server, is_summed): LineId) -> u16 {
    2 * server + u16::from(is_summed)
}

/// The server of a line.
pub(super) fn server_of_line(number: u16) -> u16 {
    number / 2
}

/// A row that is to be asked for; those of one line and table are sorted as they become complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    line: LineId,
    table: TableId,
    /// Its position if a switch sums it, else its key.
    order: u64,
    key: u64,
}

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
        let mut finder = self.map.finder();
        let wanted = rows.into_iter().filter(|row| self.replicas.row(*row, &self.map).is_none());
        let mut wanted: Vec<Wanted> = wanted
            .map(|row| {
                let place = finder.place(row).filter(|place| place.tier == Tier::B);
                let order = place.map_or(row.key, |Place { position, .. }| position.into());
                let line = (self.spec.server_of(row), place.is_some());
                Wanted { line, table: row.table, order, key: row.key }
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        self.line_up(&wanted, with_state);
    }

    /// What will be complete first is asked for first: servers hold what is not.
    fn line_up(&mut self, wanted: &[Wanted], with_state: bool) {
        let version = self.round.number;
        for group in wanted.chunk_by(|one, next| (one.line, one.table) == (next.line, next.table)) {
            let Wanted { line, table, .. } = group[0];
            for part in group.chunks(self.spec.rows_of_pulls(table, with_state)) {
                let keys = part.iter().map(|wanted| wanted.key).collect();
                let last = part.last().map_or(0, |wanted| wanted.order);
                // Positions are in order over all tables.
                let order = (if line.1 { TableId(0) } else { table }, last);
                let pull = Pull { line, order, version, table, keys, with_state };
                self.lines.entry(line).or_default().unasked.push_back(pull);
            }
        }
        // Tables may have been asked for one after the other.
        for line in self.lines.values_mut() {
            line.unasked.make_contiguous().sort_by_key(|pull| pull.order);
        }
    }

    /// Questions of a line that this worker may have asked.
    fn most_asked(&self) -> u32 {
        (MOST_ASKED / self.spec.workers).max(LEAST_ASKED)
    }

    /// Whether there is something to ask now.
    pub(super) fn may_ask(&self) -> bool {
        let most = self.most_asked();
        self.lines.values().any(|line| line.asked < most && !line.unasked.is_empty())
    }

    /// A server holds a question.
    pub(super) fn question_is_held(&mut self, server: u16, version: u32, request: u32) {
        if let Some(pull) = self.pulls.get(&request).filter(|pull| pull.line.0 == server) {
            self.questions.held((number_of_line(pull.line), version, request));
        }
    }

    /// A server has answered all questions that it held.
    pub(super) fn hasten_questions(&mut self, server: u16) {
        for line in [(server, false), (server, true)] {
            self.questions.hasten(number_of_line(line));
        }
    }

    /// Asks as much as may be asked.
    pub(super) fn ask(&mut self) {
        let most = self.most_asked();
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
                self.questions.send((number_of_line(pull.line), version, request), message);
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
            pull.keys.iter().any(|key| self.replicas.row(row(pull.table, key), &self.map).is_some())
        };
        let asked = self.pulls.iter().filter(|(_, pull)| is_kept(pull)).map(|(n, _)| *n);
        let mut stale = Vec::new();
        for request in asked.collect::<Vec<_>>() {
            let pull = self.pulls.remove(&request).expect("it was found");
            self.questions.withdraw((number_of_line(pull.line), pull.version, request));
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
        self.questions.settled((number_of_line(pull.line), version, request));
        self.pulled.enter(table, &pull.keys, values, pull.with_state);
        self.lines.entry(pull.line).or_default().asked -= 1;
    }
}
