//! How the elements of a collective become fragments, and which stream carries which of these.

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
}

/// The places of a round that each stream of a role carries, of so many: consecutive ranges by share, in the order of the
/// plan. Every rank computes the same from the same plan, as IEEE arithmetic is the same everywhere.
#[must_use]
pub fn split(places: u32, shares: &[f64]) -> Vec<Range<u32>> {
    let mut start = 0;
    let mut sum = 0.0;
    let mut parts: Vec<_> = shares
        .iter()
        .map(|share| {
            sum += share;
            let end = ((sum * f64::from(places)).round() as u32).clamp(start, places);
            std::mem::replace(&mut start, end)..end
        })
        .collect();
    if let Some(last) = parts.last_mut() {
        // Shares add up to 1 only within rounding, and a stream that shares with none may have the share 0.
        last.end = places;
    }
    parts
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
    fn shares_cut_the_places_without_a_gap() {
        for places in 0..50 {
            let parts = split(places, &[0.3, 0.0, 0.6, 0.1]);
            let ends: Vec<_> = std::iter::once(0).chain(parts.iter().map(|p| p.end)).collect();
            assert!(parts.iter().zip(&ends).all(|(part, end)| part.start == *end));
            assert_eq!(ends[4], places);
        }
        assert_eq!(split(10, &[0.5, 0.5]), [0..5, 5..10]);
        assert_eq!(split(10, &[0.0])[0], 0..10, "the only stream carries all");
    }

    /// For any shares: every place has one stream, and a stream has its share to within a place.
    #[test]
    fn streams_have_their_shares_of_any_round() {
        let weights = (0..5u32.pow(4)).map(|code| [1, 5, 25, 125].map(|digit| code / digit % 5));
        for weights in weights.filter(|weights| weights.iter().any(|weight| *weight > 0)) {
            let whole: u32 = weights.iter().sum();
            let shares = weights.map(|weight| f64::from(weight) / f64::from(whole));
            for places in [0, 1, 2, 3, 7, 64, 1001] {
                let parts = split(places, &shares);
                let all: Vec<u32> = parts.iter().cloned().flatten().collect();
                assert_eq!(all, (0..places).collect::<Vec<_>>(), "{shares:?}");
                for (part, share) in parts.iter().zip(shares) {
                    let exact = share * f64::from(places);
                    assert!((f64::from(part.len() as u32) - exact).abs() <= 1.0, "{shares:?}");
                }
            }
        }
    }
}
