//! What all ranks have to pass alike to a collective.

use crate::Source;

/// Elements and signature, as they travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// At most 2³¹ − 1, which stands for all above.
    pub elements: i32,
    pub signature: i32,
}

impl Shape {
    pub fn of(source: &dyn Source) -> Self {
        let elements = i32::try_from(source.len()).unwrap_or(i32::MAX);
        Self { elements, signature: source.signature() }
    }
}
