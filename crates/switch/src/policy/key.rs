//! What a slot knows of the fragment that it holds, in one register cell.

use wiresum_wire::FragmentId;

/// Stream and position of a fragment: the stream's number in the switch's table (from 1) in bits 32 to 47, the position below. 0 is
/// a free slot. Bits 48 to 63 belong to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

/// Bits that identify the fragment.
const IDENTITY: u64 = (1 << 48) - 1;

/// What a slot's key says to an arriving fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The slot is free.
    Free,
    /// It holds this fragment.
    Same,
    /// It holds one of the same stream that is at least a window older: by the invariant no one needs that one's slot any more.
    Finished,
    /// It holds one of the same stream that is newer.
    Newer,
    /// It holds another fragment, which someone may need.
    Other,
}

impl Key {
    /// The key of a fragment of the stream with this number.
    #[must_use]
    pub fn new(number: u16, fragment: FragmentId) -> Self {
        Self(u64::from(number) << 32 | u64::from(fragment.0))
    }

    /// What a cell holds.
    #[must_use]
    pub fn of(cell: u64) -> Self {
        Self(cell & IDENTITY)
    }

    /// As a cell holds it.
    #[must_use]
    pub fn cell(self) -> u64 {
        self.0
    }

    /// The stream's number; 0 in a free slot.
    #[must_use]
    pub fn number(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// The position.
    #[must_use]
    pub fn fragment(self) -> FragmentId {
        FragmentId(self.0 as u32)
    }

    /// What a slot with this key is to an arriving fragment of a stream with this window.
    #[must_use]
    #[inline]
    pub fn relation(self, arriving: Self, window: u32) -> Relation {
        if self == arriving {
            return Relation::Same;
        }
        if self.number() != arriving.number() {
            return if self.0 == 0 { Relation::Free } else { Relation::Other };
        }
        let ahead = arriving.fragment().since(self.fragment());
        if ahead < 0 {
            Relation::Newer
        } else if ahead as u32 >= window {
            Relation::Finished
        } else {
            Relation::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(held: u32, arriving: u32) -> Relation {
        let key = |fragment| Key::new(3, FragmentId(fragment));
        key(held).relation(key(arriving), 8)
    }

    #[test]
    fn a_slot_is_taken_over_a_window_later_and_not_before() {
        assert_eq!(relation(5, 5), Relation::Same);
        assert_eq!(relation(5, 12), Relation::Other);
        assert_eq!(relation(5, 13), Relation::Finished);
        assert_eq!(relation(5, 4), Relation::Newer);
    }

    #[test]
    fn positions_are_compared_across_the_wrap() {
        assert_eq!(relation(u32::MAX, 7), Relation::Finished);
        assert_eq!(relation(7, u32::MAX), Relation::Newer);
    }

    #[test]
    fn other_streams_fragments_stay_whatever_their_position() {
        let arriving = Key::new(2, FragmentId(1000));
        assert_eq!(Key::new(1, FragmentId(0)).relation(arriving, 8), Relation::Other);
        assert_eq!(Key::of(0).relation(arriving, 8), Relation::Free);
    }

    #[test]
    fn the_policys_bits_are_not_part_of_the_identity() {
        let key = Key::new(7, FragmentId(9));
        assert_eq!(Key::of(key.cell() | 0xabcd << 48), key);
        assert_eq!((key.number(), key.fragment()), (7, FragmentId(9)));
    }
}
