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
    /// Rows in order.
    sorted: Vec<(RowId, Place)>,
    at: Vec<Option<(RowId, Tier)>>,
}

/// Finds the places of many rows, one after the other. Rows that come in order cost little: the search goes on from
/// where the last one was, through memory that lies side by side, where a hash table would wait for memory several
/// times for each.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'a> {
    sorted: &'a [(RowId, Place)],
    next: usize,
}

impl Finder<'_> {
    /// Where a row is, if it is hot.
    #[must_use]
    pub fn place(&mut self, row: RowId) -> Option<Place> {
        if self.next > 0 && self.sorted[self.next - 1].0 >= row {
            self.next = 0;
        }
        // Steps grow until the row is passed, so near rows are found in few.
        let mut step = 1;
        while self.sorted.get(self.next + step - 1).is_some_and(|entry| entry.0 < row) {
            self.next += step;
            step *= 2;
        }
        let end = (self.next + step).min(self.sorted.len());
        self.next += self.sorted[self.next..end].partition_point(|entry| entry.0 < row);
        self.sorted.get(self.next).filter(|entry| entry.0 == row).map(|entry| entry.1)
    }
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
        let mut map = Self { rows, digest, tables: Vec::new(), sorted: Vec::new(), at };
        for hot in map.rows.rows.clone() {
            map.enter(&hot);
        }
        map.sorted.sort_unstable_by_key(|entry| entry.0);
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
        let place = Place { position: hot.position, tier: hot.tier };
        places.push(place);
        self.sorted.push((hot.row, place));
        self.at[hot.position as usize] = Some((hot.row, hot.tier));
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

    /// Where rows are, for many of them in order.
    #[must_use]
    pub fn finder(&self) -> Finder<'_> {
        Finder { sorted: &self.sorted, next: 0 }
    }

    /// The row at a position.
    #[must_use]
    pub fn row(&self, position: u32) -> Option<RowId> {
        self.at(position).map(|(row, _)| row)
    }

    /// The row at a position, and its tier.
    #[must_use]
    #[inline]
    pub fn at(&self, position: u32) -> Option<(RowId, Tier)> {
        self.at.get(position as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            assert_eq!(hot.at(position), Some((row, tier)));
        }
        assert_eq!(hot.place(RowId { table: TableId(1), key: 5 }), None);
        assert_eq!((hot.row(2), hot.row(100)), (None, None));
        assert_eq!(hot.digest(), map(&rows).digest());
    }

    proptest! {
        /// In whatever order rows are asked for.
        #[test]
        fn a_finder_finds_what_the_map_does(
            keys in prop::collection::btree_set((0u16..3, 0u64..90), 0..60),
            asked in prop::collection::vec((0u16..3, 0u64..90), 0..90), is_sorted: bool,
        ) {
            let rows: Vec<_> = (0..).zip(keys).map(|(p, (t, k))| (t, k, p, Tier::A)).collect();
            let hot = HotMap::new(map(&rows)).unwrap();
            let mut asked: Vec<RowId> =
                asked.into_iter().map(|(t, key)| RowId { table: TableId(t), key }).collect();
            if is_sorted {
                asked.sort_unstable();
            }
            let mut finder = hot.finder();
            for row in asked {
                prop_assert_eq!(finder.place(row), hot.place(row));
            }
        }
    }
}
