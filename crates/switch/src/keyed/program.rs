//! The program over the model of a pipeline.

use std::collections::BTreeMap;

use wiresum_wire::{JobId, Verdict};

use super::arrangement::{Arranged, Arrangement, Home, MAX_WORKERS};
use super::{Body, Packet};
use crate::rmt::{ArrayDeclaration, ArrayId, Layout, Memory, Misfit, Profile, Report};

/// Registers of one stage: as many as a stage of a Tofino has stateful ALUs.
const REGISTERS_PER_STAGE: u32 = 4;
/// Every cell is a tag and 32 bits of something.
const CELL_BITS: u32 = 64;
/// Which packets have come.
const NUMBERS: ArrayId = ArrayId(0);

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    /// Its fate.
    pub verdict: Verdict,
    /// How often it went through the pipeline again.
    pub recirculations: u32,
    /// Whether the iteration is complete with it, which it was not before.
    pub is_complete: bool,
}

impl Handled {
    fn at_once(verdict: Verdict) -> Self {
        Self { verdict, recirculations: 0, is_complete: false }
    }

    /// Whether the packet is acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        matches!(self.verdict, Verdict::Added | Verdict::Duplicate | Verdict::Stale)
    }
}

/// An iteration of a table.
#[derive(Clone, Copy, Debug)]
struct Open {
    round: u32,
    map_version: u32,
    tag: u32,
}

/// A switch that sums pairs.
pub struct KeyedSwitch {
    arrangement: Arrangement,
    memory: Memory<()>,
    report: Report,
    /// By table; `None` before the first iteration.
    open: Vec<Option<Open>>,
    /// That of the iteration that was opened last.
    tag: u32,
}

/// What a packet does to the registers in each pass.
type Passes = Vec<Vec<(Home, i32)>>;

impl KeyedSwitch {
    /// A switch with memory for these tables.
    ///
    /// # Errors
    /// [`Misfit`] if the profile has no room for that.
    pub fn new(arrangement: Arrangement, profile: &Profile) -> Result<Self, Misfit> {
        let layout = layout(&arrangement);
        let open = vec![None; arrangement.tables.len()];
        let (report, memory) = (layout.fit(profile)?, Memory::new(&layout));
        Ok(Self { arrangement, memory, report, open, tag: 0 })
    }

    /// What the program takes.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What lies where.
    #[must_use]
    pub fn arrangement(&self) -> &Arrangement {
        &self.arrangement
    }

    /// Its memory, as the control plane reads it: numbers, the registers, missing packets, workers that are done.
    #[must_use]
    pub fn memory(&self) -> &Memory<()> {
        &self.memory
    }

    /// The index of a table.
    #[must_use]
    pub fn find(&self, job: JobId, table: u16) -> Option<usize> {
        self.arrangement.tables.iter().position(|one| (one.job, one.table) == (job, table))
    }

    /// Opens an iteration of a table: all its sums begin at zero.
    ///
    /// # Panics
    /// If there is no table with this index.
    pub fn open(&mut self, index: usize, round: u32, map_version: u32) {
        self.tag += 1;
        self.open[index] = Some(Open { round, map_version, tag: self.tag });
    }

    /// The sums of the open iteration, by key: what the station reads when it is complete.
    ///
    /// # Panics
    /// If there is no table with this index.
    #[must_use]
    pub fn sums(&self, index: usize) -> BTreeMap<u64, i32> {
        let Some(open) = self.open[index] else { return BTreeMap::new() };
        let held = |home: &Home| {
            let cell = self.memory.cells(register(home.register))[home.cell as usize];
            ((cell >> 32) as u32 == open.tag).then_some(cell as u32 as i32)
        };
        let homes = self.arrangement.tables[index].homes.iter();
        homes.filter_map(|(key, home)| Some((*key, held(home)?))).collect()
    }

    /// Deals with a packet of a job that runs here; [`Verdict::Wrong`] too of what [`Packet::of`] finds to be none.
    pub fn handle(&mut self, job: JobId, packet: &Packet) -> Handled {
        let Some(index) = self.find(job, packet.table) else {
            return Handled::at_once(Verdict::Foreign);
        };
        let table = &self.arrangement.tables[index];
        if packet.worker >= table.workers {
            return Handled::at_once(Verdict::BadContributor);
        }
        let Some(open) = self.open[index] else { return Handled::at_once(Verdict::Foreign) };
        if packet.round < open.round {
            return Handled::at_once(Verdict::Stale);
        }
        if packet.round > open.round || packet.map_version > open.map_version {
            return Handled::at_once(Verdict::Early);
        }
        let Some(number) = number_of(table, packet) else {
            return Handled::at_once(Verdict::Wrong);
        };
        let is_of_map = packet.map_version == open.map_version;
        let passes = passes_of(&self.arrangement, table, packet).filter(|_| is_of_map);
        self.go_through(index, open.tag, packet, number, passes)
    }

