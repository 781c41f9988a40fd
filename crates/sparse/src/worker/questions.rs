//! Questions for weights, and their answers.

use std::collections::BTreeMap;

use super::Worker;
use crate::hot::{Place, RowId, Tier};
use crate::message::ToServer;
use crate::table::TableId;

/// Numbers of questions begin here: what a server acknowledges is a packet of a round below, and a question from here on.
pub(super) const FIRST_REQUEST: u32 = 1 << 30;

/// A question for weights.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    server: u16,
    /// The version that is asked for.
    version: u32,
    table: TableId,
    keys: Vec<u64>,
    /// Whether the optimizer's state is asked for too.
    with_state: bool,
}

/// Rows of one table at one server, all cold or all summed by a switch, with what tells their order in which they become
/// complete: their keys, or their positions.
type Group = (u16, TableId, bool);

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
        let mut groups: BTreeMap<Group, Vec<(u64, u64)>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| self.replicas.row(*row).is_none()) {
            let place = self.map.place(row).filter(|place| place.tier == Tier::B);
            let order = place.map_or(row.key, |Place { position, .. }| position.into());
            let group = (self.spec.server_of(row), row.table, place.is_some());
            groups.entry(group).or_default().push((order, row.key));
        }
        self.ask_in_order(groups, with_state);
    }

    /// Asks first for what will be complete first: servers hold what is not.
    fn ask_in_order(&mut self, groups: BTreeMap<Group, Vec<(u64, u64)>>, with_state: bool) {
        let (mut cold, mut summed) = (Vec::new(), Vec::new());
        for ((server, table, is_summed), mut rows) in groups {
            rows.sort_unstable();
            for part in rows.chunks(self.spec.rows_of_pulls(table, with_state)) {
                let keys = part.iter().map(|(_, key)| *key).collect();
                let last = part.last().map_or(0, |(order, _)| *order);
                let pull = Pull { server, version: self.round.number, table, keys, with_state };
                if is_summed { summed.push((last, pull)) } else { cold.push(pull) }
            }
        }
        summed.sort_by_key(|(last, _)| *last);
        // Workers' rows and sums come side by side.
        let of = |number: usize, count: usize| (2 * number + 1) as f64 / (2 * count) as f64;
        let (colds, sums) = (cold.len(), summed.len());
        let cold = cold.into_iter().enumerate().map(|(number, pull)| (of(number, colds), pull));
        let summed = summed.into_iter().enumerate().map(|(n, (_, pull))| (of(n, sums), pull));
        let mut all: Vec<(f64, Pull)> = cold.chain(summed).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        all.into_iter().for_each(|(_, pull)| self.ask(pull));
    }

    fn ask(&mut self, pull: Pull) {
        let request = FIRST_REQUEST | self.next_request;
        self.next_request = (self.next_request + 1) % FIRST_REQUEST;
        let (version, table, keys) = (pull.version, pull.table, pull.keys.clone());
        let with_state = pull.with_state;
        let message = ToServer::Pull { version, request, table, keys, with_state };
        self.questions.send((pull.server, version, request), message);
        self.pulls.insert(request, pull);
    }

    /// Rows that have become replicas are asked for no more: their server has lent them.
    pub(super) fn ask_anew(&mut self) {
        let row = |table, key: &u64| RowId { table, key: *key };
        let is_kept = |pull: &Pull| {
            pull.keys.iter().any(|key| self.replicas.row(row(pull.table, key)).is_some())
        };
        let stale = self.pulls.iter().filter(|(_, pull)| is_kept(pull)).map(|(n, _)| *n);
        let mut rest = Vec::new();
        for request in stale.collect::<Vec<_>>() {
            let pull = self.pulls.remove(&request).expect("it was found");
            self.questions.withdraw((pull.server, pull.version, request));
            rest.extend(pull.keys.iter().map(|key| row(pull.table, key)));
        }
        self.pull(rest);
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
            (pull.server, pull.version, pull.table) == (server, version, table)
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
    }
}
