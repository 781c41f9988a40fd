//! Ways to put the pairs of one push into packets: one file each.

mod cut;
mod deal;
mod first_fit;

use cut::cut;
use deal::deal;
use first_fit::first_fit;
use serde::{Deserialize, Serialize};

use super::{Layout, LayoutError, MAX_REGISTERS, Packets};

/// A way to put the pairs of one push into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packaging {
    /// In the order in which they come.
    Arrival,
    /// In order of rank.
    Rank,
    /// The paper's Algorithm 1.
    #[serde(rename = "algorithm-1")]
    FirstFit,
    /// Sorted by register and dealt in turn.
    Dealing,
}

/// All of them.
pub const PACKAGINGS: [Packaging; 4] =
    [Packaging::Arrival, Packaging::Rank, Packaging::FirstFit, Packaging::Dealing];

impl Packaging {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Rank => "rank",
            Self::FirstFit => "algorithm-1",
            Self::Dealing => "dealing",
        }
    }

    /// Packs the positions of one push, which are distinct, `pairs` to a packet at most.
    ///
    /// # Errors
    /// [`LayoutError::Pairs`].
    pub fn pack(self, pushed: &[u32], layout: &Layout, pairs: u32) -> Result<Packets, LayoutError> {
        if !(1..=MAX_REGISTERS).contains(&pairs) {
            return Err(LayoutError::Pairs(pairs));
        }
        Ok(match self {
            Self::Arrival => cut(pushed.to_vec(), pairs),
            Self::Rank => cut(in_order_of_rank(pushed), pairs),
            Self::FirstFit => first_fit(pushed, layout, pairs),
            Self::Dealing => deal(pushed, layout, pairs),
        })
    }
}

fn in_order_of_rank(pushed: &[u32]) -> Vec<u32> {
    let mut ranked = pushed.to_vec();
    ranked.sort_unstable();
    ranked
}
