//! Keys of values are renewed by time: no round is lost, all come to use the same key, and one that is over is useless.

use wiresum_protocol::association::RENEWAL_INTERVAL;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{Header, Kind, LaneType, SubModelId, seal};
use zerocopy::FromBytes;

use super::*;

/// Renewals that a job lives through.
const RENEWALS: u32 = 5;
/// Rounds before, and after, a moment at which keys are renewed.
const ROUNDS: usize = 10;
/// How long before it they begin: some of them are under way when it comes.
const BEFORE: Duration = Duration::from_millis(2);
/// Seeds of jobs with kills; each takes a few hundredths of a second.
const KILLS: u64 = 20;
/// Elements of a round: some positions in each stream.
const ELEMENTS: usize = 400;

/// What can happen to packets but damage.
const ROUGH: Conditions = Conditions {
    loss: 0.05,
    duplication: 0.05,
    reordering: 0.05,
    late_ps: 1_000 * PS_PER_US,
    jitter_ps: 100 * PS_PER_US,
    ..CALM
};

/// Takes down the keys of all values on their way, by their sender.
fn watch(cluster: &mut Cluster) -> Keys<SocketAddr> {
    watch_keys(cluster, |from, _| from)
}

fn joined(tree: &Tree, stream: Values, conditions: Conditions, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(plan(tree, &[stream]), conditions, seed);
    cluster.join_all();
    while !cluster.hosts.iter().all(|host| host.has_joined) {
        assert!(cluster.step());
    }
    cluster
}

fn sum_rounds(cluster: &mut Cluster) {
    for _ in 0..ROUNDS {
        cluster.submit_all(&[ELEMENTS]);
        cluster.run();
    }
}

fn wait(cluster: &mut Cluster, duration: Duration) {
    cluster.run_until(cluster.now().plus(duration));
}

/// Renewals that each node knows of, in the stream of exponents and in that of values.
fn renewals(cluster: &Cluster) -> BTreeSet<u32> {
    let alive = cluster.nodes.iter().filter(|node| !node.is_dead);
    let of_streams = |node: &Node| {
        [0, 1].map(|stream| node.aggregator.association(SubModelId(stream)).age().renewal)
    };
    alive.flat_map(of_streams).collect()
}

/// All keys that were sent since this was asked last.
fn sent(keys: &Keys<SocketAddr>) -> BTreeSet<u64> {
    keys.take().into_values().flatten().collect()
}

#[test]
fn no_round_is_lost_while_keys_are_renewed() {
    for (stream, conditions) in [(POOL, CALM), (POOL, ROUGH), (CACHE, ROUGH)] {
        let mut cluster = joined(&Tree::three_levels(), stream, conditions, 1);
        let keys = watch(&mut cluster);
        let (mut past, mut overlapped) = (BTreeSet::new(), 0);
        for renewal in 1..=RENEWALS {
            let due = Time(0).plus(RENEWAL_INTERVAL * renewal);
            cluster.run_until(Time(due.0 - BEFORE.as_micros() as u64));
            sum_rounds(&mut cluster);
            overlapped += usize::from(sent(&keys).len() > 1);
            wait(&mut cluster, RENEWAL_INTERVAL / 2);
            assert_eq!(renewals(&cluster), BTreeSet::from([renewal]), "all nodes know it");
            sum_rounds(&mut cluster);
            let now = sent(&keys);
            assert_eq!(now.len(), 1, "all send with one key: {now:?}");
            assert!(now.is_disjoint(&past), "which is new");
            past.extend(now);
        }
        assert!(overlapped > 0, "rounds were under way when keys changed");
        cluster.assert_sums();
    }
}

#[test]
fn nodes_that_die_around_a_renewal_learn_of_it() {
    for_each_seed("cluster hours::nodes_that_die", 0, KILLS, |seed| {
        let mut rng = Rng::new(seed);
        let stream = if rng.chance(0.5) { POOL } else { CACHE };
        let mut cluster = joined(&Tree::three_levels(), stream, lossy(0.01), seed);
        let renewal = 1 + rng.below(3) as u32;
        let due = Time(0).plus(RENEWAL_INTERVAL * renewal);
        cluster.run_until(Time(due.0 - rng.below(6_000)));
        let victim = 1 + 2 * rng.below(2) as u16;
        cluster.submit_all(&[4_000, 4_000]);
        wait(&mut cluster, Duration::from_micros(rng.below(6_000)));
        cluster.kill(victim);
        cluster.run();
        cluster.revive(victim);
        run_until_all_are_home(&mut cluster);
        sum_rounds(&mut cluster);
        wait(&mut cluster, RENEWAL_INTERVAL / 2);
        assert_eq!(renewals(&cluster), BTreeSet::from([renewal]), "seed {seed}");
        sum_rounds(&mut cluster);
        cluster.assert_sums();
    });
}

