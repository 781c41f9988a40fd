//! Every row of the tables, one short test each.

mod control;
mod substitutes;

mod joining;
mod proofs;

use std::net::SocketAddr;

use wiresum_keys::SeatKey;
use wiresum_wire::control::{
    Absent, EntryState, KeyAge, RefusalReason, double_word, hello, hello_payload, set_word, status,
    word,
};
use wiresum_wire::{Flags, HEADER_LEN, Header, Kind, LaneType, MAX_PACKET, NodeId, Packet};

use super::*;
use crate::compose::{Draft, joining};
use crate::plan::{Child, StreamLeg};

const INCARNATION: u64 = 1000;
const SLOTS: u32 = 4;
const PAYLOAD: usize = 256;

/// Node 0 is the root; its children are worker 0 and node 1, whose children are workers 1 and 2.
fn plan() -> Plan {
    let text = format!(
        r#"{{ "format": "wiresum-plan/2",
        "job": {{ "id": 7, "secret": "00000000000000000000000000000000000000000000000000000000000000aa", "values_per_packet": 64 }},
        "nodes": [{{ "id": 0, "name": "root", "address": "10.0.0.1:1" }}, {{ "id": 1, "name": "leaf", "address": "10.0.0.2:1" }}],
        "workers": [{{ "rank": 0, "name": "w0" }}, {{ "rank": 1, "name": "w1" }}, {{ "rank": 2, "name": "w2" }}],
        "streams": [{}, {}] }}"#,
        sub_model(0, "exponents", 0),
        sub_model(3, "values", 1)
    );
    Plan::from_json(&text).expect("a valid plan")
}

fn sub_model(id: u16, role: &str, share: u8) -> String {
    format!(
        r#"{{ "id": {id}, "name": "{role}", "role": "{role}", "share": {share}, "policy": "pool", "window": 2,
        "places": [{{ "node": 0, "slots": {SLOTS} }}, {{ "node": 1, "slots": {SLOTS} }}],
        "legs": [{{ "child": {{ "worker": 0 }}, "parent": 0 }}, {{ "child": {{ "node": 1 }}, "parent": 0 }},
                 {{ "child": {{ "worker": 1 }}, "parent": 1 }}, {{ "child": {{ "worker": 2 }}, "parent": 1 }}] }}"#
    )
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, host], 9))
}

fn parent_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1))
}

/// An aggregator with the packets that it is sent.
struct Bench {
    aggregator: Aggregator,
    plan: Plan,
    node: NodeId,
    buffer: [u8; MAX_PACKET],
    /// Number of the last hello or goodbye of any child.
    attempt: u32,
    /// What children say of the values' keys, and use.
    association: Association,
    /// Workers that the job goes on without, as children say.
    absent: Absent,
}

type Words = [u8; 4 * hello::WORDS];

impl Bench {
    fn new(node: u16) -> Self {
        let plan = plan();
        let node = NodeId(node);
        let aggregator = Aggregator::new(&plan, node);
        let association = Association::new(&plan, INCARNATION);
        let (buffer, absent) = ([0; MAX_PACKET], Absent::default());
        Self { aggregator, plan, node, buffer, attempt: 0, association, absent }
    }

    /// With both children welcome in sub-model 3; child i is at `address(i)`.
    fn joined(node: u16) -> Self {
        let mut bench = Self::new(node);
        bench.hello(0, INCARNATION);
        bench.hello(1, INCARNATION);
        if node == 1 {
            bench.hear_parent(Kind::Welcome);
        }
        bench
    }

    fn draft(&self, kind: Kind) -> Draft {
        Draft {
            kind,
            job: self.plan.job_id(),
            node: self.node,
            key: self.plan.job_key(INCARNATION),
            sub_model: wiresum_wire::SubModelId(3),
            flags: LaneType::I32Le.flags(),
            ..Draft::default()
        }
    }

    fn feed(&mut self, source: SocketAddr, datagram: &[u8]) -> Outcome {
        self.buffer[..datagram.len()].copy_from_slice(datagram);
        self.aggregator.handle_datagram(source, &mut self.buffer, datagram.len())
    }

    fn words(&self, incarnation: u64) -> Words {
        hello_payload(incarnation, self.plan.digest(), self.association.age(), self.absent)
    }

    fn seat_key(&self, draft: &Draft) -> SeatKey {
        self.plan.keys().seat(draft.seat()).expect("the whole secret")
    }

    /// The control packet with the proof of its seat, if that is one.
    fn proven(&self, draft: &Draft, payload: &[u8]) -> Vec<u8> {
        draft.proven(payload, &self.seat_key(draft))
    }

