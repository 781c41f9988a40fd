//! Sums in place that end in the middle: values are as they were, and results are aside.

mod cluster;

use std::ptr::NonNull;
use std::sync::mpsc;
use std::time::Duration;

use cluster::{Cluster, PATIENCE, Shape, plan};
use wiresum_codec::{ElementType, Operation};
use wiresum_node::engine::{CollectiveError, Engine, Outcome};
use wiresum_node::tensor::Elements;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_worker::{Failure, Kind};

/// More than its tail, whatever the number of threads.
const LEN: usize = 3 * 3000 * 256;
/// Microseconds after which the last of a row of jobs is stopped, of which each ends a little later than the one before.
const LATEST_US: u64 = 40_000;
const STEP_US: u64 = 2_000;
/// A value that is no sum.
const NOTHING: f32 = -1.0;

/// The memory of a rank.
struct Memory {
    values: Vec<f32>,
    aside: Vec<f32>,
}

fn value(rank: usize, at: usize) -> f32 {
    (rank + at % 100) as f32
}

fn sum(at: usize) -> f32 {
    (0..3).map(|rank| value(rank, at)).sum()
}

fn submit(engine: &Engine, memory: &mut Memory, ended: mpsc::Sender<Outcome>) {
    let data = NonNull::from(&mut memory.values[..]).cast();
    let aside = NonNull::from(&mut memory.aside[..]).cast();
    let encoding = engine.encoding(ElementType::Float32, Operation::Sum);
    // SAFETY: the caller leaves the memory alone until it has the outcome.
    let elements = unsafe { Elements::new(data, data, LEN, encoding).keeping(aside) };
    let done = Box::new(move |outcome| ended.send(outcome).expect("the test waits"));
    engine.submit_sum(Kind::AllReduce, 0, elements, PATIENCE, done).expect("the engine runs");
}

/// Whether a rank has the sums, or its values and aside the results that have come.
fn check(rank: usize, memory: &Memory, outcome: &Outcome) -> bool {
    let is = |of: fn(usize, usize) -> f32| (0..LEN).all(|at| memory.values[at] == of(rank, at));
    match outcome {
        Ok(_) => assert!(is(|_, at| sum(at)), "rank {rank}: no sums"),
        Err(CollectiveError::Protocol { failure: Failure::NotServed { .. }, .. }) => {
            assert!(is(value), "rank {rank}: its values are not as they were");
        }
        Err(error) => panic!("rank {rank}: {error}"),
    }
    outcome.is_ok()
}

/// Stops a job after this time; how many ranks had the sums by then.
fn stopped_after(delay: Duration, threads: u8) -> usize {
    let mut plan = plan(Shape::Star, 3, Lanes::Int32Le, Policy::Pool);
    plan.job.threads = threads;
    let cluster = Cluster::start(plan);
    let memory = |rank| {
        let values = (0..LEN).map(|at| value(rank, at)).collect();
        Memory { values, aside: vec![NOTHING; LEN] }
    };
    let mut memories: Vec<_> = (0..3).map(memory).collect();
    let mut ends = Vec::new();
    for (engine, memory) in cluster.engines.iter().zip(&mut memories) {
        let (ended, end) = mpsc::channel();
        submit(engine, memory, ended);
        ends.push(end);
    }
    std::thread::sleep(delay);
    cluster.engines.iter().for_each(|engine| engine.stop("enough".to_owned(), true));
    let outcomes: Vec<Outcome> = ends.iter().map(|end| end.recv().expect("an outcome")).collect();
    let ranks = memories.iter().zip(&outcomes).enumerate();
    let summed = ranks.filter(|(rank, (memory, outcome))| check(*rank, memory, outcome)).count();
    if summed > 0 {
        let engine = &cluster.engines[0];
        let tail = engine.tail(LEN, 4);
        assert!(tail.iter().map(ExactSizeIterator::len).sum::<usize>() < LEN, "{tail:?}");
        let is_in_tail = |at: &usize| tail.iter().any(|part| part.contains(at));
        for (memory, _) in memories.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_err()) {
            let lacks = (0..LEN).find(|at| !is_in_tail(at) && memory.aside[*at] != sum(*at));
            assert_eq!(lacks, None, "a result that all have is not aside");
        }
    }
    summed
}

#[test]
fn a_job_that_is_stopped_leaves_sums_or_values() {
    for threads in [1, 3] {
        let delays = (0..=LATEST_US).step_by(STEP_US as usize).map(Duration::from_micros);
        let summed: Vec<usize> = delays.map(|delay| stopped_after(delay, threads)).collect();
        assert!(summed.contains(&0), "none was stopped in the middle: {summed:?}");
    }
}
