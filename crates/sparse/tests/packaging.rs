//! What every way of packing keeps, and what dealing promises, on random pushes.
//!
//! The seed of a failing case is kept in `packaging.regressions` beside this file; `cargo test -p wiresum-sparse --test
//! packaging` replays it first.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use wiresum_sparse::layout::{Layout, PACKAGINGS, Packaging, Packets};
use wiresum_testkit::seeds::times_soak;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: times_soak(500) as u32,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Default::default()
    }
}

prop_compose! {
    /// Distinct positions in any order, a layout that has them, and the most pairs of a packet.
    fn case()(
        pushed in prop::collection::btree_set(0u32..4000, 0..800).prop_map(Vec::from_iter).prop_shuffle(),
        registers in prop_oneof![1u32..8, 8u32..300],
        pairs in 1u32..40,
        shuffled in any::<Option<u64>>(),
    ) -> (Vec<u32>, Layout, u32) {
        let layout = match shuffled {
            None => Layout::by_heat(registers),
            Some(seed) => Layout::at_random(registers, 4000, seed),
        };
        (pushed, layout.unwrap(), pairs)
    }
}

fn most_of_one_register(pushed: &[u32], layout: &Layout) -> usize {
    let mut pairs = vec![0; layout.registers() as usize];
    pushed.iter().for_each(|position| pairs[layout.register(*position) as usize] += 1);
    pairs.into_iter().max().unwrap_or_default()
}

/// Algorithm 1 word for word: all packets are looked at for each pair.
fn paper(pushed: &[u32], layout: &Layout, pairs: usize) -> Vec<Vec<u32>> {
    let mut packets = vec![Vec::new(); pushed.len().div_ceil(pairs)];
    let mut left_over = Vec::new();
    for position in pushed {
        let register = layout.register(*position);
        let fits = |packet: &&mut Vec<u32>| {
            packet.len() < pairs && packet.iter().all(|other| layout.register(*other) != register)
        };
        match packets.iter_mut().find(fits) {
            Some(packet) => packet.push(*position),
            None => left_over.push(*position),
        }
    }
    packets.extend(left_over.chunks(pairs).map(<[u32]>::to_vec));
    packets.retain(|packet| !packet.is_empty());
    packets
}

fn sorted(packets: &Packets) -> Vec<u32> {
    let mut all: Vec<u32> = packets.iter().flatten().copied().collect();
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_pair_is_in_one_packet_and_none_is_too_long((pushed, layout, pairs) in case()) {
        let mut expected = pushed.clone();
        expected.sort_unstable();
        for packaging in PACKAGINGS {
            let packets = packaging.pack(&pushed, &layout, pairs).unwrap();
            prop_assert_eq!(sorted(&packets), expected.clone(), "{}", packaging.name());
            prop_assert!(packets.iter().all(|packet| (1..=pairs as usize).contains(&packet.len())));
        }
    }

    #[test]
    fn dealing_never_recirculates_and_takes_the_fewest_packets((pushed, layout, pairs) in case()) {
        let packets = Packaging::Dealing.pack(&pushed, &layout, pairs).unwrap();
        prop_assert!(packets.recirculations(&layout).into_iter().all(|count| count == 0));
        let fewest = pushed.len().div_ceil(pairs as usize).max(most_of_one_register(&pushed, &layout));
        prop_assert_eq!(packets.len(), fewest);
    }

    #[test]
    fn first_fit_is_the_papers((pushed, layout, pairs) in case()) {
        let packets = Packaging::FirstFit.pack(&pushed, &layout, pairs).unwrap();
        let expected = paper(&pushed, &layout, pairs as usize);
        prop_assert_eq!(packets.iter().map(<[u32]>::to_vec).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn recirculations_are_those_of_the_fullest_register((pushed, layout, pairs) in case()) {
        let packets = Packaging::Arrival.pack(&pushed, &layout, pairs).unwrap();
        for (packet, counted) in packets.iter().zip(packets.recirculations(&layout)) {
            prop_assert_eq!(counted as usize, most_of_one_register(packet, &layout) - 1);
        }
    }
}
