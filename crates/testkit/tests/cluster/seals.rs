//! Jobs whose sums are sealed, at servers that do what they like with them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::*;
use wiresum_protocol::plan::{Count, Exponents, Rounds};
use wiresum_wire::{Flags, HEADER_LEN, Header, Kind, LaneType, NOT_FINITE, seal};
use wiresum_worker::{Kind as Collective, Summed};
use zerocopy::{FromBytes, IntoBytes};

/// Changes lanes that are on their way, of which the header says what they are.
type Change = fn(&mut Header, &mut [u8]);

fn sealed(tree: &Tree, stream: Values, is_sealed: bool) -> Plan {
    let mut plan = plan(tree, &[stream]);
    plan.job.sealed = is_sealed;
    // Exponents of the tensors are checked by the seals alone.
    plan.job.exponents = Exponents::Expected;
    plan
}

/// A collective at a server that changes its results and makes their checks right again.
fn altered(is_sealed: bool, change: Change) -> Cluster {
    let mut cluster = altering(is_sealed, change);
    cluster.submit_all(&[500]);
    cluster.run();
    cluster
}

fn altering(is_sealed: bool, change: Change) -> Cluster {
    let mut cluster = Cluster::new(sealed(&Tree::two_servers(), POOL, is_sealed), CALM, 1);
    cluster.join_all();
    cluster.run_until(cluster.now().plus(Duration::from_secs(1)));
    let root = cluster.nodes[0].address;
    cluster.on_the_way = Some(Box::new(move |source, bytes: &mut Vec<u8>| {
        let Ok(packet) = Packet::parse(bytes) else { return };
        if source == root && packet.kind == Kind::Result {
            let (mut header, mut payload) = (*packet.header, packet.payload.to_vec());
            change(&mut header, &mut payload);
            let lanes = LaneType::of(Flags(header.flags.get()));
            seal(&mut header, lanes.sum(&payload));
            bytes[..HEADER_LEN].copy_from_slice(header.as_bytes());
            bytes[HEADER_LEN..].copy_from_slice(&payload);
        }
    }));
    cluster
}

fn is_preamble(header: &Header) -> bool {
    Flags(header.flags.get()).contains(Flags::MAXIMUM)
}

/// Adds to a lane of the values of a job with five workers.
fn add_to_value(header: &mut Header, payload: &mut [u8], lane: usize, number: i32) {
    if !is_preamble(header) {
        add(payload, lane, number);
    }
}

/// Adds to all exponents.
fn add_to_exponents(header: &mut Header, payload: &mut [u8], number: i32) {
    if is_preamble(header) {
        (15..15 + 500usize.div_ceil(56)).for_each(|lane| add(payload, lane, number));
    }
}

fn add(payload: &mut [u8], lane: usize, number: i32) {
    let bytes: &mut [u8; 4] = (&mut payload[4 * lane..][..4]).try_into().expect("a lane");
    *bytes = i32::from_le_bytes(*bytes).wrapping_add(number).to_le_bytes();
}

/// What each rank ended its first collective with.
fn outcomes(cluster: &Cluster) -> impl Iterator<Item = &Result<(), Failure>> {
    cluster.hosts.iter().map(|host| &host.finished[0].1)
}

