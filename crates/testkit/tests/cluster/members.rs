//! Incarnations of some of the workers, which are ranks in an order of their own: collectives are theirs, whole.

use super::random::{kinds_of, random_conditions, random_plan, run_schedules, size_of};
use super::*;

/// The same job again, of these workers alone.
fn go_on_as(cluster: &mut Cluster, seats: &[u32]) {
    cluster.restart_as(seats);
    cluster.join_all();
}

#[test]
fn members_come_and_go_and_change_places() {
    let mut cluster = Cluster::joined(&Tree::three_levels(), CACHE, CALM, 1);
    for seats in [&[4, 0, 3][..], &[0, 1, 2, 3, 4, 5], &[5], &[1, 5, 2, 0]] {
        go_on_as(&mut cluster, seats);
        cluster.submit_all(&[640, 640]);
        cluster.run();
        cluster.assert_sums();
        for seat in seats {
            let host = &cluster.hosts[*seat as usize];
            assert!(host.participations.iter().all(|p| p.ranks == seats.len() as u32));
            assert_eq!(
                host.tensors[0].participation(),
                None,
                "nobody is missed, so nothing is scaled"
            );
        }
    }
}

#[test]
fn each_rank_takes_its_own_part_whatever_its_seat() {
    let plan = with_exchanges(plan(&Tree::star(5), &[POOL]), 32, 16);
    let mut cluster = Cluster::new(plan, CALM, 1);
    for seats in [&[3, 1, 4][..], &[2, 0], &[1]] {
        go_on_as(&mut cluster, seats);
        let root = seats.len() as u32 - 1;
        let calls: Vec<Call> = Kind::ALL
            .iter()
            .map(|kind| Call {
                kind: *kind,
                root: if kind.has_root() { root } else { 0 },
                size: size_of(*kind, 1001),
            })
            .collect();
        cluster.submit_calls(&calls);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn who_is_no_member_is_turned_away() {
    let mut cluster = Cluster::joined(&Tree::star(3), POOL, CALM, 1);
    cluster.restart_as(&[2, 0]);
    cluster.join(0);
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    let everyone = Session::new(&cluster.plan, 1, INCARNATION + 1);
    (cluster.hosts[1].session, cluster.hosts[1].is_dead) = (everyone, false);
    cluster.join(1);
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    let (_, outcome, _) = &cluster.hosts[1].finished[0];
    assert!(matches!(outcome, Err(Failure::Refused { .. })), "{outcome:?}");
}

#[test]
fn a_lost_member_is_named_by_its_rank() {
    let mut cluster = Cluster::joined(&Tree::three_levels(), POOL, CALM, 1);
    cluster.restart_as(&[5, 2, 4]);
    cluster.keep_alive(Duration::from_secs(1));
    cluster.join_all();
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.hosts[4].is_dead = true;
    cluster.submit_all(&[640]);
    cluster.run();
    for seat in [2, 5] {
        let (_, outcome, _) = &cluster.hosts[seat].finished[1];
        let Err(Failure::WorkerLost { rank: 2, name, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(*name, cluster.plan.workers[4].name);
    }
}

#[test]
fn disagreements_are_told_by_rank() {
    let mut cluster = Cluster::joined(&Tree::star(4), POOL, CALM, 1);
    go_on_as(&mut cluster, &[3, 0, 2]);
    for seat in [0, 2, 3] {
        let size = if seat == 3 { 65 } else { 64 };
        let tensor = Tensor::of(&cluster.plan, seat, 0, size);
        cluster.submit(seat, tensor);
    }
    cluster.run();
    let (_, outcome, _) = &cluster.hosts[2].finished[0];
    let Err(Failure::Mismatch { shapes, .. }) = outcome else { panic!("{outcome:?}") };
    let elements: Vec<_> = shapes.iter().map(|shape| shape.map(|shape| shape.elements)).collect();
    assert_eq!(elements, [Some(65), Some(64), Some(64)], "rank 0 has seat 3");
}

/// Some of the workers, at least one, in any order.
fn random_members(rng: &mut Rng, workers: usize) -> Vec<u32> {
    let mut seats: Vec<u32> = (0..workers as u32).collect();
    for last in (1..workers).rev() {
        seats.swap(last, rng.below(last as u64 + 1) as usize);
    }
    seats.truncate(1 + rng.below(workers as u64) as usize);
    seats
}

fn sums_of_members_are_exact(seed: u64) {
    let mut rng = Rng::new(seed);
    let plan = random_plan(&mut rng, seed);
    let kinds = kinds_of(&plan, Kind::ALL);
    let mut cluster = Cluster::new(plan, random_conditions(&mut rng), seed);
    for _ in 0..=rng.below(2) {
        let seats = random_members(&mut rng, cluster.hosts.len());
        go_on_as(&mut cluster, &seats);
        let calls: Vec<Call> = (0..=rng.below(4))
            .map(|_| {
                let size = rng.below(3000) as usize;
                let call = Call::random_of(&kinds, &mut rng, seats.len(), size);
                Call { size: size_of(call.kind, size), ..call }
            })
            .collect();
        cluster.submit_calls(&calls);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn random_schedules_sum_exactly_for_members() {
    run_schedules(
        "members::random_schedules_sum_exactly_for_members",
        0,
        sums_of_members_are_exact,
    );
}