    fn hello(&mut self, child: u8, incarnation: u64) -> Outcome {
        self.attempt += 1;
        let draft = Draft {
            contributor: child,
            key: self.plan.job_key(incarnation),
            round: self.attempt,
            ..self.draft(Kind::Hello)
        };
        let hello = joining(&self.plan, &draft, self.words(incarnation));
        self.feed(address(child), &hello)
    }

    /// A child says that it needs no values before those of a generation.
    fn tell(&mut self, child: u8, oldest: u32) -> Outcome {
        self.association.learn(&self.plan, KeyAge { generation: oldest, renewal: 0 });
        self.hello(child, INCARNATION)
    }

    /// The next hello or goodbye of a child.
    fn joining_of(&mut self, kind: Kind, contributor: u8, flags: Flags) -> Vec<u8> {
        self.attempt += 1;
        let draft = Draft { contributor, flags, round: self.attempt, ..self.draft(kind) };
        joining(&self.plan, &draft, self.words(INCARNATION))
    }

    /// The answer to the first hello to the parent.
    fn hear_parent(&mut self, kind: Kind) -> Outcome {
        let draft = Draft { node: NodeId(0), contributor: 1, round: 1, ..self.draft(kind) };
        let answer = joining(&self.plan, &draft, self.words(INCARNATION));
        self.feed(parent_address(), &answer)
    }

    fn contribute(&mut self, child: u8, position: u32, value: i32) -> Outcome {
        let draft = Draft {
            contributor: child,
            fragment: position,
            key: self.association.key(FragmentId(position)),
            ..self.draft(Kind::Contribution)
        };
        self.feed(address(child), &draft.datagram(&lanes(value)))
    }

    fn result(&mut self, position: u32, value: i32) -> Outcome {
        let draft = Draft {
            node: NodeId(0),
            contributor: 1,
            fragment: position,
            key: self.association.key(FragmentId(position)),
            ..self.draft(Kind::Result)
        };
        self.feed(parent_address(), &draft.datagram(&lanes(value)))
    }

    fn probe(&mut self, child: u8, first: u32) -> Outcome {
        let draft = Draft { contributor: child, fragment: first, ..self.draft(Kind::Probe) };
        let probe = self.proven(&draft, &[0; 4 * status::WORDS]);
        self.feed(address(child), &probe)
    }

    fn reply(&self, outcome: Outcome) -> (Header, Vec<u8>) {
        let packet = Packet::parse(&self.buffer[..outcome.len]).expect("a valid packet goes out");
        (*packet.header, packet.payload.to_vec())
    }
}

fn lanes(value: i32) -> Vec<u8> {
    (0..PAYLOAD as i32 / 4).flat_map(|lane| (value + lane).to_le_bytes()).collect()
}

fn summed(values: &[i32]) -> Vec<u8> {
    let count = values.len() as i32;
    let total: i32 = values.iter().sum();
    (0..PAYLOAD as i32 / 4).flat_map(|lane| (total + count * lane).to_le_bytes()).collect()
}

#[test]
fn a_datagram_that_is_no_packet_is_malformed() {
    let mut bench = Bench::joined(0);
    assert_eq!(bench.feed(address(0), b"GET / HTTP/1.1").verdict, Verdict::Malformed);
    let short_probe = bench.draft(Kind::Probe).datagram(&[0; 32]);
    assert_eq!(bench.feed(address(0), &short_probe).verdict, Verdict::Malformed);
}

#[test]
fn packets_of_other_jobs_keys_nodes_and_streams_are_foreign() {
    let mut bench = Bench::joined(0);
    let ours = bench.draft(Kind::Contribution);
    for draft in [
        Draft { job: JobId(8), ..ours.clone() },
        Draft { key: JobKey(1), ..ours.clone() },
        Draft { node: NodeId(1), ..ours.clone() },
        Draft { sub_model: wiresum_wire::SubModelId(9), ..ours.clone() },
        Draft { kind: Kind::Result, ..ours.clone() },
    ] {
        assert_eq!(bench.feed(address(0), &draft.datagram(&lanes(1))).verdict, Verdict::Foreign);
    }
    let status = bench.draft(Kind::Status).datagram(&[0; 4 * status::WORDS]);
    assert_eq!(bench.feed(address(0), &status).verdict, Verdict::Foreign);
}

