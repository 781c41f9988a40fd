//! Thousands of random schedules: plans, misfortune, garbage and lateness, all from a seed.
//!
//! A failure prints its seed and the command that replays it.

use super::*;
use wiresum_protocol::plan::Exponents;
use wiresum_testkit::seeds::for_each_seed;

/// Schedules per test, each some milliseconds; the tests run side by side.
const SCHEDULES: u64 = 1000;

pub(super) fn run_schedules(test: &'static str, first_seed: u64, schedule: fn(u64)) {
    let test = format!("-p wiresum-testkit --test cluster {test} -- --exact");
    for_each_seed(&test, first_seed, SCHEDULES, schedule);
}

pub(super) fn random_tree(rng: &mut Rng) -> Tree {
    let shapes = [2, 3, 5, 8].map(Tree::star);
    match rng.below(7) {
        0 => Tree::star(1),
        shape @ 1..=4 => shapes.into_iter().nth(shape as usize - 1).expect("four stars"),
        5 => Tree(vec![
            (0, None, vec![Child::Node(1), Child::Node(2)]),
            (1, Some(0), (0..2).map(Child::Worker).collect()),
            (2, Some(0), vec![Child::Worker(2)]),
        ]),
        _ => Tree::three_levels(),
    }
}

pub(super) fn random_streams(rng: &mut Rng) -> Vec<Values> {
    let count = 1 + rng.below(3);
    let stream = |rng: &mut Rng| {
        let slots = 1 << rng.below(8);
        let window = 1 + rng.below(slots.into()) as u32;
        let policy = if rng.below(2) == 0 { "pool" } else { "cache" };
        Values { share: 1.0 / count as f64, policy, slots, window }
    };
    (0..count).map(|_| stream(rng)).collect()
}

pub(super) fn random_conditions(rng: &mut Rng) -> Conditions {
    let up_to = |rng: &mut Rng, most: f64| {
        if rng.below(3) == 0 { 0.0 } else { most * rng.below(1000) as f64 / 1000.0 }
    };
    Conditions {
        loss: up_to(rng, 0.2),
        duplication: up_to(rng, 0.3),
        late_ps: [20, 2000, 2_000_000][rng.below(3) as usize] * PS_PER_US,
        reordering: up_to(rng, 0.5),
        jitter_ps: [20, 500, 50_000][rng.below(3) as usize] * PS_PER_US,
        damage: up_to(rng, 0.05),
        delay_ps: [1, 50, 5000][rng.below(3) as usize] * PS_PER_US,
        rate_bps: [None, Some(1e8), Some(1e9)][rng.below(3) as usize],
        queue_bytes: 100_000,
        ..CALM
    }
}

/// A plan of any kind: with exchanges, sealed, proven, or none of these.
pub(super) fn random_plan(rng: &mut Rng, seed: u64) -> Plan {
    let (tree, streams) = (random_tree(rng), random_streams(rng));
    let lanes = ["int32-le", "int32-be", "int16-le", "int16-be", "auto"][rng.below(5) as usize];
    let mut plan = plan_with(&tree, &streams, 64, lanes);
    let is_star = plan.nodes.len() == 1;
    if is_star && plan.workers.len() > 1 && rng.below(2) == 0 {
        return with_exchanges(plan, 32, 16);
    }
    plan.job.sealed = seed.is_multiple_of(2);
    plan.job.proven = is_star && !plan.job.sealed;
    plan
}

/// Those of some kinds that a plan has streams or room for.
pub(super) fn kinds_of(plan: &Plan, kinds: &[Kind]) -> Vec<Kind> {
    let (has_exchanges, is_sealed) = (plan.has_exchanges(), plan.job.sealed);
    let fits = |kind: &Kind| has_exchanges || !kind.is_copy() || kind.is_share() && !is_sealed;
    kinds.iter().copied().filter(fits).collect()
}

/// About so many elements of a collective of this kind, as many as it may have.
pub(super) fn size_of(kind: Kind, size: usize) -> usize {
    match kind {
        Kind::Barrier => 0,
        kind if kind.is_share() => size % 16,
        _ => size,
    }
}

fn random_cluster(rng: &mut Rng, seed: u64) -> Cluster {
    let lanes = ["int32-le", "int32-be", "int16-le", "int16-be", "auto"][rng.below(5) as usize];
    let mut plan = plan_with(&random_tree(rng), &random_streams(rng), 64, lanes);
    if rng.below(2) == 0 && !lanes.starts_with("int16") {
        plan.job.exponents = Exponents::Expected;
    }
    plan.job.sealed = seed.is_multiple_of(2);
    let first = if rng.below(2) == 0 { 0 } else { (rng.below(50) as u32).wrapping_neg() };
    Cluster::starting_at(plan, random_conditions(rng), seed, FragmentId(first))
}

/// Collectives of any kind.
pub(super) fn random_calls(rng: &mut Rng, cluster: &Cluster, most: u64) -> Vec<Call> {
    let scale = [1, 100, 3000][rng.below(3) as usize];
    let size = |rng: &mut Rng| rng.below(scale + 1) as usize;
    let sizes: Vec<usize> = (0..=rng.below(most)).map(|_| size(rng)).collect();
    sizes.into_iter().map(|size| Call::random(rng, cluster.hosts.len(), size)).collect()
}

/// Workers start and pass their collectives at times of their own.
fn run_with_stragglers(cluster: &mut Cluster, calls: &[Call], rng: &mut Rng) {
    let mut pending: Vec<(Time, usize)> = (0..cluster.hosts.len())
        .map(|rank| {
            (cluster.now().plus(Duration::from_micros(rng.below(3) * rng.below(2_000_000))), rank)
        })
        .collect();
    pending.sort();
    for (at, rank) in pending {
        cluster.run_until(at);
        cluster.join(rank);
        calls.iter().for_each(|call| cluster.submit_next(rank, *call));
    }
    cluster.run();
}

