//! Hot rows at a worker: equal at all of them, as all take the same steps with the same sums.

use std::collections::BTreeMap;

use crate::hot::{HotMap, MapChange, RowId, Tier};
use crate::mix;
use crate::optimizer::Step;
use crate::table::{Row, TableId, TableSpec};

/// Replicated rows, with their optimizers' state. Sums come in order of position, and rows lie in that order as long as
/// the map does not change: a step of all is one walk through memory.
#[derive(Clone, Debug)]
pub(super) struct Replicas {
    tables: Vec<TableSpec>,
    /// Numbers that there is room for in a slot.
    stride: usize,
    /// By position: the slot of the row that is kept there, or [`NO_SLOT`].
    slots: Vec<u32>,
    /// By slot: the row.
    kept: Vec<Kept>,
    /// By slot: weights and state.
    values: Vec<f32>,
    /// Slots without a row.
    free: Vec<u32>,
    /// Rows that are hot no longer: one worker sends each back in the next round.
    leaving: BTreeMap<RowId, Row>,
    /// How many workers had a gradient for each row in the last round.
    counts: Vec<(RowId, u32)>,
}

/// A replicated row.
#[derive(Clone, Copy, Debug)]
struct Kept {
    row: RowId,
    /// Number of its table among the job's.
    table: usize,
    /// Numbers that are stored of it.
    len: usize,
    changed: u32,
}

/// Nothing is kept at a position.
const NO_SLOT: u32 = u32::MAX;

impl Replicas {
    pub(super) fn initial(tables: &[TableSpec], map: &HotMap) -> Self {
        let document = map.document();
        let fitting = tables.iter().filter(|table| table.dim == document.dim);
        let stride = fitting.map(TableSpec::stride).max().unwrap_or(0);
        let (tables, slots) = (tables.to_vec(), vec![NO_SLOT; document.positions as usize]);
        let (kept, values, free, leaving, counts) = Default::default();
        let mut replicas = Self { tables, stride, slots, kept, values, free, leaving, counts };
        for hot in document.rows.iter().filter(|hot| hot.tier == Tier::A) {
            let table = replicas.table_of(hot.row).expect("a map fits the job's tables");
            let values = replicas.tables[table].initial_row(hot.row.key);
            replicas.keep(hot.position, hot.row, &Row { values, changed: 0 });
        }
        replicas
    }

    fn table_of(&self, row: RowId) -> Option<usize> {
        self.tables.iter().position(|table| table.id == row.table)
    }

    /// Keeps a row at a position; not one of another length than its table's, which nobody lends.
    fn keep(&mut self, position: u32, row: RowId, values: &Row) {
        let table = self.table_of(row).filter(|table| {
            let stride = self.tables[*table].stride();
            stride == values.values.len() && stride <= self.stride
        });
        let Some(table) = table else { return };
        let (len, changed) = (values.values.len(), values.changed);
        let slot = self.slot_for(position);
        self.kept[slot] = Kept { row, table, len, changed };
        self.values[slot * self.stride..][..len].copy_from_slice(&values.values);
    }

    /// The slot of a position, a free one if it has none.
    fn slot_for(&mut self, position: u32) -> usize {
        if let Some(slot) = self.slot(position) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or(self.kept.len() as u32);
        self.slots[position as usize] = slot;
        if slot as usize == self.kept.len() {
            let row = RowId { table: TableId(0), key: 0 };
            self.kept.push(Kept { row, table: 0, len: 0, changed: 0 });
            self.values.resize(self.kept.len() * self.stride, 0.0);
        }
        slot as usize
    }

    /// The slot of a position that has one.
    #[inline]
    fn slot(&self, position: u32) -> Option<usize> {
        let slot = self.slots.get(position as usize).filter(|slot| **slot != NO_SLOT);
        slot.map(|slot| *slot as usize)
    }

    /// Where a row is kept.
    #[inline]
    fn position(&self, row: RowId, map: &HotMap) -> Option<u32> {
        let position = map.place(row)?.position;
        self.slot(position).filter(|slot| self.kept[*slot].row == row).map(|_| position)
    }

