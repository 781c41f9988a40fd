//! The open round: what has come, and what is still to come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{PushError, ServerSpec};
use crate::hot::{HotMap, MapChange, RowId, Tier};
use crate::message::{HotSums, Sender, ToServer};
use crate::reception::{
    BEHIND, BEHIND_PUTS, PUTS, Place, Reception, Span, position_place, row_place,
};
use crate::sum::{RowSums, lane_of_sum};
use crate::table::{Row, Table, TableId};

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) number: u32,
    workers: u32,
    /// Switches among which positions are divided.
    roots: u32,
    senders: Vec<Reception>,
    /// By table.
    sums: Vec<RowSums>,
    /// Rows that have come back; they are put in their places when the round closes.
    returned: BTreeMap<RowId, Row>,
    /// Rows as they are to be when the round closes.
    puts: BTreeMap<RowId, Row>,
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
            roots: spec.roots,
            senders: vec![Reception::default(); (spec.workers + spec.switches) as usize],
            sums: sums.collect(),
            returned: BTreeMap::new(),
            puts: BTreeMap::new(),
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
        map: &HotMap,
    ) -> Result<usize, PushError> {
        let span = span(message);
        self.reception(from).check(sequence, span)?;
        let rows = match message {
            ToServer::Push { map_version: found, table, keys, values, .. } => {
                check_map(*found, map.version())?;
                check_cold(*table, keys, map)?;
                self.push(from, *table, keys, values, tables)?
            }
            ToServer::Sums { map_version: found, rows, .. } => {
                check_map(*found, map.version())?;
                self.sums(from, rows, map, tables)?
            }
            ToServer::Counts { table, keys, counts, .. } => {
                let row = |(key, count): (&u64, &u8)| {
                    (RowId { table: *table, key: *key }, u32::from(*count))
                };
                self.counts.extend(keys.iter().zip(counts).map(row));
                0
            }
            ToServer::Return { row, values, .. } => self.take_back(*row, values, tables)?,
            ToServer::Put { table, keys, values, .. } => self.put(*table, keys, values, tables)?,
            _ => 0,
        };
        self.reception(from).enter(sequence, span);
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
        self.reserve(number, keys, tables)?;
        let sums = self.sums[number].add(from, keys, values);
        sums.map_err(|problem| PushError::Sum { table: id.0, problem })?;
        Ok(keys.len())
    }

    fn sums(
        &mut self,
        from: Sender,
        sums: &HotSums,
        map: &HotMap,
        tables: &mut [Table],
    ) -> Result<usize, PushError> {
        let switch = from.checked_sub(self.workers).ok_or(PushError::Contributors(0))?;
        let mut found = Vec::with_capacity(sums.positions.len());
        for sum in sums.iter() {
            found.push(self.check_sum(switch, sum, map, tables)?);
        }
        let mut lanes = Vec::with_capacity(sums.dim());
        for ((_, contributors, values), (number, key)) in sums.iter().zip(found) {
            // Who they were is not known, only how many.
            let contributors = u64::MAX >> (u64::BITS - contributors);
            lanes.clear();
            lanes.extend(values.iter().map(|value| lane_of_sum(*value)));
            let added = self.sums[number].add_sums(&[contributors], &[key], &lanes);
            let id = tables[number].spec().id.0;
            added.map_err(|problem| PushError::Sum { table: id, problem })?;
        }
        Ok(sums.contributors.iter().map(|count| usize::from(*count)).sum())
    }

    /// Number of the table and key of a sum's row, for which there is room.
    fn check_sum(
        &self,
        switch: u32,
        (position, contributors, values): (u32, u32, &[f32]),
        map: &HotMap,
        tables: &mut [Table],
    ) -> Result<(usize, u64), PushError> {
        if !(1..=self.workers).contains(&contributors) {
            return Err(PushError::Contributors(contributors));
        }
        let is_summed = |row: &RowId| map.place(*row).is_some_and(|place| place.tier == Tier::B);
        let row = map.row(position).filter(is_summed);
        let row = row.filter(|_| position % self.roots == switch);
        let RowId { table, key } = row.ok_or(PushError::Position(position))?;
        let number = number_of(table, tables)?;
        check_length(table, tables[number].spec().dim.into(), 1, values.len())?;
        let sums = &self.sums[number];
        if sums.has(key) {
            let problem = crate::sum::SumError::Twice(key);
            return Err(PushError::Sum { table: table.0, problem });
        }
        self.reserve(number, &[key], tables)?;
        Ok((number, key))
    }

    /// What has to have come before weights of rows can be told as they will be when the round closes.
    pub(super) fn wants(&self, table: TableId, keys: &[u64], map: &HotMap) -> Wants {
        let mut wants = Wants { cold: None, hot: vec![None; self.roots as usize] };
        for key in keys {
            let (of, place) = match map.place(RowId { table, key: *key }) {
                None => (&mut wants.cold, row_place(table, *key)),
                Some(hot) => {
                    // A worker may put it.
                    wants.cold = wants.cold.max(Some(BEHIND_PUTS));
                    let switch = hot.position % self.roots;
                    (&mut wants.hot[switch as usize], position_place(hot.position))
                }
            };
            *of = (*of).max(Some(place));
        }
        wants
    }

    /// Rows up to which all sums are complete.
    pub(super) fn reached(&self) -> Wants {
        let (workers, switches) = self.senders.split_at(self.workers as usize);
        let cold = workers.iter().map(Reception::reached).min().flatten();
        let roots = switches.iter().take(self.roots as usize);
        Wants { cold, hot: roots.map(Reception::reached).collect() }
    }

    /// Fills in a row as it will be when the round closes, its sum being complete.
    pub(super) fn foretell(
        &self,
        tables: &[Table],
        number: usize,
        keys: &[u64],
        weights: &mut [f32],
    ) -> Result<(), PushError> {
        let table = &tables[number];
        let divisor = table.spec().is_averaged.then_some(self.workers as f32);
        let dim = usize::from(table.spec().dim);
        for (key, weights) in keys.iter().zip(weights.chunks_exact_mut(dim)) {
            if let Some(put) = self.puts.get(&RowId { table: table.spec().id, key: *key }) {
                weights.copy_from_slice(&put.values[..dim]);
                continue;
            }
            match self.sums[number].get(*key) {
                None => table.read(*key, self.number, weights)?,
                Some((_, lanes)) => table.foretell(self.number, *key, lanes, divisor, weights)?,
            }
        }
        Ok(())
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
        let table = &tables[number];
        if table.part().holds(&table.spec().rows, row.key) {
            self.reserve(number, &[row.key], tables)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        id: TableId,
        keys: &[u64],
        values: &[f32],
        tables: &mut [Table],
    ) -> Result<usize, PushError> {
        let number = number_of(id, tables)?;
        let table = &mut tables[number];
        let stride = table.spec().stride();
        check_length(id, stride, keys.len(), values.len())?;
        let row = |key: &u64| RowId { table: id, key: *key };
        let mut seen = BTreeSet::new();
        let is_again = |key: &&u64| !seen.insert(**key) || self.puts.contains_key(&row(key));
        if let Some(key) = keys.iter().find(is_again) {
            let table = table.spec().name.clone();
            return Err(PushError::PutTwice { table, key: *key });
        }
        let changed = table.spec().changed_in(self.number);
        let here: Vec<u64> = keys.iter().copied().filter(|key| !table.is_away(*key)).collect();
        self.reserve(number, &here, tables)?;
        for (key, values) in keys.iter().zip(values.chunks_exact(stride)) {
            self.puts.insert(row(key), Row { values: values.to_vec(), changed });
        }
        Ok(0)
    }

    pub(super) fn is_complete(&self, tables: &[Table]) -> bool {
        let coming = || tables.iter().map(Table::coming).sum::<usize>();
        // In this order: each packet asks, and counting what is coming takes a look at all rows that are away.
        self.senders.iter().all(Reception::is_complete) && self.returned.len() == coming()
    }

    /// Sets the rows that were put; those of them that the workers hold, who have to be told.
    pub(super) fn take_puts(&self, tables: &mut [Table]) -> Vec<(RowId, Row)> {
        let mut away = Vec::new();
        for (row, values) in &self.puts {
            let number = number_of(row.table, tables).expect("a row that was taken has a table");
            if tables[number].is_away(row.key) {
                away.push((*row, values.clone()));
            } else {
                tables[number].set(row.key, values);
            }
        }
        away
    }

    /// Room for rows, if need be that of expired ones which nobody has pushed or put in the open round.
    fn reserve(&self, number: usize, keys: &[u64], tables: &mut [Table]) -> Result<(), PushError> {
        let (table, open) = (&mut tables[number], &self.sums[number]);
        match table.reserve(keys) {
            Err(crate::table::TableError::Full { .. }) => {
                let id = table.spec().id;
                let is_put = |key| self.puts.contains_key(&RowId { table: id, key });
                let is_needed = |key| open.has(key) || keys.contains(&key) || is_put(key);
                table.sweep(self.number - 1, is_needed);
                Ok(table.reserve(keys)?)
            }
            other => Ok(other?),
        }
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

/// Places: of rows that workers push, and of those that each switch sums. `None` is before all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wants {
    cold: Option<Place>,
    hot: Vec<Option<Place>>,
}

impl Wants {
    /// Whether these places are all within what was reached.
    pub(super) fn are_met(&self, reached: &Self) -> bool {
        self.cold <= reached.cold && self.hot.iter().zip(&reached.hot).all(|(own, all)| own <= all)
    }
}

/// The rows of a packet in its sender's order.
fn span(message: &ToServer) -> Span {
    let ends = match message {
        ToServer::Push { table, keys, .. } => {
            let place = |key: &u64| row_place(*table, *key);
            keys.iter().min().map(place).zip(keys.iter().max().map(place))
        }
        ToServer::Sums { rows, .. } => {
            let positions = rows.positions.iter().map(|position| position_place(*position));
            positions.clone().min().zip(positions.max())
        }
        ToServer::Put { .. } => return (PUTS, PUTS),
        _ => None,
    };
    ends.unwrap_or((BEHIND, BEHIND))
}

/// Workers send no row that a switch sums: it may be complete without them.
fn check_cold(table: TableId, keys: &[u64], map: &HotMap) -> Result<(), PushError> {
    let place = |key: &&u64| map.place(RowId { table, key: **key });
    match keys.iter().find(|key| place(key).is_some_and(|place| place.tier == Tier::B)) {
        Some(key) => Err(PushError::Hot { table: table.0, key: *key }),
        None => Ok(()),
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
