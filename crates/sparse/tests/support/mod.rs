//! What the tests of servers and workers share: random tables and gradients, and one process that sums exactly.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use wiresum_netem::Rng;
use wiresum_sparse::hot::{FORMAT, HotMap, HotRows, RowId};
use wiresum_sparse::optimizer::{Adagrad, Ftrl, Optimizer, RowWiseAdagrad, Sgd, SparseAdam, Step};
use wiresum_sparse::table::{Initial, Row, RowIds, TableId, TableSpec, ValueType};

/// Keys of rows that tests use: few, so that they meet.
pub const KEYS: u64 = 24;

/// The gradients of one worker in one round.
pub type Gradients = BTreeMap<RowId, Vec<f32>>;

pub fn optimizer(rng: &mut Rng) -> Optimizer {
    match rng.below(5) {
        0 => Optimizer::Sgd(Sgd { lr: 0.1 }),
        1 => Optimizer::Adagrad(Adagrad {
            lr: 0.1,
            lr_decay: 0.01,
            eps: 1e-10,
            initial_accumulator_value: 0.5,
        }),
        2 => Optimizer::RowWiseAdagrad(RowWiseAdagrad { lr: 0.1, eps: 1e-8 }),
        3 => Optimizer::SparseAdam(SparseAdam { lr: 0.1, betas: (0.9, 0.999), eps: 1e-8 }),
        _ => Optimizer::Ftrl(Ftrl { lr: 0.1, beta: 1.0, l1: 0.1, l2: 0.01 }),
    }
}

/// A few tables with rows of equal length.
pub fn tables(rng: &mut Rng) -> Vec<TableSpec> {
    let dim = 1 + rng.below(4) as u16;
    let table = |id: u64, rng: &mut Rng| TableSpec {
        id: TableId(id as u16 * 3),
        name: format!("t{id}"),
        rows: if rng.chance(0.5) { RowIds::Counted(KEYS) } else { RowIds::Hashed(KEYS) },
        dim,
        value: [ValueType::Float32, ValueType::Float16, ValueType::Bfloat16][rng.below(3) as usize],
        optimizer: optimizer(rng),
        initial: Initial::Normal(1.0),
        seed: rng.next(),
        is_averaged: rng.chance(0.5),
        steps_before: rng.below(3) as i32 - 1,
        expire_after: rng.chance(0.3).then(|| 1 + rng.below(5) as u32),
    };
    (0..1 + rng.below(3)).map(|id| table(id, rng)).collect()
}

/// Random gradients for random rows; popular ones are touched by almost everybody.
pub fn gradients(tables: &[TableSpec], rng: &mut Rng) -> Gradients {
    let mut gradients = Gradients::new();
    for _ in 0..rng.below(16) {
        let table = &tables[rng.below(tables.len() as u64) as usize];
        let key = rng.below(1 + rng.clone().below(KEYS));
        let value = |rng: &mut Rng| {
            let size = 2f32.powi(rng.below(20) as i32 - 12);
            (rng.below(2001) as f32 - 1000.0) / 1000.0 * size
        };
        let mut values: Vec<f32> = (0..table.dim).map(|_| value(rng)).collect();
        // Mostly numbers that the type has; others are summed as exactly.
        if rng.chance(0.8) {
            table.value.round(&mut values);
        }
        gradients.insert(RowId { table: table.id, key }, values);
    }
    gradients
}

/// The same as a worker takes them.
pub fn pushed(gradients: &Gradients) -> wiresum_sparse::worker::Gradients {
    gradients.iter().map(|(row, values)| (*row, values)).collect()
}

/// One process that has all rows, and everybody's gradients.
pub struct Oracle {
    tables: Vec<TableSpec>,
    rows: BTreeMap<RowId, Row>,
}

impl Oracle {
    pub fn new(tables: &[TableSpec]) -> Self {
        Self { tables: tables.to_vec(), rows: BTreeMap::new() }
    }

    fn table(&self, row: RowId) -> &TableSpec {
        self.tables.iter().find(|table| table.id == row.table).unwrap()
    }

    /// A row after a round.
    pub fn row(&self, row: RowId, version: u32) -> Row {
        let table = self.table(row);
        let is_kept = |kept: &&Row| {
            table.expire_after.is_none_or(|after| version.saturating_sub(kept.changed) < after)
        };
        self.rows
            .get(&row)
            .filter(is_kept)
            .cloned()
            .unwrap_or_else(|| Row { values: table.initial_row(row.key), changed: 0 })
    }

    pub fn weights(&self, row: RowId, version: u32) -> Vec<f32> {
        let dim = usize::from(self.table(row).dim);
        self.row(row, version).values[..dim].to_vec()
    }

    /// All rows of all tables.
    pub fn ids(&self) -> Vec<RowId> {
        let rows = |table: &TableSpec| {
            let table = table.id;
            (0..KEYS).map(move |key| RowId { table, key })
        };
        self.tables.iter().flat_map(rows).collect()
    }

    /// What a row is after a round in which it was put.
    pub fn put(&mut self, row: RowId, values: Vec<f32>, round: u32) {
        let changed = if self.table(row).expire_after.is_some() { round } else { 0 };
        self.rows.insert(row, Row { values, changed });
    }

    /// A round: every gradient becomes a whole number of units, the sum of which is rounded once.
    pub fn round(&mut self, round: u32, workers: &[Gradients]) {
        let mut sums: BTreeMap<RowId, Vec<i128>> = BTreeMap::new();
        for (row, values) in workers.iter().flatten() {
            let sum = sums.entry(*row).or_insert_with(|| vec![0; values.len()]);
            let units = |value: &f32| (f64::from(*value) * 2f64.powi(45)).trunc() as i128;
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += units(value));
        }
        for (row, sum) in sums {
            let table = self.table(row).clone();
            let mut kept = self.row(row, round - 1);
            let mut gradient: Vec<f32> =
                sum.iter().map(|units| *units as f32 * 2f32.powi(-45)).collect();
            if table.is_averaged {
                gradient.iter_mut().for_each(|value| *value /= workers.len() as f32);
            }
            let (weights, state) = kept.values.split_at_mut(usize::from(table.dim));
            let step = (i64::from(round) + i64::from(table.steps_before)).max(1);
            table.optimizer.step(step as u64, weights, state, &gradient);
            kept.changed = if table.expire_after.is_some() { round } else { 0 };
            self.rows.insert(row, kept);
        }
    }
}

/// A map without rows.
pub fn no_map(tables: &[TableSpec]) -> HotMap {
    let (version, dim, positions, block, digest) = (1, tables[0].dim, 1, 0, None);
    let format = FORMAT.into();
    HotMap::new(HotRows { format, version, dim, positions, block, rows: vec![], digest }).unwrap()
}
