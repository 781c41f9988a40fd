//! Jobs of Zebra's switch program, with workers, station and server as they are live, on one network in virtual time: sums
//! are exact, whatever the network loses, repeats, reorders, damages or delays.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use wiresum_keys::association::CLOCK_MARGIN_US;
use wiresum_netem::{Rng, Time};
use wiresum_sparse::layout::Packaging;
use wiresum_sparse::live::Renewal;
use wiresum_sparse::live::keyed::{KeyedMember, KeyedNode, SERVER, SWITCH};
use wiresum_switch::keyed::Pair;
use wiresum_testkit::seeds::for_each_seed;
use world::{Drawn, World};

const SEEDS: u64 = 150;
const TEST: &str = "-p wiresum-sparse --test keyed";

fn drawn(seed: u64) -> Drawn {
    let mut rng = Rng::new(seed ^ 0x6b65_7965);
    let packagings = [Packaging::Arrival, Packaging::Rank, Packaging::FirstFit, Packaging::Dealing];
    Drawn {
        workers: 1 + rng.below(6) as u8,
        registers: 1 + rng.below(9) as u32,
        pairs: 1 + rng.below(12) as u32,
        hot: rng.below(60),
        keys: 100,
        rounds: 4,
        packaging: packagings[rng.below(4) as usize],
        loss: [0.0, 0.02, 0.2][rng.below(3) as usize],
        renewal: Renewal::default(),
        pause_us: 20_000,
    }
}

/// The gradients of one worker: distinct keys, in any order; now and then none, or none that is hot.
fn gradients(rng: &mut Rng, drawn: &Drawn) -> Vec<Pair> {
    let first = match rng.below(8) {
        0 => drawn.keys,
        1 => drawn.hot,
        _ => 0,
    };
    let mut keys: Vec<u64> = (first..drawn.keys).filter(|_| rng.chance(0.5)).collect();
    for last in (1..keys.len()).rev() {
        keys.swap(last, rng.below(last as u64 + 1) as usize);
    }
    keys.into_iter().map(|key| Pair { key, value: rng.next() as i32 }).collect()
}

fn expected(pushed: &[Vec<Pair>]) -> BTreeMap<u64, i32> {
    let mut sums: BTreeMap<u64, i32> = BTreeMap::new();
    for pair in pushed.iter().flatten() {
        let sum = sums.entry(pair.key).or_default();
        *sum = sum.wrapping_add(pair.value);
    }
    sums
}

/// One iteration, and whether all have its sums.
fn iterate(world: &mut World, rng: &mut Rng, drawn: &Drawn, what: &str) {
    let pushed: Vec<_> = (0..drawn.workers).map(|_| gradients(rng, drawn)).collect();
    let sums = expected(&pushed);
    for (worker, got) in world.run(&pushed).iter().enumerate() {
        assert_eq!(*got, sums, "{what}, worker {worker}");
    }
}

#[test]
fn every_worker_gets_the_exact_sums_of_every_iteration() {
    let (mut repeated, mut recirculated, mut runs) = (0, 0, 0);
    for_each_seed(TEST, 1, SEEDS, |seed| {
        let drawn = drawn(seed);
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed, drawn);
        world.start(1);
        for round in 1..=drawn.rounds {
            iterate(&mut world, &mut rng, &drawn, &format!("seed {seed}, round {round}"));
        }
        let counters = world.nodes[1].counters();
        assert_eq!((counters.wrong, counters.refused), (0, 0), "seed {seed}");
        repeated += world.repeated();
        recirculated += counters.recirculations;
        runs += 1;
    });
    assert!(runs < SEEDS || repeated > 0 && recirculated > 0, "{repeated}, {recirculated}");
}

/// Several generations of iterations, and several renewals by time.
#[test]
fn sums_are_exact_while_keys_are_renewed() {
    for_each_seed(TEST, 1, SEEDS / 3, |seed| {
        let renewal = Renewal { rounds: 16, interval_ms: 200 };
        let drawn = Drawn { renewal, pause_us: 60_000, rounds: 50, ..drawn(seed) };
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed, drawn);
        world.start(1);
        for round in 1..=drawn.rounds {
            iterate(&mut world, &mut rng, &drawn, &format!("seed {seed}, round {round}"));
        }
        for member in &world.members {
            let age = member.key_age();
            assert!(age.generation >= 2 && age.renewal >= 2, "seed {seed}: {age:?}");
        }
        let counters = world.nodes.iter().map(KeyedNode::counters);
        counters.for_each(|counters| assert_eq!(counters.refused, 0, "seed {seed}"));
    });
}

