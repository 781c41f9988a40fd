//! How the hot set of a running job follows popularity: one file for each way.
//!
//! Servers count, rows are ranked by all servers' counts, and the rows that are to be hot are chosen from the ranking. All of
//! that follows from the gradients of the rounds before: whoever has restarted comes to the same choice.

mod decaying;
mod once;
mod sampling;

pub use decaying::Decaying;
pub use once::Once;
pub use sampling::Sampling;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hot::{HotMap, RowId, Tier};
use crate::popularity::choose;

/// When the hot set may change, and what is counted for it.
pub trait Follow {
    /// Whether the map may change when this round closes.
    fn is_due(&self, round: u32) -> bool;

    /// How many of a row's contributors in a round are counted.
    fn counted(&self, round: u32, row: RowId, contributors: u32) -> u32;

    /// What counts are multiplied by after a round that was due, at most 1.
    fn decay(&self) -> f32 {
        1.0
    }

    /// A hot row stays while it is among this many times as many rows as there may be, at least 1.
    fn reach(&self) -> f64 {
        1.0
    }

    /// What is wrong with the numbers, and what would be right.
    ///
    /// # Errors
    /// The field, and the problem with it.
    fn validate(&self) -> Result<(), (&'static str, String)>;
}

/// A way to follow popularity, as a job's file has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Tracking {
    /// See [`Decaying`].
    Decaying(Decaying),
    /// See [`Once`].
    Once(Once),
    /// See [`Sampling`].
    Sampling(Sampling),
}

impl Tracking {
    fn way(&self) -> &dyn Follow {
        match self {
            Self::Decaying(way) => way,
            Self::Once(way) => way,
            Self::Sampling(way) => way,
        }
    }
}

impl Follow for Tracking {
    fn is_due(&self, round: u32) -> bool {
        self.way().is_due(round)
    }

    fn counted(&self, round: u32, row: RowId, contributors: u32) -> u32 {
        self.way().counted(round, row, contributors)
    }

    fn decay(&self) -> f32 {
        self.way().decay()
    }

    fn reach(&self) -> f64 {
        self.way().reach()
    }

    fn validate(&self) -> Result<(), (&'static str, String)> {
        self.way().validate()
    }
}

/// How many rows are to be hot, and how they are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotSet {
    /// How popularity is followed.
    pub tracking: Tracking,
    /// Most rows of tier A.
    pub replicated: usize,
    /// Most rows of tier B.
    pub summed: usize,
}

impl HotSet {
    /// As many rows of each tier as the first map has; where it has none, every position is for a row of tier A.
    #[must_use]
    pub fn of_size(tracking: Tracking, map: &HotMap) -> Self {
        let document = map.document();
        let replicated = document.rows.iter().filter(|hot| hot.tier == Tier::A).count();
        match document.rows.len() - replicated {
            0 if replicated == 0 => {
                Self { tracking, replicated: document.positions as usize, summed: 0 }
            }
            summed => Self { tracking, replicated, summed },
        }
    }

    /// Rows that a server has to report: no row beyond them can be chosen.
    #[must_use]
    pub fn reported(&self) -> usize {
        ((self.replicated + self.summed) as f64 * self.tracking.reach()) as usize
    }

    /// The rows that are to be hot in the map after this one, the more popular ones first. Rows that nobody counted any more
    /// stay where there is room: sending them back gains nothing.
    #[must_use]
    pub fn wanted(&self, map: &HotMap, ranking: &[RowId]) -> Vec<(RowId, Tier)> {
        let ranked: BTreeSet<RowId> = ranking.iter().copied().collect();
        let rows = || map.document().rows.iter();
        let mut all = ranking.to_vec();
        all.extend(rows().map(|hot| hot.row).filter(|row| !ranked.contains(row)));
        let mut wanted = BTreeMap::new();
        for (tier, most) in [(Tier::A, self.replicated), (Tier::B, self.summed)] {
            let left: Vec<RowId> =
                all.iter().copied().filter(|row| !wanted.contains_key(row)).collect();
            let current = rows().filter(|hot| hot.tier == tier).map(|hot| hot.row).collect();
            let chosen = choose(&current, &left, most, self.tracking.reach());
            wanted.extend(chosen.into_iter().map(|row| (row, tier)));
        }
        all.into_iter().filter_map(|row| wanted.get(&row).map(|tier| (row, *tier))).collect()
    }
}

#[cfg(test)]
mod tests;
