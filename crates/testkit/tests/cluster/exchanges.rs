//! Rounds of which some give and some take: parts and copies come out exact, and no entry is taken from who needs it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::random::{random_conditions, random_streams, run_schedules};
use super::*;
use wiresum_testkit::seeds::for_each_seed;

/// Seeds of deaths beside exchanges; each takes some ten milliseconds.
const DEATHS: u64 = 300;
const KINDS: &[Kind] = &[
    Kind::AllReduce,
    Kind::Reduce,
    Kind::ReduceScatter,
    Kind::AllGather,
    Kind::Broadcast,
    Kind::Gather,
    Kind::Scatter,
];

fn exchanging(workers: u32, slots: u32, window: u32) -> Plan {
    with_exchanges(plan(&Tree::star(workers), &[POOL]), slots, window)
}

fn exchanged(plan: Plan, conditions: Conditions, calls: &[Call]) -> Cluster {
    let mut cluster = Cluster::new(plan, conditions, 1);
    cluster.join_all();
    cluster.submit_calls(calls);
    cluster.run();
    cluster.assert_sums();
    cluster
}

fn call(kind: Kind, size: usize) -> Call {
    Call { kind, root: u32::from(kind.has_root()), size }
}

#[test]
fn every_kind_is_exact_and_repeats_nothing_without_loss() {
    for kind in KINDS {
        let cluster = exchanged(exchanging(4, 64, 32), CALM, &[call(*kind, 20_000)]);
        for rank in 0..4 {
            assert_eq!(cluster.worker_count(rank, "repetitions"), 0, "{kind}");
        }
    }
}

#[test]
fn every_size_around_a_fragment_is_exchanged() {
    let sizes = [0, 1, 7, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 513];
    for kind in KINDS {
        let calls = sizes.map(|size| call(*kind, size));
        exchanged(exchanging(3, 32, 16), CALM, &calls);
    }
}

#[test]
fn every_lane_type_is_exchanged() {
    for lanes in ["int32-le", "int32-be", "int16-le", "int16-be", "auto"] {
        let plan = with_exchanges(plan_with(&Tree::star(3), &[POOL], 64, lanes), 32, 16);
        let calls: Vec<Call> = KINDS.iter().map(|kind| call(*kind, 5000)).collect();
        exchanged(plan, CALM, &calls);
    }
}

/// Sums go up the tree, and what is exchanged goes straight to its root.
#[test]
fn workers_of_a_tree_exchange_about_its_root() {
    for tree in [Tree::two_servers(), Tree::three_levels()] {
        let calls: Vec<Call> = KINDS.iter().map(|kind| call(*kind, 20_000)).collect();
        exchanged(with_exchanges(plan(&tree, &[POOL]), 64, 32), CALM, &calls);
    }
}

/// Who sends to which node in streams of exchanges, counted by node.
fn exchanged_by_node(plan: Plan, calls: &[Call]) -> BTreeMap<u16, u64> {
    let first = plan.streams.iter().filter(|s| !s.role.is_exchange()).count() as u16;
    let counts = Rc::new(RefCell::new(BTreeMap::<u16, u64>::new()));
    let seen = Rc::clone(&counts);
    let mut cluster = Cluster::new(plan, CALM, 1);
    cluster.on_the_way = Some(Box::new(move |_, datagram| {
        let packet = Packet::parse(datagram).expect("nothing is damaged");
        let is_contribution = packet.kind == wiresum_wire::Kind::Contribution;
        if is_contribution && packet.header.sub_model.get() >= first {
            *seen.borrow_mut().entry(packet.header.node.get()).or_default() += 1;
        }
    }));
    cluster.join_all();
    cluster.submit_calls(calls);
    cluster.run();
    cluster.assert_sums();
    counts.take()
}

