//! Petersen's theorem, on random multigraphs.

use proptest::prelude::*;
use wiresum_netem::Rng;
use wiresum_schedule::petersen::split;

/// Edges between random units, as many as slots × ports allow at each.
fn full(units: usize, ports: u32, slots: usize, seed: u64) -> Vec<([usize; 2], u32)> {
    let mut rng = Rng::new(seed);
    let mut free = vec![ports as usize * slots; units];
    let mut edges = std::collections::BTreeMap::new();
    loop {
        let open: Vec<usize> = (0..units).filter(|unit| free[*unit] > 0).collect();
        if open.len() < 2 {
            return edges.into_iter().collect();
        }
        let a = open[rng.below(open.len() as u64) as usize];
        let others: Vec<usize> = open.into_iter().filter(|unit| *unit != a).collect();
        let b = others[rng.below(others.len() as u64) as usize];
        free[a] -= 1;
        free[b] -= 1;
        *edges.entry([a.min(b), a.max(b)]).or_insert(0) += 1;
    }
}

proptest! {
    #[test]
    fn circuits_of_even_ports_fit_their_slots(
        units in 2usize..12, half in 1u32..4, slots in 1usize..9, seed: u64,
    ) {
        let ports = 2 * half;
        let edges = full(units, ports, slots, seed);
        let (dealt, left) = split(units, ports, slots, &edges);
        prop_assert!(left.is_empty(), "left: {left:?}");
        let mut all = std::collections::BTreeMap::new();
        for slot in dealt {
            let mut used = vec![0; units];
            for ([a, b], count) in slot {
                used[a] += count;
                used[b] += count;
                *all.entry([a, b]).or_insert(0) += count;
            }
            prop_assert!(used.iter().all(|used| *used <= ports), "{used:?}");
        }
        prop_assert_eq!(all.into_iter().collect::<Vec<_>>(), edges);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let (dealt, left) = split(2, 2, 2, &[([0, 1], 5)]);
    assert_eq!(left, [[0, 1]]);
    assert_eq!(dealt.iter().flatten().map(|(_, count)| count).sum::<u32>(), 4);
}
