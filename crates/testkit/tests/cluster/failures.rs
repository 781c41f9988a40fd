//! Every way in which a round fails, on every worker, by its deadline, with the right name.

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Later than every deadline in this file.
const END: Time = Time(30_000_000);

fn cluster(tree: &Tree, stream: Values) -> Cluster {
    let mut cluster = Cluster::new(plan(tree, &[stream]), lossy(0.01), 4);
    cluster.join_all();
    cluster.run_until(Time(1_000_000));
    cluster
}

fn submit_to(cluster: &mut Cluster, ranks: impl IntoIterator<Item = usize>, len: usize) {
    for rank in ranks {
        let round = cluster.hosts[rank].tensors.len();
        let tensor = Tensor::of(&cluster.plan, rank, round, len);
        cluster.submit_within(rank, tensor, TIMEOUT);
    }
}

fn failure(cluster: &Cluster, rank: usize) -> &Failure {
    let (_, outcome, at) = cluster.hosts[rank].finished.last().expect("an outcome");
    assert!(at.since(Time(1_000_000)) <= TIMEOUT + TIMEOUT, "worker {rank} failed late, at {at:?}");
    outcome.as_ref().expect_err("a failure")
}

#[test]
fn a_worker_that_never_comes_is_named() {
    for stream in [POOL, CACHE] {
        let mut cluster = cluster(&Tree::star(4), stream);
        submit_to(&mut cluster, [0, 1, 3], 2000);
        cluster.run_until(END);
        for rank in [0, 1, 3] {
            let Failure::Missing { node, missing, round, waited, .. } = failure(&cluster, rank)
            else {
                panic!("{:?}", failure(&cluster, rank));
            };
            assert_eq!(
                (*node, missing.as_slice(), *round),
                (NodeId(0), &["w2".to_owned()][..], Round(0))
            );
            assert_eq!(*waited, TIMEOUT);
        }
    }
}

#[test]
fn a_worker_that_dies_in_mid_round_is_named() {
    for stream in [POOL, CACHE] {
        let mut cluster = cluster(&Tree::star(4), stream);
        submit_to(&mut cluster, 0..4, 100_000);
        cluster.run_until(Time(1_001_500));
        assert!(!cluster.is_finished());
        cluster.hosts[1].is_dead = true;
        cluster.run_until(END);
        for rank in [0, 2, 3] {
            let Failure::Missing { missing, .. } = failure(&cluster, rank) else {
                panic!("{:?}", failure(&cluster, rank));
            };
            assert_eq!(missing, &["w1"]);
        }
    }
}

#[test]
fn below_a_tree_the_missing_workers_siblings_name_it_and_the_others_its_branch() {
    let mut cluster = cluster(&Tree::three_levels(), POOL);
    submit_to(&mut cluster, [0, 1, 2, 3, 4], 2000);
    cluster.run_until(END);
    let Failure::Missing { node: NodeId(3), missing, .. } = failure(&cluster, 4) else { panic!() };
    assert_eq!(missing, &["w5"]);
    let Failure::Missing { node: NodeId(1), missing, .. } = failure(&cluster, 1) else { panic!() };
    assert_eq!(missing, &["n3"]);
    let Failure::Missing { node: NodeId(0), missing, .. } = failure(&cluster, 0) else { panic!() };
    assert_eq!(missing, &["n1"]);
    let Failure::NoResult { node: NodeId(2), suspects, .. } = failure(&cluster, 3) else {
        panic!()
    };
    assert_eq!(suspects, &["n0", "w0", "n1"]);
}

#[test]
fn a_dead_aggregator_is_named() {
    let mut cluster = cluster(&Tree::star(3), POOL);
    submit_to(&mut cluster, 0..3, 100_000);
    cluster.run_until(Time(1_001_500));
    cluster.nodes[0].is_dead = true;
    let died = cluster.now();
    cluster.run_until(END);
    for rank in 0..3 {
        let Failure::Silent { node: NodeId(0), address, silent, .. } = failure(&cluster, rank)
        else {
            panic!("{:?}", failure(&cluster, rank));
        };
        assert_eq!(*address, cluster.nodes[0].address);
        let since = Time(1_000_000).plus(TIMEOUT).since(died);
        assert!(
            *silent <= since && since - *silent < Duration::from_millis(1),
            "{silent:?} {since:?}"
        );
    }
}

#[test]
fn a_dead_root_is_named_below_inner_nodes() {
    let mut cluster = cluster(&Tree::three_levels(), CACHE);
    submit_to(&mut cluster, 0..6, 100_000);
    cluster.run_until(Time(1_001_500));
    cluster.nodes[0].is_dead = true;
    cluster.run_until(END);
    for rank in 0..6 {
        let failure = failure(&cluster, rank);
        let is_named = matches!(failure, Failure::Silent { node: NodeId(0), .. });
        assert!(is_named, "rank {rank}: {failure:?}");
    }
}

#[test]
fn a_node_that_lost_its_memory_is_silent_to_its_children() {
    let mut cluster = cluster(&Tree::star(3), POOL);
    submit_to(&mut cluster, 0..3, 100_000);
    cluster.run_until(Time(1_001_500));
    cluster.nodes[0].aggregator = Aggregator::new(&cluster.plan, NodeId(0));
    cluster.run_until(END);
    assert!(matches!(failure(&cluster, 0), Failure::Silent { .. }));
    assert!(cluster.count(Verdict::Foreign) > 0);
}

