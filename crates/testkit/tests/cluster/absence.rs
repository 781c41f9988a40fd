//! Incarnations that go on without some workers: sums are those of the others, and nobody waits for whom nobody expects.

use super::random::{kinds_of, random_conditions, random_plan, run_schedules, size_of};
use super::*;

/// All kinds but all-gathers, as nobody gives an absent rank's share.
const KINDS: &[Kind] = &[
    Kind::AllReduce,
    Kind::Reduce,
    Kind::ReduceScatter,
    Kind::Broadcast,
    Kind::SmallAllReduce,
    Kind::Barrier,
];

/// The same job again without these workers.
fn go_on_without(cluster: &mut Cluster, absent: &[u32]) {
    cluster.restart_without(absent);
    cluster.join_all();
}

fn assert_participations(cluster: &Cluster, ranks: u32) {
    for host in cluster.hosts.iter().filter(|host| !host.is_dead) {
        let all = host.participations.iter();
        assert!(all.clone().all(|p| p.ranks == ranks && p.is_own_in), "{:?}", host.participations);
    }
}

#[test]
fn the_others_sum_after_a_worker_has_died_in_mid_round() {
    let mut cluster = Cluster::joined(&Tree::star(4), POOL, CALM, 1);
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.hosts[2].is_dead = true;
    cluster.submit_all(&[640]);
    cluster.run_until(cluster.now().plus(Duration::from_secs(1)));
    assert!(!cluster.is_finished(), "nobody can end a round without worker 2");
    go_on_without(&mut cluster, &[2]);
    cluster.submit_all(&[640, 64, 1]);
    cluster.run();
    cluster.assert_sums();
    assert_participations(&cluster, 3);
    let participation = cluster.hosts[0].tensors[0].participation();
    assert_eq!(participation, Some(3), "so that sums and averages are scaled");
}

