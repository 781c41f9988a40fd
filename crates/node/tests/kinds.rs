//! Every kind of collective over loopback, in place and out of place: over UDP, over TCP, and up two levels.

mod cluster;

use std::ops::Range;
use std::ptr::NonNull;

use cluster::{Cluster, PATIENCE, Shape, apart, in_place, over_tcp, plan};
use wiresum_codec::{Element, Operation, bf16, f16};
use wiresum_node::bytes;
use wiresum_node::engine::{CollectiveError, Engine};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_testkit::cluster::with_exchanges;
use wiresum_worker::kind::View;
use wiresum_worker::{Collective, Failure, Kind};

const WORKERS: u32 = 4;
const ROOT: u32 = 2;
/// Parts that end within fragments, and shorter ones than a fragment; some ranks take nothing of the first.
const SIZES: [usize; 4] = [3, 1000, 5 * 256, 30_001];

/// A small whole number, exact in every type, also as an average.
fn element(rank: usize, index: usize) -> f64 {
    4.0 * (((index * 7 + rank * 3) % 11) as f64 - 5.0)
}

fn result(operation: Operation, index: usize) -> f64 {
    let sum: f64 = (0..WORKERS as usize).map(|rank| element(rank, index)).sum();
    if operation == Operation::Average { sum / f64::from(WORKERS) } else { sum }
}

fn values<T: Element>(rank: usize, len: usize) -> Vec<T> {
    (0..len).map(|index| T::narrow(element(rank, index))).collect()
}

fn results<T: Element>(operation: Operation, part: Range<usize>) -> Vec<T> {
    part.map(|index| T::narrow(result(operation, index))).collect()
}

/// Runs `call` on every rank at once.
fn on_all(cluster: &Cluster, call: impl Fn(usize, &Engine) + Sync) {
    std::thread::scope(|scope| {
        for (rank, engine) in cluster.engines.iter().enumerate() {
            let call = &call;
            scope.spawn(move || call(rank, engine));
        }
    });
}

fn part(engine: &Engine, kind: Kind, len: usize) -> Range<usize> {
    engine.part(kind, root(kind), len).expect("a rank")
}

fn root(kind: Kind) -> u32 {
    if kind.has_root() { ROOT } else { 0 }
}

fn assert_in_place<T: Element + PartialEq + std::fmt::Debug>(cluster: &Cluster, kind: Kind) {
    for len in SIZES {
        on_all(cluster, |rank, engine| {
            let (mut memory, own) = (values::<T>(rank, len), values::<T>(rank, len));
            let part = part(engine, kind, len);
            let all = in_place(engine, &mut memory[..], part.clone(), Operation::Average);
            let collective = Collective { kind, root: root(kind), ..all };
            engine.collect(collective, PATIENCE).expect("a sum");
            let mut expected = own;
            let taken = results::<T>(Operation::Average, part.clone());
            expected.splice(part, taken);
            assert_eq!(memory, expected, "{kind}, {len} elements, rank {rank}");
        });
    }
}

fn assert_out_of_place<T: Element + PartialEq + std::fmt::Debug>(cluster: &Cluster, kind: Kind) {
    for len in SIZES {
        on_all(cluster, |rank, engine| {
            let part = part(engine, kind, len);
            let mut source = values::<T>(rank, len);
            let mut sink = vec![T::narrow(0.0); part.len()];
            let both = apart(engine, &mut source, &mut sink, Operation::Sum);
            let collective = Collective { kind, root: root(kind), ..both };
            engine.collect(collective, PATIENCE).expect("a sum");
            assert_eq!(sink, results::<T>(Operation::Sum, part), "{kind}, {len}, rank {rank}");
            assert_eq!(source, values::<T>(rank, len), "the source is as it was");
        });
    }
}

fn assert_every_kind(plan: Plan) {
    let cluster = Cluster::start(plan);
    for kind in Kind::ALL.iter().filter(|kind| !kind.is_copy()) {
        assert_in_place::<f32>(&cluster, *kind);
        assert_out_of_place::<f32>(&cluster, *kind);
        assert_in_place::<f16>(&cluster, *kind);
        assert_out_of_place::<bf16>(&cluster, *kind);
    }
    cluster.stop();
}

/// Bytes that are neither numbers nor the same on any two ranks.
fn share(rank: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + 77 * rank) as u8 ^ 0xff).collect()
}

