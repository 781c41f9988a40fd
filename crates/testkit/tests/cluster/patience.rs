//! Long before a round fails, its workers say who holds it up.

use super::*;

/// That of PyTorch's process groups.
const TIMEOUT: Duration = Duration::from_secs(1800);
const BEGIN: Time = Time(1_000_000);
const SECOND_US: u64 = 1_000_000;

fn cluster(tree: &Tree) -> Cluster {
    let mut cluster = Cluster::new(plan(tree, &[POOL]), lossy(0.01), 4);
    cluster.join_all();
    cluster.run_until(BEGIN);
    cluster
}

fn submit_to(cluster: &mut Cluster, ranks: impl IntoIterator<Item = usize>) {
    for rank in ranks {
        let tensor = Tensor::of(&cluster.plan, rank, cluster.hosts[rank].tensors.len(), 100_000);
        cluster.submit_within(rank, tensor, TIMEOUT);
    }
}

fn after(seconds: u64) -> Time {
    Time(BEGIN.0 + seconds * SECOND_US)
}

#[test]
fn a_root_that_dies_is_named_within_seconds() {
    let mut cluster = cluster(&Tree::star(3));
    submit_to(&mut cluster, 0..3);
    cluster.run_until(Time(BEGIN.0 + 1_500));
    cluster.nodes[0].is_dead = true;
    cluster.run_until(after(100));
    for host in &cluster.hosts {
        let [(Failure::Silent { node: NodeId(0), .. }, at)] = &host.held_up[..] else {
            panic!("{:?}", host.held_up)
        };
        assert!(*at <= after(25), "{at:?}");
        assert!(host.finished.is_empty());
    }
}

#[test]
fn a_late_worker_is_named_once_within_minutes_and_nobody_is_held_up_afterwards() {
    let mut cluster = cluster(&Tree::star(3));
    submit_to(&mut cluster, 0..2);
    cluster.run_until(after(50));
    assert!(cluster.hosts.iter().all(|host| host.held_up.is_empty()), "ranks may be late");
    cluster.run_until(after(300));
    for host in &cluster.hosts[..2] {
        let [(Failure::Missing { missing, .. }, _)] = &host.held_up[..] else {
            panic!("{:?}", host.held_up)
        };
        assert_eq!(missing, &["w2"]);
    }
    submit_to(&mut cluster, [2]);
    cluster.run_until(after(400));
    assert!(cluster.is_finished());
    assert!(cluster.hosts.iter().all(|host| host.finished.iter().all(|(_, sum, _)| sum.is_ok())));
    assert!(cluster.hosts[2].held_up.is_empty());
    cluster.run_until(after(600));
    assert!(cluster.hosts[..2].iter().all(|host| host.held_up.len() == 1));
}

#[test]
fn nobody_is_held_up_while_results_come() {
    let mut slow = lossy(0.0);
    slow.rate_bps = Some(100_000.0);
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), slow, 4);
    cluster.join_all();
    cluster.run_until(BEGIN);
    submit_to(&mut cluster, 0..2);
    while !cluster.is_finished() {
        assert!(cluster.step());
    }
    assert!(cluster.now() > after(30), "{:?}", cluster.now());
    assert!(cluster.hosts.iter().all(|host| host.held_up.is_empty()));
}

const GONE_AFTER: Duration = Duration::from_secs(1);

fn watched(tree: &Tree) -> Cluster {
    let mut cluster = cluster(tree);
    let now = cluster.now();
    cluster.hosts.iter_mut().for_each(|host| host.session.watch_nodes(GONE_AFTER, now));
    cluster
}

#[test]
fn a_node_is_gone_when_it_has_been_silent_for_as_long_as_the_owner_says() {
    let mut cluster = watched(&Tree::star(3));
    submit_to(&mut cluster, 0..2);
    cluster.run_until(after(30));
    assert!(
        cluster.hosts.iter().all(|host| host.gone.is_empty()),
        "it answers while a rank is late"
    );
    cluster.nodes[0].is_dead = true;
    cluster.run_until(after(32));
    for host in &cluster.hosts[..2] {
        let [(Failure::Silent { node: NodeId(0), .. }, _)] = &host.gone[..] else {
            panic!("{:?}", host.gone)
        };
        assert!(host.finished.is_empty(), "the round waits for what the owner does");
    }
    assert!(cluster.hosts[2].gone.is_empty(), "who has no round open asks nothing");
    submit_to(&mut cluster, [2]);
    cluster.run_until(after(100));
    assert!(cluster.hosts.iter().all(|host| host.gone.len() == 1), "it is told once");
}

#[test]
fn a_node_that_is_back_in_time_is_not_gone() {
    let mut cluster = watched(&Tree::star(2));
    submit_to(&mut cluster, 0..1);
    cluster.nodes[0].is_dead = true;
    cluster.run_until(Time(BEGIN.0 + SECOND_US / 2));
    cluster.nodes[0].is_dead = false;
    cluster.run_until(after(3));
    submit_to(&mut cluster, 1..2);
    cluster.run_until(after(30));
    assert!(cluster.is_finished());
    assert!(cluster.hosts.iter().all(|host| host.gone.is_empty()));
}
