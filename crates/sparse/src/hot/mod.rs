//! Hot rows: the map that gives them positions, and the set of them while training.

mod change;
mod document;
mod map;

pub use change::MapChange;
pub use document::{FORMAT, HotRow, HotRows, MapError, Tier};
pub use map::{Finder, HotMap, Place};

use serde::{Deserialize, Serialize};

use crate::table::TableId;

/// A row of a job: its table, and its key there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowId {
    /// The table.
    pub table: TableId,
    /// The row.
    pub key: u64,
}
