//! Nodes that die, or seem to, in the middle of rounds: their children go to the grandparent and come back, and every sum is exact.

use super::*;
use crate::worker::Departure;

/// Two servers with two workers each, and one worker at the root.
pub(super) fn two_servers() -> Tree {
    use Child::{Node, Worker};
    Tree(vec![
        (0, None, vec![Node(1), Worker(4), Node(2)]),
        (1, Some(0), vec![Worker(0), Worker(1)]),
        (2, Some(0), vec![Worker(2), Worker(3)]),
    ])
}

/// The children of node 3 are workers at the third level.
fn deep() -> Tree {
    Tree::three_levels()
}

impl Cluster {
    fn joined(tree: &Tree, stream: Values, conditions: Conditions, seed: u64) -> Self {
        let mut cluster = Self::new(plan(tree, &[stream]), conditions, seed);
        cluster.join_all();
        while !cluster.hosts.iter().all(|host| host.has_joined) {
            assert!(cluster.step());
        }
        cluster
    }

    pub(super) fn kill(&mut self, node: u16) {
        self.nodes[usize::from(node)].is_dead = true;
    }

    /// A process that knows nothing takes the node's place.
    pub(super) fn revive(&mut self, node: u16) {
        let aggregator = Aggregator::new(&self.plan, NodeId(node));
        let node = &mut self.nodes[usize::from(node)];
        (node.aggregator, node.is_dead) = (aggregator, false);
    }

    /// A worker leaves a node that lives.
    pub(super) fn take_for_dead(&mut self, rank: usize, node: u16) {
        let (address, now) = (self.nodes[usize::from(node)].address, self.now());
        self.hosts[rank].worker.handle_unreachable(address, now);
        self.drive(rank);
    }

    fn reasons(&self, rank: usize) -> Vec<Option<Departure>> {
        self.hosts[rank].switches.iter().map(|switch| switch.reason).collect()
    }

    /// Rounds of the same sizes, one after the other, until all workers are at home, or too many.
    fn run_until_home(&mut self, ranks: &[usize]) -> usize {
        for round in 0..200 {
            let is_home = |rank: &usize| self.reasons(*rank).last() == Some(&None);
            if ranks.iter().all(is_home) {
                return round;
            }
            self.submit_all(&[640]);
            self.run();
            self.run_until(self.now().plus(Duration::from_millis(30)));
        }
        panic!(
            "they never came home: {:?}",
            ranks.iter().map(|r| self.reasons(*r)).collect::<Vec<_>>()
        );
    }
}

/// Kills a node after so many events of a small job.
fn kill_after(steps: u64, tree: &Tree, stream: Values, node: u16) -> bool {
    let mut cluster = Cluster::joined(tree, stream, Conditions::PERFECT, 7);
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
        let points = (0..).take_while(|steps| kill_after(*steps, &two_servers(), stream(), 1));
        assert!(points.count() > 300, "a job of some hundred packets");
    }
}

#[test]
fn a_server_of_the_third_level_may_die_at_any_point_of_a_job() {
    let points = (0..).step_by(5).take_while(|steps| kill_after(*steps, &deep(), POOL, 3));
    assert!(points.count() > 60, "a job of some hundred packets");
}

#[test]
fn two_servers_may_die() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::joined(&two_servers(), stream, Conditions::lossy(0.02), 5);
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
    let mut cluster = Cluster::joined(&two_servers(), POOL, Conditions::PERFECT, 5);
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
    let cluster = Cluster::new(plan(&two_servers(), &[POOL]), Conditions::PERFECT, 1);
    let (from, to, reason) = (NodeId(1), NodeId(0), Some(Departure::Silent));
    let pause = Duration::from_millis(280);
    let switch = SwitchOver { from, to, reason, round: Round(7), pause };
    let worker = &cluster.hosts[1].worker;
    assert_eq!(
        worker.describe(&switch),
        "rank 1: left node n1 for n0 in collective 7, as it is silent; pause 280 ms"
    );
    let home = SwitchOver { from: to, to: from, reason: None, ..switch };
    assert_eq!(worker.describe(&home), "rank 1: back at node n1 in collective 7");
}

#[test]
fn a_host_that_says_that_nothing_listens_ends_the_wait() {
    let mut cluster = Cluster::joined(&two_servers(), POOL, Conditions::PERFECT, 5);
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
fn children_come_home_when_the_server_is_back_and_leave_again_when_it_dies_again() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::joined(&two_servers(), stream, Conditions::lossy(0.01), 9);
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
        let mut cluster = Cluster::joined(&two_servers(), stream, Conditions::lossy(0.05), 3);
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
    let mut cluster = Cluster::joined(&two_servers(), POOL, Conditions::PERFECT, 5);
    cluster.submit_all(&[10_000]);
    cluster.run_until(cluster.now().plus(Duration::from_micros(300)));
    cluster.kill(1);
    cluster.run();
    for rank in 0..5 {
        let now = cluster.now();
        cluster.hosts[rank].worker.leave(now);
        cluster.drive(rank);
    }
    cluster.run_until(cluster.now().plus(Duration::from_millis(10)));
    assert_eq!(cluster.nodes[0].aggregator.membership().key, None, "everyone has left");
}
