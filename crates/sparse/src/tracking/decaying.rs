//! Counts of the rounds so far, older ones for less, and a choice with hysteresis, in every period.

use serde::{Deserialize, Serialize};

use super::Follow;
use crate::hot::RowId;

/// Decaying counts with a choice in every period, in which rows that are hot have an advantage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decaying {
    /// The map may change when a round closes that is a multiple of this.
    pub period: u32,
    /// What a count is multiplied by in each round: 0.965 is 0.7 in ten.
    #[serde(default = "per_round")]
    pub per_round: f32,
    /// A hot row stays while it is among this many times as many rows as there may be: a row at the edge does not go back and
    /// forth, which would cost an exchange each time and gain nothing.
    #[serde(default = "reach")]
    pub reach: f64,
}

fn per_round() -> f32 {
    0.965
}

fn reach() -> f64 {
    1.3
}

impl Decaying {
    /// With this period, and what else is usual.
    #[must_use]
    pub fn every(period: u32) -> Self {
        Self { period, per_round: per_round(), reach: reach() }
    }
}

impl Follow for Decaying {
    fn is_due(&self, round: u32) -> bool {
        self.period > 0 && round.is_multiple_of(self.period)
    }

    fn counted(&self, _round: u32, _row: RowId, contributors: u32) -> u32 {
        contributors
    }

    fn decay(&self) -> f32 {
        // Repeated products, as a library's power has other bits on other machines.
        (0..self.period).fold(1.0, |all, _| all * self.per_round)
    }

    fn reach(&self) -> f64 {
        self.reach
    }

    fn validate(&self) -> Result<(), (&'static str, String)> {
        if !(LEAST_PERIOD..=MOST_PERIOD).contains(&self.period) {
            let problem =
                format!("is {}: give {LEAST_PERIOD} to {MOST_PERIOD} rounds", self.period);
            return Err(("period", problem));
        }
        if !(self.per_round > 0.0 && self.per_round <= 1.0) {
            let problem =
                format!("is {}: a count is multiplied by more than 0, at most 1", self.per_round);
            return Err(("per_round", problem));
        }
        if !(1.0..=MOST_REACH).contains(&self.reach) {
            return Err(("reach", format!("is {}: give 1 to {MOST_REACH}", self.reach)));
        }
        Ok(())
    }
}

/// In every round a decision would be on its way for the whole round: nothing would hide its delay.
const LEAST_PERIOD: u32 = 2;
/// More rounds than a training has between two looks at its popularity.
const MOST_PERIOD: u32 = 1 << 20;
/// Servers report this many times the hot set at most.
const MOST_REACH: f64 = 4.0;
