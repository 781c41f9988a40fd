//! Jobs of switches that agree by maximum: block exponents, narrow lanes, forecasts, and rounds without late workers.

use std::time::Duration;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::Policy;
use wiresum_protocol::plan::{Count, Exponents, Lanes, Rounds};
use wiresum_testkit::cluster::Tensor;
use wiresum_worker::Kind;

use crate::bed::{Bed, Ended};
use crate::plans::{Shape, plan};
use crate::{ALL, shapes, values};

const PATIENCE: Duration = Duration::from_secs(60);
/// Their number has no factor in common with that of kinds.
const LENGTHS: [usize; 4] = [1, 1000, 64 * 40, 77];
/// Kinds that sum; copies need streams that no switch has.
const KINDS: [Kind; 3] = [Kind::AllReduce, Kind::Reduce, Kind::ReduceScatter];
/// Every kind has every length, once.
const ROUNDS: usize = LENGTHS.len() * KINDS.len();

/// A plan whose workers agree on exponents.
pub fn block(policy: Policy, shape: Shape, change: impl Fn(&mut Plan)) -> Plan {
    let mut plan = plan(policy, shape);
    plan.job.codec = "block".into();
    change(&mut plan);
    plan.validate().unwrap_or_else(|error| panic!("{policy:?}, {shape:?}: {error}"));
    plan
}

/// Sums these lengths with every kind of collective, each rank with exponents of its own, in place or not.
fn check_sums(plan: &Plan, loss: f64) {
    let mut bed = Bed::new(plan, loss, 7);
    bed.join_all();
    let tensor = |rank, round: usize| {
        let (len, kind) = (LENGTHS[round % LENGTHS.len()], KINDS[round % KINDS.len()]);
        let root = if kind.has_root() { 2 } else { 0 };
        let tensor = Tensor::of(plan, rank, round, len).of_kind(kind, root);
        if rank % 2 == 0 { tensor.out_of_place() } else { tensor }
    };
    let rounds: Vec<Vec<Tensor>> = (0..ROUNDS)
        .map(|round| (0..bed.workers()).map(|rank| tensor(rank, round)).collect())
        .collect();
    for tensors in &rounds {
        for (rank, tensor) in tensors.iter().enumerate() {
            bed.submit_tensor(rank, tensor.clone(), PATIENCE);
        }
    }
    bed.run(2 * PATIENCE);
    for (round, tensors) in rounds.iter().enumerate() {
        let sum = Tensor::sum(&tensors.iter().collect::<Vec<_>>());
        for (rank, tensor) in tensors.iter().enumerate() {
            let ended = &bed.ended(rank)[round];
            assert!(matches!(ended, Ended::Sum(_)), "rank {rank}, round {round}: {ended:?}");
            let expected = tensor.expected(&sum);
            assert_eq!(tensor.memory(), expected, "rank {rank}, round {round}");
        }
    }
}

#[test]
fn every_policy_sums_with_block_exponents_in_wide_and_narrow_lanes() {
    for policy in ALL {
        for shape in shapes(policy) {
            for (lanes, loss) in [(Lanes::Int32Le, 0.03), (Lanes::Int16Be, 0.0)] {
                check_sums(&block(policy, shape, |plan| plan.job.lanes = lanes), loss);
            }
        }
    }
}

#[test]
fn exponents_may_be_forecast_at_switches() {
    for policy in [Policy::Exclusive, Policy::Hash] {
        let expected = |plan: &mut Plan| plan.job.exponents = Exponents::Expected;
        check_sums(&block(policy, Shape::Tree, expected), 0.02);
    }
}

#[test]
fn rounds_need_switches_that_let_go_of_what_is_in() {
    for policy in ALL {
        let mut plan = plan(policy, Shape::Star);
        let rounds = Rounds { most_missed: 4, counts: Vec::new() };
        (plan.job.codec, plan.job.rounds) = ("block".into(), Some(rounds));
        let refusal = plan.validate().err().map(|error| error.to_string());
        match policy {
            Policy::Hash | Policy::Preempt => assert_eq!(refusal, None),
            _ => assert!(refusal.expect("a refusal").contains("job.rounds"), "{policy:?}"),
        }
    }
}

#[test]
fn a_round_goes_on_without_a_late_worker_and_its_owner_gets_the_sums() {
    // Who sends again makes the switch let go of what is in, so that the server, node 3, can tell who that is.
    let plan = block(Policy::Hash, Shape::Star, |plan| {
        let counts = vec![Count { node: 3, k: 3 }];
        plan.job.rounds = Some(Rounds { most_missed: 4, counts });
    });
    let mut bed = Bed::new(&plan, 0.0, 3);
    bed.join_all();
    for rank in [0, 1, 3] {
        bed.submit(rank, values(rank, 0, 500), PATIENCE);
    }
    bed.run(Duration::from_secs(5));
    let sum = |i| [0, 1, 3].map(|rank| values(rank, 0, 500)[i]).iter().sum::<i32>();
    let expected: Vec<i32> = (0..500).map(sum).collect();
    for rank in [0, 1, 3] {
        let Ended::Sum(sum) = &bed.ended(rank)[0] else { panic!("rank {rank} waits") };
        assert_eq!(*sum, expected, "rank {rank}");
    }
    bed.submit(2, values(2, 0, 500), PATIENCE);
    bed.run(Duration::from_secs(5));
    let Ended::Sum(sum) = &bed.ended(2)[0] else { panic!("the late worker waits") };
    assert_eq!(*sum, expected);
}
