//! The kernel's switch for hot rows against the reference of `crates/sparse`: verdicts, answers, sums and results for the same
//! packets, through the kernel's test-run.
#![cfg(wiresum_bpf)]

mod support;

use std::collections::BTreeSet;

use support::bpf_is_here;
use support::rows::wild::Wild;
use support::rows::{JOB, OVER_IPV4, OVER_IPV6, Pair, load, streams};
use wiresum_protocol::Quota;
use wiresum_sparse::packet::{Renewal, RowKeys};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{JobId, JobKey, RowValue, SubModelId, Verdict};
use wiresum_xdp::{HotStream, RowRoom, RowsProgram, XdpError};

/// Random sequences over each version of IP; `WIRESUM_SOAK=200` makes 10⁵ of them.
const SEQUENCES: u64 = 250;
/// An incarnation whose keys are renewed.
const INCARNATION: u64 = 9;
/// Packets of a sequence, which is an incarnation of the job.
const PACKETS: usize = 120;

/// Random sequences to both, in streams of every kind; the verdicts that were met.
fn compare(node: &str) -> BTreeSet<Verdict> {
    let (mut program, streams) = (load(node), streams());
    let (mut met, mut rounds) = (BTreeSet::new(), 0);
    for_each_seed("-p wiresum-xdp --test rows", 1, SEQUENCES, |seed| {
        let stream = &streams[seed as usize % streams.len()];
        let mut pair = Pair::new(&mut program, node, stream.clone(), JobKey(seed));
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

/// Each of them, NaN and Inf among them, in a row of 256.
#[test]
fn all_numbers_of_16_bits_are_taken_as_the_reference_does() {
    if !bpf_is_here() {
        return;
    }
    let (mut program, streams) = (load(OVER_IPV4), streams());
    let longest = &streams[10];
    assert_eq!((longest.dim, longest.is_float), (256, true));
    let mut added = 0;
    for kind in [RowValue::Float16, RowValue::Bfloat16] {
        for first in (0..=u32::from(u16::MAX)).step_by(256) {
            let key = JobKey(u64::from(first) + 1);
            let mut pair = Pair::new(&mut program, OVER_IPV4, longest.clone(), key);
            let bits: Vec<u32> = (first..first + 256).collect();
            for rank in 0..2 {
                let row = pair.row_of_16_bits(rank, 0, kind, &bits);
                let verdict =
                    pair.feed(pair.worker(rank), &row, &format!("{kind:?} from {first:#x}"));
                added += u32::from(verdict == Verdict::Added);
            }
        }
    }
    // 27 of 32 exponents are in range, four rows each, and 138 of 256, half a row each.
    assert_eq!(added, 2 * (2 * 27 * 4 + 2 * 138 / 2));
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

/// A switch is told of each generation and renewal; in every round it takes what `RowKeys` takes, of all keys that there
/// were and will be.
#[test]
fn rows_carry_the_key_of_their_round_in_three_renewals() {
    if !bpf_is_here() {
        return;
    }
    let (mut program, stream) = (load(OVER_IPV4), streams()[0].clone());
    let (ring, often) = (stream.keys.clone(), Renewal { rounds: 16, interval_ms: 200 });
    let mut keys = RowKeys::new(&ring, INCARNATION, often);
    let all = |generation| (0..9).map(move |renewal| (generation, renewal));
    let all = (0..9).flat_map(all);
    let all: Vec<JobKey> = all.map(|(g, renewal)| ring.values(INCARNATION, g, renewal)).collect();
    let mut pair = Pair::new(&mut program, OVER_IPV4, stream, ring.association(INCARNATION));
    let mut taken = BTreeSet::new();
    for round in 1..=5 * often.rounds {
        keys.reach(&ring, round);
        if round % 11 == 0 {
            keys.renew(&ring);
        }
        pair.open(round, &keys);
        let mut number = 0;
        for key in &all {
            pair.set_key(*key);
            let (rows, end) = (pair.rows_of(0, number, &[number as u16 * 7 + 1]), pair.end_of(1));
            let verdicts = [pair.judge(&rows), pair.judge(&end)];
            if keys.takes(round, *key) {
                assert_eq!(verdicts, [Verdict::Added, Verdict::Control], "round {round}");
                number += 1;
                taken.insert(key.0);
            } else {
                assert_eq!(verdicts, [Verdict::Foreign; 2], "round {round}");
            }
        }
        assert!((2..=3).contains(&number), "of the present renewal, the next and the last");
    }
    assert!(taken.len() > 15, "{} keys", taken.len());
}

#[test]
fn rows_are_reached_in_the_order_of_numbers() {
    if !bpf_is_here() {
        return;
    }
    let (mut program, stream) = (load(OVER_IPV4), streams()[0].clone());
    let mut pair = Pair::new(&mut program, OVER_IPV4, stream, JobKey(1));
    let reached = |pair: &Pair<'_>| pair.progress().reached;
    for rank in 1..3 {
        assert_eq!((reached(&pair), pair.announce(rank, 0)), (0, Verdict::Control));
    }
    let number = |pair: &Pair<'_>, number: u32| {
        let rows = pair.rows_of(0, number, &[number as u16 * 7 + 1, number as u16 * 7 + 2]);
        assert_eq!(pair.judge(&rows), Verdict::Added);
        reached(pair)
    };
    assert_eq!((number(&pair, 0), pair.notes().len()), (3, 1));
    assert_eq!((number(&pair, 1), number(&pair, 3)), (10, 10), "number 2 is missing");
    assert_eq!(pair.notes().len(), 1, "one note of both");
    assert_eq!((number(&pair, 4), number(&pair, 2)), (10, 17), "where 4 ends is forgotten");
    assert_eq!(number(&pair, 5), 38, "and told by what comes behind it");
    assert_eq!(pair.announce(0, 7), Verdict::Control);
    assert!(!pair.progress().is_complete);
    number(&pair, 6);
    assert!(pair.progress().is_complete && reached(&pair) == u32::MAX);
}

#[test]
fn rows_whose_sums_have_left_are_wrong() {
    if !bpf_is_here() {
        return;
    }
    let (mut program, stream) = (load(OVER_IPV4), streams()[0].clone());
    let pair = Pair::new(&mut program, OVER_IPV4, stream, JobKey(1));
    pair.set_left(10);
    assert_eq!(pair.judge(&pair.rows_of(0, 0, &[9, 11])), Verdict::Wrong);
    assert_eq!(pair.judge(&pair.rows_of(0, 0, &[10, 11])), Verdict::Added);
    assert_eq!(pair.judge(&pair.rows_of(1, 0, &[9])), Verdict::Wrong);
}

#[test]
fn jobs_come_and_go_in_the_memory_that_there_is() {
    if !bpf_is_here() {
        return;
    }
    let node = OVER_IPV4.parse().expect("an address");
    let stream = streams()[0].clone();
    let of_job = |id| HotStream { job: JobId(id), sub_model: SubModelId(0), ..stream.clone() };
    let room = RowRoom::of(&[of_job(1), of_job(2)]);
    let mut program = RowsProgram::load(node, room, true).expect("room for two");
    let add = |program: &mut RowsProgram, id| program.add(&of_job(id));
    assert!(add(&mut program, 1).is_ok() && add(&mut program, 2).is_ok());
    let refused = add(&mut program, 3).expect_err("no room");
    assert!(matches!(refused, XdpError::NoRows { needed: 70, have: 140, .. }), "{refused}");
    program.run(JobId(1), JobKey(5)).expect("it is there");
    program.open(JobId(1), SubModelId(0), 1, 1).expect("nobody has the lock");
    program.remove(JobId(1)).expect("it is there");
    assert!(matches!(program.remove(JobId(1)), Err(XdpError::UnknownJob(JobId(1)))));
    assert!(add(&mut program, 3).is_ok(), "in the place of the first");
    let long = program.add(&HotStream { dim: 2, ..of_job(4) }).expect_err("rows of one value fit");
    assert!(matches!(long, XdpError::TooMany { have: 2, most: 1, .. }), "{long}");
}

#[test]
fn memory_is_as_the_streams_need() {
    if !bpf_is_here() {
        return;
    }
    // 12 streams of 70 positions, each with room for the longest row, and of 3 workers with numbers to 95 each.
    let numbers = 3 * 3 * 8;
    assert_eq!(load(OVER_IPV4).memory_bytes(), 12 * (70 * (16 + 8 * 256) + numbers));
    let stream = streams()[7].clone();
    let alone = RowRoom::of(std::slice::from_ref(&stream));
    assert_eq!(alone.bytes(), 70 * (16 + 4 * 16) + numbers);
    assert_eq!(alone.within(2 * alone.bytes()).positions, 140);
    let node = OVER_IPV4.parse().expect("an address");
    let mut program = RowsProgram::load(node, alone, true).expect("memory");
    let long = program.add(&HotStream { dim: 257, ..stream });
    assert!(matches!(long, Err(XdpError::TooMany { have: 257, most: 256, .. })));
}
