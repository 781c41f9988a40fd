//! Lane widths and the linear sum that protects them.

use crate::Flags;

/// In an exponent's lane: the fragment has a value that is not finite, or does not fit the codec. Wins every maximum.
pub const NOT_FINITE: i32 = i32::MAX;
/// In a lane of a preamble that its sender has nothing to say in. Loses every maximum.
pub const UNUSED_LANE: i32 = i32::MIN;

/// Width and byte order of the lanes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneType {
    /// 32-bit lanes, little-endian.
    I32Le,
    /// 32-bit lanes, network order.
    I32Be,
    /// 16-bit lanes, little-endian.
    I16Le,
    /// 16-bit lanes, network order.
    I16Be,
}

impl LaneType {
    /// The lane type that a packet's flags declare.
    #[must_use]
    pub fn of(flags: Flags) -> Self {
        match (flags.contains(Flags::LANES16), flags.contains(Flags::LITTLE_ENDIAN)) {
            (false, true) => Self::I32Le,
            (false, false) => Self::I32Be,
            (true, true) => Self::I16Le,
            (true, false) => Self::I16Be,
        }
    }

    /// The flags that declare this lane type.
    #[must_use]
    pub fn flags(self) -> Flags {
        match self {
            Self::I32Le => Flags::LITTLE_ENDIAN,
            Self::I32Be => Flags(0),
            Self::I16Le => Flags::LITTLE_ENDIAN.with(Flags::LANES16),
            Self::I16Be => Flags::LANES16,
        }
    }

    /// Its name in a plan.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I32Le => "int32-le",
            Self::I32Be => "int32-be",
            Self::I16Le => "int16-le",
            Self::I16Be => "int16-be",
        }
    }

    /// Bytes of one lane.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::I32Le | Self::I32Be => 4,
            Self::I16Le | Self::I16Be => 2,
        }
    }

    /// Sum of the lanes of `payload`, modulo 2^(8 × width). It is linear: the sum of a sum is the sum of the sums, so
    /// an aggregator never has to recompute it, and a worker's check of a result covers every addition on the way.
    #[must_use]
    pub fn sum(self, payload: &[u8]) -> u32 {
        let words = || payload.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
        let halves = || payload.chunks_exact(2).map(|b| [b[0], b[1]]);
        match self {
            Self::I32Le => words().fold(0, |s, b| s.wrapping_add(u32::from_le_bytes(b))),
            Self::I32Be => words().fold(0, |s, b| s.wrapping_add(u32::from_be_bytes(b))),
            Self::I16Le => halves().fold(0u16, |s, b| s.wrapping_add(u16::from_le_bytes(b))).into(),
            Self::I16Be => halves().fold(0u16, |s, b| s.wrapping_add(u16::from_be_bytes(b))).into(),
        }
    }

    /// `a + b` modulo 2^(8 × width), for sums made by [`Self::sum`].
    #[must_use]
    pub fn add_sums(self, a: u32, b: u32) -> u32 {
        let sum = a.wrapping_add(b);
        if self.width() == 2 { sum & 0xffff } else { sum }
    }
}
