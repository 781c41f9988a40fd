//! A table's rows at one server: where they are in memory, how they begin, change, expire, leave and return.

mod initial;
mod room;
mod spec;
mod value;

pub use initial::Initial;
pub use spec::{MAX_DIM, Part, RowIds, Shards, TableId, TableSpec};
pub use value::ValueType;
pub(crate) use value::{narrowed, narrowest, widened};

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::optimizer::Step;
use crate::sum::{MAX_BATCH, RowSums, float};
use room::Room;

/// A table that cannot be, or a row that it cannot have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TableError {
    /// A field of a table's description.
    #[error("table {table}: {field} {problem}")]
    Spec {
        /// Name of the table.
        table: String,
        /// The field.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A row that is no row of the table, or of another shard.
    #[error(
        "table {table} has no row {key} at this server: check the index, and that all ranks have one plan"
    )]
    NoRow {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
    },
    /// More rows than there is memory for.
    #[error(
        "table {table} has room for {rows} rows at this server, and row {key} would be one more: plan more rows"
    )]
    Full {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
        /// Rows that there is room for.
        rows: u64,
    },
    /// A row that the workers hold.
    #[error(
        "table {table}: row {key} is at the workers (a hot row of tier A), not at this server: use the round's map"
    )]
    Away {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
    },
    /// A row that comes back and did not leave, or came back before.
    #[error(
        "table {table}: row {key} comes back to its server, but it is there: use the round's map"
    )]
    NotAway {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
    },
}

/// Rows that are fetched from memory together.
const AHEAD: usize = MAX_BATCH;

/// A row: its weights, then its optimizer's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Weights and state.
    pub values: Vec<f32>,
    /// The last round that changed the row; 0 if the table's rows do not expire.
    pub changed: u32,
}

/// One server's rows of one table.
///
/// All rows that were never changed have their initial values, whether there is memory for them yet or not. Memory for all
/// that the part may hold is reserved at once.
#[derive(Clone, Debug)]
pub struct Table {
    spec: TableSpec,
    part: Part,
    room: Room,
    values: Vec<f32>,
    /// The last round that changed each row, where rows expire.
    changed: Vec<u32>,
    /// Rows that the workers hold, and whether they are on their way back; their room is kept.
    away: BTreeMap<u64, bool>,
    /// Rows that changed since a walk began, if one has.
    touched: Option<BTreeSet<u64>>,
}

impl Table {
    /// A part of a table, with no row changed yet.
    ///
    /// # Errors
    /// [`TableError::Spec`].
    pub fn new(spec: TableSpec, part: Part) -> Result<Self, TableError> {
        spec.validate()?;
        let room = Room::new(&spec.rows, &part);
        let stride = spec.stride();
        let (values, changed, away) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut table = Self { spec, part, room, values, changed, away, touched: None };
        match table.room {
            // Zeros that are not touched take no memory yet.
            Room::Range(_) => table.values = vec![0.0; part.rows as usize * stride],
            Room::Hashed(_) => table.values.reserve_exact(part.rows as usize * stride),
        }
        if table.spec.expire_after.is_some() {
            table.changed = vec![0; part.rows as usize];
        }
        Ok(table)
    }

    /// Bytes that [`Self::new`] reserves for a part.
    #[must_use]
    pub fn bytes_for(spec: &TableSpec, part: &Part) -> u64 {
        let row = spec.stride() + usize::from(spec.expire_after.is_some());
        part.rows * (row * size_of::<f32>()) as u64 + Room::bytes_for(&spec.rows, part)
    }

