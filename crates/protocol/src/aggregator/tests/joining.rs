//! Hellos, welcomes, refusals and goodbyes.

use super::*;

#[test]
fn the_root_welcomes_at_once() {
    let mut bench = Bench::new(0);
    let outcome = bench.hello(1, INCARNATION);
    assert_eq!(
        (outcome.verdict, outcome.recipients),
        (Verdict::Control, Recipients::One(address(1)))
    );
    let (header, payload) = bench.reply(outcome);
    assert_eq!(header.kind, Kind::Welcome as u8);
    assert_eq!(double_word(&payload, hello::INCARNATION_WORD), INCARNATION);
}

#[test]
fn an_inner_node_passes_the_hello_up_until_it_is_welcome() {
    let mut bench = Bench::new(1);
    for _ in 0..2 {
        let outcome = bench.hello(0, INCARNATION);
        assert_eq!(outcome.recipients, Recipients::One(parent_address()));
        let (header, _) = bench.reply(outcome);
        assert_eq!((header.kind, header.node.get(), header.contributor), (Kind::Hello as u8, 0, 1));
    }
    let outcome = bench.hear_parent(Kind::Welcome);
    assert_eq!(outcome.recipients, Recipients::Children);
    assert_eq!(bench.aggregator.address_to_child(0, &mut bench.buffer), Some(address(0)));
    assert_eq!(
        bench.aggregator.address_to_child(1, &mut bench.buffer),
        None,
        "it has not said hello"
    );
    let outcome = bench.hello(1, INCARNATION);
    assert_eq!(outcome.recipients, Recipients::One(address(1)));
}

#[test]
fn an_inner_node_passes_a_refusal_down() {
    let mut bench = Bench::new(1);
    bench.hello(0, INCARNATION);
    let outcome = bench.hear_parent(Kind::Refusal);
    assert_eq!(outcome.recipients, Recipients::Children);
    assert_eq!(bench.reply(outcome).0.node.get(), 1);
    assert_eq!(bench.hello(0, INCARNATION).recipients, Recipients::One(parent_address()));
}

fn reason(bench: &mut Bench, draft: &Draft, payload: &[u8]) -> Option<RefusalReason> {
    let outcome = bench.feed(address(0), &draft.datagram(payload));
    assert_eq!(
        (outcome.verdict, outcome.recipients),
        (Verdict::Control, Recipients::One(address(0)))
    );
    let (header, payload) = bench.reply(outcome);
    assert_eq!(header.kind, Kind::Refusal as u8);
    RefusalReason::from_wire(word(&payload, hello::REASON_WORD))
}

#[test]
fn every_reason_to_refuse_is_given() {
    let mut bench = Bench::joined(0);
    let good = hello_payload(&bench.plan, INCARNATION);
    let draft = bench.draft(Kind::Hello);
    let other_job = Draft { job: JobId(8), ..draft.clone() };
    assert_eq!(reason(&mut bench, &other_job, &good), Some(RefusalReason::UnknownJob));
    let elsewhere = Draft { contributor: 4, ..draft.clone() };
    assert_eq!(reason(&mut bench, &elsewhere, &good), Some(RefusalReason::NotExpected));
    let mut wrong = good;
    wrong[4 * hello::SECRET_WORD] ^= 1;
    assert_eq!(reason(&mut bench, &draft, &wrong), Some(RefusalReason::WrongSecret));
    let mut wrong = good;
    wrong[4 * hello::PLAN_DIGEST_WORD] ^= 1;
    assert_eq!(reason(&mut bench, &draft, &wrong), Some(RefusalReason::OtherPlan));
    let older = hello_payload(&bench.plan, INCARNATION - 1);
    assert_eq!(reason(&mut bench, &draft, &older), Some(RefusalReason::Superseded));
}

#[test]
fn a_hello_under_another_key_than_its_incarnations_is_foreign() {
    let mut bench = Bench::new(0);
    let draft = Draft { key: JobKey(5), ..bench.draft(Kind::Hello) };
    let payload = hello_payload(&bench.plan, INCARNATION);
    assert_eq!(bench.feed(address(0), &draft.datagram(&payload)).verdict, Verdict::Foreign);
}

#[test]
fn a_newer_incarnation_empties_every_slot_and_forgets_every_child() {
    let mut bench = Bench::joined(0);
    bench.contribute(0, 0, 1);
    bench.hello(0, INCARNATION + 1);
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::Foreign, "the old key");
    let key = bench.plan.job_key(INCARNATION + 1);
    let draft = Draft { key, contributor: 1, ..bench.draft(Kind::Contribution) };
    assert_eq!(bench.feed(address(1), &draft.datagram(&lanes(1))).verdict, Verdict::BadContributor);
    bench.hello(1, INCARNATION + 1);
    assert_eq!(bench.feed(address(1), &draft.datagram(&lanes(1))).verdict, Verdict::First);
}

#[test]
fn the_last_goodbye_ends_the_incarnation() {
    let mut bench = Bench::new(1);
    bench.plan.streams.remove(0);
    bench.aggregator = Aggregator::new(&bench.plan, NodeId(1));
    for child in 0..2 {
        bench.hello(child, INCARNATION);
    }
    let goodbye = |child| Draft { contributor: child, ..plan_draft(&bench.plan) }.datagram(&[]);
    let (first, last) = (goodbye(0), goodbye(1));
    assert_eq!(bench.feed(address(0), &first), Outcome::silent(Verdict::Control));
    assert_eq!(bench.contribute(1, 0, 1).verdict, Verdict::First, "the other child goes on");
    let outcome = bench.feed(address(1), &last);
    assert_eq!(outcome.recipients, Recipients::One(parent_address()));
    assert_eq!(bench.reply(outcome).0.contributor, 1);
    assert_eq!(bench.contribute(1, 1, 1).verdict, Verdict::Foreign);
    assert_eq!(bench.hello(0, INCARNATION), Outcome::silent(Verdict::Control), "a late duplicate");
    assert_eq!(bench.hello(0, INCARNATION + 1).recipients, Recipients::One(parent_address()));
}

fn plan_draft(plan: &Plan) -> Draft {
    Draft {
        kind: Kind::Goodbye,
        job: plan.job_id(),
        node: NodeId(1),
        key: plan.job_key(INCARNATION),
        sub_model: wiresum_wire::SubModelId(3),
        ..Draft::default()
    }
}
