//! Register memory, and a packet's way through it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Layout;
use crate::{Payload, Values};

/// A register array, by its place among [`Layout::arrays`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayId(pub usize);

/// A bank of values, by its place among [`Layout::banks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankId(pub usize);

/// A rule of the pipeline that a program broke: a bug of the program.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    /// A second access to an array in one pass.
    #[error(
        "{program}: array {array} in stage {stage} is accessed twice in one pass: recirculate, or keep what was read"
    )]
    SecondAccess {
        /// The program.
        program: &'static str,
        /// The array.
        array: &'static str,
        /// Its stage.
        stage: u32,
    },
    /// An access to an array whose stage the packet has left behind.
    #[error(
        "{program}: array {array} in stage {stage} is accessed from stage {reached}: packets do not go back"
    )]
    Backwards {
        /// The program.
        program: &'static str,
        /// The array.
        array: &'static str,
        /// Its stage.
        stage: u32,
        /// The stage that the packet has reached.
        reached: u32,
    },
    /// An index beyond the end.
    #[error("{program}: index {index} of array {array} in stage {stage}, which has {length} cells")]
    OutOfRange {
        /// The program.
        program: &'static str,
        /// The array.
        array: &'static str,
        /// Its stage.
        stage: u32,
        /// The index.
        index: usize,
        /// Cells that there are.
        length: usize,
    },
    /// A value wider than its cell.
    #[error("{program}: {value:#x} does not fit a cell of array {array} in stage {stage}")]
    Overwide {
        /// The program.
        program: &'static str,
        /// The array.
        array: &'static str,
        /// Its stage.
        stage: u32,
        /// The value.
        value: u64,
    },
    /// One more pass than was declared.
    #[error("{program}: a packet recirculates more than the {declared} times that were declared")]
    Recirculation {
        /// The program.
        program: &'static str,
        /// Times declared.
        declared: u32,
    },
}

#[derive(Clone, Debug)]
struct Cells<T> {
    name: &'static str,
    stage: u32,
    /// Largest value of a cell; unused in banks.
    most: u64,
    cells: Vec<T>,
}

/// The register memory of one program on one switch.
#[derive(Clone, Debug)]
pub struct Memory<V> {
    program: &'static str,
    recirculations: u32,
    arrays: Vec<Cells<u64>>,
    banks: Vec<Cells<V>>,
}

impl<V: Payload> Memory<V> {
    /// Memory as a layout declares it, all zero.
    ///
    /// # Panics
    /// If there are more than 48 arrays or 16 banks.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let (most_arrays, most_banks) = (BANK_BIT as usize, (u64::BITS - BANK_BIT) as usize);
        assert!(layout.arrays.len() <= most_arrays && layout.banks.len() <= most_banks);
        let arrays = layout.arrays.iter().map(|array| Cells {
            name: array.name,
            stage: array.stage,
            most: u64::MAX >> (64 - array.width_bits),
            cells: vec![0; array.length as usize],
        });
        let banks = layout.banks.iter().map(|bank| Cells {
            name: bank.name,
            stage: bank.first_stage,
            most: 0,
            cells: vec![V::default(); bank.length as usize],
        });
        Self {
            program: layout.program,
            recirculations: layout.recirculations,
            arrays: arrays.collect(),
            banks: banks.collect(),
        }
    }

    /// A packet enters the pipeline.
    pub fn pass(&mut self) -> Pass<'_, V> {
        Pass { memory: self, touched: 0, reached: 0, recirculated: 0 }
    }

    /// What the arrays hold, by name, in the layout's order.
    pub fn arrays(&self) -> impl Iterator<Item = (&'static str, &[u64])> {
        self.arrays.iter().map(|array| (array.name, &array.cells[..]))
    }

    /// What an array holds.
    #[must_use]
    pub fn cells(&self, array: ArrayId) -> &[u64] {
        &self.arrays[array.0].cells
    }

    /// The control plane's slow way into an array: any cell, at any time.
    pub fn cells_mut(&mut self, array: ArrayId) -> &mut [u64] {
        &mut self.arrays[array.0].cells
    }
}

/// What memory holds, as plain data: every cell of the arrays, and the values of banks that are not empty.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemoryState {
    arrays: Vec<Vec<u64>>,
    banks: Vec<Vec<(usize, Values)>>,
}

impl Memory<Values> {
    /// All that it holds.
    #[must_use]
    pub fn state(&self) -> MemoryState {
        let held = |bank: &Cells<Values>| {
            let cells = bank.cells.iter().cloned().enumerate();
            cells.filter(|(_, values)| !values.is_empty()).collect()
        };
        MemoryState {
            arrays: self.arrays.iter().map(|array| array.cells.clone()).collect(),
            banks: self.banks.iter().map(held).collect(),
        }
    }

