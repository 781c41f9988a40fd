//! Whole jobs whose workers send at negotiated rates.

use super::*;

const INGRESS_BPS: u64 = 200_000_000;

/// Every node's link carries 200 Mbit/s each way.
fn bounded(tree: &Tree, streams: &[Values]) -> Plan {
    with_links(plan(tree, streams), INGRESS_BPS)
}

fn with_links(mut plan: Plan, bps: u64) -> Plan {
    for node in &mut plan.nodes {
        (node.ingress_bps, node.egress_bps) = (Some(bps), Some(bps));
    }
    plan
}

fn run(plan: Plan, conditions: Conditions, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(plan, conditions, seed);
    cluster.join_all();
    cluster.submit_all(&[40_000, 300, 60_000]);
    cluster.run();
    cluster.assert_sums();
    cluster
}

#[test]
fn workers_send_at_what_they_are_granted() {
    let plan = bounded(&Tree::star(4), &[CACHE]);
    let cluster = run(plan, CALM, 1);
    // Packets of 64 values are 356 bytes on the cable; four flows share the link.
    let bits = 8.0 * 356.0 * (100_000.0 / 64.0);
    let seconds = bits / (INGRESS_BPS as f64 / 4.0);
    // A bucket of 2 ms goes out at once.
    let took = cluster.now().0 as f64 / 1e6;
    assert!((0.97 * seconds..1.5 * seconds).contains(&took), "{took} s instead of {seconds} s");
    for rank in 0..4 {
        assert!(cluster.worker_count(rank, "rates_received") > 0);
        assert_eq!(cluster.worker_count(rank, "rates_unanswered"), 0);
        assert_eq!(cluster.worker_count(rank, "repetitions"), 0);
    }
}

#[test]
fn sums_are_exact_at_negotiated_rates_whatever_the_network_does() {
    for seed in 0..20 {
        let values = if seed % 2 == 0 { POOL } else { CACHE };
        println!("replay: seed {seed}");
        let conditions = Conditions { loss: 0.03, duplication: 0.02, ..CALM };
        run(bounded(&Tree::three_levels(), &[values]), conditions, seed);
    }
}

#[test]
fn what_was_sent_elsewhere_is_not_made_up_for_at_home() {
    for stream in [POOL, CACHE] {
        let mut cluster = Cluster::new(bounded(&Tree::two_servers(), &[stream]), CALM, 3);
        cluster.join_all();
        cluster.submit_all(&[40_000]);
        cluster.run_until(cluster.now().plus(Duration::from_millis(2)));
        cluster.kill(1);
        cluster.run();
        cluster.submit_all(&[400_000]);
        cluster.run();
        cluster.revive(1);
        cluster.run_until_home(&[0, 1]);
        let before = cluster.now();
        cluster.submit_all(&[640]);
        cluster.run();
        cluster.assert_sums();
        let took = cluster.now().since(before);
        assert!(took < Duration::from_millis(200), "{took:?} for ten packets");
    }
}

/// Rate of a node's link in the jobs below, in frames as full as can be.
const WIDE_BPS: u64 = 800_000_000;
const SHARE_BPS: f64 = WIDE_BPS as f64 / 4.0;
const FRAME_BYTES: u64 = PAGE_PACKET as u64 + OVERHEAD_BYTES;
/// Size of each worker's part of a queue of 1.5 MiB.
const QUEUE_BYTES: u64 = 384 << 10;
const TICK: Duration = Duration::from_millis(10);

/// What a job sends each 10 ms, in bit/s and per worker, while every link's rate follows `schedule` (from when, bit/s).
fn sent_over_time(cluster: &mut Cluster, schedule: &[(Time, f64)], until: Time) -> Vec<Vec<f64>> {
    let workers = cluster.hosts.len();
    let sent = |c: &Cluster| (0..workers).map(|r| c.worker_count(r, "contributions")).collect();
    let mut before: Vec<u64> = sent(cluster);
    let mut rates = Vec::new();
    while cluster.now() < until {
        let now = cluster.now();
        let bps = schedule.iter().rev().find(|(from, _)| *from <= now).expect("it begins at 0").1;
        cluster.conditions.rate_bps = Some(bps);
        cluster.run_until(now.plus(TICK));
        let after = sent(cluster);
        let bits = |(after, before): (&u64, &u64)| ((after - before) * FRAME_BYTES * 8) as f64;
        rates.push(after.iter().zip(&before).map(|p| bits(p) / TICK.as_secs_f64()).collect());
        before = after;
    }
    rates
}

