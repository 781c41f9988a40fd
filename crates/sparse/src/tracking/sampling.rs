//! Zebra's sampling (§III-C): the hot rows are those that a random sample of the data touches most. The paper trains on the
//! sample beforehand; here the sample is drawn from the first rounds of the training itself, and the map changes once.

use serde::{Deserialize, Serialize};

use super::{Follow, once::is_countable};
use crate::hot::RowId;
use crate::mix;

/// Zebra's sampling: one choice, by a random sample of what the first rounds touch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// The share of gradients that are counted. The paper takes 0.04 to 0.08 (Fig. 9).
    pub rate: f64,
    /// The round that the map changes after.
    pub after: u32,
}

impl Follow for Sampling {
    fn is_due(&self, round: u32) -> bool {
        round == self.after
    }

    fn counted(&self, round: u32, row: RowId, contributors: u32) -> u32 {
        if round >= self.after {
            return 0;
        }
        let seed = mix(row.key ^ mix(u64::from(row.table.0) << 32 | u64::from(round)));
        let most = (self.rate * 2f64.powi(64)) as u64;
        (0..contributors).filter(|which| mix(seed ^ u64::from(*which)) < most).count() as u32
    }

    fn validate(&self) -> Result<(), (&'static str, String)> {
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return Err(("rate", format!("is {}: give a share above 0, at most 1", self.rate)));
        }
        is_countable(self.after)
    }
}