#[test]
fn a_payload_longer_than_the_jobs_packets_is_foreign() {
    let mut bench = Bench::joined(0);
    let long = bench.draft(Kind::Contribution).datagram(&[0; PAYLOAD + 32]);
    assert_eq!(bench.feed(address(0), &long).verdict, Verdict::Foreign);
}

#[test]
fn a_contributor_out_of_range_or_at_another_address_is_bad() {
    let mut bench = Bench::joined(0);
    let draft = Draft { contributor: 4, ..bench.draft(Kind::Contribution) };
    let outcome = bench.feed(address(4), &draft.datagram(&lanes(1)));
    assert_eq!(outcome.verdict, Verdict::BadContributor);
    let draft = bench.draft(Kind::Contribution);
    let outcome = bench.feed(address(1), &draft.datagram(&lanes(1)));
    assert_eq!(outcome.verdict, Verdict::BadContributor);
}

#[test]
fn a_result_from_anyone_but_the_parent_is_bad() {
    let mut bench = Bench::joined(1);
    let draft = Draft { node: NodeId(0), contributor: 1, ..bench.draft(Kind::Result) };
    let outcome = bench.feed(address(0), &draft.datagram(&lanes(1)));
    assert_eq!(outcome.verdict, Verdict::BadContributor);
}

#[test]
fn a_damaged_contribution_is_dropped_before_a_value_is_touched() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 0, 5);
    let draft = Draft { contributor: 1, ..bench.draft(Kind::Contribution) };
    let mut datagram = draft.datagram(&lanes(1));
    datagram[HEADER_LEN + 7] ^= 0x10;
    assert_eq!(bench.feed(address(1), &datagram).verdict, Verdict::Damaged);
    let outcome = bench.contribute(1, 0, 6);
    assert_eq!(bench.reply(outcome).1, summed(&[5, 6]));
}

#[test]
fn the_last_contribution_completes_at_the_root_and_goes_to_every_child() {
    let mut bench = Bench::joined(0);
    assert_eq!(bench.contribute(1, 0, 20), Outcome::silent(Verdict::First));
    let outcome = bench.contribute(0, 0, 10);
    assert_eq!(outcome, Outcome::to_children(Verdict::Completed, HEADER_LEN + PAYLOAD));
    let (header, payload) = bench.reply(outcome);
    assert_eq!((header.kind, header.node.get(), header.expected), (Kind::Result as u8, 0, 2));
    assert_eq!(payload, summed(&[10, 20]));
}

#[test]
fn a_result_is_readdressed_to_each_child_with_its_check() {
    let mut bench = Bench::joined(0);
    bench.contribute(1, 0, 20);
    let outcome = bench.contribute(0, 0, 10);
    for child in [1, 0] {
        let to = bench.aggregator.address_to_child(child, &mut bench.buffer);
        assert_eq!(to, Some(address(child as u8)));
        assert_eq!(usize::from(bench.reply(outcome).0.contributor), child);
    }
    assert_eq!(bench.aggregator.address_to_child(2, &mut bench.buffer), None, "not here");
    assert_eq!(bench.aggregator.address_to_child(4, &mut bench.buffer), None, "no such seat");
}

#[test]
fn the_third_of_three_is_added_before_the_last() {
    let mut plan = plan();
    let third = StreamLeg { child: Child::Worker(3), parent: 0, links: Vec::new() };
    plan.streams[1].legs.push(third);
    let mut bench = Bench::new(0);
    bench.aggregator = Aggregator::new(&plan, NodeId(0));
    bench.plan = plan;
    for child in 0..3 {
        bench.hello(child, INCARNATION);
    }
    let verdicts = [2, 0, 1].map(|child| bench.contribute(child, 0, 1).verdict);
    assert_eq!(verdicts, [Verdict::First, Verdict::Added, Verdict::Completed]);
}

#[test]
fn the_last_contribution_goes_up_from_an_inner_node() {
    let mut bench = Bench::joined(1);
    bench.contribute(0, 0, 10);
    let outcome = bench.contribute(1, 0, 20);
    assert_eq!(outcome.verdict, Verdict::Forwarded);
    assert_eq!(outcome.recipients, Recipients::One(parent_address()));
    let (header, payload) = bench.reply(outcome);
    assert_eq!((header.kind, header.node.get()), (Kind::Contribution as u8, 0));
    assert_eq!((header.contributor, header.expected), (1, 2));
    assert_eq!(payload, summed(&[10, 20]));
}

#[test]
fn a_duplicate_is_not_added_again() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 0, 10);
    assert_eq!(bench.contribute(0, 0, 10), Outcome::silent(Verdict::Duplicate));
    let outcome = bench.contribute(1, 0, 20);
    assert_eq!(bench.reply(outcome).1, summed(&[10, 20]));
}

