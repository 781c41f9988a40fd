//! Who gets what: exact examples, and random demands against the definition of max-min fairness.

use super::*;
use crate::rng::Rng;

/// Random demands that each property is tried on.
const CASES: u64 = 4000;

fn tree(caps: &[u64], fan_in: u64, has_parent: bool, granted: Option<u64>) -> Demands {
    Demands { caps: caps.to_vec(), fan_in, has_parent, is_blocked: false, granted }
}

fn bounds(ingress: u64, egress: u64, results: Results) -> Bounds {
    Bounds { ingress_bps: Some(ingress), egress_bps: Some(egress), results }
}

#[test]
fn children_share_what_arrives_and_a_slow_one_leaves_the_rest() {
    let rates =
        allocate(bounds(90, 1000, Results::Elsewhere), &[tree(&[10, 100, 100], 3, false, None)]);
    assert_eq!(rates, [[10, 40, 40]]);
}

#[test]
fn results_through_the_same_link_are_counted() {
    // Three flows in and one result; one sum out and three results.
    let rates = allocate(bounds(100, 100, Results::Here), &[tree(&[100; 3], 3, true, None)]);
    assert_eq!(rates, [[25, 25, 25]]);
}

#[test]
fn the_way_up_holds_the_slowest_and_lets_the_others_run_ahead() {
    let trees = [tree(&[30, 100], 2, true, Some(20))];
    assert_eq!(allocate(bounds(90, 1000, Results::Elsewhere), &trees), [[20, 70]]);
    let trees = [tree(&[100, 100], 2, true, Some(20))];
    assert_eq!(
        allocate(bounds(90, 1000, Results::Elsewhere), &trees),
        [[20, 20]],
        "both are slowest"
    );
}

#[test]
fn a_blocked_tree_sends_nothing_up_and_fills_its_ingress() {
    let blocked = Demands { is_blocked: true, ..tree(&[100, 100], 3, true, None) };
    assert_eq!(allocate(bounds(100, 1, Results::Here), std::slice::from_ref(&blocked)), [[50, 50]]);
    assert_eq!(sum_rate(&blocked, &[50, 50]), 0);
}

#[test]
fn trees_at_one_node_share_its_links() {
    let trees = [tree(&[100], 1, true, None), tree(&[100, 100], 2, true, None)];
    assert_eq!(allocate(bounds(90, 1000, Results::Elsewhere), &trees), [vec![30], vec![30, 30]]);
    assert_eq!(allocate(bounds(900, 60, Results::Elsewhere), &trees), [vec![30], vec![30, 30]]);
}

#[test]
fn without_bounds_everyone_sends_at_its_cap() {
    let trees = [tree(&[7, UNLIMITED_BPS], 2, true, None)];
    assert_eq!(allocate(Bounds::default(), &trees), [[7, UNLIMITED_BPS]]);
}

/// Up to three trees of up to five flows each, and links that may or may not hold them.
fn random_case(rng: &mut Rng) -> (Bounds, Vec<Demands>) {
    let random_tree = |rng: &mut Rng| {
        let caps: Vec<u64> = (0..rng.below(6)).map(|_| rng.below(1000)).collect();
        let has_parent = rng.chance(0.5);
        Demands {
            fan_in: caps.len() as u64 + rng.below(2),
            caps,
            has_parent,
            is_blocked: rng.chance(0.3),
            granted: (has_parent && rng.chance(0.5)).then(|| rng.below(500)),
        }
    };
    let trees = (0..1 + rng.below(3)).map(|_| random_tree(rng)).collect();
    let results = if rng.chance(0.5) { Results::Here } else { Results::Elsewhere };
    (bounds(rng.below(3000), rng.below(3000), results), trees)
}

/// What arrives at and leaves the node: Eq. (1), with results where they pass.
fn loads(bounds: Bounds, trees: &[Demands], rates: &[Vec<u64>]) -> (u64, u64) {
    let mut loads = (0, 0);
    for (tree, rates) in trees.iter().zip(rates) {
        let sum = sum_rate(tree, rates);
        let results = u64::from(bounds.results == Results::Here);
        let up = u64::from(tree.has_parent);
        loads.0 += rates.iter().sum::<u64>() + results * up * sum;
        loads.1 += (up + results * tree.fan_in) * sum;
    }
    loads
}

fn is_feasible(bounds: Bounds, trees: &[Demands], rates: &[Vec<u64>]) -> bool {
    let (ingress, egress) = loads(bounds, trees, rates);
    let fits = ingress <= bounds.ingress_bps.unwrap_or(u64::MAX)
        && egress <= bounds.egress_bps.unwrap_or(u64::MAX);
    fits && trees.iter().zip(rates).all(|(tree, rates)| {
        let within = rates.iter().zip(&tree.caps).all(|(rate, cap)| rate <= cap);
        within && tree.granted.is_none_or(|granted| sum_rate(tree, rates) <= granted)
    })
}

#[test]
fn rates_are_feasible() {
    for seed in 0..CASES {
        let (bounds, trees) = random_case(&mut Rng::new(seed));
        let rates = allocate(bounds, &trees);
        assert!(is_feasible(bounds, &trees, &rates), "seed {seed}: {bounds:?} {trees:?} {rates:?}");
    }
}

/// Flows that are equally fast in one tree and not at their caps stand or fall together. Raising them by more than rounding
/// may have left (at most one unit for each copy of each flow) is infeasible, even if everyone faster gives all it has above them.
#[test]
fn no_flow_gains_unless_one_that_is_not_faster_loses() {
    for seed in 0..CASES {
        let (bounds, trees) = random_case(&mut Rng::new(seed));
        let rates = allocate(bounds, &trees);
        let copies = |tree: &Demands| (tree.caps.len() as u64 + 1) * (tree.fan_in + 2);
        let rounding: u64 = trees.iter().map(copies).sum();
        for (tree, of_tree) in rates.iter().enumerate() {
            for own in of_tree {
                let mut better = rates.clone();
                better.iter_mut().flatten().for_each(|rate| *rate = (*rate).min(*own));
                for (flow, rate) in of_tree.iter().enumerate().filter(|(_, rate)| *rate >= own) {
                    let above = own + rounding + 1;
                    better[tree][flow] = if rate == own { above } else { above.min(*rate) };
                }
                assert!(
                    !is_feasible(bounds, &trees, &better),
                    "seed {seed}: flows at {own} of tree {tree} could gain: {bounds:?} {trees:?} {rates:?}"
                );
            }
        }
    }
}
