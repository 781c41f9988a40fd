//! What a program takes, in the terms in which papers report it.

use std::collections::BTreeMap;
use std::fmt;

use super::{Layout, Profile};

/// What one stage gives a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageUse {
    /// Register arrays, each with a stateful ALU.
    pub arrays: u32,
    /// Bytes of register memory.
    pub sram_bytes: u64,
}

/// What a program takes of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The program.
    pub program: &'static str,
    /// The switch.
    pub profile: Profile,
    /// By stage.
    pub stages: BTreeMap<u32, StageUse>,
    /// Int32 values that a packet carries.
    pub values_per_packet: u32,
    /// Most times that one packet goes through the pipeline again.
    pub recirculations: u32,
    /// Whether results are copied to several ports.
    pub is_multicast: bool,
}

impl Report {
    pub(super) fn new(layout: &Layout, profile: &Profile, stages: BTreeMap<u32, StageUse>) -> Self {
        Self {
            program: layout.program,
            profile: *profile,
            stages,
            values_per_packet: layout.values_per_packet,
            recirculations: layout.recirculations,
            is_multicast: layout.is_multicast,
        }
    }

    /// Stages up to the last one used.
    #[must_use]
    pub fn stage_count(&self) -> u32 {
        self.stages.last_key_value().map_or(0, |(stage, _)| stage + 1)
    }

    /// Register arrays, which is also the number of stateful ALUs.
    #[must_use]
    pub fn array_count(&self) -> u32 {
        self.stages.values().map(|stage| stage.arrays).sum()
    }

    /// Bytes of register memory.
    #[must_use]
    pub fn sram_bytes(&self) -> u64 {
        self.stages.values().map(|stage| stage.sram_bytes).sum()
    }

    /// Share of the switch's stateful ALUs, from 0 to 1.
    #[must_use]
    pub fn array_share(&self) -> f64 {
        let all = f64::from(self.profile.stages) * f64::from(self.profile.arrays_per_stage);
        f64::from(self.array_count()) / all
    }

    /// Share of the switch's register memory, from 0 to 1.
    #[must_use]
    pub fn sram_share(&self) -> f64 {
        let all = f64::from(self.profile.stages) * self.profile.sram_bytes_per_stage as f64;
        self.sram_bytes() as f64 / all
    }

    /// The titles of the columns that a report prints.
    pub const HEADING: &'static str = "program          values  stages  arrays=ALUs          SRAM          recirculations  multicast";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("({:.1} %)", 100.0 * share);
        let (arrays, sram) = (percent(self.array_share()), percent(self.sram_share()));
        write!(f, "{:<16} {:>6} {:>7}", self.program, self.values_per_packet, self.stage_count())?;
        write!(f, "  {:>4} {arrays:<10}", self.array_count())?;
        write!(f, " {:>8} KiB {sram:<10}", self.sram_bytes().div_ceil(1024))?;
        let multicast = if self.is_multicast { "yes" } else { "no" };
        write!(f, " {:>8}        {multicast}", self.recirculations)
    }
}
