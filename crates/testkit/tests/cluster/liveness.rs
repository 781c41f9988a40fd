//! Workers that die, or only seem to: who is told, and that nobody else ever counts as lost.

use super::random::random_tree;
use super::*;
use wiresum_keys::Seat;
use wiresum_protocol::compose::Draft;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::control::{Demand, rate, ready, set_word};
use wiresum_wire::{Contributor, Kind as PacketKind, SubModelId};

const DEAD_AFTER: Duration = Duration::from_secs(1);
/// What a round may take: far beyond what it takes to find out that a worker is lost.
const TIMEOUT: Duration = Duration::from_secs(600);
/// From the last heartbeat to the failure on every rank: the time itself, a heartbeat and a look more, and the tellings.
const FOUND_WITHIN: Duration = Duration::from_secs(2);
/// Seeds of deaths, each of some milliseconds.
const DEATHS: u64 = 300;
/// Seeds of minutes without a death.
const QUIET: u64 = 100;
/// What owners compute between two collectives.
const PAUSE: Duration = Duration::from_secs(60);

fn replay(test: &str) -> String {
    format!("-p wiresum-testkit --test cluster liveness::{test} -- --exact")
}

/// A joined cluster whose workers say that they are alive.
fn living(tree: &Tree, conditions: Conditions, seed: u64) -> Cluster {
    let mut cluster = Cluster::joined(tree, POOL, conditions, seed);
    cluster.keep_alive(DEAD_AFTER);
    cluster
}

fn submit_to(cluster: &mut Cluster, ranks: impl IntoIterator<Item = usize>, len: usize) {
    for rank in ranks {
        let round = cluster.hosts[rank].tensors.len();
        let tensor = Tensor::of(&cluster.plan, rank, round, len);
        cluster.submit_within(rank, tensor, TIMEOUT);
    }
}

fn pass(cluster: &mut Cluster, period: Duration) {
    cluster.run_until(cluster.now().plus(period));
}

/// What a worker's last collective failed with, and when.
fn failure(cluster: &Cluster, rank: usize) -> (&Failure, Time) {
    let (_, outcome, at) = cluster.hosts[rank].finished.last().expect("an outcome");
    (outcome.as_ref().expect_err("a failure"), *at)
}

fn is_lost(failure: &Failure, lost: usize) -> bool {
    matches!(failure, Failure::WorkerLost { rank, is_own: false, .. } if *rank as usize == lost)
}

/// A death at any moment of a few rounds, on any tree, with some loss.
fn a_death(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut tree = random_tree(&mut rng);
    while tree.0.len() == 1 && tree.0[0].2.len() == 1 {
        tree = random_tree(&mut rng);
    }
    let loss = [0.0, 0.01, 0.05][rng.below(3) as usize];
    let mut cluster = living(&tree, lossy(loss), seed);
    let victim = rng.below(cluster.hosts.len() as u64) as usize;
    cluster.submit_all(&[640, 6400]);
    // Nobody is missed who was never heard, and the first heartbeats may be lost.
    pass(&mut cluster, Duration::from_micros(500_000 + rng.below(3_000_000)));
    let died = cluster.now();
    cluster.hosts[victim].is_dead = true;
    let survivors: Vec<_> = (0..cluster.hosts.len()).filter(|rank| *rank != victim).collect();
    submit_to(&mut cluster, survivors.clone(), 640);
    cluster.run();
    for rank in survivors {
        let (why, at) = failure(&cluster, rank);
        assert!(is_lost(why, victim), "worker {rank}: {why}");
        assert!(at.since(died) <= FOUND_WITHIN, "worker {rank} heard it at {at:?} of {died:?}");
    }
}

#[test]
fn a_worker_that_dies_at_any_moment_is_named_to_all_others() {
    for_each_seed(
        &replay("a_worker_that_dies_at_any_moment_is_named_to_all_others"),
        0,
        DEATHS,
        a_death,
    );
}

