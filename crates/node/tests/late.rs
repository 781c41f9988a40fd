//! Rounds that go on without a late worker, over loopback.

mod cluster;

use std::sync::mpsc;

use cluster::{Cluster, PATIENCE, Shape, over_tcp, plan, submit};
use wiresum_codec::Operation;
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Count, Lanes, Policy, Rounds};
use wiresum_worker::Participation;

const WORKERS: u32 = 4;
/// Several windows.
const LEN: usize = 120_001;

/// Rounds take three of the four workers at node 0.
fn three_of_four(mut plan: Plan) -> Plan {
    plan.job.rounds = Some(Rounds { counts: vec![Count { node: 0, k: 3 }], most_missed: 8 });
    plan.validate().expect("a valid plan");
    plan
}

fn assert_the_late_get_the_sum_of_the_others(plan: Plan) {
    let cluster = Cluster::start(three_of_four(plan));
    let (tell, told) = mpsc::channel();
    for engine in &cluster.engines[..3] {
        let tell = tell.clone();
        submit::<f32>(engine, vec![0.5; LEN], Operation::Average, move |values, outcome| {
            tell.send((values, outcome)).expect("somebody waits");
        });
    }
    for _ in 0..3 {
        let (values, outcome) = told.recv_timeout(PATIENCE).expect("nobody waits for rank 3");
        let participation = outcome.expect("a sum");
        assert_eq!(participation, Participation { ranks: 3, is_own_in: true });
        assert!(values.iter().all(|value| *value == 0.5), "an average of three");
    }
    let late = &cluster.engines[3];
    let mut values = vec![100f32; LEN];
    let participation = late.all_reduce(&mut values, Operation::Average, PATIENCE).expect("a sum");
    assert_eq!(participation, Participation { ranks: 3, is_own_in: false });
    assert!(values.iter().all(|value| *value == 0.5));
    let statistics = late.statistics();
    assert_eq!((statistics.collectives.missed, statistics.collectives.ranks_summed), (1, 3));
    cluster.stop();
}

#[test]
fn over_udp() {
    let plan = plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool);
    assert_the_late_get_the_sum_of_the_others(plan);
}

#[test]
fn over_tcp_connections() {
    let plan = plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Cache);
    assert_the_late_get_the_sum_of_the_others(over_tcp(plan));
}

#[test]
fn counts_can_change_in_a_running_job() {
    let cluster =
        Cluster::start(three_of_four(plan(Shape::Star, WORKERS, Lanes::Int32Le, Policy::Pool)));
    cluster.engines.iter().for_each(|engine| engine.await_children(2));
    let (tell, told) = mpsc::channel();
    for engine in &cluster.engines[..2] {
        let tell = tell.clone();
        submit::<f32>(engine, vec![1.0; 10], Operation::Sum, move |values, outcome| {
            tell.send((values, outcome)).expect("somebody waits");
        });
    }
    for _ in 0..2 {
        let (values, outcome) = told.recv_timeout(PATIENCE).expect("two are enough");
        assert_eq!(outcome.expect("a sum").ranks, 2);
        assert_eq!(values, [4.0; 10], "two stand for four");
    }
    drop(cluster);
}
