//! Who gives a fragment's values and who takes its result (see `spec/givers.md`).

use crate::Contributor;
use crate::limits::{EXCHANGE_COPY, EXCHANGE_TAKER};

/// The header's byte `priority`, where servers sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exchange(pub u8);

impl Exchange {
    /// All give, and all take.
    pub const ALL: Self = Self(0);
    /// One gives, and all others take.
    pub const COPY: Self = Self(EXCHANGE_COPY);

    /// All but one give, and that one takes.
    #[must_use]
    pub fn to(taker: Contributor) -> Self {
        Self(taker.0 + 1)
    }

    /// One gives, and this one takes.
    #[must_use]
    pub fn copy_to(taker: Contributor) -> Self {
        Self(EXCHANGE_COPY | (taker.0 + 1))
    }

    /// Whether one gives, and nothing is added.
    #[must_use]
    pub fn is_copy(self) -> bool {
        self.0 & EXCHANGE_COPY != 0
    }

    /// The only taker, if there is only one.
    #[must_use]
    pub fn taker(self) -> Option<Contributor> {
        (self.0 & EXCHANGE_TAKER).checked_sub(1).map(Contributor)
    }

    /// Those of `everyone` who have to be in for a fragment to be complete, one of whom is: bit c is contributor c.
    #[must_use]
    pub fn awaited(self, everyone: u64) -> u64 {
        if self.is_copy() {
            return 0;
        }
        let taker = self.taker().and_then(|taker| 1u64.checked_shl(taker.0.into()));
        everyone & !taker.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_awaited_follows_from_the_byte() {
        assert_eq!(Exchange::ALL.awaited(0b111), 0b111);
        assert_eq!(Exchange::to(Contributor(1)).awaited(0b111), 0b101);
        assert_eq!(Exchange::to(Contributor(63)).awaited(u64::MAX), u64::MAX >> 1);
        assert_eq!(Exchange::COPY.awaited(0b111), 0);
        assert_eq!(Exchange::copy_to(Contributor(1)).awaited(0b111), 0);
        assert_eq!(
            Exchange(EXCHANGE_TAKER).awaited(u64::MAX),
            u64::MAX,
            "no contributor has this number"
        );
    }

    #[test]
    fn the_only_taker_is_named() {
        assert_eq!(Exchange::to(Contributor(5)).taker(), Some(Contributor(5)));
        assert_eq!(Exchange::ALL.taker(), None);
        assert_eq!(Exchange::COPY.taker(), None);
        for taker in [0, 5, 63].map(Contributor) {
            let copy = Exchange::copy_to(taker);
            assert_eq!((copy.0, copy.taker()), (129 + taker.0, Some(taker)));
            assert!(copy.is_copy());
        }
        assert!(Exchange::COPY.is_copy() && !Exchange::to(Contributor(0)).is_copy());
    }
}