/// Each server of a tree carries its share of every kind, all of them together everything.
#[test]
fn servers_carry_their_shares() {
    let shares = [(0, 0.5), (1, 0.3), (2, 0.2)];
    let sums = || plan(&Tree::two_servers(), &[POOL]);
    for kind in KINDS.iter().filter(|kind| **kind != Kind::AllReduce) {
        let calls = [call(*kind, 64_000)];
        let of = |plan| exchanged_by_node(plan, &calls);
        let alone = of(with_exchanges(sums(), 64, 32))[&0] as f64;
        let together = of(with_exchanges_at(sums(), &shares, 64, 32));
        for (node, share) in shares {
            let part = together[&node] as f64 / alone;
            assert!((part - share).abs() < 0.03, "{kind}: node {node} carries {part} of {share}");
        }
    }
}

/// What a rank sends and takes is its own part, and that of the others, and no more.
#[test]
fn nobody_sends_or_gets_what_is_not_for_it() {
    let of_rank = |rank, kind, size| {
        let cluster = exchanged(exchanging(4, 64, 32), CALM, &[call(kind, size)]);
        (cluster.worker_count(rank, "contributions"), cluster.worker_count(rank, "results"))
    };
    let contributions = |kind| of_rank(0, kind, 64 * 400);
    let (sent, taken) = contributions(Kind::AllReduce);
    assert!(sent >= 400 && taken >= 400);
    // A preamble of a few fragments, and a barrier for each 64 positions, are for all.
    let (sent, taken) = contributions(Kind::ReduceScatter);
    assert!((300..330).contains(&sent) && (100..130).contains(&taken), "{sent}, {taken}");
    let (sent, taken) = contributions(Kind::AllGather);
    // 64 × 400 bytes are 100 fragments of 256.
    assert!((100..130).contains(&sent) && (300..330).contains(&taken), "{sent}, {taken}");
    // Rank 1 is the root, and keeps what is its own.
    let (root, other) = (1, 0);
    let (few, of_one, of_others) = (0..30, 100..130, 300..330);
    for (rank, kind, size, sends, takes) in [
        (other, Kind::Gather, 64 * 400, &of_one, &few),
        (root, Kind::Gather, 64 * 400, &few, &of_others),
        (other, Kind::Scatter, 64 * 1600, &few, &of_one),
        (root, Kind::Scatter, 64 * 1600, &of_others, &few),
    ] {
        let (sent, taken) = of_rank(rank, kind, size);
        assert!(sends.contains(&sent), "{kind}: rank {rank} sends {sent}");
        assert!(takes.contains(&taken), "{kind}: rank {rank} takes {taken}");
    }
}

#[test]
fn sums_and_copies_flow_beside_each_other() {
    let alone = |kind| exchanged(exchanging(4, 64, 32), CALM, &[call(kind, 64 * 400)]).now().0;
    let both = [call(Kind::ReduceScatter, 64 * 400), call(Kind::AllGather, 64 * 400)];
    let beside = exchanged(exchanging(4, 64, 32), CALM, &both).now().0;
    let apart = alone(Kind::ReduceScatter) + alone(Kind::AllGather);
    assert!(beside < apart, "{beside} µs beside each other, {apart} one after the other");
}

/// Workers get out of step by themselves. Who is behind takes what others give as it comes, and asks for none of it again.
#[test]
fn what_others_give_ahead_of_a_worker_is_taken() {
    let conditions = Conditions { rate_bps: Some(1e9), ..CALM };
    let both = [call(Kind::ReduceScatter, 64 * 2000), call(Kind::AllGather, 64 * 8000)];
    let cluster = exchanged(exchanging(4, 256, 64), conditions, &both);
    for rank in 0..4 {
        let count = |name| cluster.worker_count(rank, name);
        assert_eq!((count("requests"), count("surplus_results")), (0, 0), "rank {rank}");
    }
}

