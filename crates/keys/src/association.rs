//! The keys that the values of one stream, or the rows of a sparse job, carry: others for each generation of 2³⁰ positions,
//! and from each renewal by time on (`spec/security.md`, "Renewal").

use std::time::Duration;

use wiresum_wire::control::KeyAge;
use wiresum_wire::{FragmentId, JobKey};

use crate::Keyring;

/// Log2 of the positions of a generation: the upper two bits of a position tell its generation from its neighbours.
pub const GENERATION_SHIFT: u32 = 30;
/// Generations whose keys are at hand.
pub const GENERATIONS: usize = 4;
/// Renewals by time whose keys are at hand: the present one, the next and the last.
pub const RENEWALS: usize = 3;
/// Workers renew keys after this time. Participants are at most one renewal apart, so a key counts for two of these times
/// after its first use.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// How far the clock of a job's rank 0 may be ahead of a node's, in microseconds: more than machines without NTP drift
/// apart in a month, and no longer than one would wait for a job that has to begin anew. An incarnation is the time at
/// rank 0; as the newest wins, one of a clock that is ahead would lock the job out until that time has come.
pub const CLOCK_MARGIN_US: u64 = 300_000_000;

/// Whoever has the keys of a job. They are asked for where keys change, and not for each packet.
pub trait KeySource {
    /// The keys.
    fn keyring(&self) -> Keyring;
}

impl KeySource for Keyring {
    fn keyring(&self) -> Keyring {
        self.clone()
    }
}

/// What the values of a stream may carry: by renewal (present, next, last) and by the upper two bits of a position.
pub type ValueKeys = [[JobKey; GENERATIONS]; RENEWALS];

/// The keys of a stream at one participant: of the oldest generation that is still needed, and of those after it, as they
/// are now, and as they are next and were last for those who are ahead or behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Association {
    incarnation: u64,
    age: KeyAge,
    keys: ValueKeys,
}

impl Association {
    /// The keys of a stream that begins.
    #[must_use]
    pub fn new(source: &impl KeySource, incarnation: u64) -> Self {
        let mut association = Self { incarnation, ..Self::default() };
        association.derive(source);
        association
    }

    /// As [`Self::new`], of a stream that begins at a position.
    #[must_use]
    pub fn starting_at(source: &impl KeySource, incarnation: u64, first: FragmentId) -> Self {
        let mut association = Self::new(source, incarnation);
        association.reach(source, first);
        association
    }

    /// The key that the values at a position are sent with.
    #[must_use]
    pub fn key(&self, position: FragmentId) -> JobKey {
        self.keys[0][column(position)]
    }

    /// Whether the values at a position may carry a key.
    #[must_use]
    pub fn takes(&self, position: FragmentId, key: JobKey) -> bool {
        self.keys.iter().any(|keys| keys[column(position)] == key)
    }

    /// Whether a key tells that others have renewed theirs by time.
    #[must_use]
    pub fn is_next(&self, position: FragmentId, key: JobKey) -> bool {
        self.keys[0][column(position)] != key && self.keys[1][column(position)] == key
    }

    /// All keys that values may carry.
    #[must_use]
    pub fn keys(&self) -> ValueKeys {
        self.keys
    }

    /// The oldest generation whose key counts, and the present renewal.
    #[must_use]
    pub fn age(&self) -> KeyAge {
        self.age
    }

    /// The oldest generation whose key counts.
    #[must_use]
    pub fn oldest(&self) -> u32 {
        self.age.generation
    }

    /// A position is to be sent, less than 2³² from the oldest generation on: in the second half of a generation, those
    /// before it are needed no more. Whether that is news.
    pub fn reach(&mut self, source: &impl KeySource, position: FragmentId) -> bool {
        let start = u64::from(self.age.generation) << GENERATION_SHIFT;
        let reached = start + u64::from(position.0.wrapping_sub(start as u32));
        let half = 1 << (GENERATION_SHIFT - 1);
        let generation = (reached.saturating_sub(half) >> GENERATION_SHIFT) as u32;
        self.learn(source, KeyAge { generation, ..self.age })
    }

