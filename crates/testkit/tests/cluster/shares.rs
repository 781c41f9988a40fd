//! Rounds whose agreement carries all there is: every rank has the bytes of all, in one flight of packets.

use super::random::{random_conditions, random_streams, random_tree, run_schedules};
use super::*;
use wiresum_worker::largest_share;

const KINDS: &[Kind] = &[
    Kind::Barrier,
    Kind::SmallAllReduce,
    Kind::SmallReduce,
    Kind::SmallReduceScatter,
    Kind::SmallAllGather,
    Kind::SmallBroadcast,
    Kind::SmallGather,
    Kind::SmallScatter,
];

fn call(kind: Kind, size: usize) -> Call {
    Call { kind, root: 0, size }
}

fn shared(plan: Plan, conditions: Conditions, calls: &[Call]) -> Cluster {
    let mut cluster = Cluster::new(plan, conditions, 1);
    cluster.join_all();
    cluster.submit_calls(calls);
    cluster.run();
    cluster.assert_sums();
    cluster
}

fn star() -> Plan {
    plan(&Tree::star(3), &[POOL])
}

/// What a call takes after all have joined.
fn duration_of(plan: Plan, call: Call) -> u64 {
    let mut cluster = shared(plan, CALM, &[]);
    cluster.run_until(cluster.now().plus(Duration::from_millis(1)));
    let before = cluster.now();
    cluster.submit_calls(&[call]);
    cluster.run();
    cluster.hosts[0].finished[0].2.since(before).as_micros() as u64
}

#[test]
fn every_size_is_exact_up_to_the_largest() {
    let most = largest_share(&star()).expect("a star has room for shares");
    assert_eq!(most, (4 * 64 - 9) / 3 * 4, "four packets of 64 lanes, less three lanes a rank");
    for kind in KINDS {
        let sizes = [0, 1, 2, 3, 4, 5, 7, 8, 220, 221, most - 1, most];
        let sizes = sizes.map(|size| if *kind == Kind::Barrier { 0 } else { size });
        for lanes in ["int32-le", "int32-be", "int16-le", "int16-be", "auto"] {
            let calls = sizes.map(|size| call(*kind, size));
            shared(plan_with(&Tree::star(3), &[POOL], 64, lanes), CALM, &calls);
        }
    }
}

#[test]
fn trees_and_many_ranks_share_too() {
    for tree in [Tree::three_levels(), Tree::two_servers(), Tree::star(1), Tree::star(40)] {
        let plan = plan(&tree, &[POOL]);
        let most = largest_share(&plan).expect("room");
        let calls = [call(Kind::SmallAllReduce, most), call(Kind::Barrier, 0)];
        shared(plan, CALM, &calls);
    }
}

/// A round trip is two delays of a link on a star; the largest share takes no longer than none.
#[test]
fn a_share_takes_one_round_trip() {
    let most = largest_share(&star()).expect("room");
    let round_trip = 2 * (CALM.delay_ps / PS_PER_US);
    for call in [call(Kind::Barrier, 0), call(Kind::SmallAllReduce, most)] {
        let took = duration_of(star(), call);
        assert_eq!(took, round_trip, "{call:?}");
    }
    let summed = duration_of(star(), Call { kind: Kind::AllReduce, root: 0, size: 1 });
    assert_eq!(summed, 2 * round_trip, "a sum takes one for its exponent");
}

#[test]
fn a_share_does_not_wait_for_the_values_of_a_large_sum() {
    let conditions = Conditions { rate_bps: Some(1e8), ..CALM };
    let large = Call { kind: Kind::AllReduce, root: 0, size: 64 * 500 };
    let after = [large, call(Kind::SmallAllReduce, 4), large, call(Kind::Barrier, 0)];
    let cluster = shared(star(), conditions, &after);
    for host in &cluster.hosts {
        let order: Vec<u32> = host.finished.iter().map(|(round, ..)| round.0).collect();
        assert_eq!(order, [1, 3, 0, 2], "shares first, sums in their order");
    }
}

