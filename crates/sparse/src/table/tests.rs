use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::optimizer::{Adagrad, Optimizer, RowWiseAdagrad, Sgd};

const DIM: u16 = 3;

fn spec(rows: RowIds, expire_after: Option<u32>) -> TableSpec {
    let optimizer = Optimizer::Adagrad(Adagrad {
        lr: 0.5,
        lr_decay: 0.0,
        eps: 1e-8,
        initial_accumulator_value: 0.25,
    });
    let (id, name, initial) = (TableId(4), "ads".to_owned(), Initial::Uniform(1.0));
    TableSpec {
        id,
        name,
        rows,
        dim: DIM,
        value: ValueType::default(),
        optimizer,
        initial,
        seed: 9,
        is_averaged: false,
        steps_before: 0,
        expire_after,
    }
}

fn whole(spec: TableSpec) -> Table {
    let part = Shards(1).part(&spec.rows, 0);
    Table::new(spec, part).unwrap()
}

fn initial(key: u64) -> Vec<f32> {
    let mut weights = vec![0.0; usize::from(DIM)];
    Initial::Uniform(1.0).fill(9, 4, key, &mut weights);
    weights
}

fn weights(table: &Table, key: u64, version: u32) -> Vec<f32> {
    let mut weights = vec![0.0; usize::from(DIM)];
    table.read(key, version, &mut weights).unwrap();
    weights
}

/// What a table has to be like: rows in a map, each as if it had been there from the beginning.
#[derive(Default)]
struct Model(BTreeMap<u64, Row>);

impl Model {
    fn row(&self, key: u64, version: u32, expire_after: Option<u32>) -> Row {
        let kept = self.0.get(&key);
        let is_kept = |row: &&Row| expire_after.is_none_or(|after| version - row.changed < after);
        kept.filter(is_kept).cloned().unwrap_or_else(|| {
            let values = [initial(key), vec![0.25; usize::from(DIM)]].concat();
            Row { values, changed: 0 }
        })
    }
}

proptest! {
    /// Rows change, are read, leave and return, expire and are swept: by range or by hash, always as the model has it.
    #[test]
    fn a_table_is_as_if_all_rows_had_been_there(
        is_hashed in any::<bool>(),
        expire_after in prop::option::of(1u32..6),
        rounds in prop::collection::vec(prop::collection::btree_map(0u64..40, -2.0f32..2.0, 0..12), 1..20),
        borrowed in prop::collection::vec(prop::option::of(0u64..40), 20),
    ) {
        let rows = if is_hashed { RowIds::Hashed(40) } else { RowIds::Counted(40) };
        let mut table = whole(spec(rows, expire_after));
        let mut model = Model::default();
        for (number, gradients) in rounds.iter().enumerate() {
            let round = number as u32 + 1;
            let keys: Vec<u64> = gradients.keys().copied().collect();
            table.reserve(&keys).unwrap();
            for (key, gradient) in gradients {
                let gradient = [*gradient; DIM as usize];
                table.step(round, *key, &gradient);
                let mut row = model.row(*key, round - 1, expire_after);
                let (weights, state) = row.values.split_at_mut(usize::from(DIM));
                table.spec().optimizer.step(u64::from(round), weights, state, &gradient);
                row.changed = round;
                model.0.insert(*key, row);
            }
            if let Some(key) = borrowed[number] {
                let row = table.lend(key, round).unwrap();
                prop_assert_eq!(&row.values, &model.row(key, round, expire_after).values);
                let away = Err(TableError::Away { table: "ads".into(), key });
                prop_assert_eq!(table.read(key, round, &mut [0.0; DIM as usize]), away.clone());
                prop_assert_eq!(table.reserve(&[key]), away);
                let not_away = Err(TableError::NotAway { table: "ads".into(), key });
                prop_assert_eq!(table.put_back(key, &row), not_away.clone());
                table.expect_back(key).unwrap();
                prop_assert_eq!((table.reserve(&[key]), table.coming()), (Ok(()), 1));
                table.put_back(key, &row).unwrap();
                prop_assert_eq!(table.put_back(key, &row), not_away);
            }
            if number % 3 == 0 {
                table.sweep(round, |key| key % 7 == 0);
            }
            for key in 0..40 {
                let expected = model.row(key, round, expire_after).values;
                prop_assert_eq!(weights(&table, key, round), &expected[..usize::from(DIM)]);
            }
        }
    }
}

