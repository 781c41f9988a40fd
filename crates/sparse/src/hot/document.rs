//! The hot map as a file: which rows have positions, and in which tier. `spec/sparse.md` has the fields.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::RowId;
use crate::table::{RowIds, TableId, TableSpec};

/// The document's name and version.
pub const FORMAT: &str = "wiresum-hot-map/1";

/// Where a hot row is summed, and where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Replicated at all workers; its sum goes from the switch to all of them.
    A,
    /// At its server; its sum is made on the way there, and workers pull it.
    B,
}

/// A hot row: `[table, key, position, tier]` in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u16, u64, u32, Tier)", into = "(u16, u64, u32, Tier)")]
pub struct HotRow {
    /// The row.
    pub row: RowId,
    /// Its place among the hot rows: 0 for the most popular one when the map was made.
    pub position: u32,
    /// Its tier.
    pub tier: Tier,
}

impl From<(u16, u64, u32, Tier)> for HotRow {
    fn from((table, key, position, tier): (u16, u64, u32, Tier)) -> Self {
        Self { row: RowId { table: TableId(table), key }, position, tier }
    }
}

impl From<HotRow> for (u16, u64, u32, Tier) {
    fn from(hot: HotRow) -> Self {
        (hot.row.table.0, hot.row.key, hot.position, hot.tier)
    }
}

/// A map that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MapError {
    /// No map at all.
    #[error("not a hot map: {0}")]
    Syntax(String),
    /// Another document, or another version of this one.
    #[error("the format is {0:?}: this program reads {FORMAT}")]
    Format(String),
    /// A file that was changed after it was written.
    #[error(
        "the rows have the digest {counted:016x}, but the file says {stated}: write the map anew"
    )]
    Digest {
        /// As computed.
        counted: u64,
        /// As in the file.
        stated: String,
    },
    /// A position with two rows.
    #[error("position {position} has two rows, {} of table {} and {} of table {}: give each its own", .first.key, .first.table.0, .second.key, .second.table.0)]
    TwoRows {
        /// The position.
        position: u32,
        /// The row that is first in the file.
        first: RowId,
        /// The other one.
        second: RowId,
    },
    /// A row with two positions.
    #[error("row {} of table {} has two positions: give each row one", .0.key, .0.table.0)]
    TwoPositions(RowId),
    /// A position beyond the room.
    #[error("position {position} is beyond the map's {room} positions, which are counted from 0")]
    Position {
        /// The position.
        position: u32,
        /// Positions that there are.
        room: u32,
    },
    /// More positions than a switch has memory for.
    #[error(
        "the map has {positions} positions, and the memory is for {memory}: leave out the least popular rows"
    )]
    Memory {
        /// Positions of the map.
        positions: u32,
        /// Rows that the memory is for.
        memory: u32,
    },
    /// A table that the job does not have.
    #[error(
        "the map has rows of table {0}, which is no table of the job: make the map for this job's tables"
    )]
    Table(u16),
    /// A table whose rows have another length.
    #[error(
        "the map is for rows of {map} values, and those of table {table} have {dim}: make a map for each length"
    )]
    Dim {
        /// Name of the table.
        table: String,
        /// Values of its rows.
        dim: u16,
        /// Values of the map's rows.
        map: u16,
    },
    /// A row that the table does not have.
    #[error("table {table} has rows 0 to {}, and the map has row {key}: make the map for this table", .rows - 1)]
    Row {
        /// Name of the table.
        table: String,
        /// The row.
        key: u64,
        /// Rows of the table.
        rows: u64,
    },
    /// Another version than the one that is wanted.
    #[error(
        "the map has version {found}, and version {wanted} is in use: take the job's current map"
    )]
    Version {
        /// Version that the map has.
        found: u32,
        /// Version in use.
        wanted: u32,
    },
}