#[test]
fn nobody_is_lost_while_owners_compute_and_the_network_loses_and_doubles() {
    let test = replay("nobody_is_lost_while_owners_compute_and_the_network_loses_and_doubles");
    for_each_seed(&test, 0, QUIET, |seed| {
        let conditions = Conditions { duplication: 0.1, reordering: 0.3, ..lossy(0.05) };
        let mut cluster = living(&Tree::three_levels(), conditions, seed);
        cluster.submit_all(&[640]);
        pass(&mut cluster, PAUSE);
        cluster.submit_all(&[640]);
        cluster.run();
        cluster.assert_sums();
    });
}

#[test]
fn nobody_is_lost_while_nodes_die_and_come_back() {
    let test = replay("nobody_is_lost_while_nodes_die_and_come_back");
    for_each_seed(&test, 0, QUIET, |seed| {
        let mut rng = Rng::new(seed);
        let mut cluster = living(&Tree::three_levels(), lossy(0.02), seed);
        let node = [1, 2, 3][rng.below(3) as usize];
        cluster.submit_all(&[640, 640]);
        pass(&mut cluster, Duration::from_micros(rng.below(3000)));
        cluster.kill(node);
        cluster.submit_all(&[640]);
        cluster.run();
        pass(&mut cluster, Duration::from_secs(5));
        cluster.revive(node);
        run_until_all_are_home(&mut cluster);
        pass(&mut cluster, PAUSE);
        cluster.submit_all(&[640]);
        cluster.run();
        cluster.assert_sums();
    });
}

#[test]
fn a_worker_that_dies_away_from_home_is_named() {
    let mut cluster = living(&Tree::two_servers(), CALM, 3);
    cluster.submit_all(&[6400]);
    pass(&mut cluster, Duration::from_millis(1));
    cluster.kill(1);
    cluster.run();
    cluster.hosts[1].is_dead = true;
    submit_to(&mut cluster, [0, 2, 3, 4], 640);
    cluster.run();
    for rank in [0, 2, 3, 4] {
        assert!(is_lost(failure(&cluster, rank).0, 1), "{}", failure(&cluster, rank).0);
    }
}

#[test]
fn whoever_has_not_come_or_has_left_is_not_lost() {
    let mut cluster = Cluster::new(plan(&Tree::star(3), &[POOL]), CALM, 1);
    (0..2).for_each(|rank| cluster.join(rank));
    cluster.keep_alive(DEAD_AFTER);
    pass(&mut cluster, PAUSE);
    cluster.join(2);
    cluster.submit_all(&[640]);
    cluster.run();
    // Its goodbyes are lost.
    cluster.on_the_way = Some(Box::new(|_, datagram| {
        if datagram[3] == PacketKind::Goodbye as u8 {
            datagram.truncate(1);
        }
    }));
    let now = cluster.now();
    cluster.hosts[2].session.leave(now);
    cluster.drive(2);
    cluster.hosts[2].is_dead = true;
    pass(&mut cluster, PAUSE);
    for rank in 0..2 {
        let tensor = Tensor::of(&cluster.plan, rank, 1, 640);
        cluster.submit_within(rank, tensor, Duration::from_secs(5));
    }
    cluster.run();
    assert!(
        matches!(failure(&cluster, 0).0, Failure::Missing { .. }),
        "{}",
        failure(&cluster, 0).0
    );
}

#[test]
fn without_heartbeats_the_deadline_tells() {
    let mut cluster = Cluster::joined(&Tree::star(2), POOL, CALM, 1);
    cluster.hosts[1].is_dead = true;
    pass(&mut cluster, PAUSE);
    submit_to(&mut cluster, [0], 640);
    cluster.run();
    assert!(matches!(failure(&cluster, 0).0, Failure::Missing { .. }));
}

