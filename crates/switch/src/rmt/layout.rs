//! What a program declares, and whether a switch has room for it.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Profile, Report, StageUse};

/// Int32 lanes in one cell of an array of values: both halves of a register pair.
const LANES_PER_CELL: u32 = 2;
/// Bytes of such a cell.
const VALUE_CELL_BYTES: u64 = 8;
/// Widest cell that the model can hold.
const MAX_CELL_BITS: u32 = 64;

/// A register array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayDeclaration {
    /// Its name, for errors and reports.
    pub name: &'static str,
    /// The stage that it lives in, from 0.
    pub stage: u32,
    /// Bits of a cell.
    pub width_bits: u32,
    /// Cells.
    pub length: u32,
}

impl ArrayDeclaration {
    fn bytes(&self) -> u64 {
        u64::from(self.width_bits.next_power_of_two().max(8)) / 8 * u64::from(self.length)
    }
}

/// A bank of arrays, all accessed at one index, that hold a fragment's values: two lanes for each array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankDeclaration {
    /// Its name, for errors and reports.
    pub name: &'static str,
    /// The first stage that it may live in. A bank declared after another takes each lane at least a stage later than that one.
    pub first_stage: u32,
    /// Cells of each array.
    pub length: u32,
}

/// The memory of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The program's name.
    pub program: &'static str,
    /// Int32 values that a packet carries.
    pub values_per_packet: u32,
    /// Register arrays, numbered by their place here.
    pub arrays: Vec<ArrayDeclaration>,
    /// Banks of values, numbered by their place here.
    pub banks: Vec<BankDeclaration>,
    /// Most times that one packet goes through the pipeline again.
    pub recirculations: u32,
    /// Whether results are copied to several ports.
    pub is_multicast: bool,
}

/// Why a switch has no room for a program.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Misfit {
    /// A stage beyond the last.
    #[error(
        "{program} on {profile}: array {array} needs stage {stage}, but there are {stages}: use fewer values per packet"
    )]
    Stages {
        /// The program.
        program: &'static str,
        /// The switch.
        profile: &'static str,
        /// The array.
        array: &'static str,
        /// The stage that it needs, from 0.
        stage: u32,
        /// Stages that there are.
        stages: u32,
    },
    /// Too many arrays, or too much memory, in a stage that the program named.
    #[error(
        "{program} on {profile}: stage {stage} has no room for array {array} of {bytes} bytes: use fewer slots"
    )]
    Stage {
        /// The program.
        program: &'static str,
        /// The switch.
        profile: &'static str,
        /// The array.
        array: &'static str,
        /// The stage.
        stage: u32,
        /// Bytes of the array.
        bytes: u64,
    },
    /// A cell wider than the switch can read and write at once.
    #[error(
        "{program} on {profile}: array {array} has cells of {width_bits} bits, {cell_bits} are possible"
    )]
    Width {
        /// The program.
        program: &'static str,
        /// The switch.
        profile: &'static str,
        /// The array.
        array: &'static str,
        /// Bits of its cells.
        width_bits: u32,
        /// Widest cell.
        cell_bits: u32,
    },
    /// More values than the switch can take out of a packet.
    #[error("{program} on {profile}: packets carry {values} values, {most} are possible")]
    Values {
        /// The program.
        program: &'static str,
        /// The switch.
        profile: &'static str,
        /// Values of a packet.
        values: u32,
        /// Most that there may be.
        most: u32,
    },
    /// More passes than the switch gives a packet.
    #[error("{program} on {profile}: packets recirculate {times} times, {most} are possible")]
    Recirculations {
        /// The program.
        program: &'static str,
        /// The switch.
        profile: &'static str,
        /// Times that the program needs.
        times: u32,
        /// Most that there may be.
        most: u32,
    },
}

