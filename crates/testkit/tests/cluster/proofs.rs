//! Proven values: who reads packets, forges addresses and changes what passes changes no sum, and costs a job no more than
//! loss does. The same attacks succeed on jobs without proofs.

use std::collections::BTreeSet;

use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{Flags, Header, Kind, LaneType, seal};
use zerocopy::FromBytes;

use super::*;

/// Rounds of each attack: some thousands of forged packets.
const ROUNDS: usize = 30;
/// Elements of a round: several positions.
const ELEMENTS: usize = 640;
/// One in so many packets that pass the man in the middle is changed.
const CHANGED: u64 = 20;
/// A multiple of any number of slots.
const AHEAD: u32 = 1 << 24;
/// Seeds of jobs with kills; each takes a few hundredths of a second.
const KILLS: u64 = 20;

/// From where, to where, and what.
type Frame = (SocketAddr, SocketAddr, Vec<u8>);

fn job(tree: &Tree, is_proven: bool) -> Plan {
    let mut plan = plan(tree, &[POOL]);
    plan.job.proven = is_proven;
    plan.validate().expect("servers test proofs");
    plan
}

fn joined(tree: &Tree, is_proven: bool, loss: f64) -> Cluster {
    let mut cluster = Cluster::new(job(tree, is_proven), lossy(loss), 1);
    cluster.join_all();
    while !cluster.hosts.iter().all(|host| host.has_joined) {
        assert!(cluster.step());
    }
    cluster
}

/// Values with another lane, as a packet of this kind whose check is right; `None` of what has none.
fn forged(datagram: &[u8], kind: Option<Kind>) -> Option<Vec<u8>> {
    let packet = Packet::parse(datagram).ok().filter(|packet| packet.kind.carries_values())?;
    // Agreements that are wrong end a job, which is not what this attacker wants.
    let payload_len = Some(packet.payload.len()).filter(|_| packet.header.sub_model.get() != 0)?;
    let mut bytes = datagram.to_vec();
    let (header, payload) = Header::mut_from_prefix(&mut bytes).ok()?;
    payload[0] ^= 1;
    header.kind = kind.unwrap_or(packet.kind) as u8;
    let lanes = LaneType::of(Flags(header.flags.get()));
    seal(header, lanes.sum(&payload[..payload_len]));
    Some(bytes)
}

/// What a listener makes of a contribution: a result for its sender, and another contribution in its name.
fn of_listener((from, to, bytes): Frame) -> Vec<Frame> {
    let is_contribution = |packet: &Packet| packet.kind == Kind::Contribution;
    if !Packet::parse(&bytes).is_ok_and(|packet| is_contribution(&packet)) {
        return Vec::new();
    }
    let result = forged(&bytes, Some(Kind::Result)).map(|bytes| (to, from, bytes));
    let contribution = forged(&bytes, None).map(|bytes| (from, to, bytes));
    result.into_iter().chain(contribution).collect()
}

/// A job beside a listener that can send with any address.
fn beside_a_listener(is_proven: bool) -> Cluster {
    let mut cluster = joined(&Tree::two_servers(), is_proven, 0.02);
    let mut known = BTreeSet::new();
    for _ in 0..ROUNDS {
        cluster.submit_all(&[ELEMENTS]);
        while !cluster.is_finished() {
            let heard = cluster.network.flights().map(|f| (f.from, f.to, f.cargo.clone()));
            let new: Vec<Frame> = heard.filter(|frame| known.insert(frame.clone())).collect();
            let sent: Vec<Frame> = new.into_iter().flat_map(of_listener).collect();
            known.extend(sent.iter().cloned());
            sent.iter().for_each(|(from, to, bytes)| cluster.send(*from, *to, bytes));
            assert!(cluster.step(), "nothing is under way");
        }
    }
    cluster
}

/// A job whose packets pass someone who changes some.
fn past_a_man_in_the_middle(is_proven: bool) -> Cluster {
    let mut cluster = joined(&Tree::three_levels(), is_proven, 0.0);
    let mut rng = Rng::new(1);
    cluster.on_the_way = Some(Box::new(move |_, datagram| {
        if rng.below(CHANGED) == 0
            && let Some(other) = forged(datagram, None)
        {
            *datagram = other;
        }
    }));
    for _ in 0..ROUNDS {
        cluster.submit_all(&[ELEMENTS]);
        cluster.run();
    }
    cluster
}

