//! Sealed sums at switches, of which one lies.

use super::*;
use agreement::block;
use wiresum_testkit::cluster::Tensor;
use wiresum_wire::SubModelId;

fn sealed(policy: Policy, shape: Shape) -> Plan {
    let mut plan = plan(policy, shape);
    plan.job.sealed = true;
    plan.validate().expect("it fits");
    plan
}

#[test]
fn every_policy_sums_what_it_cannot_read() {
    for policy in ALL {
        for shape in shapes(policy) {
            let mut bed = Bed::new(&sealed(policy, shape), 0.03, 7);
            bed.join_all();
            sum_all(bed, &[1, 1000, 56 * 40, 5]);
        }
    }
}

/// What each rank ends with where the node that has the sums changes those of a stream.
fn told_lies(plan: &Plan, stream: u16) -> Vec<Ended> {
    let mut bed = Bed::new(plan, 0.0, 3);
    bed.join_all();
    let root = plan.streams[usize::from(stream)].root().expect("a tree");
    bed.lie_at(root.0, SubModelId(stream));
    for rank in 0..bed.workers() {
        bed.submit(rank, values(rank, 0, 500), Duration::from_secs(4));
    }
    bed.run(Duration::from_secs(20));
    (0..bed.workers()).map(|rank| bed.ended(rank)[0].clone()).collect()
}

#[test]
fn a_switch_or_server_that_changes_a_sum_or_a_check_is_named() {
    for policy in [Policy::Hash, Policy::Exclusive] {
        for stream in [0, 1] {
            let plan = sealed(policy, Shape::Tree);
            let named = &plan.nodes[usize::from(plan.streams[1].root().expect("a tree").0)].name;
            for ended in told_lies(&plan, stream) {
                let Ended::Failed(Failure::Altered { suspects, .. }) = ended else {
                    panic!("{policy:?}, stream {stream}: {ended:?}");
                };
                assert!(suspects.contains(named), "{suspects:?}");
            }
        }
    }
}

/// Rounds without positions for values in an open job have some in a sealed one: ranks say in these that it is so.
#[test]
fn a_value_that_is_not_finite_is_vouched_for_at_switches_too() {
    for policy in [Policy::Hash, Policy::Exclusive, Policy::Cache] {
        let mut bed = Bed::new(&block(policy, Shape::Tree, |plan| plan.job.sealed = true), 0.01, 5);
        bed.join_all();
        for (rank, round) in (0..bed.workers()).flat_map(|rank| (0..3).map(move |n| (rank, n))) {
            let tensor = Tensor::of(bed.plan(), rank, round, 3000);
            let is_infinite = (rank, round) == (2, 1);
            let tensor = if is_infinite { tensor.with_infinity_at(1500) } else { tensor };
            bed.submit_tensor(rank, tensor, Duration::from_secs(60));
        }
        bed.run(Duration::from_secs(120));
        for rank in 0..bed.workers() {
            let ended = bed.ended(rank);
            let is_spared = matches!(ended[1], Ended::Failed(Failure::NotFinite));
            assert!(is_spared, "{policy:?}, rank {rank}: {ended:?}");
            assert!(matches!(ended[0], Ended::Sum(_)) && matches!(ended[2], Ended::Sum(_)));
        }
    }
}

/// So that the test above can fail.
#[test]
fn without_seals_everyone_takes_the_lie() {
    for ended in told_lies(&plan(Policy::Exclusive, Shape::Tree), 1) {
        let Ended::Sum(sum) = ended else { panic!("{ended:?}") };
        let expected: i32 = (0..4).map(|rank| values(rank, 0, 1)[0]).sum();
        assert_eq!(sum[0], expected + 1);
    }
}
