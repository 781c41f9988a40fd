//! Sums come out exact on every worker, whatever the plan.

use super::*;

fn summed(plan: Plan, conditions: Conditions, sizes: &[usize]) -> Cluster {
    let mut cluster = Cluster::new(plan, conditions, 1);
    cluster.join_all();
    cluster.submit_all(sizes);
    cluster.run();
    cluster.assert_sums();
    cluster
}

#[test]
fn one_worker_gets_its_own_values() {
    summed(plan(&Tree::star(1), &[POOL]), CALM, &[100]);
}

#[test]
fn a_star_sums_with_each_policy() {
    for stream in [POOL, CACHE] {
        let cluster = summed(plan(&Tree::star(4), &[stream]), CALM, &[5000]);
        assert_eq!(cluster.worker_count(2, "repetitions"), 0);
        assert_eq!(cluster.count(Verdict::Duplicate), 0);
    }
}

#[test]
fn a_tree_of_three_levels_sums_with_each_policy() {
    for stream in [POOL, CACHE] {
        let cluster = summed(plan(&Tree::three_levels(), &[stream]), CALM, &[5000]);
        assert_eq!(cluster.worker_count(0, "repetitions"), 0);
    }
}

#[test]
fn several_streams_share_the_values() {
    let streams = [
        Values { share: 0.25, ..POOL },
        Values { share: 0.5, ..CACHE },
        Values { share: 0.25, ..POOL },
    ];
    let cluster = summed(plan(&Tree::three_levels(), &streams), CALM, &[6400]);
    let sent: Vec<_> = cluster.hosts[0].session.streams_sent();
    assert_eq!(sent[1..], [25, 50, 25]);
}

#[test]
fn every_lane_type_is_summed() {
    for lanes in ["int32-le", "int32-be", "int16-le", "int16-be", "auto"] {
        let plan = plan_with(&Tree::three_levels(), &[POOL], 64, lanes);
        summed(plan, CALM, &[1, 300, 129]);
    }
}

#[test]
fn lanes_as_wide_as_the_elements_are_as_many_as_fit() {
    let plan = plan_with(&Tree::star(4), &[POOL], 64, "auto");
    // Every second round has narrow elements; all are in flight together.
    let cluster = summed(plan, lossy(0.05), &[6400, 6400, 64, 64, 6400, 128]);
    assert_eq!(cluster.hosts[0].session.streams_sent()[1], 100 + 50 + 1 + 1 + 100 + 1);
}

#[test]
fn packets_as_long_as_an_mtu_of_9000_bytes_are_summed() {
    for lanes in ["int32-le", "int16-be", "auto"] {
        let plan = plan_with(&Tree::three_levels(), &[POOL], MAX_VALUES as u16, lanes);
        summed(plan, lossy(0.05), &[1, 60_000, MAX_VALUES + 1]);
    }
}

#[test]
fn every_size_around_a_fragment_is_summed() {
    summed(plan(&Tree::star(2), &[POOL]), CALM, &[1, 7, 8, 9, 63, 64, 65, 127, 128]);
}

#[test]
fn an_empty_tensor_finishes_after_its_preamble() {
    let cluster = summed(plan(&Tree::star(3), &[POOL]), CALM, &[0, 10, 0]);
    assert_eq!(cluster.hosts[0].finished.len(), 3);
}

#[test]
fn shapes_of_many_ranks_span_preamble_fragments() {
    // 40 workers have 80 lanes of shapes; a preamble fragment has 64.
    let tree = Tree::star(40);
    summed(plan(&tree, &[POOL]), CALM, &[100, 0, 5000]);
}

#[test]
fn rounds_are_pipelined() {
    let one = summed(plan(&Tree::star(2), &[POOL]), CALM, &[64]).now();
    let ten = summed(plan(&Tree::star(2), &[POOL]), CALM, &[64; 10]).now();
    assert!(ten.0 < 5 * one.0, "ten rounds took {ten:?}, one {one:?}");
}

#[test]
fn positions_pass_the_wrap() {
    for stream in [POOL, CACHE] {
        let plan = plan(&Tree::three_levels(), &[stream]);
        let first = FragmentId(u32::MAX - 20);
        let mut cluster = Cluster::starting_at(plan, lossy(0.1), 3, first);
        cluster.join_all();
        cluster.submit_all(&[3000, 3000]);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn a_lost_packet_costs_no_timeout_while_others_flow() {
    let perfect = summed(plan(&Tree::star(4), &[POOL]), CALM, &[50_000]).now();
    let lossy = summed(plan(&Tree::star(4), &[POOL]), lossy(0.001), &[50_000]).now();
    assert!(lossy.0 < 2 * perfect.0, "{lossy:?} beside {perfect:?} without loss");
}

#[test]
fn a_late_worker_costs_probes_and_no_values() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::new(plan(&Tree::star(3), &[stream]), CALM, 1);
        cluster.join_all();
        let sizes = [3000; 2];
        for rank in 0..2 {
            for (round, size) in sizes.into_iter().enumerate() {
                let tensor = Tensor::of(&cluster.plan, rank, round, size);
                cluster.submit(rank, tensor);
            }
        }
        cluster.run_until(Time(5_000_000));
        for (round, size) in sizes.into_iter().enumerate() {
            let tensor = Tensor::of(&cluster.plan, 2, round, size);
            cluster.submit(2, tensor);
        }
        cluster.run();
        cluster.assert_sums();
        assert_eq!(cluster.worker_count(0, "repetitions"), 0);
        let probes = cluster.worker_count(0, "probes");
        assert!((10..100).contains(&probes), "{probes} probes in 5 s");
        let waited = cluster.now().since(Time(5_000_000));
        assert!(waited < Duration::from_millis(300), "{waited:?} after the late worker came");
    }
}

#[test]
fn memory_does_not_grow_with_traffic() {
    let plan = plan(&Tree::star(2), &[POOL]);
    let before = Aggregator::new(&plan, NodeId(0)).memory_bytes();
    let cluster = summed(plan, lossy(0.05), &[20_000]);
    assert_eq!(cluster.nodes[0].aggregator.memory_bytes(), before);
}