impl Layout {
    /// Places every array in a stage.
    ///
    /// # Errors
    /// The first [`Misfit`] found.
    pub fn fit(&self, profile: &Profile) -> Result<Report, Misfit> {
        self.check_limits(profile)?;
        let mut placement = Placement { layout: self, profile, stages: BTreeMap::new() };
        for array in &self.arrays {
            placement.place_array(array)?;
        }
        placement.place_banks()?;
        Ok(placement.report())
    }

    fn check_limits(&self, profile: &Profile) -> Result<(), Misfit> {
        let (program, profile_name) = (self.program, profile.name);
        if self.values_per_packet > profile.values_per_packet {
            let (values, most) = (self.values_per_packet, profile.values_per_packet);
            return Err(Misfit::Values { program, profile: profile_name, values, most });
        }
        if self.recirculations > profile.recirculations {
            let (times, most) = (self.recirculations, profile.recirculations);
            return Err(Misfit::Recirculations { program, profile: profile_name, times, most });
        }
        let cell_bits = profile.cell_bits.min(MAX_CELL_BITS);
        match self.arrays.iter().find(|array| array.width_bits > cell_bits) {
            None => Ok(()),
            Some(&ArrayDeclaration { name: array, width_bits, .. }) => {
                Err(Misfit::Width { program, profile: profile_name, array, width_bits, cell_bits })
            }
        }
    }
}

struct Placement<'a> {
    layout: &'a Layout,
    profile: &'a Profile,
    /// By stage; what is absent is empty.
    stages: BTreeMap<u32, StageUse>,
}

impl Placement<'_> {
    fn place_array(&mut self, array: &ArrayDeclaration) -> Result<(), Misfit> {
        self.check_stage(array.name, array.stage)?;
        if self.has_room(array.stage, array.bytes()) {
            self.take(array.stage, array.bytes());
            return Ok(());
        }
        Err(Misfit::Stage {
            program: self.layout.program,
            profile: self.profile.name,
            array: array.name,
            stage: array.stage,
            bytes: array.bytes(),
        })
    }

    /// Lane pair by lane pair, each as early as it can be.
    fn place_banks(&mut self) -> Result<(), Misfit> {
        for _ in 0..self.layout.values_per_packet.div_ceil(LANES_PER_CELL) {
            let mut earliest = 0;
            for bank in &self.layout.banks {
                let bytes = VALUE_CELL_BYTES * u64::from(bank.length);
                if bytes > self.profile.sram_bytes_per_stage {
                    return Err(self.bank_too_long(bank, bytes));
                }
                let mut stage = bank.first_stage.max(earliest);
                while !self.has_room(stage, bytes) {
                    stage += 1;
                }
                self.check_stage(bank.name, stage)?;
                self.take(stage, bytes);
                earliest = stage + 1;
            }
        }
        Ok(())
    }

    fn bank_too_long(&self, bank: &BankDeclaration, bytes: u64) -> Misfit {
        Misfit::Stage {
            program: self.layout.program,
            profile: self.profile.name,
            array: bank.name,
            stage: bank.first_stage,
            bytes,
        }
    }

    fn check_stage(&self, array: &'static str, stage: u32) -> Result<(), Misfit> {
        let (program, profile, stages) =
            (self.layout.program, self.profile.name, self.profile.stages);
        if stage < stages {
            Ok(())
        } else {
            Err(Misfit::Stages { program, profile, array, stage, stages })
        }
    }

    fn has_room(&self, stage: u32, bytes: u64) -> bool {
        let used = self.stages.get(&stage).copied().unwrap_or_default();
        used.arrays < self.profile.arrays_per_stage
            && used.sram_bytes.saturating_add(bytes) <= self.profile.sram_bytes_per_stage
    }

    fn take(&mut self, stage: u32, bytes: u64) {
        let used = self.stages.entry(stage).or_default();
        used.arrays += 1;
        used.sram_bytes += bytes;
    }

    fn report(self) -> Report {
        Report::new(self.layout, self.profile, self.stages)
    }
}
