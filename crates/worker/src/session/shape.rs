//! What all ranks have to pass alike to a collective.

use std::fmt;

use crate::{Collective, Kind};

/// Where the kind, the width of numbers and the root begin in a signature, above the 8 bits of the source; the root is
/// below [`MAX_ROOTS`](crate::kind::MAX_ROOTS), so that a signature is not negative.
const KIND_SHIFT: u32 = 8;
const WIDTH_SHIFT: u32 = 14;
const ROOT_SHIFT: u32 = 16;
/// Bits of a kind.
const KIND_MASK: u32 = (1 << (WIDTH_SHIFT - KIND_SHIFT)) - 1;
/// Values of the width: numbers of 32 bits have 0.
const PACKED: i32 = 1;
const NARROW: i32 = 2;

/// Elements and signature of a collective, as ranks tell them to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// At most 2³¹ − 1, which stands for all above.
    pub elements: i32,
    /// From the lowest bit: the source's signature (8 bits), the kind (6), the width of numbers (2), the root (15).
    pub signature: i32,
}

impl Shape {
    pub(crate) fn of(collective: &Collective) -> Self {
        let Collective { kind, root, source, .. } = collective;
        let elements = i32::try_from(source.len()).unwrap_or(i32::MAX);
        let kind_and_root = (*kind as i32) << KIND_SHIFT | (*root as i32) << ROOT_SHIFT;
        let width = match source.width() {
            1 => PACKED,
            2 => NARROW,
            _ => 0,
        };
        let signature = i32::from(source.signature()) | kind_and_root | width << WIDTH_SHIFT;
        Self { elements, signature }
    }

    /// `None` if this worker does not know the kind.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        Kind::of_code(self.signature as u32 >> KIND_SHIFT & KIND_MASK)
    }

    /// Bytes of a number: 1 where several share a lane, 2 or 4 where it has one of its own.
    #[must_use]
    pub fn width(self) -> usize {
        match self.signature >> WIDTH_SHIFT & (PACKED | NARROW) {
            0 => 4,
            PACKED => 1,
            _ => 2,
        }
    }

    /// The root; 0 where the kind has none.
    #[must_use]
    pub fn root(self) -> i32 {
        self.signature >> ROOT_SHIFT
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) if kind.has_root() => {
                let is_to = !kind.is_copy() || matches!(kind, Kind::Gather | Kind::SmallGather);
                let way = if is_to { "to" } else { "from" };
                write!(f, "{kind} {way} rank {}", self.root())?;
            }
            Some(kind) => write!(f, "{kind}")?,
            None => write!(f, "an unknown collective")?,
        }
        if self.kind().is_some_and(Kind::is_copy) {
            return write!(f, " of {} bytes", self.elements);
        }
        let own = self.signature & 0xff;
        let bits = match self.width() {
            1 => " on 8 bits",
            2 => " on 16 bits",
            _ => "",
        };
        write!(f, " of {} elements{bits} (type, operation and codec {own})", self.elements)
    }
}

/// Who has passed what, by rank, for people. A rank that took part with nothing is left out.
pub(super) fn describe(shapes: &[Option<Shape>]) -> String {
    let mut distinct: Vec<Shape> = shapes.iter().copied().flatten().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let of = |shape: &Shape| {
        let ranks = shapes.iter().enumerate().filter(|(_, other)| **other == Some(*shape));
        let ranks: Vec<String> = ranks.map(|(rank, _)| rank.to_string()).collect();
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {}: {shape}", ranks.join(", "))
    };
    distinct.iter().map(of).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_passed_what_is_told_by_shape() {
        let sum = Shape { elements: 500, signature: 3 };
        let scatter = Shape { signature: 3 | 2 << KIND_SHIFT, ..sum };
        let reduce = Shape { signature: 1 << KIND_SHIFT | 4 << ROOT_SHIFT, ..sum };
        let narrow = Shape { signature: 3 | NARROW << WIDTH_SHIFT, ..sum };
        let packed = Shape { signature: 3 | PACKED << WIDTH_SHIFT, ..sum };
        let gather = Shape { signature: 255 | 13 << KIND_SHIFT | 1 << ROOT_SHIFT, ..sum };
        let broadcast = Shape { signature: 255 | 4 << KIND_SHIFT | 2 << ROOT_SHIFT, ..sum };
        assert_eq!(
            describe(&[
                Some(sum),
                None,
                Some(scatter),
                Some(sum),
                Some(reduce),
                Some(broadcast),
                Some(narrow),
                Some(packed),
                Some(gather)
            ]),
            "ranks 0, 3: all_reduce of 500 elements (type, operation and codec 3); \
             rank 2: reduce_scatter of 500 elements (type, operation and codec 3); \
             rank 7: all_reduce of 500 elements on 8 bits (type, operation and codec 3); \
             rank 6: all_reduce of 500 elements on 16 bits (type, operation and codec 3); \
             rank 8: gather to rank 1 of 500 bytes; \
             rank 5: broadcast from rank 2 of 500 bytes; \
             rank 4: reduce to rank 4 of 500 elements (type, operation and codec 0)"
        );
    }
}