fn long_job(seed: u64, values: Values) -> Cluster {
    let conditions = Conditions { queue_bytes: QUEUE_BYTES, ..CALM };
    let mut plan = with_links(plan_with(&Tree::star(4), &[values], 736, "int32-le"), WIDE_BPS);
    plan.workers.iter_mut().for_each(|worker| worker.egress_bps = Some(SHARE_BPS as u64));
    let mut cluster = Cluster::new(plan, conditions, seed);
    cluster.join_all();
    cluster
}

const DEEP: Values = Values { share: 1.0, policy: "cache", slots: 16_384, window: 4096 };

/// XAgg Fig. 21: the link falls to a third, and later is as before.
#[test]
fn rates_follow_a_link_that_slows_down_and_recovers() {
    let mut cluster = long_job(1, DEEP);
    cluster.submit_all(&[8_000_000]);
    let (falls, rises, end) = (Time(200_000), Time(700_000), Time(1_800_000));
    let (wide, narrow) = (1.1 * SHARE_BPS, SHARE_BPS / 3.0);
    let schedule = [(Time(0), wide), (falls, narrow), (rises, wide)];
    let rates = sent_over_time(&mut cluster, &schedule, end);
    for rank in 0..4 {
        let mean = |from: usize, to: usize| {
            let sum: f64 = rates[from..to].iter().map(|of_workers| of_workers[rank]).sum();
            sum / (to - from) as f64
        };
        assert!(mean(10, 20) > 0.9 * SHARE_BPS);
        for tick in 20..69 {
            let (one, part) = (mean(tick, tick + 1), mean(tick, tick + 1) / narrow);
            assert!(one > narrow / 2.0, "{part} of the link at {tick} ticks");
        }
        // The paper settles within 100 ms; here one more question is on its way at the time.
        for tick in 31..60 {
            let part = mean(tick, tick + 10) / narrow;
            assert!((0.95..1.05).contains(&part), "{part} of the link from {tick} ticks on");
        }
        assert!(mean(170, 180) > 0.95 * SHARE_BPS, "worker {rank} does not come back");
        assert_eq!(cluster.worker_count(rank, "repetitions"), 0, "the queue overflowed");
        let lowered = cluster.worker_count(rank, "rates_lowered");
        assert!((1..5).contains(&lowered), "worker {rank} lowered its rate {lowered} times");
    }
    cluster.run();
    cluster.assert_sums();
}

/// Nobody's link is slow: those who wait for worker 3 must not think so.
#[test]
fn a_late_worker_lowers_no_ones_rate() {
    for values in [POOL, CACHE, DEEP] {
        let mut cluster = long_job(2, values);
        cluster.conditions.rate_bps = Some(1.1 * SHARE_BPS);
        for late in [0, 300_000] {
            for rank in 0..3 {
                let tensor =
                    Tensor::of(&cluster.plan, rank, cluster.hosts[rank].tensors.len(), 1_000_000);
                cluster.submit(rank, tensor);
            }
            let now = cluster.now();
            cluster.run_until(Time(now.0 + late));
            let tensor = Tensor::of(&cluster.plan, 3, cluster.hosts[3].tensors.len(), 1_000_000);
            cluster.submit(3, tensor);
            cluster.run();
        }
        cluster.assert_sums();
        for rank in 0..4 {
            assert_eq!(cluster.worker_count(rank, "rates_lowered"), 0, "worker {rank}");
            assert!(cluster.worker_count(rank, "pulses") > 0);
        }
    }
}

/// A link that loses packets at any rate is not made better by silence.
#[test]
fn loss_that_a_lower_rate_does_not_cure_is_lived_with() {
    for loss in [0.02, 0.05] {
        let mut cluster = long_job(4, DEEP);
        cluster.conditions.rate_bps = Some(1.1 * SHARE_BPS);
        cluster.conditions.loss = loss;
        cluster.submit_all(&[8_000_000]);
        let began = cluster.now();
        cluster.run();
        cluster.assert_sums();
        let frames = 8_000_000.0 / wiresum_wire::PAGE_VALUES as f64;
        let least = frames * (FRAME_BYTES * 8) as f64 / SHARE_BPS;
        let part = least / cluster.now().since(began).as_secs_f64();
        assert!(part > 0.75, "{part} of the granted rate is of use at a loss of {loss}");
    }
}