/// Sums that workers took and that are wrong.
fn wrong_sums(cluster: &Cluster) -> usize {
    let is_wrong =
        |tensor: &Tensor, round| tensor.memory() != tensor.expected(&cluster.expected_sum(round));
    let tensors = cluster.hosts.iter().flat_map(|host| host.tensors.iter().enumerate());
    tensors.filter(|(round, tensor)| is_wrong(tensor, *round)).count()
}

fn forged_at_workers(cluster: &Cluster) -> u64 {
    (0..cluster.hosts.len()).map(|rank| cluster.worker_count(rank, "forged")).sum()
}

#[test]
fn a_listener_with_any_address_changes_no_sum() {
    let cluster = beside_a_listener(true);
    cluster.assert_sums();
    let refused = [cluster.count(Verdict::Forged), forged_at_workers(&cluster)];
    assert!(refused.iter().all(|count| *count > 1_000), "each is counted: {refused:?}");
}

#[test]
fn without_proofs_a_listener_changes_sums() {
    let cluster = beside_a_listener(false);
    let wrong = wrong_sums(&cluster);
    assert!(wrong > ROUNDS, "only {wrong} were wrong");
    assert_eq!(cluster.count(Verdict::Forged), 0);
}

#[test]
fn who_changes_what_passes_changes_no_sum() {
    let cluster = past_a_man_in_the_middle(true);
    cluster.assert_sums();
    let refused = [cluster.count(Verdict::Forged), forged_at_workers(&cluster)];
    assert!(refused.iter().all(|count| *count > 100), "each is counted: {refused:?}");
}

#[test]
fn without_proofs_who_changes_what_passes_changes_sums() {
    let wrong = wrong_sums(&past_a_man_in_the_middle(false));
    assert!(wrong > ROUNDS, "only {wrong} were wrong");
}

/// What is heard, moved to a position far ahead; the check is linear in it.
fn far_ahead(datagram: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = forged(datagram, None)?;
    let (header, _) = Header::mut_from_prefix(&mut bytes).ok()?;
    header.fragment.set(header.fragment.get().wrapping_add(AHEAD));
    header.check.set(header.check.get().wrapping_add(AHEAD));
    Some(bytes)
}

/// A round beside a listener who sends each contribution that it hears again, far ahead.
fn beside_who_runs_ahead() -> Cluster {
    let mut cluster = joined(&Tree::star(3), true, 0.0);
    for rank in 0..cluster.hosts.len() {
        let tensor = Tensor::of(&cluster.plan, rank, 0, ELEMENTS);
        cluster.submit_within(rank, tensor, Duration::from_secs(1));
    }
    let mut known = BTreeSet::new();
    while !cluster.is_finished() {
        let heard = cluster.network.flights().map(|f| (f.from, f.to, f.cargo.clone()));
        let new: Vec<Frame> = heard.filter(|frame| known.insert(frame.clone())).collect();
        for (from, to, bytes) in &new {
            let ahead = far_ahead(bytes).filter(|_| cluster.nodes[0].address == *to);
            ahead.iter().for_each(|bytes| cluster.send(*from, *to, bytes));
            known.extend(ahead.map(|bytes| (*from, *to, bytes)));
        }
        assert!(cluster.step(), "nothing is under way");
    }
    cluster
}

#[test]
fn positions_far_ahead_hold_nothing_up_where_values_are_proven() {
    let cluster = beside_who_runs_ahead();
    cluster.assert_sums();
    assert!(cluster.count(Verdict::Forged) > 10);
}

/// Who has a plan that differs in nothing but proofs takes no part.
#[test]
fn whether_values_are_proven_is_agreed_on() {
    let tree = Tree::star(2);
    assert_ne!(job(&tree, true).digest(), job(&tree, false).digest());
}

#[test]
fn proven_sums_survive_loss_and_deaths_of_servers() {
    for_each_seed("cluster proofs::proven_sums_survive", 0, KILLS, |seed| {
        let mut rng = Rng::new(seed);
        let mut cluster = joined(&Tree::three_levels(), true, 0.02);
        cluster.submit_all(&[4_000, 4_000]);
        let pause = Duration::from_micros(rng.below(3_000));
        cluster.run_until(cluster.now().plus(pause));
        let victim = 1 + 2 * rng.below(2) as u16;
        cluster.kill(victim);
        cluster.run();
        cluster.revive(victim);
        run_until_all_are_home(&mut cluster);
        cluster.assert_sums();
        assert_eq!(cluster.count(Verdict::Forged) + forged_at_workers(&cluster), 0);
    });
}