#[test]
fn ranks_that_disagree_are_told_what_each_has_passed() {
    let passed = |kinds: [(Kind, usize, u8); 3]| {
        let mut cluster = Cluster::new(star(), CALM, 1);
        cluster.join_all();
        for (rank, (kind, size, signature)) in kinds.into_iter().enumerate() {
            let tensor = Tensor::of(&cluster.plan, rank, 0, size).of_kind(kind, 0);
            cluster.submit(rank, tensor.with_signature(signature));
        }
        cluster.run();
        cluster.hosts.iter().map(|host| host.finished[0].1.clone()).collect::<Vec<_>>()
    };
    let small = (Kind::SmallAllReduce, 4, 6);
    for other in [
        (Kind::SmallAllReduce, 8, 6),
        (Kind::SmallAllReduce, 4, 7),
        (Kind::Barrier, 0, 0),
        (Kind::AllReduce, 4, 6),
        (Kind::SmallAllReduce, 300, 6),
        (Kind::AllReduce, 10_000, 3),
    ] {
        for outcome in passed([small, other, small]) {
            let failure = outcome.expect_err("ranks disagree");
            assert!(matches!(&failure, Failure::Mismatch { .. }), "{failure}");
            assert!(failure.to_string().contains("small all_reduce of 4 bytes"), "{failure}");
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_by_the_deadline() {
    let mut cluster = shared(star(), CALM, &[call(Kind::Barrier, 0)]);
    cluster.hosts[2].is_dead = true;
    for rank in 0..2 {
        let tensor = Tensor::of(&cluster.plan, rank, 1, 0).of_kind(Kind::Barrier, 0);
        cluster.submit_within(rank, tensor, Duration::from_secs(2));
    }
    cluster.run();
    let outcome = &cluster.hosts[0].finished[1].1;
    let is_named = |failure: &Failure| matches!(failure, Failure::Missing { missing, .. } if missing == &["w2"]);
    assert!(outcome.as_ref().is_err_and(is_named), "{outcome:?}");
}

#[test]
fn positions_pass_the_wrap() {
    let first = FragmentId(u32::MAX - 5);
    let mut cluster = Cluster::starting_at(star(), lossy(0.1), 3, first);
    cluster.join_all();
    cluster.submit_calls(&[call(Kind::SmallAllReduce, 200); 20]);
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn what_cannot_be_agreed_on_by_maximum_in_the_open_by_all_has_no_shares() {
    let sealed = |plan: &mut Plan| plan.job.sealed = true;
    let mut plan = star();
    assert!(largest_share(&plan).is_some());
    sealed(&mut plan);
    assert_eq!(largest_share(&plan), None);
}

/// Shares among sums, over a network that loses, doubles, damages, delays and reorders, with or without forecasts.
fn schedule(seed: u64) {
    let mut rng = Rng::new(seed);
    let tree = random_tree(&mut rng);
    let mut plan = plan(&tree, &random_streams(&mut rng));
    if rng.below(2) == 0 {
        plan.job.exponents = wiresum_protocol::plan::Exponents::Expected;
    }
    let (ranks, most) = (plan.workers.len(), largest_share(&plan).expect("room") as u64);
    let conditions = random_conditions(&mut rng);
    let mut cluster = Cluster::new(plan, conditions, seed);
    let call = |rng: &mut Rng| match rng.below(3) {
        0 => call(Kind::Barrier, 0),
        1 => {
            let size = rng.below(most + 1) as usize;
            Call::random_of(&KINDS[1..], rng, ranks, size)
        }
        _ => {
            let size = 1 + rng.below(3000) as usize;
            Call::random(rng, ranks, size)
        }
    };
    let calls: Vec<Call> = (0..1 + rng.below(12)).map(|_| call(&mut rng)).collect();
    for rank in 0..ranks {
        cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(2000))));
        cluster.join(rank);
        calls.iter().for_each(|call| cluster.submit_next(rank, *call));
    }
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn shares_are_exact_under_random_misfortune() {
    run_schedules("shares::shares_are_exact_under_random_misfortune", 0, schedule);
}