    /// The time of the present keys is over.
    pub fn renew(&mut self, source: &impl KeySource) {
        let renewal = self.age.renewal.saturating_add(1);
        self.learn(source, KeyAge { renewal, ..self.age });
    }

    /// A participant needs no generation before this one, so that nobody does, and knows of this renewal. Whether either
    /// is news.
    pub fn learn(&mut self, source: &impl KeySource, age: KeyAge) -> bool {
        let is_news = !self.age.covers(age);
        if is_news {
            self.age = self.age.max(age);
            self.derive(source);
        }
        is_news
    }

    /// Makes the keys of this age: a few microseconds each.
    fn derive(&mut self, source: &impl KeySource) {
        let keys = source.keyring();
        let KeyAge { generation: oldest, renewal } = self.age;
        let renewals = [renewal, renewal.saturating_add(1), renewal.saturating_sub(1)];
        for generation in oldest..oldest.saturating_add(GENERATIONS as u32) {
            for (of_renewal, renewal) in self.keys.iter_mut().zip(renewals) {
                let key = keys.values(self.incarnation, generation, renewal);
                of_renewal[generation as usize % GENERATIONS] = key;
            }
        }
    }
}

/// Which of the keys of a renewal is a position's.
fn column(position: FragmentId) -> usize {
    (position.0 >> GENERATION_SHIFT) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Secret;

    const GENERATION: u64 = 1 << GENERATION_SHIFT;
    const HALF: u64 = GENERATION / 2;
    /// Far more than two slot counts, by which participants may be apart.
    const APART: u64 = 1 << 28;

    fn ring() -> Keyring {
        Keyring::whole(Secret::from_bytes(b"of a test"))
    }

    fn at(position: u64) -> FragmentId {
        FragmentId(position as u32)
    }

    /// An association whose participant has sent everything up to a position.
    fn grown(ring: &Keyring, position: u64) -> Association {
        let mut association = Association::new(ring, 1);
        for step in 0..=position / HALF {
            association.reach(ring, at(step * HALF));
        }
        association.reach(ring, at(position));
        association
    }

    #[test]
    fn participants_that_are_apart_have_the_same_keys() {
        let ring = ring();
        for boundary in (1..12).map(|half| half * HALF) {
            for lag in [0, 1, APART] {
                let (ahead, behind) = (boundary + 1, boundary + 1 - lag);
                let (first, last) = (grown(&ring, ahead), grown(&ring, behind));
                for position in [ahead, behind] {
                    assert_eq!(first.key(at(position)), last.key(at(position)), "{position}");
                }
            }
        }
    }

    #[test]
    fn no_key_is_used_for_two_generations_and_old_ones_are_void() {
        let ring = ring();
        let mut keys = BTreeSet::new();
        for generation in 0..20 {
            let position = generation * GENERATION;
            let key = grown(&ring, position).key(at(position));
            assert!(keys.insert(key), "generation {generation}");
            // What can be taken for news is 2³¹ positions ahead at most, that is behind: the same number in another age.
            for later in [2 * GENERATION - 1, 2 * GENERATION, 3 * GENERATION, 4 * GENERATION] {
                let now = grown(&ring, position + later);
                assert_ne!(now.key(at(position)), key, "{later} positions after {position}");
            }
        }
    }

    #[test]
    fn who_comes_back_learns_from_one_number_what_counts() {
        let ring = ring();
        for position in [0, HALF, 3 * GENERATION - 1, 5 * GENERATION + HALF, 100 * GENERATION] {
            let (there, mut back) = (grown(&ring, position), Association::new(&ring, 1));
            back.learn(&ring, there.age());
            assert_eq!(back, there);
            assert!(!back.learn(&ring, KeyAge::default()), "nothing is taken back");
            assert_eq!(back, there);
        }
    }
}
