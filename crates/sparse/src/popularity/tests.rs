use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::hot::RowId;
use crate::table::TableId;

fn touches() -> impl Strategy<Value = Vec<(u64, u8)>> {
    // Small keys more often: the square of a number below 12.
    prop::collection::vec((0u64..12, 0u64..12, 1u8..9), 0..300)
        .prop_map(|all| all.into_iter().map(|(a, b, count)| (a * b, count)).collect())
}

fn truth(touches: &[(u64, u8)]) -> BTreeMap<u64, f32> {
    let mut counts = BTreeMap::new();
    touches.iter().for_each(|(key, count)| *counts.entry(*key).or_default() += f32::from(*count));
    counts
}

fn counted(counter: &mut dyn Counter, touches: &[(u64, u8)]) {
    touches.iter().for_each(|(key, count)| counter.add(*key, f32::from(*count)));
}

proptest! {
    #[test]
    fn exact_counts_are_exact_and_in_order(touches in touches(), most in 0usize..50) {
        let mut exact = Exact::default();
        counted(&mut exact, &touches);
        let mut expected: Vec<(u64, f32)> = truth(&touches).into_iter().collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        expected.truncate(most);
        prop_assert_eq!(exact.top(most), expected);
    }

    #[test]
    fn count_min_is_never_below_the_truth(touches in touches(), cells in 1usize..40) {
        let mut sketch = CountMin::new(cells, 200);
        counted(&mut sketch, &touches);
        for (key, count) in truth(&touches) {
            prop_assert!(sketch.count(key) >= count);
        }
        prop_assert_eq!(sketch.top(1000).len(), truth(&touches).len());
    }

    #[test]
    fn space_saving_keeps_its_bound(touches in touches(), most in 1usize..30) {
        let mut saving = SpaceSaving::new(most);
        counted(&mut saving, &touches);
        let truth = truth(&touches);
        let bound = truth.values().sum::<f32>() / most as f32;
        let kept: BTreeMap<u64, f32> = saving.top(most).into_iter().collect();
        for (key, count) in &kept {
            let true_count = truth[key];
            prop_assert!((true_count - bound..=true_count).contains(count));
        }
        for (key, count) in truth {
            prop_assert!(count <= bound || kept.contains_key(&key));
        }
    }

    #[test]
    fn decay_scales_all_counts(touches in touches()) {
        let counters: [Box<dyn Counter>; 3] =
            [Box::new(Exact::default()), Box::new(CountMin::new(1000, 200)), Box::new(SpaceSaving::new(200))];
        for mut counter in counters {
            counted(&mut *counter, &touches);
            let before = counter.top(1000);
            counter.decay(0.5);
            let halved: Vec<_> = before.into_iter().map(|(key, count)| (key, count / 2.0)).collect();
            prop_assert_eq!(counter.top(1000), halved);
        }
    }

    /// The hot set has as many of the best `most` as there can be; who leaves is beyond 1.3 times as many, or made room for
    /// nobody worse.
    #[test]
    fn the_choice_is_full_and_prefers_who_is_there(
        current in prop::collection::btree_set(0u32..60, 0..20),
        ranking in Just((0u32..60).collect::<Vec<_>>()).prop_shuffle(),
        ranked in 0usize..60,
        most in 0usize..20,
    ) {
        let ranking = &ranking[..ranked];
        let chosen = choose(&current, ranking, most, 1.3);
        prop_assert_eq!(chosen.len(), most.min(ranked));
        let rank = |row: &u32| ranking.iter().position(|other| other == row);
        prop_assert!(chosen.windows(2).all(|pair| rank(&pair[0]) < rank(&pair[1])));
        let chosen: BTreeSet<u32> = chosen.into_iter().collect();
        let reach = ranked.min((most as f64 * 1.3) as usize);
        for row in &ranking[..reach] {
            let is_left_out = current.contains(row) && !chosen.contains(row);
            prop_assert!(!is_left_out || chosen.iter().all(|other| current.contains(other)));
        }
        for new in chosen.difference(&current) {
            let better = ranking[..rank(new).unwrap()].iter().filter(|row| !current.contains(row));
            prop_assert!(better.into_iter().all(|row| chosen.contains(row)));
        }
    }
}

#[test]
fn rows_of_all_tables_are_ranked_together() {
    let mut tracker = Tracker::new(Counting::SpaceSaving(10));
    let row = |table, key| RowId { table: TableId(table), key };
    tracker.observe(&[(row(1, 5), 3), (row(0, 5), 2), (row(1, 6), 7)]);
    tracker.decay(0.5);
    tracker.observe(&[(row(0, 5), 2)]);
    assert_eq!(tracker.candidates(2), [(row(1, 6), 3.5), (row(0, 5), 3.0)]);
    assert!(tracker.bytes() > 0);
}

proptest! {
    /// A tracker that was saved and restored goes on as if nothing had happened, also one with a bound.
    #[test]
    fn a_restored_tracker_goes_on_alike(before in touches(), after in touches(), most in 1usize..20) {
        let rows = |touches: &[(u64, u8)]| -> Vec<(RowId, u32)> {
            let row = |key| RowId { table: TableId((key % 2) as u16), key };
            touches.iter().map(|(key, count)| (row(*key), u32::from(*count))).collect()
        };
        let mut tracker = Tracker::bounded(most);
        for round in rows(&before).chunks(7) {
            tracker.observe(round);
            tracker.decay(0.7);
        }
        let mut restored = Tracker::bounded(most);
        restored.restore(tracker.candidates(usize::MAX));
        for round in rows(&after).chunks(7) {
            tracker.observe(round);
            restored.observe(round);
            prop_assert!(tracker.counted() <= 2 * most);
        }
        prop_assert_eq!(tracker.candidates(usize::MAX), restored.candidates(usize::MAX));
    }
}

#[test]
fn what_is_not_touched_any_more_is_forgotten() {
    let mut exact = Exact::default();
    exact.add(1, 1.0);
    exact.add(2, 1000.0);
    (0..13).for_each(|_| exact.decay(0.7));
    assert_eq!(exact.top(9).iter().map(|(key, _)| *key).collect::<Vec<_>>(), [2]);
}