    /// A row's replica, or what it was until it left; `map` is that of the next round, or of the one under way.
    #[inline]
    pub(super) fn row(&self, row: RowId, map: &HotMap) -> Option<&[f32]> {
        match self.position(row, map).and_then(|position| self.slot(position)) {
            Some(slot) => Some(&self.values[slot * self.stride..][..self.kept[slot].len]),
            None => self.leaving.get(&row).map(|row| &row.values[..]),
        }
    }

    pub(super) fn counts(&self) -> &[(RowId, u32)] {
        &self.counts
    }

    /// One step for each row that has a sum; rows that expire begin anew.
    pub(super) fn step<'a>(
        &mut self,
        round: u32,
        workers: u32,
        results: impl Iterator<Item = (u32, u32, &'a [f32])>,
    ) {
        self.counts.clear();
        let mut gradient = Vec::new();
        for (position, contributors, sum) in results {
            let Some(slot) = self.slot(position) else { continue };
            let kept = &mut self.kept[slot];
            let table = &self.tables[kept.table];
            self.counts.push((kept.row, contributors));
            let divisor = if table.is_averaged { workers as f32 } else { 1.0 };
            gradient.clear();
            gradient.extend(sum.iter().map(|value| value / divisor));
            let values = &mut self.values[slot * self.stride..][..kept.len];
            let (weights, state) = values.split_at_mut(table.dim.into());
            table.optimizer.step(table.step_of(round), weights, state, &gradient);
            kept.changed = table.changed_in(round);
        }
        if self.tables.iter().any(|table| table.expire_after.is_some()) {
            self.expire(round);
        }
    }

    fn expire(&mut self, round: u32) {
        for position in 0..self.slots.len() as u32 {
            let Some(slot) = self.slot(position) else { continue };
            let Kept { row, table, changed, .. } = self.kept[slot];
            let table = &self.tables[table];
            if table.expire_after.is_some_and(|after| round.saturating_sub(changed) >= after) {
                let values = table.initial_row(row.key);
                self.keep(position, row, &Row { values, changed: 0 });
            }
        }
    }

    /// Replicas that were put change; then some rows leave and others come, where the map changes: from which, to which.
    pub(super) fn exchange<'a>(
        &mut self,
        change: Option<&MapChange>,
        (map, next): (&HotMap, &HotMap),
        lent: impl Iterator<Item = &'a (RowId, Row)>,
    ) {
        let position = |replicas: &Self, row: &RowId| replicas.position(*row, map);
        let (put, lent): (Vec<_>, Vec<_>) =
            lent.partition(|(row, _)| position(self, row).is_some());
        for (row, values) in put {
            self.keep(position(self, row).expect("it is kept"), *row, values);
        }
        for row in change.into_iter().flat_map(|change| &change.demoted) {
            if let Some(position) = position(self, row) {
                self.leave(position);
            }
        }
        for (row, values) in lent {
            if let Some(place) = next.place(*row).filter(|place| place.tier == Tier::A) {
                self.keep(place.position, *row, values);
            }
        }
    }

    /// A row is hot no longer.
    fn leave(&mut self, position: u32) {
        let Some(slot) = self.slot(position) else { return };
        let kept = self.kept[slot];
        let values = self.values[slot * self.stride..][..kept.len].to_vec();
        self.slots[position as usize] = NO_SLOT;
        self.free.push(slot as u32);
        self.leaving.insert(kept.row, Row { values, changed: kept.changed });
    }

    /// The rows that this worker is to send back; nobody keeps those that others send.
    pub(super) fn take_leaving(&mut self, rank: u32, workers: u32) -> Vec<(RowId, Row)> {
        let leaving = std::mem::take(&mut self.leaving);
        let is_mine = |row: &RowId| mix(row.key) % u64::from(workers) == u64::from(rank);
        leaving.into_iter().filter(|(row, _)| is_mine(row)).collect()
    }
}
