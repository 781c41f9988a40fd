//! Sums of numbers of 8 bits, on every shape of lanes: what is not in the sum is what the ranks have kept.

mod cluster;

use std::ptr::NonNull;
use std::sync::mpsc;

use cluster::{Cluster, PATIENCE, Shape, over_tcp, plan};
use wiresum_codec::{ElementType, Operation};
use wiresum_node::engine::Engine;
use wiresum_node::tensor::{Elements, Excess};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_testkit::cluster::with_exchanges;
use wiresum_worker::Kind;

const WORKERS: u32 = 4;
const ROOT: u32 = 2;
const LEN: usize = 30_001;

fn values(rank: usize) -> Vec<f32> {
    (0..LEN).map(|index| (((index * 7919 + rank * 104_729) % 2003) as f32 - 1000.0) / 7.0).collect()
}

/// What a rank has of a sum afterwards, and what it has kept.
fn sum(engine: &Engine, kind: Kind, rank: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut sums, mut kept) = (values(rank), vec![f32::NAN; LEN]);
    let excess = Excess::Kept(NonNull::from(&mut kept[..]).cast());
    let encoding = engine.packed(ElementType::Float32, Operation::Sum, excess).expect("room");
    let data = NonNull::from(&mut sums[..]).cast();
    // SAFETY: both are nobody else's until the collective has ended.
    let elements = unsafe { Elements::new(data, data, LEN, encoding) };
    let (ended, when_ended) = mpsc::channel();
    let done = Box::new(move |outcome| ended.send(outcome).expect("a test that waits"));
    engine.submit_sum(kind, ROOT, elements, PATIENCE, done).expect("an open engine");
    when_ended.recv().expect("an end").expect("a sum");
    (sums, kept)
}

fn assert_nothing_is_lost(plan: Plan) {
    let cluster = Cluster::start(plan);
    let inputs: Vec<_> = (0..WORKERS as usize).map(values).collect();
    for kind in [Kind::AllReduce, Kind::Reduce] {
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let engines = cluster.engines.iter().enumerate();
            let ranks: Vec<_> = engines
                .map(|(rank, engine)| scope.spawn(move || sum(engine, kind, rank)))
                .collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        });
        for index in 0..LEN {
            let whole: f32 = inputs.iter().map(|values| values[index]).sum();
            let kept: f32 = outcomes.iter().map(|(_, kept)| kept[index]).sum();
            let summed = outcomes[ROOT as usize].0[index];
            assert!((whole - summed - kept).abs() < 1e-2, "{kind}, element {index}");
            assert!(kept.abs() < 20.0, "a fragment's unit is 8 at most");
        }
        let takers = outcomes.iter().filter(|_| kind == Kind::AllReduce);
        assert!(takers.clone().all(|(sums, _)| *sums == outcomes[0].0), "the same on all ranks");
    }
    cluster.stop();
}

#[test]
fn in_wide_lanes() {
    let star = plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool);
    assert_nothing_is_lost(with_exchanges(star, 64, 48));
}

#[test]
fn up_two_levels_in_narrow_lanes_of_network_order() {
    assert_nothing_is_lost(plan(Shape::TwoLevels, WORKERS, Lanes::Int16Be, Policy::Pool));
}

#[test]
fn over_tcp_connections() {
    assert_nothing_is_lost(over_tcp(plan(Shape::Star, WORKERS, Lanes::Int32Be, Policy::Cache)));
}

#[test]
fn more_workers_than_8_bits_have_room_for_are_told_so() {
    let cluster = Cluster::start(plan(Shape::Star, 17, Lanes::Int32Le, Policy::Pool));
    let packed = |engine: &Engine| {
        engine.packed(ElementType::Float32, Operation::Sum, Excess::Lost).is_some()
    };
    assert!(!cluster.engines.iter().any(packed));
    cluster.stop();
}
