//! Everything that an aggregator can do to a sum, 10⁵ times each. Nothing opens but the values and counts that were sent;
//! where nothing is sealed, other values are taken as well.

use wiresum_codec::add_lanes;
use wiresum_netem::Rng;
use wiresum_seal::{Fragment, SEAL_LEN};
use wiresum_testkit::seeds::{Replay, seed_or};
use wiresum_wire::LaneType;

use crate::{Round, sum};

const TRIES: usize = 100_000;
/// Tries with the same contributions.
const TRIES_PER_ROUND: usize = 100;
const RANKS: u32 = 4;
/// Bytes of values.
const LEN: usize = 64;
/// The fragment whose sum is asked for.
const FRAGMENT: Fragment = Fragment { index: 5, exponent: 0 };

/// What an aggregator has in its hands.
struct Hands {
    lanes: LaneType,
    /// Contributions to the fragment that is asked for.
    now: Vec<Vec<u8>>,
    /// To the fragment after it.
    next: Vec<Vec<u8>>,
    /// To the same fragment of another round.
    elsewhere: Vec<Vec<u8>>,
    /// To the same fragment, by ranks that were told another exponent.
    rescaled: Vec<Vec<u8>>,
}

impl Hands {
    fn new(rng: &mut Rng, lanes: LaneType) -> Self {
        let mut contributions =
            |key: u8, fragment| Round::new(key, RANKS, lanes).contributions(rng, fragment, LEN);
        Self {
            lanes,
            now: contributions(1, FRAGMENT),
            next: contributions(1, Fragment { index: 6, ..FRAGMENT }),
            elsewhere: contributions(2, FRAGMENT),
            rescaled: contributions(1, Fragment { exponent: 1, ..FRAGMENT }),
        }
    }

    fn sum(&self) -> Vec<u8> {
        sum(self.lanes, &self.now)
    }

    /// The sum with one lane of a part of it changed by what is no multiple of its modulus.
    fn with_lane(&self, rng: &mut Rng, part: std::ops::Range<usize>) -> Vec<u8> {
        let width = self.lanes.width();
        let at = part.start + width * rng.below((part.len() / width) as u64) as usize;
        let mut sum = self.sum();
        // The difference most likely to pass is that of the uppermost bit alone.
        let upper =
            usize::from(matches!(self.lanes, LaneType::I32Le | LaneType::I16Le)) * (width - 1);
        match rng.below(2) {
            0 => sum[at + upper] ^= 0x80,
            _ => sum[at + rng.below(width as u64) as usize] ^= 1 + rng.below(255) as u8,
        }
        sum
    }
}

type Attack = fn(&Hands, &mut Rng) -> Vec<u8>;

const ATTACKS: [(&str, Attack); 11] = [
    ("alters a value", |hands, rng| hands.with_lane(rng, 0..LEN)),
    ("alters a count", |hands, rng| hands.with_lane(rng, LEN..LEN + SEAL_LEN / 2)),
    ("alters the tag", |hands, rng| hands.with_lane(rng, LEN + SEAL_LEN / 2..LEN + SEAL_LEN)),
    ("drops a contribution", |hands, rng| {
        let dropped = rng.below(RANKS.into()) as usize;
        let kept = hands.now.iter().enumerate().filter(|(rank, _)| *rank != dropped);
        sum(hands.lanes, kept.map(|(_, payload)| payload))
    }),
    ("drops all but one", |hands, rng| hands.now[rng.below(RANKS.into()) as usize].clone()),
    ("doubles a contribution", |hands, rng| {
        let doubled = &hands.now[rng.below(RANKS.into()) as usize];
        sum(hands.lanes, hands.now.iter().chain([doubled]))
    }),
    ("swaps two lanes", |hands, rng| {
        let (mut sum, width) = (hands.sum(), hands.lanes.width());
        let one = rng.below((LEN / width - 1) as u64) as usize;
        let other = one + 1 + rng.below((LEN / width - 1 - one) as u64) as usize;
        (0..width).for_each(|byte| sum.swap(width * one + byte, width * other + byte));
        sum
    }),
    ("takes a contribution to another fragment", |hands, rng| {
        let mut mixed = hands.now.clone();
        let rank = rng.below(RANKS.into()) as usize;
        mixed[rank] = hands.next[rank].clone();
        sum(hands.lanes, &mixed)
    }),
    ("gives the sum of another fragment", |hands, _| sum(hands.lanes, &hands.next)),
    ("gives the sum of another round", |hands, _| sum(hands.lanes, &hands.elsewhere)),
    ("tells some ranks another exponent", |hands, rng| {
        let mut mixed = hands.now.clone();
        let rank = rng.below(RANKS.into()) as usize;
        mixed[rank] = hands.rescaled[rank].clone();
        sum(hands.lanes, &mixed)
    }),
];

#[test]
fn nothing_but_the_sum_opens() {
    let seed = seed_or(1);
    let _replay = Replay { test: "-p wiresum-seal --test seals nothing_but", seed };
    let mut rng = Rng::new(seed);
    for lanes in [LaneType::I32Le, LaneType::I16Be] {
        for (name, attack) in ATTACKS {
            for round in 0..TRIES / TRIES_PER_ROUND {
                let hands = Hands::new(&mut rng, lanes);
                let mut seals = Round::new(1, RANKS, lanes).seals;
                let seal = &mut seals[round % RANKS as usize];
                let mut honest = hands.sum();
                assert!(seal.open(FRAGMENT, &mut honest).is_some());
                for _ in 0..TRIES_PER_ROUND {
                    let mut forged = attack(&hands, &mut rng);
                    // The last piece of a tag has bits beyond 2⁶⁴, which nobody needs.
                    let is_found = seal.open(FRAGMENT, &mut forged).is_none()
                        || forged[..LEN + SEAL_LEN / 2] == honest[..LEN + SEAL_LEN / 2];
                    assert!(is_found, "{name}, {lanes:?}: not noticed");
                }
            }
        }
    }
}

/// Whoever knows the values but no key adds what it likes: without seals the sum has it, with seals it does not open.
#[test]
fn a_sum_that_is_not_sealed_takes_what_is_added() {
    let mut rng = Rng::new(seed_or(2));
    let lanes = LaneType::I32Le;
    let open: Vec<_> = (0..RANKS).map(|_| crate::values(&mut rng, lanes, 4, LEN)).collect();
    let mut forged = sum(lanes, &open);
    let (honest, mut wish) = (forged.clone(), vec![0; LEN]);
    wish[8] = 100;
    add_lanes(lanes, &mut forged, &wish);
    assert_ne!(forged, honest);
    assert_eq!(
        lanes.sum(&forged),
        lanes.add_sums(lanes.sum(&honest), 100),
        "the check goes with it"
    );
}
