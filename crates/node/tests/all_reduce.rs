//! Whole collectives over loopback: real sockets, real threads, the user-space aggregator.

mod cluster;

use std::sync::mpsc;

use cluster::{Cluster, PATIENCE, Random, Shape, plan, submit};
use wiresum_codec::{Element, ElementType, Operation, bf16, f16};
use wiresum_protocol::plan::{Lanes, Policy};

const WORKERS: u32 = 4;

/// A small whole number, so that sums are exact in every element type and lane width.
fn element(rank: usize, index: usize) -> i32 {
    ((index * 7 + rank * 3) % 41) as i32 - 20
}

fn sum_of(index: usize) -> i32 {
    (0..WORKERS as usize).map(|rank| element(rank, index)).sum()
}

fn assert_summed<T: Element + std::fmt::Debug + PartialEq>(cluster: &Cluster, len: usize) {
    let values = |rank| (0..len).map(|i| T::narrow(element(rank, i).into())).collect::<Vec<_>>();
    let expected: Vec<_> = (0..len).map(|i| T::narrow(sum_of(i).into())).collect();
    for (rank, (summed, outcome)) in
        cluster.all_reduce(Operation::Sum, PATIENCE, values).into_iter().enumerate()
    {
        outcome.unwrap_or_else(|e| panic!("rank {rank}, {len} × {:?}: {e}", T::TYPE));
        let wrong = summed.iter().zip(&expected).position(|(have, want)| have != want);
        assert_eq!(wrong, None, "rank {rank}, {len} × {:?}: first wrong element", T::TYPE);
    }
}

/// Sizes around the edges of fragments of 256 and 512 values, and beyond a window of 192 fragments.
const SIZES: [usize; 9] = [1, 7, 255, 256, 257, 511, 513, 5_000, 120_001];

fn assert_every_size_and_type(shape: Shape, lanes: Lanes, policy: Policy) {
    let cluster = Cluster::start(plan(shape, WORKERS, lanes, policy));
    for len in SIZES {
        assert_summed::<f32>(&cluster, len);
        assert_summed::<f16>(&cluster, len);
        assert_summed::<bf16>(&cluster, len);
    }
    cluster.stop();
}

#[test]
fn star_with_wide_lanes() {
    assert_every_size_and_type(Shape::Star, Lanes::Int32Le, Policy::Pool);
}

#[test]
fn star_with_wide_lanes_in_network_order() {
    assert_every_size_and_type(Shape::Star, Lanes::Int32Be, Policy::Pool);
}

#[test]
fn star_with_narrow_lanes() {
    assert_every_size_and_type(Shape::Star, Lanes::Int16Le, Policy::Pool);
}

#[test]
fn star_with_lanes_as_wide_as_the_elements() {
    assert_every_size_and_type(Shape::Star, Lanes::Auto, Policy::Cache);
}

#[test]
fn star_that_caches() {
    assert_every_size_and_type(Shape::Star, Lanes::Int32Le, Policy::Cache);
}

#[test]
fn two_levels_with_wide_lanes() {
    assert_every_size_and_type(Shape::TwoLevels, Lanes::Int32Le, Policy::Pool);
}

#[test]
fn two_levels_with_narrow_lanes() {
    assert_every_size_and_type(Shape::TwoLevels, Lanes::Int16Le, Policy::Pool);
}

#[test]
fn two_levels_that_cache() {
    assert_every_size_and_type(Shape::TwoLevels, Lanes::Int32Le, Policy::Cache);
}

