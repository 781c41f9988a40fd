//! Counts of all rows of one server, by table.

use std::collections::BTreeMap;

use super::{CountMin, Counter, Exact, SpaceSaving};
use crate::hot::RowId;
use crate::table::TableId;

/// How rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Each row by itself.
    Exact,
    /// In a sketch of four rows of so many cells, which can name so many rows.
    CountMin {
        /// Cells of each row of the sketch.
        cells: usize,
        /// Rows that it can name.
        rows: usize,
    },
    /// So many counts.
    SpaceSaving(usize),
}

impl Counting {
    fn counter(self) -> Box<dyn Counter> {
        match self {
            Self::Exact => Box::new(Exact::default()),
            Self::CountMin { cells, rows } => Box::new(CountMin::new(cells, rows)),
            Self::SpaceSaving(counts) => Box::new(SpaceSaving::new(counts)),
        }
    }
}

/// How often each row of a server was touched, counted table by table.
#[derive(Debug)]
pub struct Tracker {
    counting: Counting,
    /// Rows that keep their counts where there are twice as many.
    most: usize,
    tables: BTreeMap<TableId, Box<dyn Counter>>,
}

impl Clone for Tracker {
    fn clone(&self) -> Self {
        let tables = self.tables.iter().map(|(table, counter)| (*table, counter.boxed()));
        Self { counting: self.counting, most: self.most, tables: tables.collect() }
    }
}

impl Tracker {
    /// Nothing counted yet. Sketches are one for each table.
    #[must_use]
    pub fn new(counting: Counting) -> Self {
        Self { counting, most: usize::MAX / 2, tables: BTreeMap::new() }
    }

    /// Counts each row by itself, and twice `most` of them at the end of a round at most: then those with the `most` largest
    /// counts are kept. What it has counted depends on what was in each round, and not on the order there.
    #[must_use]
    pub fn bounded(most: usize) -> Self {
        Self { most, ..Self::new(Counting::Exact) }
    }

    /// A round is closed, in which so many workers had a gradient for these rows.
    pub fn observe(&mut self, popularity: &[(RowId, u32)]) {
        for (row, contributors) in popularity {
            let table = self.tables.entry(row.table);
            let counter = table.or_insert_with(|| self.counting.counter());
            counter.add(row.key, *contributors as f32);
        }
        if self.counted() > 2 * self.most {
            let kept = self.candidates(self.most);
            self.restore(kept);
        }
    }

    /// Takes the counts that another one had.
    pub fn restore(&mut self, counts: Vec<(RowId, f32)>) {
        self.tables.clear();
        for (row, count) in counts {
            let table = self.tables.entry(row.table);
            table.or_insert_with(|| self.counting.counter()).add(row.key, count);
        }
    }

    /// Rows that have a count.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.tables.values().map(|counter| counter.counted()).sum()
    }

    /// Older rounds count less from here on, by this factor.
    pub fn decay(&mut self, factor: f32) {
        self.tables.values_mut().for_each(|counter| counter.decay(factor));
    }

    /// The rows with the largest counts, the largest first.
    #[must_use]
    pub fn candidates(&self, most: usize) -> Vec<(RowId, f32)> {
        let mut all = Vec::new();
        for (table, counter) in &self.tables {
            let row = |(key, count)| (RowId { table: *table, key }, count);
            all.extend(counter.top(most).into_iter().map(row));
        }
        all.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(most);
        all
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tables.values().map(|counter| counter.bytes()).sum()
    }
}
