//! The sums of hot rows where they lie, in memory that is shared with the program.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapCore;

use super::layout::{HotRow, ROW_LEN};
use super::progress::shared;
use crate::XdpError;
use crate::kernel::Kernel;
use crate::memory::Memory;

/// All rows of all streams.
pub struct Rows {
    memory: Memory,
    /// Bytes from one row to the next.
    row_len: usize,
}

impl Rows {
    /// Those of a loaded program.
    pub fn of(kernel: &Kernel) -> Result<Self, XdpError> {
        let map = kernel.map("hot_rows");
        let (row_len, count) =
            (map.value_size().next_multiple_of(8) as usize, map.max_entries() as usize);
        let memory = shared(kernel, "hot_rows", row_len * count)?;
        Ok(Self { memory, row_len })
    }

    /// Says whether a position has a row.
    pub fn set_in_map(&self, row: u32, is_in_map: bool) {
        self.word(row, std::mem::offset_of!(HotRow, is_in_map))
            .store(is_in_map.into(), Ordering::Relaxed);
    }

    /// Contributors of a row as a bitmap; 0 if the row is not of this generation.
    pub fn contributors(&self, row: u32, generation: u32) -> u64 {
        let held = self.word(row, std::mem::offset_of!(HotRow, generation)).load(Ordering::Relaxed);
        let at = row as usize * self.row_len + std::mem::offset_of!(HotRow, contributors);
        if held == generation { self.wide(at).load(Ordering::Relaxed) } else { 0 }
    }

    /// Lane number `index` of a row: 64 bits wide, or 32.
    pub fn lane(&self, row: u32, index: usize, is_wide: bool) -> i64 {
        if is_wide {
            self.wide(row as usize * self.row_len + ROW_LEN + 8 * index).load(Ordering::Relaxed)
                as i64
        } else {
            i64::from(self.word(row, ROW_LEN + 4 * index).load(Ordering::Relaxed) as i32)
        }
    }

    fn wide(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the place is aligned and within the mapping, which lives as long as `self`.
        unsafe { self.memory.place::<AtomicU64>(at).as_ref() }
    }

    fn word(&self, row: u32, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.memory.place::<AtomicU32>(row as usize * self.row_len + offset).as_ref() }
    }
}