/// Nodes without bandwidths in their plan answer no one, so workers that expect rates go ahead without.
#[test]
fn a_node_that_does_not_negotiate_costs_a_bounded_wait() {
    let mut cluster = Cluster::new(bounded(&Tree::star(2), &[CACHE]), CALM, 1);
    let silent = cluster.nodes[0].id;
    cluster.nodes[0].negotiator = Negotiator::new(silent, Bounds::default());
    cluster.join_all();
    cluster.submit_all(&[40_000]);
    cluster.run();
    cluster.assert_sums();
    assert_eq!(cluster.worker_count(0, "rates_unanswered"), 1);
    assert_eq!(cluster.worker_count(0, "rate_bps"), 0, "no limit");
}

/// However much a server has said in its former life.
#[test]
fn a_server_that_comes_back_is_heard_at_once() {
    let mut cluster = Cluster::new(bounded(&Tree::two_servers(), &[CACHE]), CALM, 5);
    cluster.join_all();
    for _ in 0..50 {
        cluster.submit_all(&[8_000]);
        cluster.run();
    }
    cluster.kill(1);
    cluster.submit_all(&[8_000]);
    cluster.run();
    cluster.revive(1);
    cluster.run_until_home(&[0, 1]);
    cluster.submit_all(&[40_000]);
    cluster.run();
    cluster.assert_sums();
    let count = |node: usize, name: &str| {
        let counters = cluster.nodes[node].negotiator.counters();
        counters.into_iter().find(|(n, _)| *n == name).expect("a counter").1
    };
    assert!(count(1, "rates_received") > 0, "the server has asked");
    assert_eq!(count(0, "late_readies"), 0);
    assert_eq!(count(1, "rates_unanswered"), 0);
}

/// XAgg's test bed (Fig. 12) at 1:100, every packet crossing two lossy links.
fn test_bed(loss: f64, values: Values, seed: u64) -> Cluster {
    let of = |ranks: std::ops::Range<u32>| ranks.map(Child::Worker);
    let tree = Tree(vec![
        (0, None, of(6..7).chain([Child::Node(1), Child::Node(2)]).collect()),
        (1, Some(0), of(0..3).collect()),
        (2, Some(0), of(3..6).collect()),
    ]);
    let conditions = Conditions {
        queue_bytes: 1 << 20,
        rate_bps: Some(1e9),
        ..lossy(1.0 - (1.0 - loss) * (1.0 - loss))
    };
    let mut plan = with_links(plan_with(&tree, &[values], 736, "int32-le"), 1_000_000_000);
    for (rank, worker) in plan.workers.iter_mut().enumerate() {
        worker.egress_bps = Some(if rank < 3 { 400_000_000 } else { 1_000_000_000 });
    }
    let mut cluster = Cluster::new(plan, conditions, seed);
    cluster.join_all();
    cluster
}

const LOSS_SEEDS: u64 = 6;

/// What is lost shows late, and all at once where nothing new can be sent; none of that is a slower link.
#[test]
fn no_loss_stops_a_tree_of_servers() {
    /// Each server sends a sum up and three results down.
    const BOUND_BPS: f64 = 0.99 * 1e9 / 4.0;
    const ELEMENTS: usize = 1_000_000;
    let least_s = 32.0 * ELEMENTS as f64 / BOUND_BPS;
    for (policy, slots) in [("pool", 512), ("cache", 4096)] {
        for (loss, part) in [(0.01, 0.6), (0.05, 0.4)] {
            // A loss late in a stream costs a good part of its time, so single runs differ by a factor of 2.
            let mut parts: Vec<f64> = (0..LOSS_SEEDS)
                .flat_map(|seed| {
                    println!("replay: {policy}, loss {loss}, seed {seed}");
                    let values = Values { share: 1.0, policy, slots, window: 192 };
                    let mut cluster = test_bed(loss, values, seed);
                    let seconds = [(); 2].map(|()| {
                        let began = cluster.now();
                        cluster.submit_all(&[ELEMENTS]);
                        cluster.run();
                        cluster.now().since(began).as_secs_f64()
                    });
                    cluster.assert_sums();
                    seconds.map(|seconds| least_s / seconds)
                })
                .collect();
            parts.sort_by(f64::total_cmp);
            let (least, median) = (parts[0], parts[parts.len() / 2]);
            assert!(median > part && least > part / 2.0, "{least} of the bound, median {median}");
        }
    }
}