#[test]
fn positions_and_barriers_pass_the_wrap() {
    let first = FragmentId(u32::MAX - 200);
    let several =
        with_exchanges_at(plan(&Tree::two_servers(), &[POOL]), &[(2, 0.7), (1, 0.3)], 32, 16);
    for plan in [exchanging(3, 32, 16), several] {
        let mut cluster = Cluster::starting_at(plan, lossy(0.05), 3, first);
        cluster.join_all();
        cluster.submit_calls(&[call(Kind::ReduceScatter, 30_000), call(Kind::AllGather, 30_000)]);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn a_late_worker_is_named() {
    let mut cluster = Cluster::new(exchanging(3, 32, 16), CALM, 1);
    cluster.join_all();
    for rank in 0..3 {
        cluster.submit_next(rank, call(Kind::AllGather, 100));
    }
    cluster.run();
    cluster.hosts[2].is_dead = true;
    for rank in 0..2 {
        let tensor = Tensor::of(&cluster.plan, rank, 1, 100).of_kind(Kind::AllGather, 0);
        cluster.submit_within(rank, tensor, Duration::from_secs(2));
    }
    cluster.run();
    let outcome = &cluster.hosts[0].finished[1].1;
    let is_named = |failure: &Failure| matches!(failure, Failure::Missing { missing, .. } if missing == &["w2"]);
    assert!(outcome.as_ref().is_err_and(is_named), "{outcome:?}");
}

/// A server below the root that exchanges is gone: sums go round it, what is exchanged does not, and its name is told.
#[test]
fn a_dead_server_of_several_is_named() {
    let servers = [(0, 0.5), (1, 0.5)];
    let plan = with_exchanges_at(plan(&Tree::two_servers(), &[POOL]), &servers, 32, 16);
    let mut cluster = Cluster::new(plan, CALM, 1);
    cluster.join_all();
    cluster.submit_calls(&[call(Kind::AllGather, 5000)]);
    cluster.run();
    let now = cluster.now();
    let watch = |host: &mut Host| host.session.watch_nodes(Duration::from_secs(1), now);
    cluster.hosts.iter_mut().for_each(watch);
    cluster.kill(1);
    for rank in 0..cluster.hosts.len() {
        let tensor = Tensor::of(&cluster.plan, rank, 1, 5000).of_kind(Kind::AllGather, 0);
        cluster.submit_within(rank, tensor, Duration::from_secs(20));
    }
    cluster.run();
    for host in &cluster.hosts {
        let is_named =
            |failure: &Failure| matches!(failure, Failure::Silent { node: NodeId(1), .. });
        let [(gone, _)] = &host.gone[..] else { panic!("{:?}", host.gone) };
        assert!(is_named(gone), "{gone}");
        let outcome = &host.finished[1].1;
        assert!(outcome.as_ref().is_err_and(is_named), "{outcome:?}");
    }
}

/// Rows and columns of a mesh exchange by all servers of the plan, each as a job of its own.
#[test]
fn groups_exchange_by_every_server() {
    let mut whole = plan(&Tree::two_servers(), &[POOL]);
    whole.job.groups = vec![vec![0, 2], vec![1, 3, 4]];
    let whole = with_exchanges_at(whole, &[(0, 0.25), (1, 0.25), (2, 0.5)], 32, 16);
    for group in 1..=2 {
        let plan = whole.group(group).expect("a group");
        assert_eq!(plan.exchanged().count(), 6);
        let calls: Vec<Call> = KINDS.iter().map(|kind| call(*kind, 20_000)).collect();
        exchanged(plan, lossy(0.02), &calls);
    }
}

/// Nodes of a plan that exchange, each with a share, and some of them twice; or the root without one.
fn random_servers(rng: &mut Rng, plan: &Plan) -> Vec<(u16, f64)> {
    let count = rng.below(5);
    if count == 0 {
        return vec![(0, 0.0)];
    }
    let weights: Vec<f64> =
        (0..count).map(|at| (rng.below(5) + u64::from(at == 0)) as f64).collect();
    let whole: f64 = weights.iter().sum();
    let node = |rng: &mut Rng| rng.below(plan.nodes.len() as u64) as u16;
    weights.iter().map(|weight| (node(rng), weight / whole)).collect()
}

/// Collectives of every kind, at any size, over a network that loses, doubles, delays and reorders, by workers that start
/// at times of their own and go so many positions further than barriers allow.
fn schedule(seed: u64, overreach: u32) {
    let mut rng = Rng::new(seed);
    let lanes = ["int32-le", "int32-be", "int16-le", "int16-be", "auto"][rng.below(5) as usize];
    let tree = match rng.below(4) {
        0 => Tree::two_servers(),
        1 => Tree::three_levels(),
        _ => Tree::star(2 + rng.below(5) as u32),
    };
    let sums = plan_with(&tree, &random_streams(&mut rng), 64, lanes);
    let workers = sums.workers.len() as u32;
    let slots = 32 << rng.below(3);
    let (servers, window) = (random_servers(&mut rng, &sums), 1 + rng.below(slots.into()) as u32);
    let plan = with_exchanges_at(sums, &servers, slots, window);
    let first = if rng.below(2) == 0 { 0 } else { (rng.below(300) as u32).wrapping_neg() };
    let conditions = random_conditions(&mut rng);
    let mut cluster = Cluster::starting_at(plan, conditions, seed, FragmentId(first));
    cluster.hosts.iter_mut().for_each(|host| host.session.overreach(overreach));
    let scale = [100, 5000, 30_000][rng.below(3) as usize];
    let call = |rng: &mut Rng| {
        let size = rng.below(scale) as usize;
        Call::random_of(KINDS, rng, workers as usize, size)
    };
    let calls: Vec<Call> = (0..1 + rng.below(4)).map(|_| call(&mut rng)).collect();
    for rank in 0..workers as usize {
        cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(2000))));
        cluster.join(rank);
        calls.iter().for_each(|call| cluster.submit_next(rank, *call));
    }
    cluster.run();
    cluster.assert_sums();
}

