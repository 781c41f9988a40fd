//! The kernel's switch for pairs against the program over the model of a pipeline: verdicts, answers, cells and sums for the
//! same packets, through the kernel's test-run.
#![cfg(wiresum_bpf)]

mod support;

use std::collections::BTreeSet;

use support::keyed::trace::replay;
use support::keyed::wild::Wild;
use support::keyed::{JOB, NODE, OVER_IPV4, OVER_IPV6, Pair, arrangement, load};
use support::{bpf_is_here, replay_traces};
use wiresum_protocol::Quota;
use wiresum_switch::keyed::{Arrangement, KeyedSpec};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{JobKey, RowDraft, RowKind, Verdict};
use wiresum_xdp::XdpError;

/// Random sequences over each version of IP; `WIRESUM_SOAK=200` makes 10⁵ of them.
const SEQUENCES: u64 = 250;
/// Packets of a sequence, which is an incarnation of the job.
const PACKETS: usize = 100;

/// Random sequences to both; the verdicts that were met.
fn compare(node: &str) -> BTreeSet<Verdict> {
    let mut program = load(node, arrangement());
    let (mut met, mut rounds, mut recirculated) = (BTreeSet::new(), 0, 0);
    for_each_seed("-p wiresum-xdp --test keyed", 1, SEQUENCES, |seed| {
        let mut pair = Pair::new(&mut program, node, seed as usize % 2, JobKey(seed));
        let mut wild = Wild::new(seed);
        for packet in 0..PACKETS {
            wild.step(&mut pair, &format!("seed {seed}, packet {packet}"));
        }
        met.append(&mut pair.met);
        rounds += pair.rounds;
        recirculated += pair.recirculated;
    });
    assert!(rounds > 0 && recirculated > 0, "{rounds} iterations, {recirculated} recirculations");
    met
}

#[test]
fn random_sequences_over_ipv4() {
    if !bpf_is_here() {
        return;
    }
    let met = compare(OVER_IPV4);
    let unmet: Vec<_> =
        Verdict::ROWS.into_iter().filter(|verdict| !met.contains(verdict)).collect();
    // Nobody has a quota, nobody holds a lock, and workers join before.
    assert_eq!(unmet, [Verdict::OverQuota, Verdict::Contended, Verdict::Control]);
}

#[test]
fn random_sequences_over_ipv6() {
    if bpf_is_here() {
        compare(OVER_IPV6);
    }
}

#[test]
fn the_golden_trace() {
    if bpf_is_here() {
        replay_traces("keyed", replay);
    }
}

#[test]
fn what_the_server_says_reaches_the_station() {
    if !bpf_is_here() {
        return;
    }
    let mut program = load(OVER_IPV4, arrangement());
    let mut pair = Pair::new(&mut program, OVER_IPV4, 0, JobKey(1));
    let server = "10.0.0.9:5747".parse().expect("an address");
    let acknowledgement = |pair: &Pair<'_>, node: u16, job_key: u64| {
        let mut draft = RowDraft::new(RowKind::Acknowledgement);
        draft.header.job = JOB.0.into();
        (draft.header.node, draft.header.job_key) = (node.into(), job_key.into());
        draft.header.sub_model = (pair.table as u16).into();
        let mut datagram = Vec::new();
        draft.emit(&[], &mut datagram);
        datagram
    };
    for (node, job_key, verdict) in [
        (NODE.0 + 1, 1, Verdict::Control),
        (NODE.0, 1, Verdict::Malformed),
        (NODE.0 + 1, 2, Verdict::Foreign),
    ] {
        let datagram = acknowledgement(&pair, node, job_key);
        assert_eq!(pair.feed(server, &datagram, "from the server"), verdict);
    }
}

#[test]
fn a_quota_and_a_lock_cost_the_packet_and_nothing_else() {
    if !bpf_is_here() {
        return;
    }
    let mut program = load(OVER_IPV4, arrangement());
    let mut pair = Pair::new(&mut program, OVER_IPV4, 0, JobKey(1));
    let pushed = pair.pushed(0, 0, &[100, 101]);
    pair.program().set_quota(JOB, Some(Quota::with_burst(1, 1))).expect("a job of the program");
    assert_eq!(pair.judge(&pushed), Verdict::OverQuota);
    pair.program().set_quota(JOB, None).expect("a job of the program");
    pair.program().hold_lock(0, 1).expect("a table");
    assert_eq!(pair.judge(&pushed), Verdict::Contended);
    pair.program().hold_lock(0, 0).expect("a table");
    assert_eq!(pair.judge(&pushed), Verdict::Added);
    let counters = pair.program().counters().expect("counters can be read");
    for verdict in [Verdict::OverQuota, Verdict::Contended, Verdict::Added] {
        assert!(counters.contains(&(verdict, 1)), "{}", verdict.name());
    }
    pair.program().stop(JOB).expect("a job of the program");
    assert_eq!(pair.judge(&pushed), Verdict::Foreign);
}

#[test]
fn what_the_program_has_no_room_for_is_named() {
    if !bpf_is_here() {
        return;
    }
    let spec = KeyedSpec { registers: 65, ..arrangement().spec };
    let wide = Arrangement { spec, ..arrangement() };
    let refused = support::keyed::try_load(OVER_IPV4, wide).map(|_| ());
    assert!(matches!(refused, Err(XdpError::TooMany { have: 65, most: 64, .. })));
}
