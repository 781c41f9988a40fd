//! Which stream the fragments of a round go through, in which order, and who gives and takes them: `spec/givers.md`.

use std::ops::Range;

use wiresum_protocol::plan::Role;
use wiresum_protocol::recovery::Duty;
use wiresum_wire::{Contributor, Exchange};

use crate::collective::Collective;
use crate::kind::{Kind, View};
use crate::session::format::Format;
use crate::session::layout::Layout;

/// A fragment at its place in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealt {
    /// Its number: in the layout of all elements, or in the share of the rank that gives it.
    pub fragment: u32,
    pub exchange: Exchange,
    /// The seat of the giver of a copy; of no meaning where values are summed.
    giver: u32,
}

impl Dealt {
    fn shared(fragment: u32) -> Self {
        Self { fragment, exchange: Exchange::ALL, giver: 0 }
    }

    fn part(fragment: u32, taker: u32) -> Self {
        Self { fragment, exchange: Exchange::to(Contributor(taker as u8)), giver: 0 }
    }

    fn copy(fragment: u32, giver: u32) -> Self {
        Self { fragment, exchange: Exchange::COPY, giver }
    }

    fn copy_to(fragment: u32, giver: u32, taker: u32) -> Self {
        Self { fragment, exchange: Exchange::copy_to(Contributor(taker as u8)), giver }
    }

    /// What the worker of a seat has to do with it.
    pub fn duty(self, seat: usize) -> Duty {
        // Where all give and take, there may be more seats than a word has bits.
        if self.exchange == Exchange::ALL {
            return Duty::Both;
        }
        let is_one_of = |all: u64| all >> seat & 1 != 0;
        match (is_one_of(self.givers()), is_one_of(self.takers())) {
            (true, true) => Duty::Both,
            (true, false) => Duty::Gives,
            (false, true) => Duty::Takes,
            (false, false) => Duty::Neither,
        }
    }

    /// The seat of the worker that gives a copy.
    pub fn giver(self) -> usize {
        self.giver as usize
    }

    /// The seat of the worker that alone takes it, if there is one.
    pub fn taker(self) -> Option<usize> {
        self.exchange.taker().map(|taker| usize::from(taker.0))
    }

    /// Those who give it: bit c is contributor c.
    pub fn givers(self) -> u64 {
        if self.exchange.is_copy() { 1 << self.giver } else { self.exchange.awaited(u64::MAX) }
    }

    /// Those who take it.
    fn takers(self) -> u64 {
        match self.exchange.taker() {
            Some(taker) => 1 << taker.0,
            None if self.exchange.is_copy() => !(1 << self.giver),
            None => u64::MAX,
        }
    }
}

/// The fragments of a round in order of their positions.
pub(crate) enum Course {
    /// As many, in the order of the elements, which all give and all take.
    Sums(u32),
    /// Sums, most of them for one rank each.
    Parts(Vec<Dealt>),
    /// Bytes, a fragment of each share in turn.
    Copies(Vec<Dealt>),
}

impl Course {
    /// The course of a collective, whose summed elements have this layout.
    pub fn of(collective: &Collective, format: &Format, layout: Layout) -> Self {
        let root = || format.seat_of(collective.root as usize) as u32;
        let seats = || -> Vec<u32> { format.seats().map(|seat| seat as u32).collect() };
        let others = || -> Vec<u32> { seats().into_iter().filter(|s| *s != root()).collect() };
        let whole = || format.copy(collective.source.len()).fragments();
        match collective.kind {
            Kind::ReduceScatter if format.has_parts() => Self::Parts(scattered(&seats(), layout)),
            Kind::Reduce if format.has_parts() => {
                Self::Parts((0..layout.fragments()).map(|f| Dealt::part(f, root())).collect())
            }
            Kind::AllGather => in_turn(&seats(), |_| whole(), Dealt::copy),
            Kind::Broadcast => in_turn(&[root()], |_| whole(), Dealt::copy),
            Kind::Gather => {
                in_turn(&others(), |_| whole(), |f, giver| Dealt::copy_to(f, giver, root()))
            }
            Kind::Scatter => {
                let part = |seat| format.part_of(collective, seat as usize).len();
                let to = |f, taker| Dealt::copy_to(f, root(), taker);
                in_turn(&others(), |seat| format.copy(part(seat)).fragments(), to)
            }
            _ => Self::Sums(layout.fragments()),
        }
    }

    /// The role of the streams that carry it.
    pub fn role(&self) -> Role {
        match self {
            Self::Sums(_) => Role::Values,
            Self::Parts(_) => Role::Parts,
            Self::Copies(_) => Role::Copies,
        }
    }

    /// Number of fragments.
    pub fn fragments(&self) -> u32 {
        match self {
            Self::Sums(fragments) => *fragments,
            Self::Parts(order) | Self::Copies(order) => order.len() as u32,
        }
    }