/// The memory of a rank before a collective in place, and after it; and where its own share lies.
fn copied(kind: Kind, rank: usize, len: usize) -> (Vec<u8>, Vec<u8>, Range<usize>) {
    let of_root = share(ROOT as usize, len);
    if kind == Kind::Broadcast {
        return (share(rank, len), of_root, 0..len);
    }
    if kind == Kind::Scatter {
        let mut after = share(rank, len);
        let (ranks, root) = (WORKERS as usize, ROOT as usize);
        let part = kind.part(View { rank, ranks, root, elements: len });
        after.splice(..part.len(), of_root[part].iter().copied());
        return (share(rank, len), after, 0..len);
    }
    let own = rank * len..(rank + 1) * len;
    let all: Vec<u8> = (0..WORKERS as usize).flat_map(|giver| share(giver, len)).collect();
    let mut before = vec![0; all.len()];
    before[own.clone()].copy_from_slice(&all[own.clone()]);
    let takes = kind == Kind::AllGather || rank == ROOT as usize;
    let after = if takes { all } else { before.clone() };
    (before, after, own)
}

fn assert_copies(plan: Plan) {
    let cluster = Cluster::start(with_exchanges(plan, 64, 48));
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_copy() && !kind.is_share()) {
        for len in SIZES {
            on_all(&cluster, |rank, engine| {
                let (mut memory, after, own) = copied(kind, rank, len);
                let data = NonNull::from(&mut memory[..]).cast::<u8>();
                let taken = part(engine, kind, len).len();
                // SAFETY: the memory outlives the collective, which nobody else touches meanwhile.
                let (source, sink) = unsafe {
                    let own = data.add(own.start);
                    (bytes::source(own, len, bytes::SIGNATURE), bytes::sink(data, taken))
                };
                let collective = Collective { kind, root: root(kind), source, sink };
                engine.collect(collective, PATIENCE).expect("copies");
                assert_eq!(memory, after, "{kind}, {len} bytes, rank {rank}");
            });
        }
    }
    cluster.stop();
}

#[test]
fn shares_reach_every_rank_up_to_the_largest() {
    let cluster = Cluster::start(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
    let most = cluster.engines[0].largest_share().expect("a star has room for shares");
    for len in [0, 1, 4, 5, most] {
        on_all(&cluster, |rank, engine| {
            let mut own = share(rank, len);
            let mut all = vec![0u8; WORKERS as usize * len];
            let (from, to) =
                (NonNull::from(&mut own[..]).cast(), NonNull::from(&mut all[..]).cast());
            // SAFETY: the memory outlives the collective, which nobody else touches meanwhile.
            let (source, sink) =
                unsafe { (bytes::source(from, len, 6), bytes::sink(to, WORKERS as usize * len)) };
            let collective = Collective { kind: Kind::SmallAllReduce, root: 0, source, sink };
            engine.collect(collective, PATIENCE).expect("shares");
            let expected: Vec<u8> =
                (0..WORKERS as usize).flat_map(|rank| share(rank, len)).collect();
            assert_eq!(all, expected, "{len} bytes, rank {rank}");
        });
    }
    assert!(!cluster.engines[0].carries(Kind::SmallAllReduce, most + 1));
    cluster.stop();
}

#[test]
fn copies_over_udp() {
    assert_copies(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
}

#[test]
fn copies_over_tcp_connections() {
    assert_copies(over_tcp(plan(Shape::Star, WORKERS, Lanes::Int16Be, Policy::Cache)));
}

#[test]
fn parts_for_one_rank_have_the_bits_of_an_all_reduce() {
    assert_every_kind(with_exchanges(
        plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool),
        64,
        48,
    ));
}

#[test]
fn over_udp() {
    assert_every_kind(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
}

#[test]
fn up_two_levels_in_narrow_lanes() {
    assert_every_kind(plan(Shape::TwoLevels, WORKERS, Lanes::Int16Be, Policy::Pool));
}

#[test]
fn over_tcp_connections() {
    assert_every_kind(over_tcp(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Cache)));
}

#[test]
fn ranks_that_pass_different_kinds_are_told_which() {
    let cluster = Cluster::start(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool));
    on_all(&cluster, |rank, engine| {
        let kind = if rank == 1 { Kind::ReduceScatter } else { Kind::AllReduce };
        let mut source = vec![1f32; 1000];
        let mut sink = vec![0f32; part(engine, kind, 1000).len()];
        let both = apart(engine, &mut source, &mut sink, Operation::Sum);
        let outcome = engine.collect(Collective { kind, ..both }, PATIENCE);
        let Err(CollectiveError::Protocol { failure, .. }) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(failure, Failure::Mismatch { .. }), "{failure}");
        let text = failure.to_string();
        assert!(text.contains("ranks 0, 2, 3: all_reduce of 1000"), "{text}");
        assert!(text.contains("rank 1: reduce_scatter of 1000"), "{text}");
        assert_eq!(source, vec![1f32; 1000], "the source is as it was");
    });
}
