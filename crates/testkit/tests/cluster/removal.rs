//! Nodes that die, or seem to, in the middle of rounds: their children go to the grandparent and come back, and every sum is exact.

use super::*;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::JobKey;
use wiresum_worker::Departure;

/// Seeds of random kills; each takes a third of a second.
const RANDOM_KILLS: u64 = 40;

/// Node 1 has a worker and node 3 below, and that two more workers.
fn deep() -> Tree {
    Tree::three_levels()
}

/// Four levels: nodes 0, 1, 2, 3 in a row, each with workers.
fn chain() -> Tree {
    use Child::{Node, Worker};
    Tree(vec![
        (0, None, vec![Node(1), Worker(0)]),
        (1, Some(0), vec![Worker(1), Node(2)]),
        (2, Some(1), vec![Node(3), Worker(2), Worker(3)]),
        (3, Some(2), vec![Worker(4), Worker(5)]),
    ])
}

/// Kills a node after so many events of a small job.
fn kill_after(steps: u64, tree: &Tree, stream: Values, node: u16) -> bool {
    let mut cluster = Cluster::joined(tree, stream, CALM, 7);
    cluster.submit_all(&[640, 640]);
    let mut left = steps;
    while left > 0 && !cluster.is_finished() {
        assert!(cluster.step());
        left -= 1;
    }
    let was_running = !cluster.is_finished();
    cluster.kill(node);
    cluster.run();
    cluster.assert_sums();
    was_running
}

#[test]
fn a_server_may_die_at_any_point_of_a_job() {
    for stream in [|| POOL, || CACHE] {
        let points =
            (0..).take_while(|steps| kill_after(*steps, &Tree::two_servers(), stream(), 1));
        assert!(points.count() > 300, "a job of some hundred packets");
    }
}

#[test]
fn a_server_of_the_third_level_may_die_at_any_point_of_a_job() {
    let points = (0..).step_by(5).take_while(|steps| kill_after(*steps, &deep(), POOL, 3));
    assert!(points.count() > 60, "a job of some hundred packets");
}

#[test]
fn a_server_with_servers_below_may_die_at_any_point_of_a_job() {
    for stream in [|| POOL, || CACHE] {
        let points = (0..).step_by(5).take_while(|steps| kill_after(*steps, &deep(), stream(), 1));
        assert!(points.count() > 60, "a job of some hundred packets");
    }
}

#[test]
fn whoever_is_below_a_silent_node_learns_it_from_the_node_between() {
    let mut cluster = Cluster::joined(&deep(), POOL, CALM, 5);
    cluster.submit_all(&[100_000]);
    cluster.run_until(cluster.now().plus(Duration::from_millis(1)));
    cluster.kill(1);
    cluster.run();
    cluster.assert_sums();
    assert_eq!(cluster.reasons(1), [Some(Departure::Silent)]);
    for rank in [4, 5] {
        assert_eq!(cluster.reasons(rank), [Some(Departure::Detached)]);
        let switch = cluster.hosts[rank].switches[0];
        assert_eq!((switch.from, switch.to), (NodeId(1), NodeId(0)));
    }
    cluster.revive(1);
    cluster.run_until_home(&[1, 4, 5]);
    let before = cluster.nodes[3].aggregator.counters();
    cluster.submit_all(&[640]);
    cluster.run();
    cluster.assert_sums();
    assert_ne!(cluster.nodes[3].aggregator.counters(), before, "it sums again");
}

/// Kills nodes of a tree, in this order, so long after each other, and revives them later.
fn kill_and_revive(tree: &Tree, victims: &[u16], pause: Duration, stream: Values) {
    let mut cluster = Cluster::joined(tree, stream, lossy(0.01), 11);
    cluster.submit_all(&[40_000, 40_000]);
    cluster.run_until(cluster.now().plus(Duration::from_micros(700)));
    for victim in victims {
        cluster.kill(*victim);
        cluster.run_until(cluster.now().plus(pause));
    }
    cluster.run();
    victims.iter().for_each(|victim| cluster.revive(*victim));
    assert!(run_until_all_are_home(&mut cluster) > 0);
    cluster.assert_sums();
}

