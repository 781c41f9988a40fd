//! Who may take part, and what happens to those who may not.

use wiresum_protocol::compose::Draft;
use wiresum_wire::Kind;

use super::*;

fn joined(cluster: &Cluster) -> Vec<bool> {
    cluster.hosts.iter().map(|host| host.has_joined).collect()
}

fn first_failure(cluster: &Cluster, rank: usize) -> Failure {
    let (round, outcome, _) = cluster.hosts[rank].finished[0].clone();
    assert_eq!(round, Round(0));
    outcome.expect_err("joining cannot have succeeded")
}

#[test]
fn all_join_through_a_lossy_tree() {
    let plan = plan(&Tree::three_levels(), &[POOL]);
    let mut cluster = Cluster::new(plan, lossy(0.3), 1);
    cluster.join_all();
    cluster.run_until(Time(3_000_000));
    assert_eq!(joined(&cluster), [true; 6]);
}

#[test]
fn a_worker_joins_without_waiting_for_the_others() {
    let mut cluster = Cluster::new(plan(&Tree::three_levels(), &[POOL]), CALM, 1);
    cluster.join(4);
    cluster.run_until(Time(1_000_000));
    assert_eq!(joined(&cluster), [false, false, false, false, true, false]);
}

#[test]
fn a_worker_names_the_node_that_does_not_welcome_it() {
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), CALM, 1);
    cluster.nodes[0].is_dead = true;
    cluster.hosts[0].session.join(Time(2_000_000), Time(0));
    cluster.run_until(Time(3_000_000));
    let address = cluster.nodes[0].address;
    let waited = Duration::from_secs(2);
    let failure = Failure::NotWelcomed { node: NodeId(0), address, waited };
    assert_eq!(first_failure(&cluster, 0), failure);
    assert!(cluster.worker_count(0, "hellos") > 10, "it tried again and again");
}

#[test]
fn a_round_that_is_due_before_the_welcome_names_the_node() {
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), CALM, 1);
    cluster.nodes[0].is_dead = true;
    cluster.join(0);
    let tensor = Tensor::of(&cluster.plan, 0, 0, 5);
    cluster.submit_within(0, tensor, Duration::from_secs(1));
    cluster.run_until(Time(3_000_000));
    assert!(matches!(first_failure(&cluster, 0), Failure::NotWelcomed { .. }));
}

#[test]
fn a_round_of_a_worker_that_was_never_told_to_join_ends_too() {
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), CALM, 1);
    let tensor = Tensor::of(&cluster.plan, 0, 0, 5);
    cluster.submit_within(0, tensor, Duration::from_secs(1));
    cluster.run_until(Time(3_000_000));
    let Failure::NotWelcomed { waited, .. } = first_failure(&cluster, 0) else { panic!() };
    assert_eq!(waited, Duration::from_secs(1));
}

#[test]
fn a_worker_drops_what_is_not_for_it_and_counts_it() {
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), CALM, 1);
    cluster.join_all();
    cluster.submit_all(&[200]);
    let mut results = Vec::new();
    while !cluster.is_finished() {
        let flying = cluster.network.flights().map(|f| (f.to, f.cargo.clone()));
        results.extend(flying.filter(|(to, _)| *to == cluster.hosts[1].address));
        cluster.step();
    }
    let (root, now) = (cluster.nodes[0].address, cluster.now());
    let (_, result) = results.pop().expect("a result went to worker 1");
    let mut damaged = result.clone();
    damaged[wiresum_wire::HEADER_LEN] ^= 1;
    let stranger = cluster.hosts[0].address;
    let worker = &mut cluster.hosts[1].session;
    worker.handle_datagram(root, b"hello", now);
    worker.handle_datagram(stranger, &result, now);
    worker.handle_datagram(root, &damaged, now);
    worker.handle_datagram(root, &result, now);
    for name in ["malformed", "foreign", "damaged", "surplus_results"] {
        assert_eq!(cluster.worker_count(1, name), 1, "{name}");
    }
    cluster.hosts[0].session.handle_datagram(root, &result, now);
    assert_eq!(cluster.worker_count(0, "foreign"), 1, "a result for another child");
}