/// A job in the middle of an iteration, and what its workers push.
struct Interrupted {
    drawn: Drawn,
    rng: Rng,
    world: World,
    pushed: Vec<Vec<Pair>>,
}

fn interrupted(seed: u64) -> Interrupted {
    let (drawn, mut rng) = (drawn(seed), Rng::new(seed));
    let mut world = World::new(seed, drawn);
    world.start(1);
    iterate(&mut world, &mut rng, &drawn, &format!("seed {seed}, before"));
    let pushed: Vec<_> = (0..drawn.workers).map(|_| gradients(&mut rng, &drawn)).collect();
    world.begin();
    (0..rng.below(200)).for_each(|_| world.step(&pushed));
    Interrupted { drawn, rng, world, pushed }
}

#[test]
fn a_later_incarnation_begins_anew_in_the_middle_of_an_iteration() {
    for_each_seed(TEST, 1, 40, |seed| {
        let Interrupted { drawn, mut rng, mut world, .. } = interrupted(seed);
        world.start(2);
        iterate(&mut world, &mut rng, &drawn, &format!("seed {seed}, after"));
    });
}

#[test]
fn a_node_that_was_restarted_is_named_to_every_worker_and_a_later_incarnation_goes_on() {
    for_each_seed(TEST, 1, 40, |seed| {
        let Interrupted { drawn, mut rng, mut world, pushed } = interrupted(seed);
        let node = [SERVER, SWITCH][rng.below(2) as usize];
        world.restart(node);
        let problems = world.problems(&pushed);
        let named = format!("node {node} at ");
        for (worker, problem) in problems.iter().enumerate() {
            assert!(problem.contains(&named), "seed {seed}, worker {worker}: {problem}");
            assert!(problem.contains("was restarted"), "seed {seed}, worker {worker}: {problem}");
        }
        world.start(2);
        iterate(&mut world, &mut rng, &drawn, &format!("seed {seed}, after"));
    });
}

#[test]
fn dealt_packets_never_go_round_again() {
    for_each_seed(TEST, 1, 20, |seed| {
        let drawn = Drawn { packaging: Packaging::Dealing, loss: 0.1, ..drawn(seed) };
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed, drawn);
        world.start(1);
        iterate(&mut world, &mut rng, &drawn, &format!("seed {seed}"));
        assert_eq!(world.nodes[1].counters().recirculations, 0, "seed {seed}");
    });
}

#[test]
fn who_has_another_file_a_fast_clock_or_an_earlier_incarnation_is_refused() {
    let drawn = Drawn { loss: 0.0, ..drawn(1) };
    let mut rng = Rng::new(1);
    let mut world = World::new(1, drawn);
    world.start(5);
    iterate(&mut world, &mut rng, &drawn, "before");
    let late = KeyedMember::new(&Arc::new(world::job(drawn)), 0, 4);
    let other = Drawn { registers: drawn.registers + 1, ..drawn };
    let other = KeyedMember::new(&Arc::new(world::job(other)), 0, 5);
    let ahead = KeyedMember::new(&Arc::new(world::job(drawn)), 0, 6 + CLOCK_MARGIN_US);
    world.nodes.iter_mut().for_each(|node| node.set_clock(5));
    let refused = [
        (late, "newer incarnation"),
        (other, "job file is another one"),
        (ahead, "clock is ahead"),
    ];
    for (mut member, reason) in refused {
        let (now, from) = (Time(0), "127.0.0.1:99".parse().expect("an address"));
        let mut hellos = Vec::new();
        member.poll(now, |to, bytes| hellos.push((to, bytes.to_vec())));
        for (to, bytes) in hellos {
            let node = &mut world.nodes[usize::from(to.port()) - 1];
            node.handle(from, &bytes, now);
            node.poll(now, |at, bytes| {
                if at == from {
                    member.handle(to, bytes, now);
                }
            });
        }
        let error = member.error().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error}");
    }
}
