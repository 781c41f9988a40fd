//! What all ranks have to pass alike to a collective.

use std::fmt;

use crate::{Collective, Kind};

/// Where the kind, the width of lanes and the root begin in a signature, above the 8 bits of the source; the root is
/// below [`MAX_ROOTS`](crate::kind::MAX_ROOTS), so that a signature is not negative.
const KIND_SHIFT: u32 = 8;
const WIDTH_SHIFT: u32 = 15;
const ROOT_SHIFT: u32 = 16;
/// Bits of a kind.
const KIND_MASK: u32 = (1 << (WIDTH_SHIFT - KIND_SHIFT)) - 1;

/// Elements and signature of a collective, as ranks tell them to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// At most 2³¹ − 1, which stands for all above.
    pub elements: i32,
    /// From the lowest bit: the source's signature (8 bits), the kind (7), whether lanes have 16 bits (1), the root (15).
    pub signature: i32,
}

impl Shape {
    pub(crate) fn of(collective: &Collective) -> Self {
        let Collective { kind, root, source, .. } = collective;
        let elements = i32::try_from(source.len()).unwrap_or(i32::MAX);
        let kind_and_root = (*kind as i32) << KIND_SHIFT | (*root as i32) << ROOT_SHIFT;
        let width = i32::from(source.lane_width() == 2) << WIDTH_SHIFT;
        Self { elements, signature: i32::from(source.signature()) | kind_and_root | width }
    }

    /// `None` if this worker does not know the kind.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        Kind::of_code(self.signature as u32 >> KIND_SHIFT & KIND_MASK)
    }

    /// Whether the lanes of values have 16 bits; otherwise they have 32.
    #[must_use]
    pub fn is_narrow(self) -> bool {
        self.signature >> WIDTH_SHIFT & 1 == 1
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
                let way = if kind.is_copy() { "from" } else { "to" };
                write!(f, "{kind} {way} rank {}", self.root())?;
            }
            Some(kind) => write!(f, "{kind}")?,
            None => write!(f, "an unknown collective")?,
        }
        if self.kind().is_some_and(Kind::is_copy) {
            return write!(f, " of {} bytes", self.elements);
        }
        let own = self.signature & 0xff;
        let bits = if self.is_narrow() { " on 16 bits" } else { "" };
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
        let narrow = Shape { signature: 3 | 1 << WIDTH_SHIFT, ..sum };
        let broadcast = Shape { signature: 255 | 4 << KIND_SHIFT | 2 << ROOT_SHIFT, ..sum };
        assert_eq!(
            describe(&[
                Some(sum),
                None,
                Some(scatter),
                Some(sum),
                Some(reduce),
                Some(broadcast),
                Some(narrow)
            ]),
            "ranks 0, 3: all_reduce of 500 elements (type, operation and codec 3); \
             rank 2: reduce_scatter of 500 elements (type, operation and codec 3); \
             rank 6: all_reduce of 500 elements on 16 bits (type, operation and codec 3); \
             rank 5: broadcast from rank 2 of 500 bytes; \
             rank 4: reduce to rank 4 of 500 elements (type, operation and codec 0)"
        );
    }
}
