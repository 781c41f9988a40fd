//! Hot rows at a worker: equal at all of them, as all take the same steps with the same sums.

use std::collections::BTreeMap;

use crate::hot::{HotMap, MapChange, RowId, Tier};
use crate::mix;
use crate::optimizer::Step;
use crate::table::{Row, TableSpec};

/// Replicated rows, with their optimizers' state.
#[derive(Clone, Debug)]
pub(super) struct Replicas {
    tables: Vec<TableSpec>,
    rows: BTreeMap<RowId, Row>,
    /// Rows that are hot no longer: one worker sends each back in the next round.
    leaving: BTreeMap<RowId, Row>,
    /// How many workers had a gradient for each row in the last round.
    counts: Vec<(RowId, u32)>,
}

impl Replicas {
    pub(super) fn initial(tables: &[TableSpec], map: &HotMap) -> Self {
        let (rows, leaving, counts) = Default::default();
        let mut replicas = Self { tables: tables.to_vec(), rows, leaving, counts };
        for hot in map.document().rows.iter().filter(|hot| hot.tier == Tier::A) {
            let row = replicas.initial_row(hot.row);
            replicas.rows.insert(hot.row, row);
        }
        replicas
    }

    fn table(&self, row: RowId) -> &TableSpec {
        let table = self.tables.iter().find(|table| table.id == row.table);
        table.expect("a map fits the job's tables")
    }

    fn initial_row(&self, row: RowId) -> Row {
        Row { values: self.table(row).initial_row(row.key), changed: 0 }
    }

    /// A row's replica, or what it was until it left.
    pub(super) fn row(&self, row: RowId) -> Option<&Row> {
        self.rows.get(&row).or_else(|| self.leaving.get(&row))
    }

    pub(super) fn counts(&self) -> &[(RowId, u32)] {
        &self.counts
    }

    /// One step for each row that has a sum; rows that expire begin anew.
    pub(super) fn step<'a>(
        &mut self,
        round: u32,
        workers: u32,
        map: &HotMap,
        results: impl Iterator<Item = (u32, u32, &'a [f32])>,
    ) {
        self.counts.clear();
        for (position, contributors, values) in results {
            let Some(row) = map.row(position) else { continue };
            let table = self.table(row).clone();
            let Some(kept) = self.rows.get_mut(&row) else { continue };
            self.counts.push((row, contributors));
            let mut gradient = values.to_vec();
            if table.is_averaged {
                gradient.iter_mut().for_each(|value| *value /= workers as f32);
            }
            let (weights, state) = kept.values.split_at_mut(usize::from(table.dim));
            table.optimizer.step(table.step_of(round), weights, state, &gradient);
            kept.changed = table.changed_in(round);
        }
        self.expire(round);
    }

    fn expire(&mut self, round: u32) {
        let is_over = |row: &RowId, kept: &Row| {
            let after = self.table(*row).expire_after;
            after.is_some_and(|after| round.saturating_sub(kept.changed) >= after)
        };
        let over: Vec<RowId> = self
            .rows
            .iter()
            .filter(|(row, kept)| is_over(row, kept))
            .map(|(row, _)| *row)
            .collect();
        for row in over {
            let row_anew = self.initial_row(row);
            self.rows.insert(row, row_anew);
        }
    }

    /// Replicas that were put change; then some rows leave and others come, where the map changes.
    pub(super) fn exchange<'a>(
        &mut self,
        change: Option<&MapChange>,
        lent: impl Iterator<Item = &'a (RowId, Row)>,
    ) {
        let fits = |(id, row): &&(RowId, Row)| {
            let table = self.tables.iter().find(|table| table.id == id.table);
            table.is_some_and(|table| table.stride() == row.values.len())
        };
        let (put, lent): (Vec<_>, Vec<_>) =
            lent.filter(fits).cloned().partition(|(row, _)| self.rows.contains_key(row));
        self.rows.extend(put);
        for row in change.into_iter().flat_map(|change| &change.demoted) {
            if let Some(kept) = self.rows.remove(row) {
                self.leaving.insert(*row, kept);
            }
        }
        self.rows.extend(lent);
    }

    /// The rows that this worker is to send back; nobody keeps those that others send.
    pub(super) fn take_leaving(&mut self, rank: u32, workers: u32) -> Vec<(RowId, Row)> {
        let leaving = std::mem::take(&mut self.leaving);
        let is_mine = |row: &RowId| mix(row.key) % u64::from(workers) == u64::from(rank);
        leaving.into_iter().filter(|(row, _)| is_mine(row)).collect()
    }
}