fn exchanges_are_exact_in(seed: u64) {
    schedule(seed, 0);
}

#[test]
fn exchanges_are_exact_under_random_misfortune() {
    let test = "exchanges::exchanges_are_exact_under_random_misfortune";
    run_schedules(test, 0, exchanges_are_exact_in);
}

/// Servers below the root die, come back, or are taken for dead, while workers exchange about the root; or they are taken
/// for dead alone, while workers exchange by all of them.
fn exchanges_go_on_beside_deaths_in(seed: u64) {
    let mut rng = Rng::new(seed);
    let (tree, victims) = match rng.below(2) {
        0 => (Tree::two_servers(), &[1, 2][..]),
        _ => (Tree::three_levels(), &[1, 2, 3][..]),
    };
    let sums = plan_with(&tree, &random_streams(&mut rng), 64, "auto");
    let are_all_needed = rng.below(2) == 0;
    let plan = if are_all_needed {
        let share = 1.0 / sums.nodes.len() as f64;
        let servers: Vec<_> = sums.nodes.iter().map(|node| (node.id, share)).collect();
        with_exchanges_at(sums, &servers, 64, 32)
    } else {
        with_exchanges(sums, 64, 32)
    };
    let mut cluster = Cluster::new(plan, lossy(0.02), seed);
    cluster.join_all();
    while !cluster.hosts.iter().all(|host| host.has_joined) {
        assert!(cluster.step());
    }
    let workers = cluster.hosts.len();
    for _ in 0..4 {
        let calls: Vec<Call> =
            (0..3).map(|_| Call::random_of(KINDS, &mut rng, workers, 5000)).collect();
        cluster.submit_calls(&calls);
        cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(20_000))));
        let victim = victims[rng.below(victims.len() as u64) as usize];
        match rng.below(3) {
            0 if !are_all_needed => cluster.kill(victim),
            1 if !are_all_needed => cluster.revive(victim),
            _ => cluster.take_for_dead(rng.below(workers as u64) as usize, victim),
        }
        cluster.run_until(cluster.now().plus(Duration::from_micros(rng.below(2) * 700_000)));
    }
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn exchanges_go_on_beside_deaths() {
    let test = "-p wiresum-testkit --test cluster exchanges::exchanges_go_on_beside_deaths";
    for_each_seed(test, 0, DEATHS, exchanges_go_on_beside_deaths_in);
}

/// The bound is no wider than it has to be: one position more, and some entry is taken from who needs it.
#[test]
fn one_position_more_than_barriers_allow_is_one_too_many() {
    let breaks = |seed| catch_unwind(AssertUnwindSafe(|| schedule(seed, 1))).is_err();
    assert!((0..300).any(breaks), "no schedule has noticed");
}