/// Strangers' datagrams, and the job's own with forged fields.
fn inject_garbage(cluster: &mut Cluster, rng: &mut Rng) {
    let addresses: Vec<SocketAddr> = cluster
        .hosts
        .iter()
        .map(|h| h.address)
        .chain(cluster.nodes.iter().map(|n| n.address))
        .collect();
    let pick = |rng: &mut Rng| addresses[rng.below(addresses.len() as u64) as usize];
    for _ in 0..rng.below(40) {
        let mut bytes = vec![0; rng.below(300) as usize];
        rng.fill(&mut bytes);
        if rng.below(2) == 0 && bytes.len() > 4 {
            bytes[..4].copy_from_slice(&[0x57, 0x53, 1, 1 + rng.below(8) as u8]);
        }
        let (source, destination) = (pick(rng), pick(rng));
        cluster.send(source, destination, &bytes);
    }
}

fn sums_are_exact(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut cluster = random_cluster(&mut rng, seed);
    inject_garbage(&mut cluster, &mut rng);
    let calls = random_calls(&mut rng, &cluster, 5);
    run_with_stragglers(&mut cluster, &calls, &mut rng);
    cluster.assert_sums();
}

fn restarts_are_clean(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut cluster = random_cluster(&mut rng, seed);
    for _ in 0..rng.below(3) {
        cluster.join_all();
        let calls = random_calls(&mut rng, &cluster, 5);
        cluster.submit_calls(&calls);
        let pause = Duration::from_micros(rng.below(400_000));
        cluster.run_until(cluster.now().plus(pause));
        cluster.restart();
    }
    let calls = random_calls(&mut rng, &cluster, 5);
    run_with_stragglers(&mut cluster, &calls, &mut rng);
    cluster.assert_sums();
}

fn survivors_fail_in_time(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut cluster = random_cluster(&mut rng, seed);
    cluster.join_all();
    while !cluster.hosts.iter().all(|host| host.has_joined) {
        cluster.step();
    }
    let patience = Duration::from_secs(10);
    for rank in 0..cluster.hosts.len() {
        let tensor = Tensor::of(&cluster.plan, rank, 0, 3000);
        cluster.submit_within(rank, tensor, patience);
    }
    let deadline = cluster.now().plus(patience);
    cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(5_000))));
    if rng.below(2) == 0 {
        let index = rng.below(cluster.nodes.len() as u64) as usize;
        cluster.nodes[index].is_dead = true;
    } else {
        let rank = rng.below(cluster.hosts.len() as u64) as usize;
        cluster.hosts[rank].is_dead = true;
    }
    cluster.run();
    assert!(cluster.now() <= deadline, "{:?} is after the deadline {deadline:?}", cluster.now());
    for host in cluster.hosts.iter().filter(|host| !host.is_dead) {
        match &host.finished[0].1 {
            Ok(()) => assert_eq!(host.tensors[0].values(), cluster.expected_sum(0)),
            Err(failure) => assert!(
                matches!(
                    failure,
                    Failure::Missing { .. } | Failure::NoResult { .. } | Failure::Silent { .. }
                ),
                "{failure:?}"
            ),
        }
    }
}

/// Servers die and come back, or are taken for dead, at any time.
fn removals_are_clean(seed: u64) {
    let mut rng = Rng::new(seed);
    let (tree, removable) = match rng.below(2) {
        0 => (Tree::two_servers(), [1, 2]),
        _ => (Tree::three_levels(), [2, 3]),
    };
    let mut plan = plan_with(&tree, &random_streams(&mut rng), 64, "auto");
    plan.job.sealed = seed.is_multiple_of(2);
    let mut cluster =
        Cluster::starting_at(plan, random_conditions(&mut rng), seed, FragmentId(u32::MAX - 20));
    cluster.join_all();
    while !cluster.hosts.iter().all(|host| host.has_joined) {
        assert!(cluster.step());
    }
    for _ in 0..=rng.below(4) {
        let calls = random_calls(&mut rng, &cluster, 5);
        cluster.submit_calls(&calls);
        cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(20_000))));
        let node = removable[rng.below(2) as usize];
        if rng.below(3) == 0 {
            let rank = rng.below(cluster.hosts.len() as u64) as usize;
            cluster.take_for_dead(rank, node);
        } else {
            cluster.kill(node);
            cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(900_000))));
            cluster.revive(node);
        }
        cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(2) * 700_000)));
    }
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn a_removal_loses_nothing_and_counts_nothing_twice() {
    run_schedules(
        "random::a_removal_loses_nothing_and_counts_nothing_twice",
        4 << 20,
        removals_are_clean,
    );
}

#[test]
fn sums_are_exact_whatever_the_network_does() {
    run_schedules("random::sums_are_exact_whatever_the_network_does", 0, sums_are_exact);
}

#[test]
fn sums_are_exact_whatever_the_network_does_again() {
    run_schedules(
        "random::sums_are_exact_whatever_the_network_does_again",
        1 << 20,
        sums_are_exact,
    );
}

#[test]
fn a_new_incarnation_starts_clean_whatever_came_before() {
    run_schedules(
        "random::a_new_incarnation_starts_clean_whatever_came_before",
        2 << 20,
        restarts_are_clean,
    );
}

#[test]
fn a_death_ends_every_round_by_its_deadline() {
    run_schedules(
        "random::a_death_ends_every_round_by_its_deadline",
        3 << 20,
        survivors_fail_in_time,
    );
}
