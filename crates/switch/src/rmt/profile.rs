//! What a switch has.

/// Resources of one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name in reports.
    pub name: &'static str,
    /// Stages that a packet passes.
    pub stages: u32,
    /// Register arrays, each with a stateful ALU, in one stage.
    pub arrays_per_stage: u32,
    /// Bytes of register memory in one stage.
    pub sram_bytes_per_stage: u64,
    /// Widest register cell in bits, pairs included.
    pub cell_bits: u32,
    /// Most int32 values that a packet may carry to be summed.
    pub values_per_packet: u32,
    /// Most times that one packet may go through the pipeline again.
    pub recirculations: u32,
}

impl Profile {
    /// Like one pipeline of a Tofino 1: 12 stages with four stateful ALUs and 80 blocks of 16 KiB each, register cells of two 32-bit
    /// halves, and as much payload within the parser's reach as four pipelines take together (256 values, SwitchML §5).
    pub const TOFINO_1: Self = Self {
        name: "tofino-1",
        stages: 12,
        arrays_per_stage: 4,
        sram_bytes_per_stage: 80 * 16 * 1024,
        cell_bits: 64,
        values_per_packet: 256,
        recirculations: 1,
    };

    /// Everything there could be, for simulations of something other than memory.
    pub const UNLIMITED: Self = Self {
        name: "unlimited",
        stages: u32::MAX,
        arrays_per_stage: u32::MAX,
        sram_bytes_per_stage: u64::MAX,
        cell_bits: 64,
        values_per_packet: u32::MAX,
        recirculations: u32::MAX,
    };
}
