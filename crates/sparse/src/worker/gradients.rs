//! What a worker pushes in a round.

use crate::hot::RowId;
use crate::sum::RowValues;
use crate::table::TableId;

/// Gradients of one worker in one round, each row once.
#[derive(Clone, Debug, Default)]
pub struct Gradients {
    /// In order of the tables' numbers.
    tables: Vec<(TableId, RowValues)>,
}

impl Gradients {
    /// Adds to rows of a table, each of `dim` values: to all of them, or to none.
    ///
    /// # Errors
    /// The first key whose sum cannot be summed with those of other workers.
    ///
    /// # Panics
    /// If `values` are not as many as the keys' rows have, or the table had rows of another length before.
    pub fn add(
        &mut self,
        table: TableId,
        dim: usize,
        keys: &[u64],
        values: &[f32],
    ) -> Result<(), u64> {
        self.table(table, dim).add(keys, values)
    }

    fn table(&mut self, id: TableId, dim: usize) -> &mut RowValues {
        let place = self.tables.partition_point(|(other, _)| *other < id);
        if self.tables.get(place).is_none_or(|(other, _)| *other != id) {
            self.tables.insert(place, (id, RowValues::new(dim)));
        }
        &mut self.tables[place].1
    }

    /// The rows of each table, in order of the tables' numbers.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &RowValues)> {
        self.tables.iter().map(|(id, rows)| (*id, rows))
    }
}

/// Rows as they are, even if no server will take them.
impl<Values: AsRef<[f32]>> FromIterator<(RowId, Values)> for Gradients {
    fn from_iter<Rows: IntoIterator<Item = (RowId, Values)>>(rows: Rows) -> Self {
        let mut gradients = Self::default();
        for (row, values) in rows {
            let values = values.as_ref();
            gradients.table(row.table, values.len()).set(row.key, values);
        }
        gradients
    }
}
