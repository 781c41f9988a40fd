use proptest::prelude::*;

use super::*;
use crate::hot::{FORMAT, HotRow, HotRows, MapChange};
use crate::table::TableId;

const POSITIONS: u32 = 20;

fn row(key: u64) -> RowId {
    RowId { table: TableId(0), key }
}

fn map(rows: &[(u64, bool)]) -> HotMap {
    let tier = |is_a| if is_a { Tier::A } else { Tier::B };
    let hot = |(position, (key, is_a)): (u32, &(u64, bool))| HotRow {
        row: row(*key),
        position,
        tier: tier(*is_a),
    };
    let rows = (0..).zip(rows).map(hot).collect();
    let (version, dim, block, digest) = (1, 4, 0, None);
    HotMap::new(HotRows {
        format: FORMAT.into(),
        version,
        dim,
        positions: POSITIONS,
        block,
        rows,
        digest,
    })
    .unwrap()
}

fn tiers(wanted: &[(RowId, Tier)], tier: Tier) -> Vec<u64> {
    wanted.iter().filter(|(_, of)| *of == tier).map(|(row, _)| row.key).collect()
}

proptest! {
    /// Both tiers are as full as there are rows for them, each row is in one, and the map can follow.
    #[test]
    fn what_is_wanted_fills_the_tiers_and_makes_a_map(
        hot in prop::collection::btree_map(0u64..40, any::<bool>(), 0..20),
        ranking in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle(),
        ranked in 0usize..40,
        replicated in 0usize..10,
        summed in 0usize..10,
    ) {
        let hot: Vec<(u64, bool)> = hot.into_iter().collect();
        let map = map(&hot);
        let ranking: Vec<RowId> = ranking[..ranked].iter().map(|key| row(*key)).collect();
        let set = HotSet { tracking: Tracking::Decaying(Decaying::every(2)), replicated, summed };
        let wanted = set.wanted(&map, &ranking);
        let known: BTreeSet<RowId> =
            ranking.iter().copied().chain(hot.iter().map(|(key, _)| row(*key))).collect();
        prop_assert_eq!(tiers(&wanted, Tier::A).len(), replicated.min(known.len()));
        prop_assert_eq!(tiers(&wanted, Tier::B).len(), summed.min(known.len() - replicated.min(known.len())));
        let change = MapChange::between(&map, &wanted).unwrap();
        prop_assert_eq!(change.apply(&map).unwrap().document().rows.len(), wanted.len());
    }
}

#[test]
fn hot_rows_stay_within_reach_and_uncounted_ones_where_there_is_room() {
    let set =
        HotSet { tracking: Tracking::Decaying(Decaying::every(2)), replicated: 10, summed: 0 };
    let hot: Vec<(u64, bool)> = (0..10).map(|key| (key, true)).collect();
    let ranking: Vec<RowId> = (5..20).map(row).collect();
    assert_eq!(
        tiers(&set.wanted(&map(&hot), &ranking), Tier::A),
        [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    );
    let mut edge: Vec<RowId> = (20..23).map(row).collect();
    edge.extend((0..10).map(row));
    assert_eq!(set.wanted(&map(&hot), &edge).len(), 10);
    assert_eq!(
        tiers(&set.wanted(&map(&hot), &edge), Tier::A),
        Vec::from_iter(0..10),
        "rank 12 is within 1.3 × 10"
    );
    assert_eq!(tiers(&set.wanted(&map(&hot), &[]), Tier::A), Vec::from_iter(0..10));
}

#[test]
fn the_size_is_that_of_the_first_map() {
    let tracking = Tracking::Once(Once { after: 10 });
    let size = |rows: &[(u64, bool)]| {
        let set = HotSet::of_size(tracking, &map(rows));
        (set.replicated, set.summed)
    };
    assert_eq!(size(&[(1, true), (2, false), (3, false)]), (1, 2));
    assert_eq!(size(&[(2, false)]), (0, 1));
    assert_eq!(size(&[]), (POSITIONS as usize, 0));
}

#[test]
fn the_papers_methods_decide_once() {
    let due =
        |tracking: Tracking| (1..100).filter(|round| tracking.is_due(*round)).collect::<Vec<_>>();
    assert_eq!(due(Tracking::Once(Once { after: 10 })), [10]);
    let sampling = Tracking::Sampling(Sampling { rate: 0.25, after: 50 });
    assert_eq!(due(sampling), [50]);
    assert_eq!(due(Tracking::Decaying(Decaying::every(30))), [30, 60, 90]);
    let counted: u32 = (1..50)
        .flat_map(|round| (0..100).map(move |key| (round, key)))
        .map(|(round, key)| sampling.counted(round, row(key), 8))
        .sum();
    // 39,200 trials of 1/4: five standard deviations are 430.
    assert!(counted.abs_diff(9_800) < 430, "{counted}");
    assert_eq!(sampling.counted(50, row(1), 64), 0);
    assert_eq!(Tracking::Sampling(Sampling { rate: 1.0, after: 50 }).counted(1, row(1), 64), 64);
}

#[test]
fn numbers_that_make_no_sense_are_named() {
    let field = |tracking: Tracking| tracking.validate().unwrap_err().0;
    assert_eq!(field(Tracking::Decaying(Decaying::every(1))), "period");
    assert_eq!(
        field(Tracking::Decaying(Decaying { per_round: f32::NAN, ..Decaying::every(2) })),
        "per_round"
    );
    assert_eq!(field(Tracking::Decaying(Decaying { reach: 0.5, ..Decaying::every(2) })), "reach");
    assert_eq!(field(Tracking::Once(Once { after: 1 })), "after");
    assert_eq!(field(Tracking::Sampling(Sampling { rate: 0.0, after: 10 })), "rate");
    let read: Tracking = serde_json::from_str(r#"{"name": "decaying", "period": 10}"#).unwrap();
    assert_eq!(read, Tracking::Decaying(Decaying::every(10)));
}
