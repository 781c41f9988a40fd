//! Every way in which a round fails, on every worker, by its deadline, with the right name.

use super::*;
use wiresum_wire::LaneType;

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
fn ranks_with_lanes_of_different_widths_all_hear_of_it() {
    for size in [100, 100_000] {
        let mut cluster = cluster(&Tree::star(3), POOL);
        submit_to(&mut cluster, 0..2, size);
        let narrow = Tensor::of(&cluster.plan, 2, 0, size).on(LaneType::I16Le);
        cluster.submit_within(2, narrow, TIMEOUT);
        cluster.run_until(END);
        for rank in 0..3 {
            let told = failure(&cluster, rank).to_string();
            let text = format!("rank 2: all_reduce of {size} elements on 16 bits");
            assert!(told.contains(&text), "{told}");
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