#[test]
fn workers_believe_no_rate_or_status_without_a_proof() {
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), CALM, 1);
    cluster.join_all();
    cluster.run_until(Time(100_000));
    let (root, now) = (cluster.nodes[0].address, cluster.now());
    for (forged, kind) in (1..).zip([Kind::Status, Kind::Rate]) {
        let draft = Draft {
            kind,
            job: cluster.plan.job_id(),
            key: cluster.plan.job_key(INCARNATION),
            sub_model: cluster.plan.streams[0].id(),
            contributor: 1,
            ..Draft::default()
        };
        let words = vec![0; 4 * kind.control_words().expect("a control kind")];
        let key = cluster.plan.keys().seat(draft.seat()).expect("the whole secret");
        let worker = &mut cluster.hosts[1].session;
        worker.handle_datagram(root, &draft.datagram(&words), now);
        worker.handle_datagram(root, &draft.proven(&words, &key), now);
        assert_eq!(cluster.worker_count(1, "foreign"), forged, "{kind:?}");
    }
}

#[test]
fn a_worker_with_another_plan_is_refused_and_told_so() {
    let tree = Tree::three_levels();
    let mut cluster = Cluster::new(plan(&tree, &[POOL]), CALM, 1);
    let other = plan(&tree, &[CACHE]);
    cluster.hosts[4].session = Session::new(&other, 4, INCARNATION);
    cluster.join(4);
    cluster.run_until(Time(100_000));
    let Failure::Refused { node, reason } = first_failure(&cluster, 4) else {
        panic!("{:?}", first_failure(&cluster, 4));
    };
    assert_eq!(node, NodeId(3));
    assert!(reason.contains("another plan, or another version"), "{reason}");
}

#[test]
fn a_refusal_from_the_root_reaches_the_leaves() {
    let tree = Tree::three_levels();
    let mut cluster = Cluster::new(plan(&tree, &[POOL]), CALM, 1);
    cluster.nodes[0].aggregator = Aggregator::new(&plan(&tree, &[CACHE]), NodeId(0));
    cluster.join(4);
    cluster.run_until(Time(1_000_000));
    assert!(matches!(first_failure(&cluster, 4), Failure::Refused { node: NodeId(3), .. }));
}

#[test]
fn a_worker_of_an_older_incarnation_is_refused() {
    let mut cluster = Cluster::new(plan(&Tree::star(2), &[POOL]), CALM, 1);
    cluster.join(1);
    cluster.run_until(Time(1000));
    cluster.hosts[0].session = Session::new(&cluster.plan, 0, INCARNATION - 1);
    cluster.join(0);
    cluster.run_until(Time(100_000));
    let Failure::Refused { reason, .. } = first_failure(&cluster, 0) else { panic!("refused") };
    assert!(reason.contains("newer run"), "{reason}");
}

#[test]
fn the_next_incarnation_takes_over_in_mid_round() {
    for stream in [POOL, CACHE] {
        let late = Conditions { duplication: 0.3, late_ps: 50_000 * PS_PER_US, ..lossy(0.05) };
        let mut cluster = Cluster::new(plan(&Tree::three_levels(), &[stream]), late, 9);
        cluster.join_all();
        cluster.submit_all(&[200_000]);
        cluster.run_until(Time(15_000));
        assert!(!cluster.is_finished(), "the first incarnation is still at it");
        cluster.restart();
        cluster.join_all();
        cluster.submit_all(&[500, 3000]);
        cluster.run();
        cluster.assert_sums();
        assert!(cluster.count(Verdict::Foreign) > 0, "packets of the first were still under way");
    }
}

#[test]
fn leaving_fails_open_rounds_and_ends_the_incarnation() {
    let mut cluster = Cluster::new(plan(&Tree::three_levels(), &[POOL]), CALM, 1);
    cluster.join_all();
    cluster.submit_all(&[100]);
    cluster.run();
    let tensor = Tensor::of(&cluster.plan, 0, 1, 10);
    cluster.submit(0, tensor);
    let now = cluster.now();
    for rank in 0..6 {
        cluster.hosts[rank].session.leave(now);
        cluster.drive(rank);
    }
    cluster.run_until(now.plus(Duration::from_secs(1)));
    assert_eq!(cluster.hosts[0].finished[1].1, Err(Failure::Left));
    assert_eq!(cluster.hosts[1].finished.len(), 1);
    assert!(cluster.nodes.iter().all(|n| n.aggregator.membership().key.is_none()));
    let tensor = Tensor::of(&cluster.plan, 1, 1, 10);
    cluster.submit(1, tensor);
    assert_eq!(cluster.hosts[1].finished[1].1, Err(Failure::Left), "what comes later fails too");
}