    /// The description.
    #[must_use]
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// Which rows may be here.
    #[must_use]
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Rows that were changed and are here.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.room.len()
    }

    /// Whether no row was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.room.len() == 0
    }

    /// A row's weights as they are after round `version`.
    ///
    /// # Errors
    /// [`TableError::NoRow`], [`TableError::Away`].
    ///
    /// # Panics
    /// If `weights` are not as many as the row has.
    pub fn read(&self, key: u64, version: u32, weights: &mut [f32]) -> Result<(), TableError> {
        self.check(key, false)?;
        self.read_at(self.room.get(key), key, version, weights);
        Ok(())
    }

    /// The weights of a row with this number, if it has been changed.
    #[inline]
    fn read_at(&self, number: Option<usize>, key: u64, version: u32, weights: &mut [f32]) {
        match number.filter(|number| !self.is_expired(*number, version)) {
            Some(number) => weights.copy_from_slice(&self.row(number)[..weights.len()]),
            None => self.spec.fill_initial(key, weights),
        }
    }

    /// The weights of several rows, one after the other, as [`Self::read`] has them.
    ///
    /// # Errors
    /// [`TableError::NoRow`], [`TableError::Away`].
    ///
    /// # Panics
    /// If `weights` are not as many as the rows have.
    pub fn read_all(
        &self,
        keys: &[u64],
        version: u32,
        weights: &mut [f32],
    ) -> Result<(), TableError> {
        let dim = usize::from(self.spec.dim);
        assert_eq!(weights.len(), keys.len() * dim);
        for (keys, rows) in keys.chunks(AHEAD).zip(weights.chunks_mut(AHEAD * dim)) {
            keys.iter().try_for_each(|key| self.check(*key, false))?;
            let numbers = self.fetch(keys);
            for ((key, number), row) in keys.iter().zip(numbers).zip(rows.chunks_exact_mut(dim)) {
                self.read_at(number, *key, version, row);
            }
        }
        Ok(())
    }

    /// All that is stored of several rows, weights and state, one row after the other.
    ///
    /// # Errors
    /// [`TableError::NoRow`], [`TableError::Away`].
    pub fn stored(&self, keys: &[u64], version: u32) -> Result<Vec<f32>, TableError> {
        keys.iter().try_for_each(|key| self.check(*key, false))?;
        let mut all = Vec::with_capacity(keys.len() * self.spec.stride());
        for key in keys {
            match self.room.get(*key).filter(|number| !self.is_expired(*number, version)) {
                Some(number) => all.extend_from_slice(self.row(number)),
                None => all.extend(self.spec.initial_row(*key)),
            }
        }
        Ok(all)
    }

    /// Makes room for rows that are about to change: for all of them, or for none.
    ///
    /// # Errors
    /// [`TableError::NoRow`], [`TableError::Away`], [`TableError::Full`].
    pub fn reserve(&mut self, keys: &[u64]) -> Result<(), TableError> {
        keys.iter().try_for_each(|key| self.check(*key, true))?;
        if !self.room.has_for(keys) {
            let missing = keys.iter().copied().filter(|key| self.room.get(*key).is_none());
            let (table, key) = (self.spec.name.clone(), missing.max().unwrap_or_default());
            return Err(TableError::Full { table, key, rows: self.part.rows });
        }
        for key in keys {
            self.find_or_add(*key);
        }
        Ok(())
    }

    /// Changes a row, which there is room for, by the gradient of a round.
    pub fn step(&mut self, round: u32, key: u64, gradient: &[f32]) {
        let number = self.find_or_add(key);
        if self.is_expired(number, round - 1) {
            self.begin(number, key);
        }
        let stride = self.spec.stride();
        let row = &mut self.values[number * stride..(number + 1) * stride];
        let (weights, state) = row.split_at_mut(usize::from(self.spec.dim));
        self.spec.optimizer.step(self.spec.step_of(round), weights, state, gradient);
        if let Some(changed) = self.changed.get_mut(number) {
            *changed = round;
        }
        self.touch(key);
    }

    /// A row's weights as they will be once it has taken the step of a round, which is not over: [`Self::step_all`] comes to
    /// the same.
    ///
    /// # Errors
    /// [`TableError::NoRow`], [`TableError::Away`].
    pub fn foretell(
        &self,
        round: u32,
        key: u64,
        lanes: &[i64],
        divisor: Option<f32>,
        weights: &mut [f32],
    ) -> Result<(), TableError> {
        self.check(key, false)?;
        let number = self.room.get(key).filter(|number| !self.is_expired(*number, round - 1));
        let mut row = match number {
            Some(number) => self.row(number).to_vec(),
            None => self.spec.initial_row(key),
        };
        let (stepped, state) = row.split_at_mut(weights.len());
        let mut gradient = vec![0.0; weights.len()];
        fill_gradient(&mut gradient, lanes, divisor);
        self.spec.optimizer.step(self.spec.step_of(round), stepped, state, &gradient);
        weights.copy_from_slice(stepped);
        Ok(())
    }

    /// One step for each row that has a sum, and which there is room for. The gradient is the float32 nearest to the sum, then
    /// divided by `divisor` if there is one.
    pub fn step_all(&mut self, round: u32, sums: &RowSums, divisor: Option<f32>) {
        let mut gradient = vec![0.0; usize::from(self.spec.dim)];
        for (number, (key, _, lanes)) in sums.iter().enumerate() {
            if number % AHEAD == 0 {
                self.fetch(&sums.keys()[number..sums.len().min(number + AHEAD)]);
            }
            fill_gradient(&mut gradient, lanes, divisor);
            self.step(round, key, &gradient);
        }
    }

    /// Finds rows, which are this server's, and reads both ends of them, so that memory is asked for all of them at once.
    fn fetch(&self, keys: &[u64]) -> [Option<usize>; AHEAD] {
        let stride = self.spec.stride();
        let ends = |number: usize| {
            let begin = number * stride;
            self.values[begin].to_bits() ^ self.values[begin + stride - 1].to_bits()
        };
        let numbers = self.room.get_all(keys);
        std::hint::black_box(numbers.iter().flatten().fold(0, |all, number| all ^ ends(*number)));
        numbers
    }

    /// Takes a row off this server, which keeps its room: it is to be held by the workers from round `version` + 1 on.
    ///
    /// # Errors
    /// [`TableError::NoRow`], [`TableError::Away`], [`TableError::Full`].
    pub fn lend(&mut self, key: u64, version: u32) -> Result<Row, TableError> {
        self.reserve(&[key])?;
        let number = self.find_or_add(key);
        if self.is_expired(number, version) {
            self.begin(number, key);
        }
        let row = self.kept(number);
        self.away.insert(key, false);
        self.touch(key);
        Ok(row)
    }

    /// A row that the workers hold is on its way back.
    ///
    /// # Errors
    /// [`TableError::NotAway`].
    pub fn expect_back(&mut self, key: u64) -> Result<(), TableError> {
        let not_away = || TableError::NotAway { table: self.spec.name.clone(), key };
        *self.away.get_mut(&key).ok_or_else(not_away)? = true;
        Ok(())
    }

    /// Whether a row is on its way back.
    #[must_use]
    pub fn is_coming(&self, key: u64) -> bool {
        self.away.get(&key) == Some(&true)
    }

    /// Whether the workers hold a row, or it is on its way back; its room is kept.
    #[must_use]
    pub fn is_away(&self, key: u64) -> bool {
        self.away.contains_key(&key)
    }

    /// Rows that are on their way back.
    #[must_use]
    pub fn coming(&self) -> usize {
        self.away.values().filter(|is_coming| **is_coming).count()
    }

    /// Puts a row back that was on its way.
    ///
    /// # Errors
    /// [`TableError::NotAway`].
    ///
    /// # Panics
    /// If the row is not as long as rows are.
    pub fn put_back(&mut self, key: u64, row: &Row) -> Result<(), TableError> {
        if !self.is_coming(key) {
            return Err(TableError::NotAway { table: self.spec.name.clone(), key });
        }
        self.away.remove(&key);
        self.set(key, row);
        Ok(())
    }

    /// Sets a row, as a snapshot has it.
    pub(crate) fn set(&mut self, key: u64, row: &Row) {
        let number = self.find_or_add(key);
        let stride = self.spec.stride();
        self.values[number * stride..(number + 1) * stride].copy_from_slice(&row.values);
        if let Some(changed) = self.changed.get_mut(number) {
            *changed = row.changed;
        }
        self.touch(key);
    }

    /// Rows that the workers hold, in order, and whether each is on its way back.
    pub fn away(&self) -> impl Iterator<Item = (u64, bool)> {
        self.away.iter().map(|(key, is_coming)| (*key, *is_coming))
    }

    /// Marks a row as one that the workers hold, as a snapshot has it.
    pub(crate) fn set_away(&mut self, key: u64, is_coming: bool) {
        self.find_or_add(key);
        self.away.insert(key, is_coming);
    }

    /// From here on, [`Self::walked`] knows which rows changed.
    pub(crate) fn begin_walk(&mut self) {
        self.touched = Some(BTreeSet::new());
    }

    /// Some rows, of places from `place` on, and the place to go on from; `None` at the end.
    pub(crate) fn walk(&self, place: usize, version: u32) -> Option<(usize, Option<(u64, Row)>)> {
        let (key, place) = self.room.at_or_after(&self.part, place)?;
        let is_kept = !self.is_expired(place, version) && !self.away.contains_key(&key);
        Some((place + 1, is_kept.then(|| (key, self.kept(place)))))
    }

    /// The rows that changed since the walk began: as they are now, or that they are gone.
    pub(crate) fn walked(&mut self, version: u32) -> Vec<(u64, Option<Row>)> {
        let touched = self.touched.take().unwrap_or_default();
        let now = |key: u64| {
            let number = self.room.get(key)?;
            let is_kept = !self.is_expired(number, version) && !self.away.contains_key(&key);
            is_kept.then(|| self.kept(number))
        };
        touched.into_iter().map(|key| (key, now(key))).collect()
    }

    fn kept(&self, number: usize) -> Row {
        let changed = self.changed.get(number).copied().unwrap_or_default();
        Row { values: self.row(number).to_vec(), changed }
    }

    fn touch(&mut self, key: u64) {
        if let Some(touched) = &mut self.touched {
            touched.insert(key);
        }
    }

    /// The rows that are here and not expired, in order of their keys.
    #[must_use]
    pub fn rows(&self, version: u32) -> Vec<(u64, Row)> {
        let mut rows: Vec<(u64, Row)> = Vec::new();
        for (key, number) in self.room.rows(&self.part) {
            if !self.is_expired(number, version) && !self.away.contains_key(&key) {
                rows.push((key, self.kept(number)));
            }
        }
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }

    /// Frees the room of rows that have expired by round `version`, but of those that `is_needed` names.
    pub fn sweep(&mut self, version: u32, is_needed: impl Fn(u64) -> bool) {
        let Room::Hashed(_) = &self.room else { return };
        let expired: Vec<u64> = self
            .room
            .rows(&self.part)
            .filter(|(key, number)| self.is_expired(*number, version) && !is_needed(*key))
            .map(|(key, _)| key)
            .filter(|key| !self.away.contains_key(key))
            .collect();
        expired.into_iter().for_each(|key| self.remove(key));
    }

    /// Forgets a row, which begins anew.
    pub(crate) fn forget(&mut self, key: u64) {
        match (&self.room, self.room.get(key)) {
            (Room::Hashed(_), Some(_)) => self.remove(key),
            (Room::Range(_), Some(number)) => self.begin(number, key),
            (_, None) => {}
        }
    }

    fn remove(&mut self, key: u64) {
        let stride = self.spec.stride();
        self.touch(key);
        let (number, last, moved) = self.room.remove(key);
        if let Some(moved) = moved {
            self.touch(moved);
        }
        self.values.copy_within(last * stride..(last + 1) * stride, number * stride);
        self.values.truncate(last * stride);
        if !self.changed.is_empty() {
            self.changed[number] = self.changed[last];
        }
    }

    /// A row that is on its way back may change, but cannot be read yet.
    fn check(&self, key: u64, is_change: bool) -> Result<(), TableError> {
        let table = || self.spec.name.clone();
        if !self.part.holds(&self.spec.rows, key) {
            return Err(TableError::NoRow { table: table(), key });
        }
        if self.away.get(&key).is_some_and(|is_coming| !(is_coming & is_change)) {
            return Err(TableError::Away { table: table(), key });
        }
        Ok(())
    }

    fn is_expired(&self, number: usize, version: u32) -> bool {
        let after = self.spec.expire_after;
        after.is_some_and(|after| version.saturating_sub(self.changed[number]) >= after)
    }

    fn row(&self, number: usize) -> &[f32] {
        let stride = self.spec.stride();
        &self.values[number * stride..(number + 1) * stride]
    }

    fn find_or_add(&mut self, key: u64) -> usize {
        let (number, is_new) = self.room.get_or_add(key);
        if is_new {
            let stride = self.spec.stride();
            let end = (number + 1) * stride;
            self.values.resize(self.values.len().max(end), 0.0);
            self.begin(number, key);
        }
        number
    }

    fn begin(&mut self, number: usize, key: u64) {
        let stride = self.spec.stride();
        let row = &mut self.values[number * stride..(number + 1) * stride];
        let (weights, state) = row.split_at_mut(usize::from(self.spec.dim));
        self.spec.fill_initial(key, weights);
        state.fill(self.spec.optimizer.initial_state());
        if let Some(changed) = self.changed.get_mut(number) {
            *changed = 0;
        }
    }
}

/// The float32 nearest to a sum, then divided.
fn fill_gradient(gradient: &mut [f32], lanes: &[i64], divisor: Option<f32>) {
    gradient.iter_mut().zip(lanes).for_each(|(value, sum)| *value = float(*sum));
    if let Some(divisor) = divisor {
        gradient.iter_mut().for_each(|value| *value /= divisor);
    }
}

#[cfg(test)]
mod tests;
