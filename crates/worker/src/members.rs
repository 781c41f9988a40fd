//! Who is in a group that does not have all the workers of its plan: which rank has which seat.

use wiresum_wire::control::Absent;

/// The seats of a group's ranks, in the order of the ranks. A seat is a worker's number in the plan; to nodes and
/// packets a rank is its seat, and to whoever passes collectives a seat is its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    seats: [u8; Absent::MOST_RANKS],
    ranks: u16,
}

impl Members {
    /// Ranks with these seats; `None` if there are none, one comes twice, or one cannot be named in a hello.
    #[must_use]
    pub fn of(seats: &[u32]) -> Option<Self> {
        let mut all = [0; Absent::MOST_RANKS];
        for (rank, seat) in seats.iter().enumerate() {
            *all.get_mut(rank)? = u8::try_from(*seat).ok()?;
        }
        let is_there_twice = |(rank, seat)| seats[..rank].contains(seat);
        let is_sound = !seats.is_empty() && !seats.iter().enumerate().any(is_there_twice);
        is_sound.then_some(Self { seats: all, ranks: seats.len() as u16 })
    }

    /// The seats in order of the ranks.
    pub fn seats(&self) -> impl Iterator<Item = u32> {
        let Self { seats, ranks } = *self;
        (0..usize::from(ranks)).map(move |rank| seats[rank].into())
    }

    /// How many there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks.into()
    }

    /// The seat of a rank.
    #[must_use]
    pub fn seat_of(&self, rank: usize) -> usize {
        assert!(rank < usize::from(self.ranks), "rank {rank} of {} members", self.ranks);
        self.seats[rank].into()
    }

    /// The rank that has a seat.
    #[must_use]
    pub fn rank_of(&self, seat: usize) -> Option<usize> {
        self.seats().position(|other| other as usize == seat)
    }

    /// The seats of a job of so many workers that nobody has.
    #[must_use]
    pub fn vacant(&self, workers: usize) -> Absent {
        let is_free = |seat: &u32| self.rank_of(*seat as usize).is_none();
        Absent::of((0..workers as u32).filter(is_free)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_seats_of_their_own() {
        let members = Members::of(&[5, 0, 255]).expect("seats that can be named");
        assert_eq!(members.ranks(), 3);
        assert_eq!(members.seats().collect::<Vec<_>>(), [5, 0, 255]);
        for (rank, seat) in [(0, 5), (1, 0), (2, 255)] {
            assert_eq!((members.seat_of(rank), members.rank_of(seat)), (seat, Some(rank)));
        }
        assert_eq!(members.rank_of(1), None);
        assert_eq!(members.vacant(6).ranks().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn seats_are_refused_that_are_none_or_come_twice_or_cannot_be_named() {
        let too_many: Vec<u32> = (0..=256).collect();
        for seats in [&[][..], &[3, 1, 3], &[256], &too_many] {
            assert_eq!(Members::of(seats), None, "{seats:?}");
        }
    }
}
