//! Rounds that go on without late workers.

use super::random::{random_calls, random_conditions, random_streams, random_tree, run_schedules};
use super::*;
use wiresum_protocol::plan::{Count, Rounds};

/// A plan whose rounds take this many children at each node named.
fn partial(tree: &Tree, stream: Values, counts: &[(u16, u8)], most_missed: u16) -> Plan {
    with_counts(plan(tree, &[stream]), counts, most_missed)
}

fn with_counts(mut plan: Plan, counts: &[(u16, u8)], most_missed: u16) -> Plan {
    let counts = counts.iter().map(|&(node, k)| Count { node, k }).collect();
    plan.job.rounds = Some(Rounds { counts, most_missed });
    plan
}

fn joined(plan: Plan, conditions: Conditions) -> Cluster {
    let mut cluster = Cluster::new(plan, conditions, 1);
    cluster.join_all();
    cluster.run_until(cluster.now().plus(Duration::from_secs(1)));
    cluster
}

fn pass_next(cluster: &mut Cluster, rank: usize, size: usize) {
    let tensor = Tensor::of(&cluster.plan, rank, cluster.hosts[rank].tensors.len(), size);
    cluster.submit(rank, tensor);
}

/// Long enough for every round that can end without those who are late.
fn let_pass(cluster: &mut Cluster) {
    cluster.run_until(cluster.now().plus(Duration::from_secs(5)));
}

fn done(cluster: &Cluster) -> Vec<usize> {
    cluster.hosts.iter().map(|host| host.finished.len()).collect()
}

/// Asserts that all ranks have the same sum in every round: of exactly those that took part, as many as each was told.
/// How many that were, by round.
fn assert_partial_sums(cluster: &Cluster) -> Vec<usize> {
    let rounds = cluster.hosts[0].finished.len();
    (0..rounds).map(|round| assert_partial_sum(cluster, round)).collect()
}

fn assert_partial_sum(cluster: &Cluster, round: usize) -> usize {
    let hosts = || cluster.hosts.iter();
    let took_part = |host: &&Host| host.participations[round].is_own_in;
    let tensors: Vec<&Tensor> = hosts().filter(took_part).map(|h| &h.tensors[round]).collect();
    assert!(!tensors.is_empty(), "nobody took part in round {round}");
    let expected = Tensor::sum(&tensors);
    for (rank, host) in hosts().enumerate() {
        let (number, outcome, _) = &host.finished[round];
        assert_eq!((number.0 as usize, outcome), (round, &Ok(())), "worker {rank}");
        let tensor = &host.tensors[round];
        let memory = tensor.expected(&expected);
        assert_eq!(tensor.memory(), memory, "worker {rank}, round {round}");
        assert_eq!(host.participations[round].ranks as usize, tensors.len(), "worker {rank}");
        let told = tensor.participation();
        let is_told = told == Some(tensors.len() as u32) || expected.is_empty();
        assert!(is_told, "worker {rank} decoded a sum of {told:?}, round {round}");
    }
    tensors.len()
}

#[test]
fn a_round_ends_without_the_late_and_they_get_its_sum() {
    for (stream, size) in [(POOL, 100), (CACHE, 20_000)] {
        let mut cluster = joined(partial(&Tree::star(4), stream, &[(0, 3)], 1), CALM);
        (0..3).for_each(|rank| pass_next(&mut cluster, rank, size));
        let_pass(&mut cluster);
        assert_eq!(done(&cluster), [1, 1, 1, 0]);
        pass_next(&mut cluster, 3, size);
        assert_eq!(done(&cluster), [1, 1, 1, 1], "the sum was waiting");
        assert_eq!(assert_partial_sums(&cluster), [3]);
        assert!(!cluster.hosts[3].participations[0].is_own_in);
    }
}