#[test]
fn a_stopped_worker_is_told_what_the_others_took_it_for() {
    let mut cluster = living(&Tree::star(3), CALM, 1);
    // Nothing of it arrives, and it hears everything.
    let stopped = cluster.hosts[1].address;
    cluster.on_the_way = Some(Box::new(move |from, datagram| {
        if from == stopped {
            datagram.truncate(1);
        }
    }));
    pass(&mut cluster, Duration::from_secs(3));
    submit_to(&mut cluster, 0..3, 640);
    cluster.run();
    assert!(is_lost(failure(&cluster, 0).0, 1));
    let why = failure(&cluster, 1).0;
    assert!(matches!(why, Failure::WorkerLost { rank: 1, is_own: true, .. }), "{why}");
}

#[test]
fn a_worker_whose_job_has_failed_is_alive_until_it_leaves() {
    let mut cluster = living(&Tree::star(3), CALM, 1);
    let tensor = Tensor::of(&cluster.plan, 0, 0, 640);
    cluster.submit_within(0, tensor, Duration::from_secs(2));
    pass(&mut cluster, Duration::from_secs(10));
    assert!(matches!(failure(&cluster, 0).0, Failure::Missing { .. }));
    submit_to(&mut cluster, 1..3, 640);
    pass(&mut cluster, TIMEOUT / 2);
    assert!(cluster.hosts[1].finished.is_empty(), "{:?}", cluster.hosts[1].finished);
}

#[test]
fn what_no_seat_has_proven_changes_nothing() {
    let mut cluster = living(&Tree::star(2), CALM, 1);
    let (node, incarnation) = (cluster.nodes[0].address, INCARNATION);
    let key = cluster.plan.job_key(incarnation);
    let seat_of = |contributor| Seat::new(NodeId(0), SubModelId(0), Contributor(contributor));
    let wrong = cluster.plan.keys().seat(seat_of(1)).expect("a whole plan");
    let draft = Draft { job: cluster.plan.job_id(), key, ..Draft::default() };
    let mut notice = [0; 4 * rate::WORDS];
    set_word(&mut notice, rate::LOST_WORD, 1 + 1);
    let notice = Draft { kind: PacketKind::Rate, ..draft.clone() }.proven(&notice, &wrong);
    let mut leave = [0; 4 * ready::WORDS];
    set_word(&mut leave, ready::DEMAND_WORD, Demand::Alive as u32);
    set_word(&mut leave, ready::SEQUENCE_WORD, 1000);
    let leave = Draft { kind: PacketKind::Ready, ..draft }.proven(&leave, &wrong);
    let worker = cluster.hosts[0].address;
    for _ in 0..20 {
        cluster.send(node, worker, &notice);
        cluster.send(worker, node, &leave);
        pass(&mut cluster, DEAD_AFTER / 10);
    }
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.assert_sums();
    cluster.hosts[0].is_dead = true;
    submit_to(&mut cluster, [1], 640);
    cluster.run();
    assert!(is_lost(failure(&cluster, 1).0, 0), "the forged leave did not end the watch");
}

#[test]
fn recorded_heartbeats_keep_nobody_alive() {
    let mut cluster = living(&Tree::star(2), CALM, 1);
    let recorded = Rc::new(RefCell::new(Vec::new()));
    let (seen, victim) = (Rc::clone(&recorded), cluster.hosts[0].address);
    cluster.on_the_way = Some(Box::new(move |from, datagram| {
        if from == victim && datagram[3] == PacketKind::Ready as u8 {
            seen.borrow_mut().push(datagram.clone());
        }
    }));
    pass(&mut cluster, Duration::from_secs(2));
    cluster.on_the_way = None;
    cluster.hosts[0].is_dead = true;
    let node = cluster.nodes[0].address;
    submit_to(&mut cluster, [1], 640);
    for heartbeat in recorded.take() {
        cluster.send(victim, node, &heartbeat);
        pass(&mut cluster, DEAD_AFTER / 5);
    }
    cluster.run();
    assert!(is_lost(failure(&cluster, 1).0, 0), "{}", failure(&cluster, 1).0);
}
