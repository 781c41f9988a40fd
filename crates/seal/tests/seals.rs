//! Sums of sealed payloads open, whoever adds them in whatever order; anything else does not, but where nothing is
//! sealed it passes.
//!
//! The seed of a failing case is kept in `seals.regressions` beside this file.

mod hostile;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use wiresum_codec::add_lanes;
use wiresum_netem::Rng;
use wiresum_seal::{Counts, Fragment, SEAL_LEN, Seal};
use wiresum_testkit::seeds::times_soak;
use wiresum_wire::{LaneType, PAGE_PAYLOAD};

const LANES: [LaneType; 4] = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];
const CASES: u64 = 300;

/// All ranks of a round.
struct Round {
    seals: Vec<Seal>,
    lanes: LaneType,
}

impl Round {
    fn new(key: u8, ranks: u32, lanes: LaneType) -> Self {
        let seals = (0..ranks).map(|rank| Seal::new([key; 16], rank, ranks, lanes)).collect();
        Self { seals, lanes }
    }

    /// What each rank sends of random values, as the codec keeps them: no sum leaves its lane.
    fn contributions(&mut self, rng: &mut Rng, fragment: Fragment, len: usize) -> Vec<Vec<u8>> {
        let (lanes, ranks) = (self.lanes, self.seals.len());
        let send = |seal: &mut Seal| {
            let mut payload = values(rng, lanes, ranks, len);
            payload.extend([0xaa; SEAL_LEN]);
            let sum = seal.seal(fragment, PRESENT, &mut payload);
            assert_eq!(sum, lanes.sum(&payload), "the check is that of what is sent");
            payload
        };
        self.seals.iter_mut().map(send).collect()
    }
}

/// What ranks with values say.
const PRESENT: Counts = Counts { took_part: 1, stood: 1, unfit: 0, zeros: 0 };

/// Random lanes of which so many can be added.
fn values(rng: &mut Rng, lanes: LaneType, ranks: usize, len: usize) -> Vec<u8> {
    let most = ((1u64 << (8 * lanes.width() - 1)) - 1) / ranks as u64;
    let number = |rng: &mut Rng| rng.below(2 * most + 1) as i64 - most as i64;
    let lane = |_| match lanes {
        LaneType::I32Le => (number(rng) as i32).to_le_bytes().to_vec(),
        LaneType::I32Be => (number(rng) as i32).to_be_bytes().to_vec(),
        LaneType::I16Le => (number(rng) as i16).to_le_bytes().to_vec(),
        LaneType::I16Be => (number(rng) as i16).to_be_bytes().to_vec(),
    };
    (0..len / lanes.width()).flat_map(lane).collect()
}

/// The sum of payloads.
fn sum<'a>(lanes: LaneType, payloads: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut payloads = payloads.into_iter();
    let mut sum = payloads.next().expect("at least one").clone();
    payloads.for_each(|payload| add_lanes(lanes, &mut sum, payload));
    sum
}

/// The sum of payloads that are added in a random order, in random groups.
fn sum_anyhow(rng: &mut Rng, lanes: LaneType, mut payloads: Vec<Vec<u8>>) -> Vec<u8> {
    while payloads.len() > 1 {
        let one = payloads.swap_remove(rng.below(payloads.len() as u64) as usize);
        let other = rng.below(payloads.len() as u64) as usize;
        add_lanes(lanes, &mut payloads[other], &one);
    }
    payloads.remove(0)
}

fn config() -> ProptestConfig {
    let beside_this_file = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        cases: times_soak(CASES) as u32,
        failure_persistence: Some(Box::new(beside_this_file)),
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sums_of_all_ranks_open_at_each_of_them(
        seed in any::<u64>(),
        ranks in 1..=128u32,
        lanes in prop::sample::select(LANES.to_vec()),
        blocks in 1..PAGE_PAYLOAD / SEAL_LEN,
        index in any::<u32>(),
        exponent in any::<i8>(),
    ) {
        let (mut rng, fragment) = (Rng::new(seed), Fragment { index, exponent });
        let mut round = Round::new(seed as u8, ranks, lanes);
        let len = blocks * SEAL_LEN;
        let sealed = round.contributions(&mut rng.clone(), fragment, len);
        let open: Vec<_> =
            (0..ranks).map(|_| values(&mut rng, lanes, ranks as usize, len)).collect();
        let result = sum_anyhow(&mut Rng::new(seed), lanes, sealed);
        for seal in &mut round.seals {
            let mut payload = result.clone();
            let counts = seal.open(fragment, &mut payload).expect("nothing was changed");
            prop_assert_eq!(counts, Counts { took_part: ranks, stood: ranks, unfit: 0, zeros: 0 });
            prop_assert!(counts.allow(ranks));
            prop_assert_eq!(&payload[..len], &sum(lanes, &open)[..]);
        }
    }

    #[test]
    fn the_same_values_are_sealed_to_the_same_bytes_and_others_say_nothing_of_them(
        seed in any::<u64>(),
        lanes in prop::sample::select(LANES.to_vec()),
    ) {
        let fragment = Fragment { index: 3, exponent: -7 };
        let send = |key: u8, fragment| {
            let mut round = Round::new(key, 2, lanes);
            round.contributions(&mut Rng::new(seed), fragment, 256)
        };
        let sent = send(1, fragment);
        prop_assert_eq!(&sent, &send(1, fragment));
        let others = [
            send(2, fragment),
            send(1, Fragment { index: 4, ..fragment }),
            send(1, Fragment { exponent: -6, ..fragment }),
        ];
        for other in others {
            // By chance one byte in 256 is the same.
            for (one, other) in sent.iter().zip(&other) {
                let alike = one.iter().zip(other).filter(|(one, other)| one == other).count();
                prop_assert!(alike < 60, "{} of {} bytes are alike", alike, one.len());
            }
        }
    }
}

#[test]
fn counts_of_some_allow_what_all_have_agreed_on() {
    let full = Counts { took_part: 4, stood: 1, unfit: 0, zeros: 2 };
    assert!(full.allow(4));
    assert!(!full.allow(3), "one more took part than was agreed");
    assert!(!Counts { unfit: 1, ..full }.allow(4), "a value does not fit");
    assert!(!Counts { stood: 0, ..full }.allow(4), "nobody stands for the exponent");
    assert!(Counts { stood: 0, zeros: 4, ..full }.allow(4), "zeros need none");
}
