//! Ranks with several threads sum what one thread would, to the bit, and fail as one.

mod cluster;

use std::sync::mpsc;
use std::time::Duration;

use cluster::{Cluster, PATIENCE, Random, Shape, apart, plan, submit};
use wiresum_codec::Operation;
use wiresum_node::engine::{CollectiveError, Engine, Outcome};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_worker::Failure;

/// Elements of a tensor that is cut for three threads, and does not end where a packet does.
const LARGE: usize = 3 * 32 * 2 * 256 + 77;
/// Elements of one that is cut for two of three threads.
const MEDIUM: usize = 2 * 32 * 2 * 256 + 77;
/// Elements of one that one thread sums.
const SMALL: usize = 1000;
/// For collectives that are meant to fail.
const SHORT: Duration = Duration::from_secs(2);

fn threaded(shape: Shape, lanes: Lanes, threads: u8) -> Plan {
    let mut plan = plan(shape, 4, lanes, Policy::Pool);
    plan.job.threads = threads;
    plan.validate().expect("a valid plan");
    plan
}

fn values(rank: usize, len: usize) -> Vec<f32> {
    let mut random = Random(rank as u64 + 1);
    (0..len).map(|_| random.real() * 1e3).collect()
}

fn sums(plan: Plan, len: usize) -> Vec<f32> {
    let cluster = Cluster::start(plan);
    let mut ends = cluster.all_reduce(Operation::Average, PATIENCE, |rank| values(rank, len));
    let (first, outcome) = ends.remove(0);
    outcome.expect("a sum");
    for (sums, outcome) in ends {
        outcome.expect("a sum");
        assert_eq!(sums, first, "the same on all ranks");
    }
    let statistics = cluster.engines[0].statistics();
    assert_eq!(statistics.collectives.summed, 1);
    assert_eq!(statistics.threads, u64::from(cluster.plan.job.threads));
    first
}

#[test]
fn threads_change_no_bit_of_a_sum() {
    for shape in [Shape::Star, Shape::TwoLevels] {
        for lanes in [Lanes::Int32Le, Lanes::Int16Le] {
            for len in [SMALL, MEDIUM, LARGE] {
                let of_one = sums(threaded(shape, lanes, 1), len);
                let of_three = sums(threaded(shape, lanes, 3), len);
                assert_eq!(of_one, of_three, "{shape:?}, {lanes:?}, {len} elements");
            }
        }
    }
}

#[test]
fn every_thread_has_its_part() {
    let cluster = Cluster::start(threaded(Shape::Star, Lanes::Int32Le, 3));
    cluster.all_reduce(Operation::Sum, PATIENCE, |rank| values(rank, LARGE));
    let sent = |engine: &Engine| -> Vec<u64> {
        engine.statistics_by_thread().iter().map(|thread| thread.sent.bytes).collect()
    };
    for engine in &cluster.engines {
        let sent = sent(engine);
        let least = sent.iter().min().expect("three");
        assert!(3 * least > LARGE as u64 * 4, "{sent:?}");
        assert!(sent.iter().all(|bytes| bytes < &(least + least / 5)), "{sent:?}");
    }
}

#[test]
fn one_value_that_is_not_finite_spares_all_parts_in_place() {
    for at in [0, LARGE / 2, LARGE - 1] {
        let cluster = Cluster::start(threaded(Shape::Star, Lanes::Int32Le, 3));
        let broken = |rank: usize| {
            let mut values = values(rank, LARGE);
            if rank == 1 {
                values[at] = f32::NAN;
            }
            values
        };
        let ends = cluster.all_reduce(Operation::Sum, PATIENCE, broken);
        for (rank, (after, outcome)) in ends.into_iter().enumerate() {
            assert!(matches!(failure(outcome), Failure::NotFinite));
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert!(bits(after) == bits(broken(rank)), "rank {rank}: touched");
        }
        for (sum, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, |_| vec![2f32; LARGE]) {
            outcome.expect("the job goes on");
            assert_eq!(sum, vec![8.0; LARGE]);
        }
        assert_eq!(cluster.engines[0].statistics().collectives.not_finite, 1);
    }
}

fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Err(CollectiveError::Protocol { failure, .. }) => failure,
        other => panic!("expected a failure of the protocol, not {other:?}"),
    }
}

#[test]
fn collectives_end_in_order_of_submission_whatever_their_size() {
    const COLLECTIVES: usize = 12;
    let cluster = Cluster::start(threaded(Shape::Star, Lanes::Int32Le, 3));
    let (ended, ends) = mpsc::channel();
    let size = |number: usize| if number.is_multiple_of(3) { LARGE } else { 10 * (number + 1) };
    for (rank, engine) in cluster.engines.iter().enumerate() {
        for number in 0..COLLECTIVES {
            let ended = ended.clone();
            submit(engine, vec![1f32; size(number)], Operation::Sum, move |values, outcome| {
                let _ = ended.send((rank, number, values, outcome));
            });
        }
    }
    let mut next = [0; 4];
    for (rank, number, values, outcome) in ends.iter().take(4 * COLLECTIVES) {
        outcome.expect("a sum");
        assert_eq!((number, values), (next[rank], vec![4.0; size(number)]));
        next[rank] += 1;
    }
}

#[test]
fn results_apart_are_those_in_place() {
    let cluster = Cluster::start(threaded(Shape::Star, Lanes::Int32Le, 2));
    std::thread::scope(|scope| {
        for (rank, engine) in cluster.engines.iter().enumerate() {
            scope.spawn(move || {
                let (mut given, mut taken) = (values(rank, LARGE), vec![0f32; LARGE]);
                let collective = apart(engine, &mut given, &mut taken, Operation::Sum);
                engine.collect(collective, PATIENCE).expect("a sum");
                assert_eq!(given, values(rank, LARGE));
                let expected: f32 = (0..4).map(|rank| values(rank, LARGE)[5]).sum();
                assert!((taken[5] - expected).abs() < 1e-2);
            });
        }
    });
}

#[test]
fn a_rank_that_stays_away_ends_the_job_of_all_threads() {
    let cluster = Cluster::start(threaded(Shape::Star, Lanes::Int32Le, 3));
    let first = &cluster.engines[0];
    let mut mine = values(0, SMALL);
    // On one thread, for want of elements.
    let outcome = first.all_reduce(&mut mine, Operation::Sum, SHORT);
    let words = outcome.expect_err("nobody came").to_string();
    let mut all = values(0, LARGE);
    let later = first.all_reduce(&mut all, Operation::Sum, PATIENCE);
    let later = later.expect_err("the job has ended on every thread").to_string();
    assert!(later.contains(words.split(':').next().expect("words")), "{later}\n{words}");
}

#[test]
fn ranks_that_pass_different_sizes_are_told() {
    let cluster = Cluster::start(threaded(Shape::Star, Lanes::Int32Le, 3));
    let len = |rank: usize| if rank == 2 { LARGE - 1 } else { LARGE };
    for (_, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, |rank| values(rank, len(rank)))
    {
        assert!(matches!(failure(outcome), Failure::Mismatch { .. }));
    }
}
