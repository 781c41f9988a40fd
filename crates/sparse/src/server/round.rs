//! The open round: what has come, and what is still to come.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PushError, ServerSpec};
use crate::hot::{MapChange, RowId};
use crate::message::{Sender, ToServer};
use crate::reception::Reception;
use crate::sum::RowSums;
use crate::table::{Row, Table, TableId};

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) number: u32,
    workers: u32,
    senders: Vec<Reception>,
    /// By table.
    sums: Vec<RowSums>,
    /// Rows that have come back; they are put in their places when the round closes.
    returned: BTreeMap<RowId, Row>,
    /// What is decided about the map, if it is known.
    pub(super) decision: Option<Option<Arc<MapChange>>>,
    /// Contributors of hot rows in the round before.
    counts: Vec<(RowId, u32)>,
}

impl Round {
    pub(super) fn new(number: u32, spec: &ServerSpec) -> Self {
        let sums = spec.tables.iter().map(|table| RowSums::new(usize::from(table.dim)));
        Self {
            number,
            workers: spec.workers,
            senders: vec![Reception::default(); (spec.workers + spec.switches) as usize],
            sums: sums.collect(),
            returned: BTreeMap::new(),
            decision: None,
            counts: Vec::new(),
        }
    }

    /// What has come from a sender.
    ///
    /// # Panics
    /// If the sender is none of the job's: whoever receives lets only those in who have joined.
    pub(super) fn reception(&mut self, from: Sender) -> &mut Reception {
        &mut self.senders[from as usize]
    }

    /// Takes a packet that has not come before, as a whole or not at all; how many gradients were in it.
    pub(super) fn enter(
        &mut self,
        from: Sender,
        sequence: u32,
        message: &ToServer,
        tables: &mut [Table],
        map_version: u32,
    ) -> Result<usize, PushError> {
        self.reception(from).check(sequence)?;
        let rows = match message {
            ToServer::Push { map_version: found, table, keys, values, .. } => {
                check_map(*found, map_version)?;
                self.push(from, *table, keys, values, tables)?
            }
            ToServer::Sums { map_version: found, table, keys, contributors, lanes, .. } => {
                check_map(*found, map_version)?;
                self.sums(from, *table, keys, contributors, lanes, tables)?
            }
            ToServer::Counts { table, keys, counts, .. } => {
                let row = |(key, count): (&u64, &u8)| {
                    (RowId { table: *table, key: *key }, u32::from(*count))
                };
                self.counts.extend(keys.iter().zip(counts).map(row));
                0
            }
            ToServer::Return { row, values, .. } => self.take_back(*row, values, tables)?,
            _ => 0,
        };
        self.reception(from).enter(sequence);
        Ok(rows)
    }

    fn push(
        &mut self,
        from: Sender,
        id: TableId,
        keys: &[u64],
        values: &[f32],
        tables: &mut [Table],
    ) -> Result<usize, PushError> {
        if from >= self.workers {
            return Err(PushError::Contributors(0));
        }
        let number = number_of(id, tables)?;
        let expected = usize::from(tables[number].spec().dim);
        check_length(id, expected, keys.len(), values.len())?;
        reserve(&mut tables[number], keys, &self.sums[number], self.number)?;
        let sums = self.sums[number].add(from, keys, values);
        sums.map_err(|problem| PushError::Sum { table: id.0, problem })?;
        Ok(keys.len())
    }

    fn sums(
        &mut self,
        from: Sender,
        id: TableId,
        keys: &[u64],
        contributors: &[u64],
        lanes: &[i64],
        tables: &mut [Table],
    ) -> Result<usize, PushError> {
        let job = u64::MAX >> (64 - self.workers);
        let is_wrong = |of_row: &&u64| **of_row == 0 || **of_row & !job != 0;
        let wrong = contributors.iter().find(is_wrong).or(contributors.first());
        if let Some(wrong) = wrong.filter(|wrong| from < self.workers || is_wrong(wrong)) {
            return Err(PushError::Contributors(*wrong));
        }
        let number = number_of(id, tables)?;
        let expected = usize::from(tables[number].spec().dim);
        check_length(id, expected, keys.len(), lanes.len())?;
        reserve(&mut tables[number], keys, &self.sums[number], self.number)?;
        let sums = self.sums[number].add_sums(contributors, keys, lanes);
        sums.map_err(|problem| PushError::Sum { table: id.0, problem })?;
        Ok(contributors.iter().map(|workers| workers.count_ones() as usize).sum())
    }

    fn take_back(
        &mut self,
        row: RowId,
        values: &Row,
        tables: &[Table],
    ) -> Result<usize, PushError> {
        let table = &tables[number_of(row.table, tables)?];
        check_length(row.table, table.spec().stride(), 1, values.values.len())?;
        if !table.is_coming(row.key) || self.returned.contains_key(&row) {
            let (table, key) = (table.spec().name.clone(), row.key);
            return Err(crate::table::TableError::NotAway { table, key }.into());
        }
        self.returned.insert(row, values.clone());
        Ok(0)
    }

    /// Keeps room for a row that the workers are to hold, if it is this server's.
    pub(super) fn make_room(&self, row: RowId, tables: &mut [Table]) -> Result<(), PushError> {
        let number = number_of(row.table, tables)?;
        let table = &mut tables[number];
        if table.part().holds(&table.spec().rows, row.key) {
            reserve(table, &[row.key], &self.sums[number], self.number)?;
        }
        Ok(())
    }

    pub(super) fn is_complete(&self, tables: &[Table]) -> bool {
        let coming = || tables.iter().map(Table::coming).sum::<usize>();
        // In this order: each packet asks, and counting what is coming takes a look at all rows that are away.
        self.senders.iter().all(Reception::is_complete) && self.returned.len() == coming()
    }

    /// Puts back what has come back, then takes one step for each row; how many workers had a gradient for which row.
    pub(super) fn step(&self, tables: &mut [Table], workers: u32) -> Vec<(RowId, u32)> {
        let mut popularity = self.counts.clone();
        for (row, values) in &self.returned {
            let number = number_of(row.table, tables).expect("a row that was taken has a table");
            tables[number].put_back(row.key, values).expect("a row that was taken was away");
        }
        for (table, sums) in tables.iter_mut().zip(&self.sums) {
            let id = table.spec().id;
            let divisor = table.spec().is_averaged.then_some(workers as f32);
            table.step_all(self.number, sums, divisor);
            let row = |(key, workers, _): (u64, u64, &[i64])| {
                (RowId { table: id, key }, workers.count_ones())
            };
            popularity.extend(sums.iter().map(row));
        }
        popularity
    }
}

/// Room for rows, if need be that of expired ones which nobody has pushed in the open round.
fn reserve(table: &mut Table, keys: &[u64], open: &RowSums, round: u32) -> Result<(), PushError> {
    match table.reserve(keys) {
        Err(crate::table::TableError::Full { .. }) => {
            table.sweep(round - 1, |key| open.has(key) || keys.contains(&key));
            Ok(table.reserve(keys)?)
        }
        other => Ok(other?),
    }
}

fn number_of(id: TableId, tables: &[Table]) -> Result<usize, PushError> {
    tables.iter().position(|table| table.spec().id == id).ok_or(PushError::NoTable(id.0))
}

fn check_map(found: u32, expected: u32) -> Result<(), PushError> {
    if found == expected { Ok(()) } else { Err(PushError::Map { found, expected }) }
}

fn check_length(id: TableId, expected: usize, rows: usize, found: usize) -> Result<(), PushError> {
    if rows * expected == found {
        return Ok(());
    }
    Err(PushError::Length { table: id.0, expected, rows, found })
}