#[test]
fn a_million_elements() {
    let cluster = Cluster::start(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
    assert_summed::<f32>(&cluster, 1_000_000);
    let statistics = cluster.engines[0].statistics();
    assert_eq!(statistics.collectives.summed, 1);
    assert!(statistics.bytes_received > 4_000_000, "{statistics:?}");
    cluster.stop();
}

#[test]
fn averages() {
    let cluster = Cluster::start(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
    let values = |rank: usize| vec![rank as f32, -8.0, 0.5];
    for (averaged, outcome) in cluster.all_reduce(Operation::Average, PATIENCE, values) {
        outcome.expect("a sum");
        assert_eq!(averaged, [1.5, -8.0, 0.5]);
    }
}

#[test]
fn every_rank_gets_the_same_bits() {
    let seed = 0x5eed;
    let cluster = Cluster::start(plan(Shape::TwoLevels, WORKERS, Lanes::Int32Le, Policy::Pool));
    let len = 20_000;
    let values = |rank: usize| {
        let mut random = Random(seed + rank as u64);
        (0..len).map(|i| random.real() * 10f32.powi((i / 256) as i32 % 30 - 15)).collect()
    };
    let reduced = cluster.all_reduce(Operation::Sum, PATIENCE, values);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let first = bits(&reduced[0].0);
    assert!(reduced.iter().all(|(v, outcome)| outcome.is_ok() && bits(v) == first), "seed {seed}");
    let inputs: Vec<Vec<f32>> = (0..WORKERS as usize).map(values).collect();
    for (index, sum) in reduced[0].0.iter().enumerate() {
        let fragment = index / 256 * 256..len.min(index / 256 * 256 + 256);
        let largest = inputs
            .iter()
            .flat_map(|v| &v[fragment.clone()])
            .fold(0f64, |m, v| m.max(f64::from(v.abs())));
        let exact: f64 = inputs.iter().map(|v| f64::from(v[index])).sum();
        // The codec's bound: n/2 units, each 2^(e + 1 + log₂ n − 31), and half a unit in the last place of float32.
        let bound = largest * 2f64.powi(-25) + exact.abs() * 2f64.powi(-24);
        let error = (f64::from(*sum) - exact).abs();
        assert!(error <= bound, "seed {seed}: element {index}: {sum} for {exact}");
    }
}

#[test]
fn collectives_of_all_types_are_pipelined_and_end_in_order() {
    let cluster = Cluster::start(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
    let rounds = 60;
    let (tell, told) = mpsc::channel();
    for (rank, engine) in cluster.engines.iter().enumerate() {
        for round in 0..rounds {
            let len = 1 + round * 997 % 20_000;
            let tell = tell.clone();
            let whole: Vec<_> = (0..len).map(|i| element(rank, i)).collect();
            match [ElementType::Float32, ElementType::Float16, ElementType::BFloat16][round % 3] {
                ElementType::Float32 => submit_whole::<f32>(engine, whole, (rank, round), tell),
                ElementType::Float16 => submit_whole::<f16>(engine, whole, (rank, round), tell),
                ElementType::BFloat16 => submit_whole::<bf16>(engine, whole, (rank, round), tell),
            }
        }
    }
    drop(tell);
    let mut next = [0; WORKERS as usize];
    for ((rank, round), right) in told {
        assert!(right, "rank {rank}, round {round}: not the sum");
        assert_eq!(round, next[rank], "rank {rank}: out of order");
        next[rank] += 1;
    }
    assert_eq!(next, [rounds; WORKERS as usize]);
    cluster.stop();
}

/// Submits whole numbers as elements of type `T` and tells whether their sum came back.
fn submit_whole<T: Element + PartialEq>(
    engine: &wiresum_node::engine::Engine,
    whole: Vec<i32>,
    id: (usize, usize),
    tell: mpsc::Sender<((usize, usize), bool)>,
) {
    let values = whole.iter().map(|v| T::narrow(f64::from(*v))).collect();
    submit::<T>(engine, values, Operation::Sum, move |values, outcome| {
        let expected = (0..values.len()).map(|i| T::narrow(sum_of(i).into()));
        let right = outcome.is_ok() && expected.zip(&values).all(|(want, have)| want == *have);
        let _ = tell.send((id, right));
    });
}
