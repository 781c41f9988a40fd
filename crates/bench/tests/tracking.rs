//! Who knows the truth has what can be had.

use wiresum_bench::tracking::{Drift, Reached, WAYS, Way, follow};

const ROUNDS: usize = 31;

fn coverage(reached: &[Reached], way: Way) -> f64 {
    reached.iter().find(|one| one.way == way).expect("all ways are followed").coverage
}

#[test]
fn nothing_beats_the_truth_where_nothing_drifts() {
    let reached = follow(Drift::Even, 0.0, ROUNDS, 1);
    assert_eq!(reached.iter().map(|one| one.way).collect::<Vec<_>>(), WAYS);
    for one in &reached {
        match one.way {
            Way::Known(_) => assert!((one.coverage - 1.0).abs() < 1e-9 && one.exchanged == 0.0),
            _ => assert!((0.9..1.0).contains(&one.coverage), "{one:?}"),
        }
    }
}

#[test]
fn who_looks_more_often_misses_less() {
    let reached = follow(Drift::Logarithmic, 0.002, ROUNDS, 1);
    let known = [1, 2, 10].map(|period| coverage(&reached, Way::Known(period)));
    assert!(known.is_sorted_by(|often, seldom| often > seldom), "{known:?}");
    for period in [2, 10] {
        let tracked = coverage(&reached, Way::Tracked(period));
        assert!(tracked < coverage(&reached, Way::Known(period)), "{tracked} of {known:?}");
    }
}
