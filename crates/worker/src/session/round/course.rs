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
    /// The seat of the only taker of a sum, or of the giver of a copy; of no meaning where all give and take.
    seat: u32,
}

impl Dealt {
    fn shared(fragment: u32) -> Self {
        Self { fragment, exchange: Exchange::ALL, seat: 0 }
    }

    fn part(fragment: u32, taker: u32) -> Self {
        Self { fragment, exchange: Exchange::to(Contributor(taker as u8)), seat: taker }
    }

    fn copy(fragment: u32, giver: u32) -> Self {
        Self { fragment, exchange: Exchange::COPY, seat: giver }
    }

    /// What the worker of a seat has to do with it.
    pub fn duty(self, seat: usize) -> Duty {
        let is_named = self.seat as usize == seat;
        match (self.exchange, is_named) {
            (Exchange::ALL, _) => Duty::Both,
            (exchange, is_giver) if exchange.is_copy() == is_giver => Duty::Gives,
            _ => Duty::Takes,
        }
    }

    /// The seat of the worker that gives a copy.
    pub fn giver(self) -> usize {
        self.seat as usize
    }

    /// Those who give it: bit c is contributor c.
    pub fn givers(self) -> u64 {
        if self.exchange.is_copy() { 1 << self.seat } else { self.exchange.awaited(u64::MAX) }
    }
}

/// The fragments of a round in order of their positions.
pub(crate) enum Course {
    /// As many, in the order of the elements, which all give and all take.
    Sums(u32),
    /// Sums, most of them for one rank each.
    Parts(Vec<Dealt>),
    /// Bytes, and the fragments of each rank's share.
    Copies { share: Layout, order: Vec<Dealt> },
}

impl Course {
    /// The course of a collective, whose summed elements have this layout.
    pub fn of(collective: &Collective, format: &Format, layout: Layout) -> Self {
        let root = || format.seat_of(collective.root as usize) as u32;
        let seats = || -> Vec<u32> { format.seats().map(|seat| seat as u32).collect() };
        match collective.kind {
            Kind::ReduceScatter if format.has_parts() => Self::Parts(scattered(&seats(), layout)),
            Kind::Reduce if format.has_parts() => {
                Self::Parts((0..layout.fragments()).map(|f| Dealt::part(f, root())).collect())
            }
            Kind::AllGather => {
                let share = Layout::new(collective.source.len(), format.copy_len);
                let seats = seats();
                let of_all = |f| seats.iter().map(move |seat| Dealt::copy(f, *seat));
                Self::Copies { share, order: (0..share.fragments()).flat_map(of_all).collect() }
            }
            Kind::Broadcast => {
                let share = Layout::new(collective.source.len(), format.copy_len);
                let order = (0..share.fragments()).map(|f| Dealt::copy(f, root())).collect();
                Self::Copies { share, order }
            }
            _ => Self::Sums(layout.fragments()),
        }
    }

    /// The role of the streams that carry it.
    pub fn role(&self) -> Role {
        match self {
            Self::Sums(_) => Role::Values,
            Self::Parts(_) => Role::Parts,
            Self::Copies { .. } => Role::Copies,
        }
    }

    /// Number of fragments.
    pub fn fragments(&self) -> u32 {
        match self {
            Self::Sums(fragments) => *fragments,
            Self::Parts(order) | Self::Copies { order, .. } => order.len() as u32,
        }
    }

    /// The fragment at a place.
    pub fn at(&self, place: u32) -> Dealt {
        match self {
            Self::Sums(_) => Dealt::shared(place),
            Self::Parts(order) | Self::Copies { order, .. } => order[place as usize],
        }
    }
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
                let rank = dealt.seat as usize;
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
    }
}