#[test]
fn a_duplicate_of_a_final_fragment_is_answered_to_its_sender_alone() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 0, 10);
    bench.contribute(1, 0, 20);
    let outcome = bench.contribute(1, 0, 20);
    assert_eq!(outcome.verdict, Verdict::Answered);
    assert_eq!(outcome.recipients, Recipients::One(address(1)));
    let (header, payload) = bench.reply(outcome);
    assert!(Flags(header.flags.get()).contains(Flags::RETRANSMISSION));
    assert_eq!((header.contributor, payload), (1, summed(&[10, 20])));
}

#[test]
fn a_duplicate_of_a_forwarded_fragment_is_forwarded_again() {
    let mut bench = Bench::joined(1);
    bench.contribute(0, 0, 10);
    bench.contribute(1, 0, 20);
    let outcome = bench.contribute(0, 0, 10);
    assert_eq!(outcome.verdict, Verdict::Reforwarded);
    assert_eq!(outcome.recipients, Recipients::One(parent_address()));
    let (header, payload) = bench.reply(outcome);
    assert!(Flags(header.flags.get()).contains(Flags::RETRANSMISSION));
    assert_eq!(payload, summed(&[10, 20]));
}

#[test]
fn an_entry_is_taken_by_the_position_two_slot_counts_on() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 1, 1);
    bench.contribute(1, 1, 1);
    assert_eq!(bench.contribute(0, 1 + SLOTS, 2).verdict, Verdict::First);
    assert_eq!(bench.contribute(0, 1, 1).verdict, Verdict::Answered, "the other version is intact");
    assert_eq!(bench.contribute(0, 1 + 2 * SLOTS, 3).verdict, Verdict::First);
    assert_eq!(bench.contribute(0, 1, 1), Outcome::silent(Verdict::Stale));
}

#[test]
fn positions_wrap_without_becoming_stale() {
    let mut bench = Bench::joined(0);
    let last = u32::MAX - SLOTS;
    bench.tell(0, 3);
    bench.contribute(0, last, 1);
    assert_eq!(bench.contribute(0, last.wrapping_add(2 * SLOTS), 1).verdict, Verdict::First);
    assert_eq!(bench.contribute(0, last, 1).verdict, Verdict::Stale);
}

#[test]
fn a_contribution_to_another_collective_is_a_mismatch() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 0, 1);
    let ours = Draft { contributor: 1, ..bench.draft(Kind::Contribution) };
    for draft in [
        Draft { round: 1, ..ours.clone() },
        Draft { exponent: 1, ..ours.clone() },
        Draft { flags: ours.flags.with(Flags::MAXIMUM), ..ours.clone() },
    ] {
        assert_eq!(bench.feed(address(1), &draft.datagram(&lanes(1))).verdict, Verdict::Mismatch);
    }
    let short = ours.datagram(&lanes(1)[..32]);
    assert_eq!(bench.feed(address(1), &short).verdict, Verdict::Mismatch);
}

#[test]
fn maxima_are_kept_and_checked() {
    let mut bench = Bench::joined(0);
    let flags = LaneType::I32Le.flags().with(Flags::MAXIMUM);
    let draft = Draft { flags, ..bench.draft(Kind::Contribution) };
    bench.feed(address(0), &draft.datagram(&lanes(-9)));
    let draft = Draft { contributor: 1, ..draft };
    let outcome = bench.feed(address(1), &draft.datagram(&lanes(-20)));
    assert_eq!(outcome.verdict, Verdict::Completed);
    assert_eq!(bench.reply(outcome).1, lanes(-9));
}

#[test]
fn a_result_is_stored_once_and_answers_from_then_on() {
    let mut bench = Bench::joined(1);
    bench.contribute(0, 0, 10);
    bench.contribute(1, 0, 20);
    let outcome = bench.result(0, 77);
    assert_eq!(
        (outcome.verdict, outcome.recipients),
        (Verdict::ResultStored, Recipients::Children)
    );
    let (header, payload) = bench.reply(outcome);
    assert_eq!((header.node.get(), header.contributor, payload), (1, 0, lanes(77)));
    assert_eq!(bench.result(0, 77), Outcome::silent(Verdict::ResultDuplicate));
    let outcome = bench.contribute(1, 0, 20);
    assert_eq!(outcome.verdict, Verdict::Answered);
    assert_eq!(bench.reply(outcome).1, lanes(77));
}