#[test]
fn a_round_waits_for_as_many_as_the_plan_says() {
    let mut cluster = joined(partial(&Tree::star(4), POOL, &[(0, 3)], 1), CALM);
    (0..2).for_each(|rank| pass_next(&mut cluster, rank, 100));
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [0; 4]);
    pass_next(&mut cluster, 2, 100);
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [1, 1, 1, 0]);
}

#[test]
fn each_node_counts_its_own_children() {
    // Workers 0 and 1 are at node 1, 2 and 3 at node 2.
    let tree = || {
        Tree(vec![
            (0, None, vec![Child::Node(1), Child::Node(2)]),
            (1, Some(0), vec![Child::Worker(0), Child::Worker(1)]),
            (2, Some(0), vec![Child::Worker(2), Child::Worker(3)]),
        ])
    };
    let mut cluster = joined(partial(&tree(), POOL, &[(1, 1)], 1), CALM);
    [0, 2].into_iter().for_each(|rank| pass_next(&mut cluster, rank, 100));
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [0; 4], "node 2 takes both of its workers");
    pass_next(&mut cluster, 3, 100);
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [1, 0, 1, 1], "node 1 takes one");
    pass_next(&mut cluster, 1, 100);
    assert_eq!(assert_partial_sums(&cluster), [3]);
}

#[test]
fn the_owner_may_come_while_its_round_is_under_way() {
    let mut cluster = joined(
        partial(&Tree::star(3), POOL, &[(0, 2)], 1),
        Conditions { delay_ps: 5000 * PS_PER_US, ..CALM },
    );
    (0..2).for_each(|rank| pass_next(&mut cluster, rank, 5000));
    while cluster.worker_count(2, "rounds_ahead") == 0 {
        assert!(cluster.step());
    }
    pass_next(&mut cluster, 2, 5000);
    pass_next(&mut cluster, 2, 70);
    (0..2).for_each(|rank| pass_next(&mut cluster, rank, 70));
    cluster.run();
    assert_eq!(assert_partial_sums(&cluster), [2, 3]);
}

#[test]
fn a_worker_misses_so_many_rounds_in_a_row_and_then_is_waited_for() {
    let mut cluster = joined(partial(&Tree::star(3), POOL, &[(0, 2)], 4), CALM);
    for _ in 0..6 {
        (0..2).for_each(|rank| pass_next(&mut cluster, rank, 300));
    }
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [4, 4, 0]);
    (0..4).for_each(|_| pass_next(&mut cluster, 2, 300));
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [4, 4, 4], "it has not been in time yet");
    pass_next(&mut cluster, 2, 300);
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [6, 6, 5], "it was, once");
    pass_next(&mut cluster, 2, 300);
    assert_eq!(assert_partial_sums(&cluster), [2, 2, 2, 2, 3, 2]);
}

#[test]
fn counts_can_change_while_a_job_runs() {
    let mut cluster = joined(partial(&Tree::star(3), POOL, &[], 8), CALM);
    (0..2).for_each(|rank| pass_next(&mut cluster, rank, 10));
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [0; 3]);
    cluster.hosts[2].session.await_members(2);
    cluster.drive(2);
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [1, 1, 0]);
}

#[test]
fn a_late_tensor_of_another_shape_is_told() {
    let mut cluster = joined(partial(&Tree::star(3), POOL, &[(0, 2)], 8), CALM);
    for _ in 0..2 {
        (0..2).for_each(|rank| pass_next(&mut cluster, rank, 10));
    }
    let_pass(&mut cluster);
    pass_next(&mut cluster, 2, 11);
    pass_next(&mut cluster, 2, 10);
    let shapes = [10, 10, 11].map(|elements| Some(Shape { elements, signature: 3 })).to_vec();
    let mismatch = Err(Failure::Mismatch { round: Round(0), shapes });
    let outcomes: Vec<_> = cluster.hosts[2].finished.iter().map(|f| f.1.clone()).collect();
    assert_eq!(outcomes, [mismatch.clone(), mismatch], "the job is over for it");
    assert_eq!(cluster.hosts[2].tensors[0].values(), cluster.hosts[2].tensors[0].own());
}