#[test]
fn two_servers_of_one_path_may_die_in_any_order_and_at_once() {
    for pause_ms in [0, 100, 300, 1000] {
        for victims in [[1, 3], [3, 1]] {
            kill_and_revive(&deep(), &victims, Duration::from_millis(pause_ms), POOL);
            kill_and_revive(&deep(), &victims, Duration::from_millis(pause_ms), CACHE);
        }
    }
}

#[test]
fn every_server_but_the_root_may_be_dead_at_once() {
    for victims in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
        kill_and_revive(&chain(), &victims, Duration::from_millis(50), POOL);
    }
}

/// A job of many rounds in which nodes die and come back at random, or are only taken for dead; every sum is exact.
fn random_kills(tree: &Tree, victims: &[u16], stream: Values, seed: u64) {
    let mut cluster = Cluster::joined(tree, stream, lossy(0.01), seed);
    let mut chance = Rng::new(seed);
    for _ in 0..12 {
        cluster.submit_all(&[6_400, 640]);
        let ahead = Duration::from_micros(chance.below(3_000));
        cluster.run_until(cluster.now().plus(ahead));
        let victim = victims[chance.below(victims.len() as u64) as usize];
        match chance.below(3) {
            0 => cluster.kill(victim),
            1 => cluster.revive(victim),
            _ => {
                let rank = chance.below(cluster.hosts.len() as u64) as usize;
                cluster.take_for_dead(rank, victim);
            }
        }
        if chance.below(2) == 0 {
            cluster.run();
        }
    }
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn servers_may_die_and_come_back_at_random() {
    let test = "-p wiresum-testkit --test cluster removal::servers_may_die_and_come_back_at_random";
    for_each_seed(test, 0, RANDOM_KILLS, |seed| {
        random_kills(&deep(), &[1, 2, 3], if seed % 2 == 0 { POOL } else { CACHE }, seed);
        random_kills(&chain(), &[1, 2, 3], if seed % 2 == 0 { CACHE } else { POOL }, seed);
    });
}

/// A restarted node whose own parent is dead answers questions and welcomes nobody: workers do not stay with it.
#[test]
fn a_refuge_that_welcomes_nobody_is_left() {
    random_kills(&chain(), &[1, 2, 3], CACHE, 388);
}

/// A node that lacks the sum of some child has nothing on its way, and whom it lacks may have left for good: its parent
/// is dead, or was restarted and does not know it. It asks nevertheless, so that those who are left below it learn of it.
#[test]
fn a_node_that_waits_for_its_children_learns_that_its_parent_is_gone() {
    random_kills(&deep(), &[1, 2, 3], CACHE, 437);
    random_kills(&chain(), &[1, 2, 3], CACHE, 558);
}

/// A worker that goes home and says hello there once more was not taken back for it, though the node had been left.
#[test]
fn a_node_that_is_out_of_the_tree_keeps_nobody() {
    random_kills(&deep(), &[1, 2, 3], CACHE, 1419);
}

#[test]
fn two_servers_may_die() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::joined(&Tree::two_servers(), stream, lossy(0.02), 5);
        cluster.submit_all(&[40_000, 40_000]);
        cluster.run_until(cluster.now().plus(Duration::from_micros(700)));
        cluster.kill(2);
        cluster.run_until(cluster.now().plus(Duration::from_millis(100)));
        cluster.kill(1);
        cluster.run();
        cluster.assert_sums();
        for rank in 0..4 {
            assert_eq!(cluster.reasons(rank), [Some(Departure::Silent)]);
        }
        assert_eq!(cluster.reasons(4), []);
    }
}

#[test]
fn the_pause_is_the_bound_of_silence_and_little_more() {
    let mut cluster = Cluster::joined(&Tree::two_servers(), POOL, CALM, 5);
    cluster.submit_all(&[100_000]);
    cluster.run_until(cluster.now().plus(Duration::from_millis(1)));
    cluster.kill(1);
    cluster.run();
    cluster.assert_sums();
    for rank in 0..2 {
        let switch = cluster.hosts[rank].switches[0];
        assert_eq!((switch.from, switch.to, switch.round), (NodeId(1), NodeId(0), Round(0)));
        let pause = switch.pause.as_millis();
        assert!((250..350).contains(&pause), "{pause} ms");
    }
}