    /// The fragment at a place.
    pub fn at(&self, place: u32) -> Dealt {
        match self {
            Self::Sums(_) => Dealt::shared(place),
            Self::Parts(order) | Self::Copies(order) => order[place as usize],
        }
    }
}

/// Copies of one share for each of these seats: the first fragments of all, then the second, and so on.
fn in_turn(
    seats: &[u32],
    fragments: impl Fn(u32) -> u32,
    copy: impl Fn(u32, u32) -> Dealt,
) -> Course {
    let shares: Vec<(u32, u32)> = seats.iter().map(|seat| (*seat, fragments(*seat))).collect();
    let longest = shares.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let copy = &copy;
    let turn = |f| {
        let has_one = move |(_, count): &&(u32, u32)| f < *count;
        shares.iter().filter(has_one).map(move |(seat, _)| copy(f, *seat))
    };
    Course::Copies((0..longest).flat_map(turn).collect())
}

/// The fragments of a reduce-scatter: in turn one of each rank's part, then those that several parts share.
fn scattered(seats: &[u32], layout: Layout) -> Vec<Dealt> {
    let ranks = seats.len();
    let elements = layout.elements();
    let part = |rank| Kind::ReduceScatter.part(View { rank, ranks, root: 0, elements });
    let whole: Vec<Range<u32>> = (0..ranks).map(|rank| layout.within(part(rank))).collect();
    let longest = whole.iter().map(ExactSizeIterator::len).max().unwrap_or(0) as u32;
    let turn = |turn: u32| {
        let of = move |(seat, own): (&u32, &Range<u32>)| {
            let fragment = own.start + turn;
            own.contains(&fragment).then(|| Dealt::part(fragment, *seat))
        };
        seats.iter().zip(&whole).filter_map(of)
    };
    let is_shared = |fragment: &u32| !whole.iter().any(|own| own.contains(fragment));
    let shared = (0..layout.fragments()).filter(is_shared).map(Dealt::shared);
    (0..longest).flat_map(turn).chain(shared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_of_a_reduce_scatter_has_one_place_and_the_right_taker() {
        for (ranks, elements, per_fragment) in
            [(2, 10, 4), (4, 1000, 8), (3, 7, 16), (5, 801, 8), (4, 64, 8), (7, 0, 8)]
        {
            let layout = Layout::new(elements, per_fragment);
            let seats: Vec<u32> = (0..ranks as u32).collect();
            let order = scattered(&seats, layout);
            let mut seen: Vec<u32> = order.iter().map(|dealt| dealt.fragment).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..layout.fragments()).collect::<Vec<_>>());
            let shared = order.iter().filter(|dealt| dealt.exchange == Exchange::ALL).count();
            assert!(shared < ranks, "{shared} fragments of {ranks} parts are shared");
            for dealt in order.iter().filter(|dealt| dealt.exchange != Exchange::ALL) {
                let rank = dealt.taker().expect("one takes it");
                let part = Kind::ReduceScatter.part(View { rank, ranks, root: 0, elements });
                let range = layout.range(dealt.fragment);
                assert!(part.start <= range.start && range.end <= part.end);
            }
        }
    }

    #[test]
    fn one_rank_takes_a_part_and_one_gives_a_copy() {
        let duties = |dealt: Dealt| [0, 1, 2].map(|rank| dealt.duty(rank));
        assert_eq!(duties(Dealt::shared(0)), [Duty::Both; 3]);
        assert_eq!(duties(Dealt::part(0, 1)), [Duty::Gives, Duty::Takes, Duty::Gives]);
        assert_eq!(duties(Dealt::copy(0, 1)), [Duty::Takes, Duty::Gives, Duty::Takes]);
        assert_eq!(Dealt::copy(0, 5).givers(), 1 << 5);
        let between = [Duty::Neither, Duty::Gives, Duty::Takes];
        assert_eq!(duties(Dealt::copy_to(0, 1, 2)), between);
    }

    /// The seats and fragments of a course in order.
    fn order(course: &Course) -> Vec<(u32, Option<usize>, u32)> {
        let of = |place| course.at(place);
        let dealt = (0..course.fragments()).map(of);
        dealt.map(|dealt| (dealt.giver, dealt.taker(), dealt.fragment)).collect()
    }

    #[test]
    fn shares_take_turns_until_the_longest_ends() {
        let lengths = |seat| [2, 0, 1][seat as usize];
        let course = in_turn(&[0, 1, 2], lengths, |f, taker| Dealt::copy_to(f, 3, taker));
        assert_eq!(order(&course), [(3, Some(0), 0), (3, Some(2), 0), (3, Some(0), 1)]);
        let course = in_turn(&[1, 2], |_| 2, Dealt::copy);
        assert_eq!(order(&course), [(1, None, 0), (2, None, 0), (1, None, 1), (2, None, 1)]);
    }
}