#[test]
fn who_joins_late_uses_the_key_of_the_others() {
    let mut cluster = Cluster::new(plan(&Tree::star(3), &[POOL]), CALM, 1);
    // Its contributions come first, so results have the key of the others.
    let late = 0;
    (1..3).for_each(|rank| cluster.join(rank));
    wait(&mut cluster, 2 * RENEWAL_INTERVAL + RENEWAL_INTERVAL / 2);
    assert_eq!(renewals(&cluster), BTreeSet::from([2]));
    cluster.join(late);
    let keys = watch(&mut cluster);
    sum_rounds(&mut cluster);
    assert_eq!(sent(&keys).len(), 1, "it has learnt it from its welcome");
    // The others renew before its own time has come, and so does it when it sees their key.
    wait(&mut cluster, RENEWAL_INTERVAL * 3 / 4);
    sum_rounds(&mut cluster);
    sent(&keys);
    sum_rounds(&mut cluster);
    assert_eq!(sent(&keys).len(), 1, "it has learnt it from their values");
    assert_eq!(renewals(&cluster), BTreeSet::from([3]));
    cluster.assert_sums();
}

#[test]
fn a_worker_asks_once_about_values_under_a_key_that_it_lacks() {
    let mut cluster = joined(&Tree::star(2), POOL, CALM, 1);
    cluster.submit_all(&[ELEMENTS]);
    let is_result = |bytes: &[u8]| Packet::parse(bytes).is_ok_and(|p| p.kind == Kind::Result);
    let mut results = Vec::new();
    while !cluster.is_finished() {
        let flights = cluster.network.flights().filter(|flight| is_result(&flight.cargo));
        results.extend(flights.map(|flight| (flight.from, flight.to, flight.cargo.clone())));
        assert!(cluster.step(), "nothing is under way");
    }
    let hellos = |cluster: &Cluster| -> u64 {
        (0..2).map(|rank| cluster.worker_count(rank, "hellos")).sum()
    };
    let before = hellos(&cluster);
    for (from, to, bytes) in &mut results {
        let (header, _) = Header::mut_from_prefix(bytes).expect("a packet");
        header.job_key.set(header.job_key.get() ^ 1);
        cluster.send(*from, *to, bytes);
    }
    wait(&mut cluster, BEFORE);
    assert!(results.len() > 10 && (1..=4).contains(&(hellos(&cluster) - before)));
    sum_rounds(&mut cluster);
    cluster.assert_sums();
}

/// The contribution to the position after a recorded one, with another lane and a right check.
fn forged_from(datagram: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(datagram).ok().filter(|packet| packet.kind == Kind::Contribution)?;
    let payload_len = Some(packet.payload.len()).filter(|_| packet.header.sub_model.get() != 0)?;
    let lanes = packet.lane_type();
    let mut bytes = datagram.to_vec();
    let (header, payload) = Header::mut_from_prefix(&mut bytes).ok()?;
    payload[0] ^= 1;
    header.fragment += 1;
    header.round += 1;
    seal(header, LaneType::sum(lanes, &payload[..payload_len]));
    Some(bytes)
}

/// What becomes of contributions forged with an overheard key, with their senders' addresses, so much later.
fn forged_after(renewals: u32) -> (Cluster, u64) {
    let mut cluster = joined(&Tree::star(3), POOL, CALM, 1);
    let mut overheard = Vec::new();
    // One position in each stream.
    cluster.submit_all(&[10]);
    while !cluster.is_finished() {
        let flights = cluster.network.flights().map(|f| (f.from, f.to, forged_from(&f.cargo)));
        overheard.extend(flights.filter_map(|(from, to, bytes)| Some((from, to, bytes?))));
        assert!(cluster.step(), "nothing is under way");
    }
    wait(&mut cluster, RENEWAL_INTERVAL * renewals + RENEWAL_INTERVAL / 2);
    overheard.sort();
    overheard.dedup();
    assert_eq!(overheard.len(), cluster.hosts.len(), "one of each worker");
    overheard.iter().for_each(|(from, to, bytes)| cluster.send(*from, *to, bytes));
    wait(&mut cluster, BEFORE);
    let refused = cluster.count(Verdict::Foreign);
    (cluster, refused)
}

#[test]
fn an_overheard_key_is_useless_two_renewals_later() {
    for renewals in [0, 1] {
        let (cluster, refused) = forged_after(renewals);
        assert_eq!(refused, 0, "it counts after {renewals}");
        assert!(cluster.count(Verdict::Completed) > 2, "and makes a sum");
    }
    for renewals in [2, 3, 10] {
        let (mut cluster, refused) = forged_after(renewals);
        assert_eq!(refused, 3, "after {renewals} renewals each is refused");
        sum_rounds(&mut cluster);
        cluster.assert_sums();
    }
}
