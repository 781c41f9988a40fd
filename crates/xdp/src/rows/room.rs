//! Memory for hot rows, before there is any.

use crate::HotStream;

/// Values that the program adds between two comparisons with a row's end.
pub const STRIDE: u32 = 8;
/// Numbers of packets in a word.
pub const NUMBERS_PER_WORD: u32 = 32;
/// Bytes of such a word.
pub const WORD_LEN: usize = 8;
/// Bytes before a row's lanes.
pub const ROW_LEN: usize = 16;

/// Memory of a switch that sums hot rows: it is allocated when the program is loaded, and streams come and go in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowRoom {
    /// Rows of all streams.
    pub positions: u32,
    /// Words of 32 numbers of packets, of all workers.
    pub words: u32,
    /// Values of the longest row of float32.
    pub float_values: u16,
    /// Values of the longest row of int32.
    pub int_values: u16,
}

impl RowRoom {
    /// What these streams need.
    #[must_use]
    pub fn of(streams: &[HotStream]) -> Self {
        let longest = |is_float| {
            let alike = streams.iter().filter(|stream| stream.is_float == is_float);
            alike.map(|stream| stream.dim).max().unwrap_or(0)
        };
        let words = |stream: &HotStream| words_of(stream).saturating_mul(stream.workers.into());
        let sum = |counts: &mut dyn Iterator<Item = u32>| counts.fold(0, u32::saturating_add);
        Self {
            positions: sum(&mut streams.iter().map(|stream| stream.positions)),
            words: sum(&mut streams.iter().map(words)),
            float_values: longest(true),
            int_values: longest(false),
        }
    }

    /// As many rows as fit this many bytes, of the same lengths, for streams with as many packets a row.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        let factor = bytes as f64 / self.bytes().max(1) as f64;
        let scaled = |count: u32| (f64::from(count) * factor) as u32;
        Self { positions: scaled(self.positions), words: scaled(self.words), ..self }
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.row_len() * self.positions as usize + WORD_LEN * self.words as usize
    }

    /// Bytes of a row.
    pub(super) fn row_len(&self) -> usize {
        let lanes_len = (8 * self.float_room()).max(4 * self.int_room());
        (ROW_LEN + lanes_len as usize).next_multiple_of(8)
    }

    pub(super) fn float_room(&self) -> u32 {
        u32::from(self.float_values).next_multiple_of(STRIDE)
    }

    pub(super) fn int_room(&self) -> u32 {
        u32::from(self.int_values).next_multiple_of(STRIDE)
    }
}

/// Words for the numbers of a worker's packets: every packet has a row, and each row comes once from a worker.
pub fn words_of(stream: &HotStream) -> u32 {
    stream.positions.div_ceil(NUMBERS_PER_WORD)
}