#[test]
fn a_switch_over_is_told_in_words() {
    let cluster = Cluster::new(plan(&Tree::two_servers(), &[POOL]), CALM, 1);
    let (from, to, reason) = (NodeId(1), NodeId(0), Some(Departure::Silent));
    let pause = Duration::from_millis(280);
    let switch = SwitchOver { from, to, reason, round: Round(7), pause };
    let worker = &cluster.hosts[1].session;
    assert_eq!(
        worker.describe(&switch),
        "rank 1: left node n1 for n0 in collective 7, as it is silent; pause 280 ms"
    );
    let home = SwitchOver { from: to, to: from, reason: None, ..switch };
    assert_eq!(worker.describe(&home), "rank 1: back at node n1 in collective 7");
}

#[test]
fn a_host_that_says_that_nothing_listens_ends_the_wait() {
    let mut cluster = Cluster::joined(&Tree::two_servers(), POOL, CALM, 5);
    cluster.submit_all(&[100_000]);
    cluster.run_until(cluster.now().plus(Duration::from_millis(1)));
    cluster.kill(1);
    cluster.take_for_dead(0, 1);
    cluster.take_for_dead(1, 1);
    cluster.run();
    cluster.assert_sums();
    let switch = cluster.hosts[0].switches[0];
    assert_eq!(switch.reason, Some(Departure::Unreachable));
    assert!(switch.pause < Duration::from_millis(5), "{:?}", switch.pause);
}

#[test]
fn an_error_that_quotes_nothing_of_the_job_moves_nobody() {
    let mut cluster = Cluster::joined(&Tree::two_servers(), POOL, CALM, 5);
    cluster.submit_all(&[100_000]);
    cluster.run_until(cluster.now().plus(Duration::from_millis(1)));
    for key in 0..1000 {
        cluster.say_unreachable(0, 1, JobKey(key * 4_294_967));
    }
    cluster.run();
    cluster.assert_sums();
    assert_eq!(cluster.hosts[0].switches, []);
}

#[test]
fn children_come_home_when_the_server_is_back_and_leave_again_when_it_dies_again() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::joined(&Tree::two_servers(), stream, lossy(0.01), 9);
        for kill in 1..4 {
            cluster.submit_all(&[40_000]);
            cluster.run_until(cluster.now().plus(Duration::from_micros(900)));
            cluster.kill(1);
            cluster.run();
            cluster.revive(1);
            cluster.run_until_home(&[0, 1]);
            let before = cluster.nodes[1].aggregator.counters();
            cluster.submit_all(&[40_000]);
            cluster.run();
            assert_ne!(cluster.nodes[1].aggregator.counters(), before, "it sums again");
            assert_eq!(cluster.worker_count(0, "switch_overs"), kill);
            assert_eq!(cluster.worker_count(1, "returns"), kill);
            assert_eq!(cluster.hosts[2].switches, [], "no one else moves");
        }
        cluster.assert_sums();
        assert!(
            cluster.nodes[0].aggregator.membership().children.len() <= 2 * 3,
            "the substitutes' seats are empty again"
        );
    }
}

#[test]
fn a_server_that_one_child_takes_for_dead_sends_the_other_after_it() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::joined(&Tree::two_servers(), stream, lossy(0.05), 3);
        cluster.submit_all(&[40_000, 40_000]);
        cluster.run_until(cluster.now().plus(Duration::from_micros(600)));
        cluster.take_for_dead(0, 1);
        cluster.run();
        cluster.assert_sums();
        assert!(!cluster.reasons(1).is_empty(), "the other child has left too");
        cluster.run_until_home(&[0, 1]);
        cluster.assert_sums();
    }
}

#[test]
fn children_that_leave_the_job_while_they_are_away_end_the_incarnation() {
    let mut cluster = Cluster::joined(&Tree::two_servers(), POOL, CALM, 5);
    cluster.submit_all(&[10_000]);
    cluster.run_until(cluster.now().plus(Duration::from_micros(300)));
    cluster.kill(1);
    cluster.run();
    for rank in 0..5 {
        let now = cluster.now();
        cluster.hosts[rank].session.leave(now);
        cluster.drive(rank);
    }
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    assert_eq!(cluster.nodes[0].aggregator.membership().key, None, "everyone has left");
}