/// As a job does that outlives its workers: nobody ends a round until the owners stop it.
#[test]
fn a_lost_worker_is_told_and_ends_nothing() {
    let mut cluster = Cluster::joined(&Tree::three_levels(), POOL, CALM, 1);
    cluster.hosts.iter_mut().for_each(|host| host.session.outlive_workers());
    cluster.keep_alive(Duration::from_secs(1));
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.hosts[4].is_dead = true;
    cluster.submit_all(&[640]);
    cluster.run_until(cluster.now().plus(Duration::from_secs(5)));
    for rank in [0, 1, 2, 3, 5] {
        let host = &cluster.hosts[rank];
        let told: Vec<_> = host.lost.iter().map(|(why, _)| why).collect();
        let is_right = matches!(told[..], [Failure::WorkerLost { rank: 4, is_own: false, .. }]);
        assert!(is_right, "rank {rank}: {told:?}");
        assert_eq!(host.finished.len(), 1, "rank {rank}");
        cluster.hosts[rank].session.stop("rank 4 is lost".to_owned(), true);
        cluster.drive(rank);
        let outcome = &cluster.hosts[rank].finished[1].1;
        assert!(matches!(outcome, Err(Failure::NotServed { .. })), "{outcome:?}");
    }
    go_on_without(&mut cluster, &[4]);
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn everyone_may_come_back_in_a_later_incarnation() {
    let mut cluster = Cluster::joined(&Tree::three_levels(), CACHE, CALM, 1);
    for absent in [&[4][..], &[], &[0, 5], &[]] {
        go_on_without(&mut cluster, absent);
        cluster.submit_all(&[640, 640]);
        cluster.run();
        cluster.assert_sums();
        assert_participations(&cluster, 6 - absent.len() as u32);
    }
}

/// Node 3 has workers 4 and 5 alone, and node 1 that node and worker 1.
#[test]
fn nobody_waits_for_a_node_without_workers() {
    for absent in [&[4, 5][..], &[1, 4, 5], &[0, 2, 3], &[1, 2, 3, 4, 5]] {
        let mut cluster = Cluster::new(plan(&Tree::three_levels(), &[POOL]), CALM, 1);
        go_on_without(&mut cluster, absent);
        cluster.submit_all(&[640, 640]);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn who_does_not_know_who_is_absent_is_turned_away() {
    let mut cluster = Cluster::joined(&Tree::star(3), POOL, CALM, 1);
    cluster.restart_without(&[2]);
    cluster.join(0);
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    let other = Session::new(&cluster.plan, 1, INCARNATION + 1);
    cluster.hosts[1].session = other;
    cluster.join(1);
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    let (_, outcome, _) = &cluster.hosts[1].finished[0];
    let Err(Failure::Refused { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("without"), "{reason}");
}

#[test]
fn a_worker_that_was_given_up_is_turned_away() {
    let mut cluster = Cluster::joined(&Tree::star(3), POOL, CALM, 1);
    go_on_without(&mut cluster, &[2]);
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    cluster.hosts[2].is_dead = false;
    cluster.hosts[2].session = Session::new(&cluster.plan, 2, INCARNATION + 1);
    cluster.join(2);
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    let (_, outcome, _) = &cluster.hosts[2].finished[0];
    assert!(matches!(outcome, Err(Failure::Refused { .. })), "{outcome:?}");
    cluster.hosts[2].is_dead = true;
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn a_late_worker_is_named_and_an_absent_one_is_not() {
    let mut cluster = Cluster::joined(&Tree::star(4), POOL, CALM, 1);
    go_on_without(&mut cluster, &[1]);
    for rank in [0, 2] {
        let tensor = Tensor::of(&cluster.plan, rank, 0, 64);
        cluster.submit_within(rank, tensor, Duration::from_secs(2));
    }
    cluster.run();
    let (_, outcome, _) = &cluster.hosts[0].finished[0];
    let Err(Failure::Missing { missing, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(*missing, [cluster.plan.workers[3].name.clone()]);
}

/// A node dies whose children have absent siblings: the others go to its parent, and come home.
#[test]
fn substitutes_of_absent_workers_are_not_awaited() {
    for stream in [|| POOL, || CACHE] {
        let mut cluster = Cluster::joined(&Tree::three_levels(), stream(), CALM, 7);
        go_on_without(&mut cluster, &[4]);
        cluster.submit_all(&[640, 640]);
        cluster.run();
        cluster.kill(3);
        cluster.submit_all(&[640, 640]);
        cluster.run();
        cluster.assert_sums();
        cluster.revive(3);
        assert_eq!(run_until_all_are_home(&mut cluster), 1, "worker 5 had left node 3");
        cluster.submit_all(&[640]);
        cluster.run();
        cluster.assert_sums();
    }
}

/// Some of the workers, but never all.
fn random_absent(rng: &mut Rng, workers: usize) -> Vec<u32> {
    let absent: Vec<u32> = (0..workers as u32).filter(|_| rng.below(3) == 0).collect();
    if absent.len() == workers { absent[1..].to_vec() } else { absent }
}

fn sums_are_exact_without_some(seed: u64) {
    let mut rng = Rng::new(seed);
    let plan = random_plan(&mut rng, seed);
    let kinds = kinds_of(&plan, KINDS);
    let mut cluster = Cluster::new(plan, random_conditions(&mut rng), seed);
    let workers = cluster.hosts.len();
    for _ in 0..=rng.below(2) {
        let absent = random_absent(&mut rng, workers);
        go_on_without(&mut cluster, &absent);
        let root = (0..workers as u32).find(|rank| !absent.contains(rank)).expect("someone");
        let calls: Vec<Call> = (0..=rng.below(4))
            .map(|_| {
                let size = rng.below(3000) as usize;
                let call = Call::random_of(&kinds, &mut rng, workers, size);
                let root = if call.kind.has_root() { root } else { 0 };
                Call { root, size: size_of(call.kind, size), ..call }
            })
            .collect();
        cluster.submit_calls(&calls);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn random_schedules_sum_exactly_without_some() {
    run_schedules(
        "absence::random_schedules_sum_exactly_without_some",
        0,
        sums_are_exact_without_some,
    );
}