    /// Takes the packet through the pipeline, as often as it has to go.
    fn go_through(
        &mut self,
        index: usize,
        tag: u32,
        packet: &Packet,
        number: u32,
        passes: Option<Passes>,
    ) -> Handled {
        let registers = self.arrangement.spec.registers;
        let table = &self.arrangement.tables[index];
        let mut pass = self.memory.pass();
        let (cell, bit) = table.number(packet.worker, number);
        let noted = if passes.is_some() { bit } else { 0 };
        let seen = pass.access(NUMBERS, cell as usize, |cell| {
            let seen = held(*cell, tag);
            *cell = tagged(tag, seen | noted);
            seen & bit != 0
        });
        let passes = match passes {
            _ if seen => return Handled::at_once(Verdict::Duplicate),
            None => return Handled::at_once(Verdict::Wrong),
            Some(passes) => passes,
        };
        for (ordinal, pairs) in passes.iter().enumerate() {
            if ordinal > 0 {
                pass.recirculate();
            }
            for (home, value) in pairs {
                pass.access(register(home.register), home.cell as usize, |cell| {
                    *cell = tagged(tag, held(*cell, tag).wrapping_add(*value as u32));
                });
            }
        }
        let change = match packet.body {
            Body::End { packets } => packets,
            _ => u32::MAX, // one packet less is missing
        };
        let place = index * usize::from(MAX_WORKERS) + usize::from(packet.worker);
        let missing = pass.access(missing(registers), place, |cell| {
            *cell = tagged(tag, held(*cell, tag).wrapping_add(change));
            held(*cell, tag)
        });
        let members = u32::MAX >> (MAX_WORKERS - table.workers);
        let is_complete = missing == 0
            && pass.access(done(registers), index, |cell| {
                *cell = tagged(tag, held(*cell, tag) | 1 << packet.worker);
                held(*cell, tag) == members
            });
        let recirculations = passes.len() as u32 - 1;
        Handled { verdict: Verdict::Added, recirculations, is_complete }
    }
}

fn register(number: u32) -> ArrayId {
    ArrayId(1 + number as usize)
}

/// What workers have announced less what has come of it.
fn missing(registers: u32) -> ArrayId {
    register(registers)
}

/// Workers of whom nothing is missing.
fn done(registers: u32) -> ArrayId {
    register(registers + 1)
}

/// What a cell holds of this tag.
fn held(cell: u64, tag: u32) -> u32 {
    if (cell >> 32) as u32 == tag { cell as u32 } else { 0 }
}

fn tagged(tag: u32, value: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(value)
}

fn layout(arrangement: &Arrangement) -> Layout {
    let Arrangement { spec, tables, .. } = arrangement;
    let array = |name, stage, length| {
        let length = u32::max(length, 1);
        ArrayDeclaration { name, stage, width_bits: CELL_BITS, length }
    };
    let stages = spec.registers.div_ceil(REGISTERS_PER_STAGE);
    let workers = tables.len() as u32 * u32::from(MAX_WORKERS);
    let mut arrays = vec![array("numbers", 0, arrangement.number_cells)];
    let stage = |number| 1 + number / REGISTERS_PER_STAGE;
    let register = |number| array("register", stage(number), arrangement.cells);
    arrays.extend((0..spec.registers).map(register));
    arrays.push(array("missing", 1 + stages, workers));
    arrays.push(array("done", 2 + stages, tables.len() as u32));
    Layout {
        program: "keyed",
        values_per_packet: spec.pairs,
        arrays,
        banks: Vec::new(),
        recirculations: spec.recirculations,
        is_multicast: false,
    }
}

/// The number by which a packet is known; `None` if it has no bit.
fn number_of(table: &Arranged, packet: &Packet) -> Option<u32> {
    match packet.body {
        Body::Pairs(_) => (packet.number < table.packets).then_some(packet.number),
        Body::End { packets } => (packets <= table.packets).then_some(packets),
        Body::Acknowledgement => None,
    }
}

/// The pairs that each pass adds, by register; `None` if the packet cannot be taken.
fn passes_of(arrangement: &Arrangement, table: &Arranged, packet: &Packet) -> Option<Passes> {
    let Body::Pairs(pairs) = &packet.body else { return Some(vec![Vec::new()]) };
    let spec = &arrangement.spec;
    if pairs.len() > spec.pairs as usize {
        return None;
    }
    let mut passes = Passes::new();
    let mut before = vec![0; spec.registers as usize];
    for pair in pairs {
        let home = *table.homes.get(&pair.key)?;
        let pass = &mut before[home.register as usize];
        if *pass == passes.len() {
            passes.push(Vec::new());
        }
        passes[*pass].push((home, pair.value));
        *pass += 1;
    }
    passes.iter_mut().for_each(|pass| pass.sort_unstable());
    (passes.len() <= spec.recirculations as usize + 1).then_some(passes)
}
