//! Zebra's iteration-based method (§III-C): the hot rows are those that were touched most in the first rounds, and stay so.

use serde::{Deserialize, Serialize};

use super::Follow;
use crate::hot::RowId;

/// Zebra's iteration-based method: one choice, by the counts of the first rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Once {
    /// The round that the map changes after; those before it are counted. The paper takes 10 (Table II).
    pub after: u32,
}

impl Follow for Once {
    fn is_due(&self, round: u32) -> bool {
        round == self.after
    }

    fn counted(&self, round: u32, _row: RowId, contributors: u32) -> u32 {
        if round < self.after { contributors } else { 0 }
    }

    fn validate(&self) -> Result<(), (&'static str, String)> {
        is_countable(self.after)
    }
}

/// Whether there is a round to count before this one.
pub(super) fn is_countable(after: u32) -> Result<(), (&'static str, String)> {
    if after < 2 {
        return Err((
            "after",
            format!("is {after}: count for a round at least, and give 2 or more"),
        ));
    }
    Ok(())
}
