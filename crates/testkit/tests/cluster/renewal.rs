//! Keys of values are renewed every 2³⁰ positions: no round is lost, and nodes know the keys that workers use.

use wiresum_protocol::association::GENERATION_SHIFT;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::SubModelId;

use super::*;

/// Positions after which something changes: a generation begins, or its second half, in which the one before is over.
const HALF: u64 = 1 << (GENERATION_SHIFT - 1);
/// Seeds of jobs with kills; each takes a few hundredths of a second.
const KILLS: u64 = 40;
/// Positions of a job that come before the change.
const BEFORE: u64 = 40;

/// Each change before the positions wrap, and the first after.
fn changes() -> impl Iterator<Item = u64> {
    (1..=9).map(|half| half * HALF)
}

fn starting_before(change: u64, tree: &Tree, stream: Values, loss: f64, seed: u64) -> Cluster {
    let first = FragmentId((change - BEFORE) as u32);
    Cluster::starting_at(plan(tree, &[stream]), lossy(loss), seed, first)
}

/// Takes down the keys of all values on their way, by stream and the upper bits of their positions.
fn watch(cluster: &mut Cluster) -> Keys<(u16, u32)> {
    watch_keys(cluster, |_, header| {
        (header.sub_model.get(), header.fragment.get() >> GENERATION_SHIFT)
    })
}

#[test]
fn no_round_is_lost_where_keys_change() {
    for change in changes().filter(|change| *change < 1 << 32) {
        for (stream, loss) in [(POOL, 0.0), (POOL, 0.05), (CACHE, 0.05)] {
            let mut cluster = starting_before(change, &Tree::three_levels(), stream, loss, change);
            let keys = watch(&mut cluster);
            cluster.join_all();
            // So many positions in each stream, that of exponents too.
            for _ in 0..2 * BEFORE {
                cluster.submit_all(&[40]);
                cluster.run();
            }
            cluster.assert_sums();
            let keys = keys.borrow();
            assert!(keys.values().all(|keys| keys.len() == 1), "a key for a generation: {keys:?}");
            let all: BTreeSet<_> = keys.values().flatten().collect();
            let is_boundary = change % (2 * HALF) == 0;
            assert_eq!(all.len(), if is_boundary { 2 } else { 1 }, "at {change}: {keys:?}");
            let oldest = ((change - HALF) / (2 * HALF)) as u32;
            for node in &cluster.nodes {
                let place = |stream| node.aggregator.association(SubModelId(stream)).oldest();
                assert_eq!([place(0), place(1)], [oldest; 2], "node {} at {change}", node.id);
            }
        }
    }
}

#[test]
fn no_round_is_lost_where_positions_wrap() {
    let mut cluster = starting_before(1 << 32, &Tree::three_levels(), POOL, 0.05, 3);
    let keys = watch(&mut cluster);
    cluster.join_all();
    for _ in 0..2 * BEFORE {
        cluster.submit_all(&[40]);
        cluster.run();
    }
    cluster.assert_sums();
    let first = plan(&Tree::three_levels(), &[POOL]).job_key(INCARNATION).0;
    let keys = keys.borrow();
    assert!(keys.keys().any(|(_, generation)| *generation == 0), "{keys:?}");
    assert!(!keys.values().any(|keys| keys.contains(&first)), "the first key is not used again");
}

#[test]
fn nodes_that_die_and_come_back_learn_the_keys() {
    for_each_seed("cluster renewal::nodes_that_die", 0, KILLS, |seed| {
        let mut rng = Rng::new(seed);
        let changes: Vec<u64> = changes().filter(|change| *change < 1 << 32).collect();
        let change = changes[rng.below(changes.len() as u64) as usize];
        let stream = if rng.chance(0.5) { POOL } else { CACHE };
        let mut cluster = starting_before(change, &Tree::three_levels(), stream, 0.01, seed);
        cluster.join_all();
        while !cluster.hosts.iter().all(|host| host.has_joined) {
            assert!(cluster.step());
        }
        let victim = 1 + 2 * rng.below(2) as u16;
        cluster.submit_all(&[4_000, 4_000]);
        let pause = Duration::from_micros(rng.below(3_000));
        cluster.run_until(cluster.now().plus(pause));
        cluster.kill(victim);
        cluster.run();
        cluster.revive(victim);
        run_until_all_are_home(&mut cluster);
        for _ in 0..2 * BEFORE {
            cluster.submit_all(&[40]);
            cluster.run();
        }
        cluster.assert_sums();
        let generation = |node: &Node| node.aggregator.association(SubModelId(1)).oldest();
        let known: BTreeSet<u32> = cluster.nodes.iter().map(generation).collect();
        assert_eq!(known.len(), 1, "all nodes know the same of seed {seed}: {known:?}");
    });
}
