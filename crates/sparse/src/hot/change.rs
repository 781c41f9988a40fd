//! From one version of the map to the next.

use super::{HotMap, HotRow, HotRows, MapError, RowId, Tier};
use std::collections::BTreeMap;

/// What the next version has that this one has not, and the other way round. Rows in neither list keep their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapChange {
    /// The version that the change leads to.
    pub version: u32,
    /// Rows that become hot, or change their tier.
    pub promoted: Vec<HotRow>,
    /// Rows that are hot no longer, or change their tier.
    pub demoted: Vec<RowId>,
}

impl MapChange {
    /// The change that makes these rows the hot ones. Those that stay in their tier keep their positions; the others take
    /// the free ones, lowest first, in the given order.
    ///
    /// # Errors
    /// [`MapError::Memory`]: there are more rows than positions. [`MapError::TwoPositions`]: a row is named twice.
    pub fn between(map: &HotMap, wanted: &[(RowId, Tier)]) -> Result<Self, MapError> {
        let document = map.document();
        if wanted.len() > document.positions as usize {
            let positions = wanted.len() as u32;
            return Err(MapError::Memory { positions, memory: document.positions });
        }
        let mut tiers = BTreeMap::new();
        for (row, tier) in wanted {
            if tiers.insert(*row, *tier).is_some() {
                return Err(MapError::TwoPositions(*row));
            }
        }
        let stays = |hot: &&HotRow| tiers.get(&hot.row) == Some(&hot.tier);
        let mut is_taken = vec![false; document.positions as usize];
        document.rows.iter().filter(stays).for_each(|hot| is_taken[hot.position as usize] = true);
        let mut free = (0..document.positions).filter(|position| !is_taken[*position as usize]);
        let is_new =
            |(row, tier): &&(RowId, Tier)| map.place(*row).is_none_or(|place| place.tier != *tier);
        let promoted = wanted.iter().filter(is_new).map(|(row, tier)| HotRow {
            row: *row,
            position: free.next().expect("there are as many positions as rows"),
            tier: *tier,
        });
        let promoted = promoted.collect();
        let demoted = document.rows.iter().filter(|hot| !stays(hot)).map(|hot| hot.row).collect();
        Ok(Self { version: document.version + 1, promoted, demoted })
    }

    /// The next version of a map.
    ///
    /// # Errors
    /// [`MapError::Version`]: the change is for another map. Others: it does not fit this one.
    pub fn apply(&self, map: &HotMap) -> Result<HotMap, MapError> {
        if self.version != map.version() + 1 {
            return Err(MapError::Version { found: self.version, wanted: map.version() + 1 });
        }
        let mut leaving = self.demoted.clone();
        leaving.sort_unstable();
        let stays = |hot: &&HotRow| leaving.binary_search(&hot.row).is_err();
        let document = map.document();
        let rows = document.rows.iter().filter(stays).chain(&self.promoted).copied().collect();
        HotMap::new(HotRows { version: self.version, rows, digest: None, ..document.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::document::tests::map;
    use crate::table::TableId;
    use proptest::prelude::*;

    fn rows(keys: &[(u64, bool)]) -> Vec<(RowId, Tier)> {
        let row = |key| RowId { table: TableId(0), key };
        keys.iter().map(|(key, a)| (row(*key), if *a { Tier::A } else { Tier::B })).collect()
    }

    fn some_rows() -> impl Strategy<Value = Vec<(u64, bool)>> {
        prop::collection::btree_map(0u64..150, any::<bool>(), 0..100).prop_map(Vec::from_iter)
    }

    proptest! {
        #[test]
        fn the_change_leads_to_what_is_wanted(sets in prop::collection::vec(some_rows().prop_shuffle(), 1..8)) {
            let mut hot = HotMap::new(map(&[])).unwrap();
            for wanted in sets {
                let wanted = rows(&wanted);
                let change = MapChange::between(&hot, &wanted).unwrap();
                let next = change.apply(&hot).unwrap();
                prop_assert_eq!(next.document().rows.len(), wanted.len());
                for (row, tier) in wanted {
                    let place = next.place(row).unwrap();
                    prop_assert_eq!(place.tier, tier);
                    if let Some(before) = hot.place(row).filter(|before| before.tier == tier) {
                        prop_assert_eq!(place, before, "who stays keeps its position");
                    }
                }
                hot = next;
            }
        }
    }

    #[test]
    fn a_change_of_another_version_is_refused() {
        let hot = HotMap::new(map(&[])).unwrap();
        let change = MapChange { version: 3, ..MapChange::default() };
        assert_eq!(change.apply(&hot).unwrap_err(), MapError::Version { found: 3, wanted: 4 });
        let many: Vec<_> = (0..101).map(|key| (key, true)).collect();
        let full = MapError::Memory { positions: 101, memory: 100 };
        assert_eq!(MapChange::between(&hot, &rows(&many)).unwrap_err(), full);
        let twice = MapChange::between(&hot, &rows(&[(1, true), (1, true)])).unwrap_err();
        assert!(matches!(twice, MapError::TwoPositions(_)));
    }
}