#[test]
fn the_late_learn_how_wide_lanes_are() {
    let auto = plan_with(&Tree::star(4), &[POOL], 64, "auto");
    let mut cluster = joined(with_counts(auto, &[(0, 3)], 2), CALM);
    for size in [1000, 5000] {
        (0..3).for_each(|rank| pass_next(&mut cluster, rank, size));
    }
    let_pass(&mut cluster);
    [1000, 5000].into_iter().for_each(|size| pass_next(&mut cluster, 3, size));
    assert_eq!(assert_partial_sums(&cluster), [3, 3]);
}

#[test]
fn what_is_not_finite_is_so_for_the_late_too() {
    let mut cluster = joined(partial(&Tree::star(3), POOL, &[(0, 2)], 8), CALM);
    let bad = Tensor::of(&cluster.plan, 0, 0, 100).with_infinity_at(7);
    cluster.submit(0, bad);
    pass_next(&mut cluster, 1, 100);
    let_pass(&mut cluster);
    pass_next(&mut cluster, 2, 100);
    for host in &cluster.hosts {
        assert_eq!(host.finished[0].1, Err(Failure::NotFinite));
        assert_eq!(host.tensors[0].values(), host.tensors[0].own());
    }
}

#[test]
fn a_late_worker_goes_on_when_its_node_dies() {
    let mut cluster = joined(partial(&Tree::three_levels(), POOL, &[(3, 1)], 64), CALM);
    (0..5).for_each(|rank| pass_next(&mut cluster, rank, 3000));
    while cluster.worker_count(5, "rounds_ahead") == 0 {
        assert!(cluster.step());
    }
    let node = cluster.nodes.iter().position(|n| n.id == NodeId(3)).expect("in the tree");
    cluster.nodes[node].is_dead = true;
    let_pass(&mut cluster);
    assert_eq!(done(&cluster), [1, 1, 1, 1, 1, 0]);
    pass_next(&mut cluster, 5, 3000);
    assert_eq!(assert_partial_sums(&cluster), [5]);
}

#[test]
fn partial_sums_are_exact_in_random_schedules() {
    run_schedules(
        "quorum::partial_sums_are_exact_in_random_schedules",
        80_000,
        partial_sums_are_exact,
    );
}

fn partial_sums_are_exact(seed: u64) {
    let mut rng = Rng::new(seed);
    let (tree, streams) = (random_tree(&mut rng), random_streams(&mut rng));
    let counts: Vec<(u16, u8)> = tree
        .0
        .iter()
        .map(|(node, _, children)| (*node, 1 + rng.below(children.len() as u64) as u8))
        .collect();
    let most_missed = 1 + rng.below(6) as u16;
    let mut plan = with_counts(plan_with(&tree, &streams, 64, "auto"), &counts, most_missed);
    plan.job.sealed = seed.is_multiple_of(2);
    let mut cluster = Cluster::new(plan, random_conditions(&mut rng), seed);
    cluster.join_all();
    for (at, rank, call) in random_submissions(&cluster, &mut rng) {
        cluster.run_until(at);
        cluster.submit_next(rank, call);
    }
    cluster.run();
    assert_partial_sums(&cluster);
}

/// When which rank passes which collective: the same ones everywhere, after pauses of its own.
fn random_submissions(cluster: &Cluster, rng: &mut Rng) -> Vec<(Time, usize, Call)> {
    let calls = random_calls(rng, cluster, 7);
    let longest_us = [1, 5_000, 200_000][rng.below(3) as usize];
    let mut submissions = Vec::new();
    for rank in 0..cluster.hosts.len() {
        let mut at = cluster.now();
        for call in &calls {
            at = at.plus(Duration::from_micros(rng.below(longest_us)));
            submissions.push((at, rank, *call));
        }
    }
    submissions.sort_by_key(|(at, rank, _)| (*at, *rank));
    submissions
}