#[test]
fn after_a_failure_every_later_round_fails_at_once_alike() {
    let mut cluster = cluster(&Tree::star(2), POOL);
    submit_to(&mut cluster, [0, 0, 0], 100);
    cluster.run_until(END);
    assert_eq!(cluster.hosts[0].finished.len(), 3);
    submit_to(&mut cluster, [0], 100);
    let outcomes: Vec<_> = cluster.hosts[0].finished.iter().map(|(_, o, _)| o.clone()).collect();
    assert_eq!(outcomes.len(), 4);
    assert!(outcomes.iter().all(|o| *o == outcomes[0] && o.is_err()));
    assert_eq!(cluster.hosts[0].session.poll_timeout(), None);
}

#[test]
fn the_earliest_deadline_counts_even_behind_a_later_one() {
    let mut cluster = cluster(&Tree::star(2), POOL);
    let tensor = |round| Tensor::of(&plan(&Tree::star(2), &[POOL]), 0, round, 10);
    cluster.submit_within(0, tensor(0), Duration::from_secs(20));
    cluster.submit_within(0, tensor(1), Duration::from_secs(1));
    cluster.run_until(Time(2_100_000));
    assert_eq!(cluster.hosts[0].finished.len(), 2);
}

#[test]
fn ranks_that_pass_different_sizes_all_learn_all_sizes() {
    // 5000 elements need two preamble fragments, 100 need one.
    let mut cluster = cluster(&Tree::three_levels(), POOL);
    submit_to(&mut cluster, 0..6, 640);
    submit_to(&mut cluster, [0, 1, 2, 4], 100);
    submit_to(&mut cluster, [3], 5000);
    submit_to(&mut cluster, [5], 0);
    submit_to(&mut cluster, 0..6, 77);
    cluster.run_until(END);
    for rank in 0..6 {
        assert_eq!(cluster.hosts[rank].finished[0].1, Ok(()), "the round before is not touched");
        assert_eq!(cluster.hosts[rank].finished.len(), 3);
        let Failure::Mismatch { round: Round(1), shapes } = failure(&cluster, rank) else {
            panic!("{:?}", failure(&cluster, rank));
        };
        let passed = |elements| Some(Shape { elements, signature: 3 });
        assert_eq!(shapes, &[100, 100, 100, 5000, 100, 0].map(passed));
    }
}

#[test]
fn ranks_that_pass_different_operations_all_learn_it() {
    let mut cluster = cluster(&Tree::star(2), POOL);
    submit_to(&mut cluster, [0], 100);
    let tensor = Tensor::of(&cluster.plan, 1, 0, 100).with_signature(8);
    cluster.submit_within(1, tensor, TIMEOUT);
    cluster.run_until(END);
    let Failure::Mismatch { shapes, .. } = failure(&cluster, 0) else { panic!() };
    let passed = |signature| Some(Shape { elements: 100, signature });
    assert_eq!(shapes, &[3, 8].map(passed));
    assert_eq!(failure(&cluster, 0), failure(&cluster, 1));
}

#[test]
fn a_value_that_is_not_finite_ends_its_round_everywhere_and_no_other() {
    for stream in [POOL, CACHE] {
        let mut cluster = cluster(&Tree::three_levels(), stream);
        for round in 0..5 {
            for rank in 0..6 {
                let mut tensor = Tensor::of(&cluster.plan, rank, round, 9000);
                if (rank, round) == (4, 2) || (rank, round) == (0, 3) {
                    tensor = tensor.with_infinity_at(8500);
                }
                cluster.submit(rank, tensor);
            }
        }
        cluster.run();
        for host in &cluster.hosts {
            let outcomes: Vec<_> = host.finished.iter().map(|(_, o, _)| o.clone()).collect();
            let bad = Err(Failure::NotFinite);
            assert_eq!(outcomes, [Ok(()), Ok(()), bad.clone(), bad, Ok(())]);
            assert_eq!(host.tensors[2].values(), host.tensors[2].own(), "the buffer is untouched");
            assert_eq!(host.tensors[4].values(), cluster.expected_sum(4));
        }
    }
}

#[test]
fn an_aggregator_that_cannot_add_is_found_out() {
    let mut cluster = cluster(&Tree::star(2), POOL);
    submit_to(&mut cluster, 0..2, 2000);
    let root = cluster.nodes[0].address;
    while !cluster.is_finished() {
        assert!(cluster.step());
        miscalculate(&mut cluster, root);
    }
    for rank in 0..2 {
        assert!(matches!(failure(&cluster, rank), Failure::WrongSum { node: NodeId(0), .. }));
    }
}

/// Falsifies a lane of every result under way from this node, as an adder would that errs.
fn miscalculate(cluster: &mut Cluster, node: SocketAddr) {
    for datagram in cluster.network.flights_mut() {
        let is_result = datagram.cargo[3] == wiresum_wire::Kind::Result as u8;
        if datagram.from == node && is_result {
            datagram.cargo[wiresum_wire::HEADER_LEN] = 0x5a;
        }
    }
}
