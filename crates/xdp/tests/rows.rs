//! The kernel's switch for hot rows against the reference of `crates/sparse`: verdicts, answers, sums and results for the same
//! packets, through the kernel's test-run.
#![cfg(wiresum_bpf)]

mod support;

use std::collections::BTreeSet;

use support::bpf_is_here;
use support::rows::wild::Wild;
use support::rows::{JOB, OVER_IPV4, OVER_IPV6, Pair, load, streams};
use wiresum_protocol::Quota;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{JobId, JobKey, Verdict};
use wiresum_xdp::{HotStream, RowsProgram, XdpError};

/// Random sequences over each version of IP; `WIRESUM_SOAK=200` makes 10⁵ of them.
const SEQUENCES: u64 = 250;
/// Packets of a sequence, which is an incarnation of the job.
const PACKETS: usize = 120;

/// Random sequences to both, in streams of every kind; the verdicts that were met.
fn compare(node: &str) -> BTreeSet<Verdict> {
    let (mut program, streams) = (load(node), streams());
    let (mut met, mut rounds) = (BTreeSet::new(), 0);
    for_each_seed("-p wiresum-xdp --test rows", 1, SEQUENCES, |seed| {
        let stream = &streams[seed as usize % streams.len()];
        let mut pair = Pair::new(&mut program, node, stream.clone(), JobKey(seed as u32));
        let mut wild = Wild::new(seed);
        for packet in 0..PACKETS {
            wild.step(&mut pair, &format!("seed {seed}, {} values, packet {packet}", stream.dim));
        }
        met.append(&mut pair.met);
        rounds += pair.rounds;
    });
    assert!(rounds > 0, "{rounds} rounds were complete");
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
    // Nobody has a quota, and nobody holds a lock.
    assert_eq!(unmet, [Verdict::OverQuota, Verdict::Contended]);
}

#[test]
fn random_sequences_over_ipv6() {
    if bpf_is_here() {
        compare(OVER_IPV6);
    }
}

#[test]
fn a_quota_and_a_lock_cost_the_packet_and_nothing_else() {
    if !bpf_is_here() {
        return;
    }
    let (mut program, stream) = (load(OVER_IPV4), streams()[6].clone());
    let mut pair = Pair::new(&mut program, OVER_IPV4, stream, JobKey(1));
    let rows = pair.rows_of(0, 0, &[1, 2]);
    pair.set_quota(Some(Quota::with_burst(1, 1)));
    assert_eq!(pair.judge(&rows), Verdict::OverQuota);
    pair.set_quota(None);
    pair.hold_lock(1);
    assert_eq!(pair.judge(&rows), Verdict::Contended);
    pair.hold_lock(0);
    assert_eq!(pair.judge(&rows), Verdict::Added);
    for verdict in [Verdict::OverQuota, Verdict::Contended, Verdict::Added] {
        assert_eq!(pair.counter(verdict), 1, "{}", verdict.name());
    }
}

#[test]
fn a_job_that_is_stopped_is_foreign() {
    if !bpf_is_here() {
        return;
    }
    let (mut program, stream) = (load(OVER_IPV4), streams()[0].clone());
    let pair = Pair::new(&mut program, OVER_IPV4, stream, JobKey(1));
    let rows = pair.rows_of(0, 0, &[1]);
    assert_eq!(pair.judge(&rows), Verdict::Added);
    program.stop(JOB).expect("a job of the program");
    assert_eq!(program.judge(&rows).expect("a run").verdict, Verdict::Foreign);
    assert!(matches!(program.run(JobId(8), JobKey(1)), Err(XdpError::UnknownJob(JobId(8)))));
}

#[test]
fn memory_is_as_the_streams_need() {
    if !bpf_is_here() {
        return;
    }
    // 12 streams of 70 positions, each with room for the longest row.
    assert_eq!(load(OVER_IPV4).memory_bytes(), 12 * 70 * (16 + 8 * 256));
    let (node, stream) = (OVER_IPV4.parse().expect("an address"), streams()[7].clone());
    let alone = RowsProgram::load(node, std::slice::from_ref(&stream), true).expect("a stream");
    assert_eq!(alone.memory_bytes(), 70 * (16 + 4 * 16));
    let long = RowsProgram::load(node, &[HotStream { dim: 257, ..stream }], true);
    assert!(matches!(long, Err(XdpError::TooMany { have: 257, most: 256, .. })));
}
