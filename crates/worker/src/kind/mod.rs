//! What collectives do. A kind is one file, and one row below; it decides who takes which of the results.

mod all_gather;
mod all_reduce;
mod barrier;
mod broadcast;
mod gather;
mod reduce;
mod reduce_scatter;
mod scatter;
mod small_all_gather;
mod small_all_reduce;
mod small_broadcast;
mod small_gather;
mod small_reduce;
mod small_reduce_scatter;
mod small_scatter;

use std::fmt;
use std::ops::Range;

/// Ranks that can be roots: their numbers travel in 15 bits.
pub const MAX_ROOTS: u32 = 1 << 15;

/// One rank's view of a collective.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// This rank.
    pub rank: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// The rank that all have named as the root.
    pub root: usize,
    /// Elements of the source.
    pub elements: usize,
}

/// What a kind decides.
struct Rules {
    /// As in `torch.distributed`.
    name: &'static str,
    /// Whether one of the ranks is the root.
    has_root: bool,
    /// Whether nothing is summed: elements are bytes.
    is_copy: bool,
    /// Whether the bytes travel in the agreement, and nothing after it.
    is_share: bool,
    /// Elements that a rank takes, of the sums, or of the copies of all shares.
    part: fn(View) -> Range<usize>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal in $module:ident;)+) => {
        /// What a collective does. Kinds differ in whether values are summed or copied, and in who takes which of the results.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind = $code,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            const fn rules(self) -> &'static Rules {
                match self {
                    $(Self::$kind => &$module::RULES,)+
                }
            }
        }
    };
}

kinds! {
    /// Every rank takes all results.
    #[default]
    AllReduce = 0 in all_reduce;
    /// The root takes all results, the others none.
    Reduce = 1 in reduce;
    /// Each rank takes the results of its own part.
    ReduceScatter = 2 in reduce_scatter;
    /// Every rank takes the bytes of all ranks, one rank's after the other's.
    AllGather = 3 in all_gather;
    /// Every rank takes the root's bytes.
    Broadcast = 4 in broadcast;
    /// Every rank waits for all; nobody passes anything.
    Barrier = 5 in barrier;
    /// Every rank takes the few bytes of all ranks, one rank's after the other's, and reduces them itself.
    SmallAllReduce = 6 in small_all_reduce;
    /// The same for the root, which alone reduces them.
    SmallReduce = 7 in small_reduce;
    /// The same for each rank's part.
    SmallReduceScatter = 8 in small_reduce_scatter;
    /// Every rank takes the few bytes of all ranks, one rank's after the other's.
    SmallAllGather = 9 in small_all_gather;
    /// The same, of which every rank keeps the root's.
    SmallBroadcast = 10 in small_broadcast;
    /// The same, of which the root keeps all.
    SmallGather = 11 in small_gather;
    /// The same, of which each rank keeps its part of the root's.
    SmallScatter = 12 in small_scatter;
    /// The root takes the bytes of all others, one rank's after the other's.
    Gather = 13 in gather;
    /// Each rank but the root takes its part of the root's bytes.
    Scatter = 14 in scatter;
}

/// All ranks' shares, one after the other. More than memory has is no number of bytes, whatever a caller says.
fn all_shares(view: View) -> Range<usize> {
    0..view.ranks.saturating_mul(view.elements)
}

/// Elements of a rank where each has as many as the others, or one fewer.
fn even_part(view: View) -> Range<usize> {
    let start = |rank: usize| (rank as u128 * view.elements as u128 / view.ranks as u128) as usize;
    start(view.rank)..start(view.rank + 1)
}

impl Kind {
    /// Its name in `torch.distributed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.rules().name
    }

    /// Whether all ranks name one of them as the root.
    #[must_use]
    pub fn has_root(self) -> bool {
        self.rules().has_root
    }

    /// Whether nothing is summed: elements are bytes.
    #[must_use]
    pub fn is_copy(self) -> bool {
        self.rules().is_copy
    }

    /// Whether the bytes travel in the agreement, and nothing after it. Such a round may end before earlier ones.
    #[must_use]
    pub fn is_share(self) -> bool {
        self.rules().is_share
    }

    /// Whether each rank gives, or takes, bytes that are its alone, so that nobody may be absent.
    #[must_use]
    pub fn needs_all(self) -> bool {
        matches!(self, Self::AllGather | Self::Gather | Self::Scatter)
    }

    /// The kind with this number, which ranks tell each other and callers say in C.
    #[must_use]
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u32 == code)
    }

    /// Elements that a rank takes, of the sums, or of the copies of all shares.
    #[must_use]
    pub fn part(self, view: View) -> Range<usize> {
        (self.rules().part)(view)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: usize = 5;

    fn parts(kind: Kind, elements: usize) -> Vec<Range<usize>> {
        let view = |rank| View { rank, ranks: RANKS, root: 2, elements };
        (0..RANKS).map(|rank| kind.part(view(rank))).collect()
    }

    #[test]
    fn a_code_names_one_kind() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(Kind::of_code(*kind as u32), Some(*kind));
            assert!(Kind::ALL[..index].iter().all(|other| other.name() != kind.name()));
        }
        assert_eq!(Kind::of_code(Kind::ALL.len() as u32), None);
    }

    #[test]
    fn every_result_is_taken_by_all_by_the_root_or_by_one() {
        for elements in 0..40 {
            assert_eq!(parts(Kind::AllReduce, elements), vec![0..elements; RANKS]);
            let of_reduce = parts(Kind::Reduce, elements);
            assert_eq!(of_reduce[2], 0..elements);
            assert_eq!(of_reduce.iter().map(Range::len).sum::<usize>(), elements);
            let scattered = parts(Kind::ReduceScatter, elements);
            let joined: Vec<usize> = scattered.iter().cloned().flatten().collect();
            assert_eq!(joined, (0..elements).collect::<Vec<_>>(), "in order of the ranks");
            assert!(scattered.iter().all(|part| part.len().abs_diff(elements / RANKS) <= 1));
            let nothing = |rank: usize, parts: &[Range<usize>]| parts[rank].is_empty();
            let of_root = parts(Kind::Scatter, elements);
            let others = |rank: usize| rank == 2 || of_root[rank] == scattered[rank];
            assert!(nothing(2, &of_root) && (0..RANKS).all(others), "it has its own part already");
            let gathered = parts(Kind::Gather, elements);
            assert_eq!(gathered[2], 0..RANKS * elements);
            assert!((0..RANKS).all(|rank| rank == 2 || nothing(rank, &gathered)));
        }
    }
}
