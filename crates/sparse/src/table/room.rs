//! Which place in memory each row has.

use super::{Part, RowIds};
use crate::sum::{Index, MAX_BATCH};

/// Places of rows.
#[derive(Clone, Debug)]
pub(super) enum Room {
    /// A row's place is its key less where the range begins.
    Range(Range),
    /// A row's place is its number in an index.
    Hashed(Hashed),
}

#[derive(Clone, Debug)]
pub(super) struct Range {
    begin: u64,
    /// A bit for each row that was changed.
    present: Vec<u64>,
    count: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Hashed {
    index: Index,
    most: usize,
}

impl Room {
    pub(super) fn new(rows: &RowIds, part: &Part) -> Self {
        let most = part.rows as usize;
        match rows {
            RowIds::Counted(_) => {
                let present = vec![0; most.div_ceil(64)];
                Self::Range(Range { begin: part.begin, present, count: 0 })
            }
            RowIds::Hashed(_) => Self::Hashed(Hashed { index: Index::with_capacity(most), most }),
        }
    }

    pub(super) fn bytes_for(rows: &RowIds, part: &Part) -> u64 {
        match rows {
            RowIds::Counted(_) => part.rows.div_ceil(64) * 8,
            RowIds::Hashed(_) => Index::bytes_for(part.rows as usize) as u64,
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Range(range) => range.count,
            Self::Hashed(hashed) => hashed.index.len() as u64,
        }
    }

    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<usize> {
        match self {
            Self::Range(range) => {
                let place = (key - range.begin) as usize;
                (range.present[place / 64] >> (place % 64) & 1 == 1).then_some(place)
            }
            Self::Hashed(hashed) => hashed.index.get(key),
        }
    }

    /// The places of several rows, [`MAX_BATCH`] at most.
    #[inline]
    pub(super) fn get_all(&self, keys: &[u64]) -> [Option<usize>; MAX_BATCH] {
        let mut places = [None; MAX_BATCH];
        match self {
            Self::Range(_) => {
                places.iter_mut().zip(keys).for_each(|(place, key)| *place = self.get(*key));
            }
            Self::Hashed(hashed) => {
                let found = hashed.index.get_all(keys);
                places.iter_mut().zip(found).for_each(|(place, found)| *place = found);
            }
        }
        places
    }

    /// A row's place, and whether it is new.
    #[inline]
    pub(super) fn get_or_add(&mut self, key: u64) -> (usize, bool) {
        match self {
            Self::Range(range) => {
                let place = (key - range.begin) as usize;
                let (word, bit) = (&mut range.present[place / 64], 1 << (place % 64));
                let is_new = *word & bit == 0;
                *word |= bit;
                range.count += u64::from(is_new);
                (place, is_new)
            }
            Self::Hashed(hashed) => {
                let before = hashed.index.len();
                let place = hashed.index.get_or_add(key);
                (place, hashed.index.len() > before)
            }
        }
    }

    /// Whether there is room for those of the rows that have none yet, each of which is named once.
    pub(super) fn has_for(&self, keys: &[u64]) -> bool {
        match self {
            Self::Range(_) => true,
            Self::Hashed(hashed) if hashed.index.len() + keys.len() <= hashed.most => true,
            Self::Hashed(hashed) => {
                let new = keys.iter().filter(|key| hashed.index.get(**key).is_none()).count();
                hashed.index.len() + new <= hashed.most
            }
        }
    }

    /// Forgets a row of an index: its place, the last place, and the row of the latter, which moves, if it is another.
    pub(super) fn remove(&mut self, key: u64) -> (usize, usize, Option<u64>) {
        let Self::Hashed(hashed) = self else { unreachable!("a range keeps its places") };
        let place = hashed.index.get(key).expect("what is removed is there");
        hashed.index.swap_remove(place);
        (place, hashed.index.len(), hashed.index.keys().get(place).copied())
    }

    /// The first row at this place or behind it, with its place.
    pub(super) fn at_or_after(&self, part: &Part, place: usize) -> Option<(u64, usize)> {
        match self {
            Self::Range(range) => {
                let is_present = |place: &usize| range.present[place / 64] >> (place % 64) & 1 == 1;
                let found = (place..part.rows as usize).find(is_present)?;
                Some((part.begin + found as u64, found))
            }
            Self::Hashed(hashed) => Some((*hashed.index.keys().get(place)?, place)),
        }
    }

    /// Rows with their places.
    pub(super) fn rows(&self, part: &Part) -> Box<dyn Iterator<Item = (u64, usize)> + '_> {
        let begin = part.begin;
        match self {
            Self::Range(range) => {
                let is_present = |place: &usize| range.present[place / 64] >> (place % 64) & 1 == 1;
                let places = (0..part.rows as usize).filter(is_present);
                Box::new(places.map(move |place| (begin + place as u64, place)))
            }
            Self::Hashed(hashed) => {
                Box::new(hashed.index.keys().iter().copied().enumerate().map(|(at, key)| (key, at)))
            }
        }
    }
}