/// The file's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotRows {
    /// [`FORMAT`].
    pub format: String,
    /// Grows by one with each change while a job runs.
    pub version: u32,
    /// Values of each row.
    pub dim: u16,
    /// Positions that there are, with a row or without: what switches have memory for.
    pub positions: u32,
    /// Positions below this one are to be sent as whole blocks, touched or not. Nothing does so yet.
    #[serde(default)]
    pub block: u32,
    /// The rows, in any order.
    pub rows: Vec<HotRow>,
    /// [`Self::digest`], in 16 hexadecimal digits. Absent in a draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl HotRows {
    /// Reads and validates a map.
    ///
    /// # Errors
    /// [`MapError`] names what is wrong, and the remedy.
    pub fn from_json(text: &str) -> Result<Self, MapError> {
        let map: Self =
            serde_json::from_str(text).map_err(|problem| MapError::Syntax(problem.to_string()))?;
        map.validate()?;
        Ok(map)
    }

    /// The file, with its digest.
    ///
    /// # Panics
    /// Never: a map always serialises.
    #[must_use]
    pub fn to_json(&self) -> String {
        let sealed = Self { digest: Some(format!("{:016x}", self.digest())), ..self.clone() };
        serde_json::to_string(&sealed).expect("a map serialises") + "\n"
    }

    /// A fingerprint of all that workers, switches and servers must agree on: FNV-1a over version, dim, positions and
    /// block, then table, key, position and tier (0 for A, 1 for B) of each row in order of position, big-endian.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut rows: Vec<&HotRow> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|hot| hot.position);
        let mut bytes = Vec::with_capacity(14 + 15 * rows.len());
        bytes.extend(self.version.to_be_bytes());
        bytes.extend(self.dim.to_be_bytes());
        bytes.extend(self.positions.to_be_bytes());
        bytes.extend(self.block.to_be_bytes());
        for hot in rows {
            bytes.extend(hot.row.table.0.to_be_bytes());
            bytes.extend(hot.row.key.to_be_bytes());
            bytes.extend(hot.position.to_be_bytes());
            bytes.push(hot.tier as u8);
        }
        crate::fingerprint(&bytes)
    }

    /// Checks what can be told from the map alone.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn validate(&self) -> Result<(), MapError> {
        if self.format != FORMAT {
            return Err(MapError::Format(self.format.clone()));
        }
        if let Some(hot) = self.rows.iter().find(|hot| hot.position >= self.positions) {
            return Err(MapError::Position { position: hot.position, room: self.positions });
        }
        let mut places: Vec<(u32, RowId)> =
            self.rows.iter().map(|hot| (hot.position, hot.row)).collect();
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let ((position, first), (_, second)) = (pair[0], pair[1]);
            return Err(MapError::TwoRows { position, first, second });
        }
        let mut rows: Vec<RowId> = self.rows.iter().map(|hot| hot.row).collect();
        rows.sort_unstable();
        if let Some(pair) = rows.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MapError::TwoPositions(pair[0]));
        }
        match &self.digest {
            Some(stated) if *stated != format!("{:016x}", self.digest()) => {
                Err(MapError::Digest { counted: self.digest(), stated: stated.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the map is for these tables, and for a memory of this many rows.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn fit(&self, tables: &[TableSpec], memory: u32) -> Result<(), MapError> {
        if self.positions > memory {
            return Err(MapError::Memory { positions: self.positions, memory });
        }
        for hot in &self.rows {
            let table = tables.iter().find(|table| table.id == hot.row.table);
            let table = table.ok_or(MapError::Table(hot.row.table.0))?;
            if table.dim != self.dim {
                let (dim, map) = (table.dim, self.dim);
                return Err(MapError::Dim { table: table.name.clone(), dim, map });
            }
            match table.rows {
                RowIds::Counted(rows) if hot.row.key >= rows => {
                    return Err(MapError::Row {
                        table: table.name.clone(),
                        key: hot.row.key,
                        rows,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::optimizer::{Optimizer, Sgd};
    use crate::table::{Initial, ValueType};

    pub(crate) fn table(id: u16, rows: RowIds, dim: u16) -> TableSpec {
        let optimizer = Optimizer::Sgd(Sgd { lr: 0.1 });
        let (name, initial) = (format!("t{id}"), Initial::Zeros);
        let (id, seed, expire_after) = (TableId(id), 1, None);
        TableSpec {
            id,
            name,
            rows,
            dim,
            value: ValueType::default(),
            optimizer,
            initial,
            seed,
            is_averaged: false,
            steps_before: 0,
            expire_after,
        }
    }

    pub(crate) fn map(rows: &[(u16, u64, u32, Tier)]) -> HotRows {
        let rows = rows.iter().map(|row| HotRow::from(*row)).collect();
        let (version, dim, positions, block) = (3, 16, 100, 0);
        HotRows { format: FORMAT.into(), version, dim, positions, block, rows, digest: None }
    }

    #[test]
    fn a_map_is_written_and_read() {
        let hot = map(&[(0, 7, 1, Tier::B), (2, u64::MAX, 0, Tier::A)]);
        let text = hot.to_json();
        assert!(text.contains("[0,7,1,\"B\"]"), "{text}");
        let read = HotRows::from_json(&text).unwrap();
        assert_eq!((read.rows.clone(), read.digest()), (hot.rows.clone(), hot.digest()));
        let turned = map(&[(2, u64::MAX, 0, Tier::A), (0, 7, 1, Tier::B)]);
        assert_eq!(turned.digest(), hot.digest(), "the order in the file does not matter");
        let other = map(&[(0, 7, 1, Tier::A), (2, u64::MAX, 0, Tier::A)]);
        assert_ne!(other.digest(), hot.digest());
        let forged = text.replace("[0,7,1,", "[0,8,1,");
        assert!(matches!(HotRows::from_json(&forged), Err(MapError::Digest { .. })));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |hot: HotRows| hot.validate().unwrap_err();
        let row = |table, key| RowId { table: TableId(table), key };
        assert_eq!(
            wrong(map(&[(0, 7, 1, Tier::A), (0, 8, 1, Tier::A)])),
            MapError::TwoRows { position: 1, first: row(0, 7), second: row(0, 8) }
        );
        assert_eq!(
            wrong(map(&[(0, 7, 1, Tier::A), (0, 7, 2, Tier::B)])),
            MapError::TwoPositions(row(0, 7))
        );
        let beyond = MapError::Position { position: 100, room: 100 };
        assert_eq!(wrong(map(&[(0, 7, 100, Tier::A)])), beyond);
        let newer = HotRows { format: "wiresum-hot-map/2".into(), ..map(&[]) };
        assert_eq!(wrong(newer), MapError::Format("wiresum-hot-map/2".into()));
        assert!(matches!(HotRows::from_json("{}"), Err(MapError::Syntax(_))));
    }

    #[test]
    fn a_map_of_other_tables_is_refused() {
        let tables = [table(0, RowIds::Counted(10), 16), table(1, RowIds::Hashed(9), 8)];
        let fit = |rows: &[(u16, u64, u32, Tier)], memory| map(rows).fit(&tables, memory);
        assert_eq!(fit(&[(0, 9, 0, Tier::A)], 100), Ok(()));
        assert_eq!(fit(&[], 99), Err(MapError::Memory { positions: 100, memory: 99 }));
        assert_eq!(fit(&[(5, 0, 0, Tier::A)], 100), Err(MapError::Table(5)));
        let no_row = MapError::Row { table: "t0".into(), key: 10, rows: 10 };
        assert_eq!(fit(&[(0, 10, 0, Tier::A)], 100), Err(no_row));
        let other_dim = MapError::Dim { table: "t1".into(), dim: 8, map: 16 };
        assert_eq!(fit(&[(1, 10, 0, Tier::A)], 100), Err(other_dim));
    }
}
