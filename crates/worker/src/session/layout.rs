//! How the elements of a collective become fragments, and fragments sub-models.

use std::ops::Range;

/// Fragments of one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    elements: usize,
    per_fragment: usize,
}

impl Layout {
    /// The layout of so many elements.
    #[must_use]
    pub fn new(elements: usize, per_fragment: usize) -> Self {
        Self { elements, per_fragment }
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The fragments all of whose elements are in a range.
    #[must_use]
    pub fn within(&self, range: Range<usize>) -> Range<u32> {
        let start = range.start.div_ceil(self.per_fragment) as u32;
        let end = if range.end == self.elements {
            self.fragments()
        } else {
            (range.end / self.per_fragment) as u32
        };
        start..end.max(start)
    }

    /// Number of value fragments.
    #[must_use]
    pub fn fragments(&self) -> u32 {
        self.elements.div_ceil(self.per_fragment) as u32
    }

    /// Elements of a fragment.
    #[must_use]
    pub fn range(&self, fragment: u32) -> Range<usize> {
        let start = fragment as usize * self.per_fragment;
        start..(start + self.per_fragment).min(self.elements)
    }

    /// The fragments that each sub-model carries: consecutive ranges by share, in the order of the plan. Every rank
    /// computes the same from the same plan, as IEEE arithmetic is the same everywhere.
    #[must_use]
    pub fn split(&self, shares: &[f64]) -> Vec<Range<u32>> {
        let fragments = self.fragments();
        let mut start = 0;
        let mut sum = 0.0;
        let mut parts: Vec<_> = shares
            .iter()
            .map(|share| {
                sum += share;
                let end = ((sum * f64::from(fragments)).round() as u32).clamp(start, fragments);
                std::mem::replace(&mut start, end)..end
            })
            .collect();
        if let Some(last) = parts.last_mut() {
            // Shares add up to 1 only within rounding.
            last.end = fragments;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_fragment_is_short() {
        let layout = Layout::new(10, 4);
        assert_eq!(layout.fragments(), 3);
        assert_eq!([0, 1, 2].map(|f| layout.range(f)), [0..4, 4..8, 8..10]);
        assert_eq!(Layout::new(0, 4).fragments(), 0);
    }

    #[test]
    fn shares_cut_the_fragments_without_a_gap() {
        for elements in 0..200 {
            let layout = Layout::new(elements, 4);
            let parts = layout.split(&[0.3, 0.0, 0.6, 0.1]);
            let ends: Vec<_> = std::iter::once(0).chain(parts.iter().map(|p| p.end)).collect();
            assert!(parts.iter().zip(&ends).all(|(part, end)| part.start == *end));
            assert_eq!(ends[4], layout.fragments());
        }
        assert_eq!(Layout::new(40, 4).split(&[0.5, 0.5]), [0..5, 5..10]);
    }
}