    /// Holds that from now on; `None` if its layout is another.
    #[must_use]
    pub fn restore(&mut self, state: MemoryState) -> Option<()> {
        let counts = (self.arrays.len(), self.banks.len());
        (counts == (state.arrays.len(), state.banks.len())).then_some(())?;
        for (array, cells) in self.arrays.iter_mut().zip(state.arrays) {
            (array.cells.len() == cells.len()).then_some(())?;
            array.cells = cells;
        }
        for (bank, held) in self.banks.iter_mut().zip(state.banks) {
            for (index, values) in held {
                *bank.cells.get_mut(index)? = values;
            }
        }
        Some(())
    }
}

/// Banks are numbered behind the arrays in the set of what was touched: as many arrays as 12 stages of four have.
const BANK_BIT: u32 = 48;

/// One packet's way through the stages.
#[derive(Debug)]
pub struct Pass<'m, V> {
    memory: &'m mut Memory<V>,
    /// Bit i: array i, or bank i − 48.
    touched: u64,
    /// Stage of the latest access.
    reached: u32,
    recirculated: u32,
}

impl<V: Payload> Pass<'_, V> {
    /// Reads and writes one cell of an array.
    ///
    /// # Panics
    /// With the [`Violation`] of [`Self::try_access`], as a program that breaks the pipeline's rules is a bug.
    #[inline]
    pub fn access<R>(
        &mut self,
        array: ArrayId,
        index: usize,
        change: impl FnOnce(&mut u64) -> R,
    ) -> R {
        self.try_access(array, index, change).unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// Reads and writes one cell of an array.
    ///
    /// # Errors
    /// The rule of the pipeline that this breaks.
    #[inline]
    pub fn try_access<R>(
        &mut self,
        array: ArrayId,
        index: usize,
        change: impl FnOnce(&mut u64) -> R,
    ) -> Result<R, Violation> {
        let Cells { name, stage, most, .. } = self.memory.arrays[array.0];
        self.enter(1 << array.0, name, stage)?;
        let program = self.memory.program;
        let cells = &mut self.memory.arrays[array.0].cells;
        let length = cells.len();
        let out_of_range = Violation::OutOfRange { program, array: name, stage, index, length };
        let cell = cells.get_mut(index).ok_or(out_of_range)?;
        let read = change(cell);
        if *cell > most {
            return Err(Violation::Overwide { program, array: name, stage, value: *cell });
        }
        Ok(read)
    }

    /// Reads and writes one fragment's values in a bank.
    ///
    /// # Panics
    /// With the [`Violation`] of [`Self::try_access_values`].
    #[inline]
    pub fn access_values<R>(
        &mut self,
        bank: BankId,
        index: usize,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        self.try_access_values(bank, index, change)
            .unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// Reads and writes one fragment's values in a bank.
    ///
    /// # Errors
    /// The rule of the pipeline that this breaks.
    #[inline]
    pub fn try_access_values<R>(
        &mut self,
        bank: BankId,
        index: usize,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, Violation> {
        let Cells { name, stage, .. } = self.memory.banks[bank.0];
        self.enter(1 << (BANK_BIT as usize + bank.0), name, stage)?;
        let program = self.memory.program;
        let cells = &mut self.memory.banks[bank.0].cells;
        let length = cells.len();
        let out_of_range = Violation::OutOfRange { program, array: name, stage, index, length };
        cells.get_mut(index).map(change).ok_or(out_of_range)
    }

    /// The packet goes through the pipeline once more.
    ///
    /// # Panics
    /// With the [`Violation`] of [`Self::try_recirculate`].
    pub fn recirculate(&mut self) {
        self.try_recirculate().unwrap_or_else(|violation| panic!("{violation}"));
    }

    /// The packet goes through the pipeline once more.
    ///
    /// # Errors
    /// [`Violation::Recirculation`] if it has done so as often as was declared.
    pub fn try_recirculate(&mut self) -> Result<(), Violation> {
        let declared = self.memory.recirculations;
        if self.recirculated == declared {
            return Err(Violation::Recirculation { program: self.memory.program, declared });
        }
        (self.touched, self.reached, self.recirculated) = (0, 0, self.recirculated + 1);
        Ok(())
    }

    #[inline]
    fn enter(&mut self, bit: u64, array: &'static str, stage: u32) -> Result<(), Violation> {
        let (program, reached) = (self.memory.program, self.reached);
        if self.touched & bit != 0 {
            return Err(Violation::SecondAccess { program, array, stage });
        }
        if stage < reached {
            return Err(Violation::Backwards { program, array, stage, reached });
        }
        self.touched |= bit;
        self.reached = stage;
        Ok(())
    }
}
