//! Where hot keys and the numbers of packets are in memory: the same for every program that sums pairs.

use std::collections::BTreeMap;

use thiserror::Error;
use wiresum_wire::JobId;

/// Most workers of a table: half a register cell has a bit for each.
pub const MAX_WORKERS: u8 = 32;
/// Numbers of packets that one cell has a bit for.
pub const NUMBERS_PER_CELL: u32 = 32;

/// Bytes of a cell: a tag, and 32 bits of something.
const CELL_BYTES: usize = 8;

/// What a program is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedSpec {
    /// Register arrays for sums.
    pub registers: u32,
    /// Most pairs of a packet.
    pub pairs: u32,
    /// Most times that a packet goes through the pipeline again.
    pub recirculations: u32,
}

/// A table, and which of its keys are hot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotTable {
    /// The job.
    pub job: JobId,
    /// Its number in the job.
    pub table: u16,
    /// Workers that push.
    pub workers: u8,
    /// Most packets of a worker in an iteration.
    pub packets: u32,
    /// Hot keys, the most popular one first: its place here is its position.
    pub keys: Vec<u64>,
}

/// Why a switch cannot sum a table.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyedError {
    /// No registers.
    #[error("0 registers: a program has one at least")]
    Registers,
    /// Too few or too many workers.
    #[error("table {table} of job {job}: {workers} workers, 1 to {MAX_WORKERS} are possible")]
    Workers {
        /// The job.
        job: JobId,
        /// The table.
        table: u16,
        /// Workers.
        workers: u8,
    },
    /// A key that is hot twice.
    #[error("table {table} of job {job}: key {key} is hot twice")]
    Twice {
        /// The job.
        job: JobId,
        /// The table.
        table: u16,
        /// The key.
        key: u64,
    },
    /// More cells than 32 bits count.
    #[error("table {table} of job {job}: its cells are beyond 32 bits: use fewer packets or keys")]
    Cells {
        /// The job.
        job: JobId,
        /// The table.
        table: u16,
    },
}

/// Where a key's sum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    /// The register array.
    pub register: u32,
    /// The cell of it.
    pub cell: u32,
}

/// A table in memory.
#[derive(Clone, Debug)]
pub struct Arranged {
    /// The job.
    pub job: JobId,
    /// Its number in the job.
    pub table: u16,
    /// Workers that push.
    pub workers: u8,
    /// Most packets of a worker in an iteration.
    pub packets: u32,
    /// The cell for the first numbers of worker 0.
    pub first_number: u32,
    /// Cells for the numbers of each worker.
    pub number_cells: u32,
    /// Where each hot key's sum is.
    pub homes: BTreeMap<u64, Home>,
}

/// All tables of a switch in its memory.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// What the program is built with.
    pub spec: KeyedSpec,
    /// The tables, in the order in which they were given.
    pub tables: Vec<Arranged>,
    /// Cells of each register array.
    pub cells: u32,
    /// Cells for numbers.
    pub number_cells: u32,
}

impl Arrangement {
    /// Gives each table memory behind the one before.
    ///
    /// # Errors
    /// One [`KeyedError`] per reason why not.
    pub fn of(spec: KeyedSpec, tables: &[HotTable]) -> Result<Self, KeyedError> {
        if spec.registers == 0 {
            return Err(KeyedError::Registers);
        }
        let mut all = Self { spec, tables: Vec::new(), cells: 0, number_cells: 0 };
        tables.iter().try_for_each(|table| all.add(table))?;
        Ok(all)
    }

    /// Bytes of the registers for sums and for numbers, tags included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let cells = self.spec.registers as usize * self.cells as usize + self.number_cells as usize;
        cells * CELL_BYTES
    }

    fn add(&mut self, hot: &HotTable) -> Result<(), KeyedError> {
        let &HotTable { job, table, workers, packets, .. } = hot;
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(KeyedError::Workers { job, table, workers });
        }
        let mut homes = BTreeMap::new();
        for (position, key) in (0..).zip(&hot.keys) {
            // θ_{i + mj} is in register i of m (§III-D).
            let register = position % self.spec.registers;
            let home = Home { register, cell: self.cells + position / self.spec.registers };
            if homes.insert(*key, home).is_some() {
                return Err(KeyedError::Twice { job, table, key: *key });
            }
        }
        // Packets have the numbers below `packets`, and an end that of its count.
        let number_cells = packets / NUMBERS_PER_CELL + 1;
        let arranged = Arranged {
            job,
            table,
            workers,
            packets,
            first_number: self.number_cells,
            number_cells,
            homes,
        };
        let cells = hot.keys.len().div_ceil(self.spec.registers as usize);
        let more = |have: u32, more: Option<u32>| have.checked_add(more?);
        let beyond = KeyedError::Cells { job, table };
        self.cells = more(self.cells, u32::try_from(cells).ok()).ok_or(beyond)?;
        let numbers = number_cells.checked_mul(workers.into());
        self.number_cells = more(self.number_cells, numbers).ok_or(beyond)?;
        self.tables.push(arranged);
        Ok(())
    }
}

impl Arranged {
    /// The cell and the bit for a packet's number, or for the count of an end.
    #[must_use]
    pub fn number(&self, worker: u8, number: u32) -> (u32, u32) {
        let cell = u32::from(worker) * self.number_cells + number / NUMBERS_PER_CELL;
        (self.first_number + cell, 1 << (number % NUMBERS_PER_CELL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: KeyedSpec = KeyedSpec { registers: 4, pairs: 8, recirculations: 1 };

    fn table(number: u16, keys: &[u64]) -> HotTable {
        HotTable { job: JobId(1), table: number, workers: 3, packets: 40, keys: keys.to_vec() }
    }

    #[test]
    fn tables_lie_behind_each_other() {
        let tables = [table(0, &[10, 11, 12, 13, 14]), table(1, &[14])];
        let all = Arrangement::of(SPEC, &tables).expect("room");
        assert_eq!((all.cells, all.number_cells), (3, 12));
        assert_eq!(all.bytes(), 8 * (4 * 3 + 12));
        assert_eq!(all.tables[0].homes[&14], Home { register: 0, cell: 1 });
        assert_eq!(all.tables[1].homes[&14], Home { register: 0, cell: 2 });
        assert_eq!(all.tables[0].number(2, 33), (5, 2));
        assert_eq!(all.tables[1].number(0, 40), (7, 1 << 8));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let of = |spec, table| Arrangement::of(spec, &[table]).map(|_| ());
        let (job, number) = (JobId(1), 0);
        let none = HotTable { workers: 0, ..table(0, &[]) };
        let workers = |workers| Err(KeyedError::Workers { job, table: number, workers });
        assert_eq!(of(SPEC, none), workers(0));
        assert_eq!(of(SPEC, HotTable { workers: 33, ..table(0, &[]) }), workers(33));
        let twice = KeyedError::Twice { job, table: number, key: 5 };
        assert_eq!(of(SPEC, table(0, &[5, 6, 5])), Err(twice));
        let cells = KeyedError::Cells { job, table: number };
        let long = HotTable { packets: u32::MAX, workers: 32, ..table(0, &[]) };
        assert_eq!(of(SPEC, long), Err(cells));
        let without = KeyedSpec { registers: 0, ..SPEC };
        assert_eq!(of(without, table(0, &[])), Err(KeyedError::Registers));
    }
}
