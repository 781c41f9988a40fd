//! What a table is, and which of its rows a server may hold.

use serde::{Deserialize, Serialize};

use super::{Initial, TableError, ValueType};
use crate::mix;
use crate::optimizer::{Optimizer, Step};

/// Most values of a row.
pub const MAX_DIM: u16 = 256;

/// A table, as numbered by the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u16);

/// What names a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowIds {
    /// Numbers from 0 to this, which is none; each server has a range of them.
    Counted(u64),
    /// Any 64-bit numbers, hashed to the servers, of which all together hold this many at most.
    Hashed(u64),
}

/// A table of a job: what all servers and workers agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Its number.
    pub id: TableId,
    /// Its name, for people.
    pub name: String,
    /// Its rows.
    pub rows: RowIds,
    /// Values of a row, 1 to [`MAX_DIM`].
    pub dim: u16,
    /// What workers push and are told: values of this type. Servers keep and step float32.
    #[serde(rename = "type", default, skip_serializing_if = "ValueType::is_default")]
    pub value: ValueType,
    /// What a gradient does to a row.
    pub optimizer: Optimizer,
    /// What rows begin with.
    pub initial: Initial,
    /// Seed of what rows begin with.
    pub seed: u64,
    /// Whether the gradient of a round is the workers' sum divided by their number, as with DDP, or the sum.
    #[serde(default)]
    pub is_averaged: bool,
    /// Rounds that count as steps before the job's first one, where it goes on from another job; −1 where the first round
    /// is none, as it loads rows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_before: i32,
    /// Rounds without a gradient after which a row begins anew.
    #[serde(default)]
    pub expire_after: Option<u32>,
}

impl TableSpec {
    /// Checks the fields.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn validate(&self) -> Result<(), TableError> {
        let wrong = |field, problem: String| {
            Err(TableError::Spec { table: self.name.clone(), field, problem })
        };
        if !(1..=MAX_DIM).contains(&self.dim) {
            return wrong("dim", format!("is {}: a row has 1 to {MAX_DIM} values", self.dim));
        }
        if let RowIds::Counted(0) | RowIds::Hashed(0) = self.rows {
            return wrong("rows", "are none: a table has at least one".into());
        }
        if self.expire_after == Some(0) {
            return wrong("expire_after", "is 0: leave it out, or give at least one round".into());
        }
        if self.steps_before < -1 {
            let problem = format!("is {}: a first round that is no step is -1", self.steps_before);
            return wrong("steps_before", problem);
        }
        Ok(())
    }

    /// What the optimizer counts as the step of a round.
    #[must_use]
    pub fn step_of(&self, round: u32) -> u64 {
        (i64::from(round) + i64::from(self.steps_before)).max(1).unsigned_abs()
    }

    /// Float32 numbers of a row, with its state or without.
    #[must_use]
    pub fn len_of(&self, with_state: bool) -> usize {
        if with_state { self.stride() } else { self.dim.into() }
    }

    /// What the numbers of a row are that workers are told: all that is stored is float32.
    #[must_use]
    pub fn value_of(&self, with_state: bool) -> ValueType {
        if with_state { ValueType::Float32 } else { self.value }
    }

    /// Float32 numbers of a row with its state.
    #[must_use]
    pub fn stride(&self) -> usize {
        let dim = usize::from(self.dim);
        dim + self.optimizer.state_len(dim)
    }

    /// The weights and the state that a row begins with.
    #[must_use]
    pub fn initial_row(&self, key: u64) -> Vec<f32> {
        let mut row = vec![self.optimizer.initial_state(); self.stride()];
        self.fill_initial(key, &mut row[..usize::from(self.dim)]);
        row
    }

    /// Fills the weights that a row begins with.
    pub fn fill_initial(&self, key: u64, weights: &mut [f32]) {
        self.initial.fill(self.seed, self.id.0, key, weights);
    }

    /// The last round that changed a row, as it is kept of one that changes in a round.
    #[must_use]
    pub fn changed_in(&self, round: u32) -> u32 {
        if self.expire_after.is_some() { round } else { 0 }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// How a table is split among servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(pub u16);

impl Shards {
    /// The server of a row.
    #[must_use]
    pub fn of(self, rows: &RowIds, key: u64) -> u16 {
        match rows {
            RowIds::Counted(rows) => (key / rows.div_ceil(u64::from(self.0))) as u16,
            RowIds::Hashed(_) => (mix(key) % u64::from(self.0)) as u16,
        }
    }

    /// What server `shard` may hold. With hashed rows a server has room for a sixteenth and 64 rows more than its share, as
    /// chance does not split evenly.
    #[must_use]
    pub fn part(self, rows: &RowIds, shard: u16) -> Part {
        let shards = u64::from(self.0);
        match rows {
            RowIds::Counted(rows) => {
                let share = rows.div_ceil(shards);
                let begin = (u64::from(shard) * share).min(*rows);
                Part { shard, shards: self, begin, rows: share.min(rows - begin) }
            }
            RowIds::Hashed(rows) => {
                let share = rows.div_ceil(shards);
                let slack = if shards == 1 { 0 } else { share / 16 + 64 };
                Part { shard, shards: self, begin: 0, rows: share + slack }
            }
        }
    }
}

/// The rows of a table that one server may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The server.
    pub shard: u16,
    /// How many servers there are.
    pub shards: Shards,
    /// Where the range begins; 0 with hashed rows.
    pub begin: u64,
    /// How many rows there is room for.
    pub rows: u64,
}

impl Part {
    /// Whether a row belongs here.
    #[must_use]
    pub fn holds(&self, rows: &RowIds, key: u64) -> bool {
        match rows {
            RowIds::Counted(_) => (self.begin..self.begin + self.rows).contains(&key),
            RowIds::Hashed(_) => self.shards.of(rows, key) == self.shard,
        }
    }
}