#[test]
fn a_result_that_no_entry_waits_for_is_stale() {
    let mut bench = Bench::joined(1);
    assert_eq!(bench.result(0, 1).verdict, Verdict::ResultStale, "empty");
    bench.contribute(0, 0, 10);
    assert_eq!(bench.result(0, 1).verdict, Verdict::ResultStale, "filling");
    bench.contribute(0, 2 * SLOTS, 10);
    assert_eq!(bench.result(0, 1).verdict, Verdict::ResultStale, "replaced");
}

#[test]
fn a_result_of_another_collective_is_a_mismatch() {
    let mut bench = Bench::joined(1);
    bench.contribute(0, 0, 10);
    bench.contribute(1, 0, 20);
    let draft = Draft { node: NodeId(0), contributor: 1, round: 5, ..bench.draft(Kind::Result) };
    let outcome = bench.feed(parent_address(), &draft.datagram(&lanes(1)));
    assert_eq!(outcome, Outcome::silent(Verdict::Mismatch));
}

#[test]
fn a_status_says_what_is_held_complete_and_final() {
    let mut bench = Bench::joined(0);
    for position in 0..3 {
        bench.contribute(1, position, 1);
    }
    bench.contribute(0, 0, 1);
    bench.contribute(0, 3, 1);
    let outcome = bench.probe(1, 0);
    assert_eq!(
        (outcome.verdict, outcome.recipients),
        (Verdict::Probed, Recipients::One(address(1)))
    );
    let (header, payload) = bench.reply(outcome);
    assert_eq!(header.kind, Kind::Status as u8);
    assert_eq!(word(&payload, status::STATE_WORD), EntryState::Final as u32);
    assert_eq!(double_word(&payload, status::CONTRIBUTORS_WORD), 0b11);
    assert_eq!(word(&payload, status::HELD_WORD), 0b0111);
    assert_eq!(word(&payload, status::COMPLETE_WORD), 0b0001);
    assert_eq!(word(&payload, status::FINAL_WORD), 0b0001);
}

#[test]
fn a_status_of_an_inner_node_tells_complete_from_final() {
    let mut bench = Bench::joined(1);
    for position in 0..2 {
        bench.contribute(0, position, 1);
    }
    for position in 0..2 {
        bench.contribute(1, position, 1);
    }
    bench.result(1, 2);
    let outcome = bench.probe(0, 0);
    let (_, payload) = bench.reply(outcome);
    assert_eq!(word(&payload, status::STATE_WORD), EntryState::Forwarded as u32);
    assert_eq!(word(&payload, status::COMPLETE_WORD), 0b11);
    assert_eq!(word(&payload, status::FINAL_WORD), 0b10);
}

#[test]
fn a_status_says_nothing_of_a_position_whose_entry_another_has() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 2 * SLOTS, 1);
    let outcome = bench.probe(0, 0);
    let (_, payload) = bench.reply(outcome);
    assert_eq!(word(&payload, status::HELD_WORD), 1 << (2 * SLOTS));
    assert_eq!(word(&payload, status::STATE_WORD), EntryState::Empty as u32);
    assert_eq!(double_word(&payload, status::CONTRIBUTORS_WORD), 0);
}

#[test]
fn counters_and_memory_are_what_the_plan_and_the_traffic_say() {
    let mut bench = Bench::joined(0);
    let before = bench.aggregator.memory_bytes();
    assert_eq!(before, 2 * 2 * SLOTS as usize * (PAYLOAD + 32));
    bench.contribute(0, 0, 1);
    bench.contribute(0, 0, 1);
    let counters = bench.aggregator.counters();
    assert!(counters.contains(&(Verdict::Control, 2)));
    assert!(counters.contains(&(Verdict::First, 1)) && counters.contains(&(Verdict::Duplicate, 1)));
    assert_eq!(bench.aggregator.memory_bytes(), before);
    assert_eq!(bench.aggregator.child_count(), 4, "with the substitutes");
}

#[test]
fn beyond_its_quota_a_job_is_dropped_until_time_has_passed() {
    let mut bench = Bench::joined(0);
    let len = (HEADER_LEN + PAYLOAD) as u64;
    bench.aggregator.set_quota(Some(Quota::with_burst(len, len)));
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First);
    assert_eq!(bench.contribute(1, 0, 2), Outcome::silent(Verdict::OverQuota));
    assert_eq!(bench.hello(1, INCARNATION).verdict, Verdict::Control, "who joins needs no quota");
    bench.aggregator.set_time(Time(1_000_000));
    assert_eq!(bench.contribute(1, 0, 2).verdict, Verdict::Completed);
}
