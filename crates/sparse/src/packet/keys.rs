//! What packets of rows carry: a key by the round that they name, and by how often keys were renewed
//! (`spec/security.md`, "Renewal of sparse jobs").

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wiresum_keys::association::{GENERATION_SHIFT, RENEWAL_INTERVAL, ValueKeys};
use wiresum_keys::{Association, Keyring};
use wiresum_wire::control::KeyAge;
use wiresum_wire::{FragmentId, JobKey};

use crate::reception::MAX_PACKETS;

/// Most rounds of a generation: with as many packets as a sender can have in each, they are the positions of one.
const MOST_ROUNDS: u32 = (1 << GENERATION_SHIFT) / MAX_PACKETS;
/// Least rounds of a generation: its half is far more than participants are apart.
const LEAST_ROUNDS: u32 = 16;
/// Longest time between two renewals, in milliseconds: a key counts for two of them, an hour.
const LONGEST_MS: u64 = RENEWAL_INTERVAL.as_secs() * 1000;
/// Shortest time between two renewals, in milliseconds: hellos and their answers have come by then.
const SHORTEST_MS: u64 = 200;

/// How often the keys of a job are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// Rounds of a generation, a power of two.
    pub rounds: u32,
    /// Milliseconds from one renewal by time to the next.
    pub interval_ms: u64,
}

impl Default for Renewal {
    fn default() -> Self {
        Self { rounds: MOST_ROUNDS, interval_ms: LONGEST_MS }
    }
}

impl Renewal {
    /// Whether it is what a job has that does not say.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What is wrong with it, and what would be right.
    ///
    /// # Errors
    /// A number that is out of range.
    pub fn validate(&self) -> Result<(), String> {
        let Self { rounds, interval_ms } = *self;
        if !rounds.is_power_of_two() || !(LEAST_ROUNDS..=MOST_ROUNDS).contains(&rounds) {
            return Err(format!(
                "rounds is {rounds}: give a power of two from {LEAST_ROUNDS} to {MOST_ROUNDS}"
            ));
        }
        if !(SHORTEST_MS..=LONGEST_MS).contains(&interval_ms) {
            return Err(format!(
                "interval_ms is {interval_ms}: give {SHORTEST_MS} to {LONGEST_MS}, half an hour"
            ));
        }
        Ok(())
    }

    /// The time from one renewal to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// Log2 of the positions that a round stands for.
    #[must_use]
    pub fn round_shift(&self) -> u8 {
        (GENERATION_SHIFT - self.rounds.ilog2()) as u8
    }
}

/// The keys of a job's packets of rows at one participant; as long as it serves no incarnation, none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowKeys {
    association: Association,
    round_shift: u8,
}

impl RowKeys {
    /// The keys of an incarnation that begins.
    #[must_use]
    pub fn new(ring: &Keyring, incarnation: u64, renewal: Renewal) -> Self {
        let association = Association::new(ring, incarnation);
        Self { association, round_shift: renewal.round_shift() }
    }

    /// The key that a packet of a round is sent with.
    #[must_use]
    pub fn of(&self, round: u32) -> JobKey {
        self.association.key(self.position(round))
    }

    /// Whether a packet of a round may carry a key.
    #[must_use]
    pub fn takes(&self, round: u32, key: JobKey) -> bool {
        self.association.takes(self.position(round), key)
    }

    /// Whether a key tells that others have renewed theirs by time.
    #[must_use]
    pub fn is_next(&self, round: u32, key: JobKey) -> bool {
        self.association.is_next(self.position(round), key)
    }

    /// All keys that packets may carry, and log2 of the positions that a round stands for.
    #[must_use]
    pub fn all(&self) -> (u8, ValueKeys) {
        (self.round_shift, self.association.keys())
    }

    /// The oldest generation whose key counts, and the present renewal.
    #[must_use]
    pub fn age(&self) -> KeyAge {
        self.association.age()
    }

    /// A round is to be sent: in the second half of a generation, those before it are needed no more. Whether that is news.
    pub fn reach(&mut self, ring: &Keyring, round: u32) -> bool {
        self.association.reach(ring, self.position(round))
    }

    /// The time of the present keys is over.
    pub fn renew(&mut self, ring: &Keyring) {
        self.association.renew(ring);
    }

    /// A participant says how far its keys are renewed. Whether that is news.
    pub fn learn(&mut self, ring: &Keyring, age: KeyAge) -> bool {
        self.association.learn(ring, age)
    }

    /// The first position of a round, whose upper bits tell its generation from its neighbours.
    fn position(&self, round: u32) -> FragmentId {
        FragmentId(round << self.round_shift)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wiresum_keys::Secret;

    use super::*;

    const SHORT: Renewal = Renewal { rounds: LEAST_ROUNDS, interval_ms: SHORTEST_MS };

    fn ring() -> Keyring {
        Keyring::whole(Secret::from_bytes(b"of a test"))
    }

    /// The keys of a worker that has sent every round up to one.
    fn grown(renewal: Renewal, round: u32) -> RowKeys {
        let mut keys = RowKeys::new(&ring(), 1, renewal);
        for round in 1..=round {
            keys.reach(&ring(), round);
        }
        keys
    }

    #[test]
    fn a_generation_has_as_many_positions_as_one_of_a_stream() {
        let renewal = Renewal::default();
        assert_eq!(renewal.rounds, 1024);
        assert_eq!(1u32 << renewal.round_shift(), MAX_PACKETS);
        assert_eq!(renewal.interval(), RENEWAL_INTERVAL);
        assert_eq!(1 << GENERATION_SHIFT >> SHORT.round_shift(), SHORT.rounds);
    }

    #[test]
    fn each_generation_has_a_key_and_neighbours_in_rounds_have_the_same() {
        let (mut keys, mut ahead, mut behind) = (BTreeSet::new(), grown(SHORT, 0), grown(SHORT, 0));
        for round in 0..20 * SHORT.rounds {
            ahead.reach(&ring(), round + 2);
            behind.reach(&ring(), round);
            assert_eq!(ahead.of(round), behind.of(round), "round {round}");
            assert!(behind.takes(round + 2, ahead.of(round + 2)), "round {round}");
            keys.insert(behind.of(round).0);
        }
        assert_eq!(keys.len(), 20);
    }

    #[test]
    fn the_key_of_a_generation_is_void_in_the_middle_of_the_next_one() {
        for generation in 0..6 {
            let first = generation * SHORT.rounds;
            let key = grown(SHORT, first).of(first);
            let over = first + SHORT.rounds + SHORT.rounds / 2;
            assert!(grown(SHORT, over - 1).takes(first, key), "generation {generation}");
            assert!(!grown(SHORT, over).takes(first, key), "generation {generation}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        assert_eq!(SHORT.validate(), Ok(()));
        assert_eq!(Renewal::default().validate(), Ok(()));
        for rounds in [0, 8, 24, 2048] {
            let problem = Renewal { rounds, ..SHORT }.validate().expect_err("no such rounds");
            assert!(problem.contains(&format!("rounds is {rounds}")), "{problem}");
        }
        for interval_ms in [0, 199, 1_800_001] {
            let problem = Renewal { interval_ms, ..SHORT }.validate().expect_err("no such time");
            assert!(problem.contains(&format!("interval_ms is {interval_ms}")), "{problem}");
        }
    }
}
