//! Rows that servers have told since the round began.

use crate::hot::RowId;
use crate::sum::RowValues;
use crate::table::{TableId, TableSpec};

/// Rows as pulled: their weights, or all that is stored of them.
#[derive(Clone, Debug)]
pub(super) struct Pulled {
    tables: Vec<OfTable>,
}

#[derive(Clone, Debug)]
struct OfTable {
    id: TableId,
    weights: RowValues,
    stored: RowValues,
}

impl Pulled {
    pub(super) fn new(tables: &[TableSpec]) -> Self {
        let of_table = |spec: &TableSpec| OfTable {
            id: spec.id,
            weights: RowValues::new(spec.len_of(false)),
            stored: RowValues::new(spec.len_of(true)),
        };
        Self { tables: tables.iter().map(of_table).collect() }
    }

    fn table(&self, id: TableId) -> Option<&OfTable> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// The weights of a row, or more.
    #[inline]
    pub(super) fn weights(&self, row: RowId) -> Option<&[f32]> {
        let table = self.table(row.table)?;
        table.weights.get(row.key).or_else(|| table.stored.get(row.key))
    }

    /// All that is stored of a row.
    pub(super) fn stored(&self, row: RowId) -> Option<&[f32]> {
        self.table(row.table)?.stored.get(row.key)
    }

    /// Rows have come, one after the other.
    pub(super) fn enter(&mut self, id: TableId, keys: &[u64], values: &[f32], with_state: bool) {
        let table = self.tables.iter_mut().find(|table| table.id == id);
        let Some(table) = table.filter(|_| !keys.is_empty()) else { return };
        let rows = if with_state { &mut table.stored } else { &mut table.weights };
        let len = values.len() / keys.len();
        keys.iter().zip(values.chunks_exact(len)).for_each(|(key, row)| rows.set(*key, row));
    }

    /// Forgets all rows, and keeps their memory.
    pub(super) fn clear(&mut self) {
        for table in self.tables.iter_mut().filter(|table| !table.weights.is_empty()) {
            table.weights.clear();
        }
        for table in self.tables.iter_mut().filter(|table| !table.stored.is_empty()) {
            table.stored.clear();
        }
    }
}