#[test]
fn rows_beyond_the_room_are_refused_and_expired_ones_make_room() {
    let mut table = whole(spec(RowIds::Hashed(3), Some(2)));
    table.reserve(&[10, 20]).unwrap();
    [10, 20].iter().for_each(|key| table.step(1, *key, &[1.0; 3]));
    let full = TableError::Full { table: "ads".into(), key: 40, rows: 3 };
    assert_eq!(table.reserve(&[30, 40]), Err(full.clone()));
    assert_eq!(table.len(), 2, "a refused push takes no room");
    table.reserve(&[30]).unwrap();
    table.sweep(3, |key| key == 30);
    assert_eq!((table.len(), weights(&table, 10, 3)), (1, initial(10)));
    table.reserve(&[30, 40]).unwrap();
}

#[test]
fn rows_of_another_server_are_refused() {
    let spec = spec(RowIds::Counted(100), None);
    let mut table = Table::new(spec.clone(), Shards(3).part(&spec.rows, 1)).unwrap();
    table.reserve(&[34, 67]).unwrap();
    for key in [33, 68, 100] {
        assert_eq!(table.reserve(&[key]), Err(TableError::NoRow { table: "ads".into(), key }));
    }
}

#[test]
fn every_row_has_one_server_and_parts_add_up() {
    for shards in [1, 2, 3, 7] {
        let rows = RowIds::Counted(100);
        let parts: Vec<Part> = (0..shards).map(|shard| Shards(shards).part(&rows, shard)).collect();
        assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 100);
        for key in 0..100 {
            let holders = parts.iter().filter(|part| part.holds(&rows, key));
            assert_eq!(
                holders.map(|part| part.shard).collect::<Vec<_>>(),
                [Shards(shards).of(&rows, key)]
            );
        }
        assert!(parts.iter().all(|part| !part.holds(&rows, 100)));
    }
    let hashed = RowIds::Hashed(30_000);
    let parts: Vec<Part> = (0..3).map(|shard| Shards(3).part(&hashed, shard)).collect();
    for part in parts {
        let held = (0..30_000).filter(|key| part.holds(&hashed, key * 7919)).count() as u64;
        assert!(held <= part.rows, "{held} of {}", part.rows);
    }
}

/// The bounds: 1.1 × rows × (dim + state) × 4 bytes by range from 11 numbers a row on with expiry, from 1 without;
/// 1.5 × by hash from 9 and from 7 on.
#[test]
fn memory_is_what_was_stated() {
    let bytes = |rows: RowIds, dim, expire_after| {
        let optimizer = Optimizer::Sgd(Sgd { lr: 0.1 });
        let spec = TableSpec { dim, optimizer, expire_after, ..spec(rows, None) };
        let part = Shards(1).part(&spec.rows, 0);
        Table::bytes_for(&spec, &part) as f64 / (100_000.0 * f64::from(dim) * 4.0)
    };
    for (dim, expire_after) in [(1, None), (11, Some(100))] {
        assert!(bytes(RowIds::Counted(100_000), dim, expire_after) <= 1.1);
    }
    for (dim, expire_after) in [(7, None), (9, Some(100))] {
        assert!(bytes(RowIds::Hashed(100_000), dim, expire_after) <= 1.5);
    }
    let optimizer = Optimizer::RowWiseAdagrad(RowWiseAdagrad { lr: 0.1, eps: 1e-8 });
    let spec = TableSpec { dim: 16, optimizer, ..spec(RowIds::Hashed(100), None) };
    let part = Shards(1).part(&spec.rows, 0);
    let mut table = Table::new(spec.clone(), part).unwrap();
    let reserved = table.values.capacity();
    (0..100).for_each(|key| table.step(1, key, &[1.0; 16]));
    assert_eq!((table.values.capacity(), reserved), (reserved, 1700), "nothing grows");
}

#[test]
fn wrong_descriptions_are_named() {
    let good = spec(RowIds::Counted(10), None);
    let field = |spec: TableSpec| match spec.validate() {
        Err(TableError::Spec { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(TableSpec { dim: 0, ..good.clone() }), "dim");
    assert_eq!(field(TableSpec { dim: 257, ..good.clone() }), "dim");
    assert_eq!(field(TableSpec { rows: RowIds::Hashed(0), ..good.clone() }), "rows");
    assert_eq!(field(TableSpec { expire_after: Some(0), ..good.clone() }), "expire_after");
    assert_eq!(good.validate(), Ok(()));
}