#[test]
fn sealed_sums_are_those_of_open_ones() {
    for lanes in ["int32-le", "int32-be", "int16-le", "int16-be", "auto"] {
        let streams = [POOL, CACHE].map(|stream| Values { share: 0.5, ..stream });
        let mut plan = plan_with(&Tree::three_levels(), &streams, 64, lanes);
        plan.job.sealed = true;
        let mut cluster = Cluster::new(plan, lossy(0.05), 1);
        cluster.join_all();
        cluster.submit_all(&[1, 300, 129, 0, 5000]);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn a_server_that_alters_a_sum_or_what_was_agreed_on_is_found_and_named() {
    let changes: [(&str, Change); 6] = [
        ("a value", |header, payload| add_to_value(header, payload, 3, 1)),
        ("the upper bit of a value", |header, payload| add_to_value(header, payload, 3, i32::MIN)),
        ("who took part", |header, payload| {
            let lanes = payload.len() / 4;
            add_to_value(header, payload, lanes - 8, -1);
        }),
        ("the tag", |header, payload| {
            let lanes = payload.len() / 4;
            add_to_value(header, payload, lanes - 4, 1);
        }),
        ("exponents, to round values off", |header, payload| add_to_exponents(header, payload, 9)),
        ("exponents, to clamp values", |header, payload| add_to_exponents(header, payload, -1)),
    ];
    for (what, change) in changes {
        for outcome in outcomes(&altered(true, change)) {
            let Err(failure @ Failure::Altered { suspects, .. }) = outcome else {
                panic!("{what}: {outcome:?}");
            };
            assert_eq!(suspects, &["n0", "n1", "n2"], "{what}");
            assert!(failure.to_string().contains("not what the ranks sent"), "{failure}");
        }
    }
}

/// What a server may say of the exponents of the second round, whose values flow while it is agreed on, and of those of
/// the first, whose values wait.
const CLAIMS: [(&str, Change); 4] = [
    ("no number, and the values wait", |header, payload| claim(header, payload, 0, NOT_FINITE)),
    ("no number, and the values flow", |header, payload| claim(header, payload, 1, NOT_FINITE)),
    ("grown", |header, payload| claim(header, payload, 1, 100)),
    ("shrunk", |header, payload| claim(header, payload, 1, -100)),
];

/// Says in a round's preamble, of a job with five workers, that this is the exponent of the second fragment.
fn claim(header: &Header, payload: &mut [u8], round: u32, exponent: i32) {
    if is_preamble(header) && header.round.get() == round {
        payload[4 * 16..][..4].copy_from_slice(&exponent.to_le_bytes());
    }
}

/// How two collectives of a kind, with results at rank 0 or everywhere, end at a server that claims something.
fn claimed(is_sealed: bool, kind: Collective, change: Change) -> Cluster {
    let mut cluster = altering(is_sealed, change);
    for rank in 0..5 {
        for round in 0..2 {
            let tensor = Tensor::of(&cluster.plan, rank, round, 500).of_kind(kind, 0);
            cluster.submit(rank, tensor);
        }
    }
    cluster.run();
    cluster
}

#[test]
fn a_server_cannot_send_sealed_values_elsewhere_by_a_false_claim() {
    for (what, change) in CLAIMS {
        for kind in [Collective::AllReduce, Collective::Reduce] {
            for host in &claimed(true, kind, change).hosts {
                let Err(failure) = &host.finished[1].1 else {
                    panic!("{what}: {:?}", host.finished)
                };
                let Failure::Altered { what: Summed::Agreement, suspects, .. } = failure else {
                    panic!("{what}, {kind:?}: {failure}");
                };
                assert_eq!(suspects, &["n0", "n1", "n2"], "{what}");
                assert!(
                    failure.to_string().contains("the agreement on it is not what"),
                    "{failure}"
                );
            }
        }
    }
}

/// So that the test above can fail: without seals everyone takes the other path.
#[test]
fn without_seals_false_claims_are_believed() {
    for (what, change) in CLAIMS {
        for host in &claimed(false, Collective::AllReduce, change).hosts {
            let spared = host.finished.iter().filter_map(|(_, outcome, _)| outcome.as_ref().err());
            assert_eq!(spared.filter(|f| f.spares_the_job()).count(), 1, "{what}");
        }
    }
}

/// Ranks say under their seals that a value is Inf or has grown: nothing is decoded, and the job goes on. The values of
/// the last three rounds flow before their agreement, where the plan says so.
#[test]
fn what_a_rank_vouches_for_ends_its_round_everywhere_and_no_other() {
    for (exponents, kind) in [
        (Exponents::Agreed, Collective::AllReduce),
        (Exponents::Agreed, Collective::Reduce),
        (Exponents::Expected, Collective::AllReduce),
        (Exponents::Expected, Collective::Reduce),
    ] {
        let mut plan = sealed(&Tree::three_levels(), CACHE, true);
        plan.job.exponents = exponents;
        let mut cluster = Cluster::new(plan, lossy(0.02), 5);
        cluster.join_all();
        for (rank, round) in (0..6).flat_map(|rank| (0..5).map(move |round| (rank, round))) {
            let tensor = Tensor::of(&cluster.plan, rank, round, 9000).of_kind(kind, 2);
            cluster.submit(
                rank,
                match (round, rank) {
                    (0, 4) | (3, 1) => tensor.with_infinity_at(8500),
                    (2, _) => tensor.grown_by(90),
                    _ => tensor,
                },
            );
        }
        cluster.run();
        let is_expected = exponents == Exponents::Expected;
        let infinite = Err(Failure::NotFinite);
        let grown = if is_expected { Err(Failure::Unforeseen) } else { Ok(()) };
        for (rank, host) in cluster.hosts.iter().enumerate() {
            let outcomes: Vec<_> = host.finished.iter().map(|(_, outcome, _)| outcome).collect();
            let expected = [&infinite, &Ok(()), &grown, &infinite, &Ok(())];
            assert_eq!(outcomes, expected, "{exponents:?}, {kind:?}, rank {rank}");
            assert_eq!(host.tensors[0].values(), host.tensors[0].own(), "the buffer is untouched");
            let sum = cluster.expected_sum(4);
            assert_eq!(host.tensors[4].memory(), host.tensors[4].expected(&sum));
        }
    }
}

/// Rank 4, child 1 of the root, passes another operation than the others; the server tells each that all pass its own.
#[test]
fn ranks_that_are_told_other_shapes_open_nothing() {
    let mut cluster = altering(true, |header, payload| {
        let told = if header.contributor == 1 { 4 } else { 0 };
        if is_preamble(header) {
            (5..10).for_each(|lane| payload.copy_within(4 * (5 + told)..4 * (6 + told), 4 * lane));
        }
    });
    for rank in 0..5 {
        let signature = if rank == 4 { 7 } else { 3 };
        let tensor = Tensor::of(&cluster.plan, rank, 0, 500).with_signature(signature);
        cluster.submit(rank, tensor);
    }
    cluster.run();
    for outcome in outcomes(&cluster) {
        assert!(matches!(outcome, Err(Failure::Altered { .. })), "{outcome:?}");
    }
}

/// So that the tests above can fail: without seals nobody notices, and all ranks have wrong sums.
#[test]
fn without_seals_an_altered_sum_passes() {
    let cluster = altered(false, |header, payload| add_to_value(header, payload, 3, 1));
    assert!(outcomes(&cluster).all(|outcome| outcome.is_ok()));
    let expected = cluster.expected_sum(0);
    for host in &cluster.hosts {
        assert_eq!(host.tensors[0].values()[3], expected[3] + 1);
    }
}

#[test]
fn who_took_part_is_told_by_the_seals_too() {
    let tree = Tree::star(3);
    let mut plan = plan(&tree, &[POOL]);
    plan.job.sealed = true;
    plan.job.rounds = Some(Rounds { counts: vec![Count { node: 0, k: 2 }], most_missed: 9 });
    let mut cluster = Cluster::new(plan, CALM, 1);
    cluster.join_all();
    cluster.run_until(cluster.now().plus(Duration::from_secs(1)));
    let root = cluster.nodes[0].address;
    // The preamble says that rank 2, who is late, has values.
    cluster.on_the_way = Some(Box::new(move |source, bytes: &mut Vec<u8>| {
        let Ok((header, payload)) = Header::mut_from_prefix(bytes) else { return };
        let is_result = source == root && header.kind == Kind::Result as u8;
        if is_result && is_preamble(header) {
            payload.copy_within(0..4, 8);
            payload.copy_within(12..16, 20);
            seal(header, LaneType::I32Le.sum(payload));
        }
    }));
    for rank in [0, 1] {
        let tensor = Tensor::of(&cluster.plan, rank, 0, 100);
        cluster.submit(rank, tensor);
    }
    cluster.run_until(cluster.now().plus(Duration::from_secs(5)));
    for rank in [0, 1] {
        let outcome = &cluster.hosts[rank].finished[0].1;
        assert!(matches!(outcome, Err(Failure::Altered { .. })), "{outcome:?}");
    }
}

/// Under loss, over other paths after servers died, and in two incarnations: what a rank sends of one fragment is the
/// same each time, so it is one message under its mask; and no two fragments look alike.
#[test]
fn no_mask_hides_two_messages() {
    type Name = (u64, SocketAddr, u16, u32);
    let sent: Rc<RefCell<BTreeMap<Name, Vec<u8>>>> = Rc::default();
    let record = Rc::clone(&sent);
    let repeated = Rc::new(Cell::new(0));
    let count = Rc::clone(&repeated);
    let mut plan = plan(&Tree::three_levels(), &[POOL]);
    plan.job.sealed = true;
    let mut cluster = Cluster::new(plan, lossy(0.1), 3);
    cluster.on_the_way = Some(Box::new(move |source, bytes: &mut Vec<u8>| {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let is_ranks = source.ip().to_string().starts_with("10.1.");
        if !is_ranks || packet.kind != Kind::Contribution || is_preamble(packet.header) {
            return;
        }
        let Header { job_key, sub_model, fragment, .. } = *packet.header;
        let name = (job_key.get(), source, sub_model.get(), fragment.get());
        if let Some(before) = record.borrow_mut().insert(name, packet.payload.to_vec()) {
            assert_eq!(before, packet.payload, "{name:?} was sealed twice");
            count.set(count.get() + 1);
        }
    }));
    for incarnation in 0..2 {
        cluster.join_all();
        cluster.run_until(cluster.now().plus(Duration::from_secs(2)));
        cluster.submit_all(&[3000, 3000]);
        cluster.run_until(cluster.now().plus(Duration::from_millis(8)));
        cluster.kill(3);
        cluster.run();
        cluster.assert_sums();
        assert!(cluster.hosts.iter().any(|host| !host.switches.is_empty()), "nobody moved");
        if incarnation == 0 {
            cluster.revive(3);
            cluster.restart();
        }
    }
    assert!(repeated.get() > 20, "{} repetitions", repeated.get());
    let sent = sent.borrow();
    let firsts: BTreeSet<_> = sent.values().map(|payload| payload[..16].to_vec()).collect();
    assert_eq!(firsts.len(), sent.len(), "two payloads begin alike");
}
