//! The hot map as workers and servers use it: a row's place, and a position's row.

use super::{HotRow, HotRows, MapError, RowId, Tier};
use crate::sum::Index;
use crate::table::TableId;

/// Where a hot row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its position.
    pub position: u32,
    /// Its tier.
    pub tier: Tier,
}

/// A map that was validated.
#[derive(Clone, Debug)]
pub struct HotMap {
    rows: HotRows,
    digest: u64,
    /// By table, in order of their numbers: keys, and the place of each.
    tables: Vec<(TableId, Index, Vec<Place>)>,
    at: Vec<Option<RowId>>,
}

impl HotMap {
    /// The map of these rows.
    ///
    /// # Errors
    /// [`HotRows::validate`].
    pub fn new(mut rows: HotRows) -> Result<Self, MapError> {
        rows.validate()?;
        rows.rows.sort_unstable_by_key(|hot| hot.position);
        let digest = rows.digest();
        let at = vec![None; rows.positions as usize];
        let mut map = Self { rows, digest, tables: Vec::new(), at };
        for hot in map.rows.rows.clone() {
            map.enter(&hot);
        }
        Ok(map)
    }

    /// A map without rows, for rows of `dim` values.
    #[must_use]
    pub fn empty(version: u32, dim: u16) -> Self {
        let (format, rows, digest) = (super::FORMAT.into(), Vec::new(), None);
        let (positions, block) = (0, 0);
        Self::new(HotRows { format, version, dim, positions, block, rows, digest })
            .expect("nothing in it is wrong")
    }

    fn enter(&mut self, hot: &HotRow) {
        let table = match self.tables.binary_search_by_key(&hot.row.table, |entry| entry.0) {
            Ok(found) => found,
            Err(place) => {
                self.tables.insert(place, (hot.row.table, Index::default(), Vec::new()));
                place
            }
        };
        let (_, index, places) = &mut self.tables[table];
        index.get_or_add(hot.row.key);
        places.push(Place { position: hot.position, tier: hot.tier });
        self.at[hot.position as usize] = Some(hot.row);
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.rows.version
    }

    /// The digest.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The document, its rows in order of position.
    #[must_use]
    pub fn document(&self) -> &HotRows {
        &self.rows
    }

    /// Where a row is, if it is hot.
    #[must_use]
    #[inline]
    pub fn place(&self, row: RowId) -> Option<Place> {
        let table = self.tables.binary_search_by_key(&row.table, |entry| entry.0).ok()?;
        let (_, index, places) = &self.tables[table];
        index.get(row.key).map(|number| places[number])
    }

    /// Whether a row is replicated at the workers.
    #[must_use]
    #[inline]
    pub fn is_replicated(&self, row: RowId) -> bool {
        self.place(row).is_some_and(|place| place.tier == Tier::A)
    }

    /// The row at a position.
    #[must_use]
    pub fn row(&self, position: u32) -> Option<RowId> {
        self.at.get(position as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::document::tests::map;

    #[test]
    fn rows_and_positions_lead_to_each_other() {
        let rows = [(2, 5, 9, Tier::A), (0, 5, 1, Tier::B), (2, 6, 0, Tier::A)];
        let hot = HotMap::new(map(&rows)).unwrap();
        for (table, key, position, tier) in rows {
            let row = RowId { table: TableId(table), key };
            assert_eq!(hot.place(row), Some(Place { position, tier }));
            assert_eq!(hot.row(position), Some(row));
            assert_eq!(hot.is_replicated(row), tier == Tier::A);
        }
        assert_eq!(hot.place(RowId { table: TableId(1), key: 5 }), None);
        assert_eq!((hot.row(2), hot.row(100)), (None, None));
        assert_eq!(hot.digest(), map(&rows).digest());
    }
}
