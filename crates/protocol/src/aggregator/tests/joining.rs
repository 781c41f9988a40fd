//! Hellos, welcomes, refusals and goodbyes.

use super::*;
use crate::association::GENERATION_SHIFT;

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
    assert_eq!(bench.aggregator.address_to_child(0, &mut bench.buffer), Some(address(0)));
    let (header, payload) = bench.reply(outcome);
    assert_eq!((header.node.get(), header.round.get()), (1, 1), "about the child's hello");
    assert!(bench.seat_key(&bench.draft(Kind::Hello)).is_proven(&header, &payload));
    assert_eq!(bench.hello(0, INCARNATION).recipients, Recipients::One(parent_address()));
}

#[test]
fn an_inner_node_passes_a_renewal_up_until_its_parent_knows_it() {
    let mut bench = Bench::joined(1);
    for _ in 0..2 {
        let outcome = bench.tell(0, 2);
        assert_eq!(outcome.recipients, Recipients::One(parent_address()));
        let (header, payload) = bench.reply(outcome);
        assert_eq!((header.kind, word(&payload, hello::GENERATION_WORD)), (Kind::Hello as u8, 2));
        let welcome = bench.aggregator.is_welcome(bench.draft(Kind::Hello).sub_model);
        assert!(welcome, "sums go up meanwhile");
    }
    bench.hear_parent(Kind::Welcome);
    assert_eq!(bench.hello(1, INCARNATION).recipients, Recipients::One(address(1)));
    assert_eq!(bench.tell(1, 3).recipients, Recipients::One(parent_address()));
}

#[test]
fn values_carry_the_keys_of_their_positions() {
    let mut bench = Bench::joined(0);
    let first = bench.association;
    let generation = |number: u32| number << GENERATION_SHIFT;
    for (number, position) in [(0, 7), (1, generation(1)), (3, u32::MAX - 1)] {
        assert_eq!(bench.contribute(0, position, 1).verdict, Verdict::First, "{number}");
    }
    bench.tell(1, 1);
    // Whatever the entries hold: the key of the first generation counts no more, nor do later ones out of their place.
    let recorded = Draft { key: first.key(FragmentId(7)), ..bench.draft(Kind::Contribution) };
    for position in [7, 9, generation(1), generation(2), generation(3) + 7] {
        let recorded = Draft { fragment: position, ..recorded.clone() };
        let outcome = bench.feed(address(0), &recorded.datagram(&lanes(1)));
        assert_eq!(outcome.verdict, Verdict::Foreign, "{position}");
    }
    assert_eq!(bench.contribute(1, generation(1), 1).verdict, Verdict::Completed);
    bench.association = first;
    assert_eq!(bench.hello(1, INCARNATION).verdict, Verdict::Control, "it takes nothing back");
    assert_eq!(bench.contribute(1, 11, 1).verdict, Verdict::Foreign);
}

#[test]
fn keys_count_until_the_second_renewal_by_time() {
    let mut bench = Bench::joined(0);
    let plan = bench.plan.clone();
    let mut position = 0;
    for present in 0..5_u32 {
        for renewal in 0..7 {
            position += 1;
            let key = plan.keys().values(INCARNATION, 0, renewal);
            let draft = Draft { fragment: position, key, ..bench.draft(Kind::Contribution) };
            let verdict = bench.feed(address(0), &draft.datagram(&lanes(1))).verdict;
            let counts = renewal.abs_diff(present) <= 1;
            let expected = if counts { Verdict::First } else { Verdict::Foreign };
            assert_eq!(verdict, expected, "renewal {renewal} when there were {present}");
        }
        bench.association.renew(&plan);
        assert_eq!(bench.hello(0, INCARNATION).verdict, Verdict::Control);
    }
}

/// Only proofs of values keep a forger from it; what it costs is one run of one job.
#[test]
fn a_position_far_ahead_holds_its_entry_until_the_next_run() {
    let mut bench = Bench::joined(0);
    assert_eq!(bench.contribute(0, 7 + (1 << 24), 1).verdict, Verdict::First);
    assert_eq!(bench.contribute(1, 7, 1).verdict, Verdict::Stale);
    bench.hello(1, INCARNATION + 1);
    bench.association = Association::new(&bench.plan, INCARNATION + 1);
    assert_eq!(bench.contribute(1, 7, 1).verdict, Verdict::First);
}

#[test]
fn an_inner_node_learns_of_a_renewal_from_its_parent() {
    let mut bench = Bench::joined(1);
    bench.association.renew(&bench.plan);
    bench.hear_parent(Kind::Welcome);
    let sub_model = bench.draft(Kind::Hello).sub_model;
    assert_eq!(bench.aggregator.association(sub_model), bench.association);
}

fn reason(bench: &mut Bench, draft: &Draft, words: Words) -> Option<RefusalReason> {
    let outcome = bench.feed(address(0), &joining(&bench.plan, draft, words));
    assert_eq!(
        (outcome.verdict, outcome.recipients),
        (Verdict::Control, Recipients::One(address(0)))
    );
    let (header, payload) = bench.reply(outcome);
    assert_eq!(header.kind, Kind::Refusal as u8);
    assert!(bench.seat_key(draft).is_proven(&header, &payload));
    RefusalReason::from_wire(word(&payload, hello::REASON_WORD))
}

#[test]
fn every_reason_to_refuse_is_given() {
    let mut bench = Bench::joined(0);
    let good = bench.words(INCARNATION);
    let draft = bench.draft(Kind::Hello);
    let mut wrong = good;
    wrong[4 * hello::PLAN_DIGEST_WORD] ^= 1;
    assert_eq!(reason(&mut bench, &draft, wrong), Some(RefusalReason::OtherPlan));
    let older = bench.words(INCARNATION - 1);
    assert_eq!(reason(&mut bench, &draft, older), Some(RefusalReason::Superseded));
    bench.aggregator.set_clock(INCARNATION);
    let of_the_future = bench.words(INCARNATION + CLOCK_MARGIN_US + 1);
    assert_eq!(reason(&mut bench, &draft, of_the_future), Some(RefusalReason::AheadOfClock));
    let last = bench.words(u64::MAX);
    assert_eq!(reason(&mut bench, &draft, last), Some(RefusalReason::AheadOfClock));
}

#[test]
fn who_does_not_prove_the_seat_gets_no_answer() {
    let mut bench = Bench::joined(0);
    let draft = Draft { round: 9, ..bench.draft(Kind::Hello) };
    let (good, words) =
        (joining(&bench.plan, &draft, bench.words(INCARNATION)), bench.words(INCARNATION));
    let mut other = bench.plan.clone();
    other.job.secret = Some("ab".repeat(32));
    let neighbours = bench.seat_key(&Draft { contributor: 1, ..draft.clone() });
    let mut of_neighbour = good.clone();
    draft.emit_joining(&mut of_neighbour, words, &neighbours);
    let elsewhere = |draft: &Draft| joining(&bench.plan, draft, words);
    let hellos = [
        ("another secret", joining(&other, &draft, words)),
        ("the key of another seat", of_neighbour),
        ("no proof", draft.datagram(&words)),
        ("another job", elsewhere(&Draft { job: JobId(8), ..draft.clone() })),
        ("another node", elsewhere(&Draft { node: NodeId(1), ..draft.clone() })),
        ("no seat of the plan", elsewhere(&Draft { contributor: 4, ..draft.clone() })),
    ];
    for (name, hello) in hellos {
        assert_eq!(bench.feed(address(9), &hello), Outcome::silent(Verdict::Foreign), "{name}");
    }
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First, "the seat's holder has it");
    assert_eq!(bench.feed(address(0), &good).verdict, Verdict::Control, "it can be proven");
}

#[test]
fn a_recorded_hello_or_goodbye_moves_nobody() {
    let mut bench = Bench::joined(0);
    let recorded = bench.joining_of(Kind::Hello, 0, Flags(0));
    assert_eq!(bench.feed(address(0), &recorded).verdict, Verdict::Control);
    let elsewhere = Outcome::silent(Verdict::Foreign);
    assert_eq!(bench.feed(address(9), &recorded), elsewhere, "at once");
    let goodbye = bench.joining_of(Kind::Goodbye, 0, Flags::HOME);
    assert_eq!(bench.feed(address(0), &goodbye).verdict, Verdict::Control);
    assert_eq!(bench.feed(address(9), &recorded), elsewhere, "when the seat is free");
    bench.hello(0, INCARNATION);
    assert_eq!(bench.feed(address(0), &goodbye), Outcome::silent(Verdict::BadContributor));
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First, "it has its seat");
}

#[test]
fn a_goodbye_without_proof_ends_nothing() {
    let mut bench = Bench::joined(0);
    for child in 0..2 {
        let draft = Draft { contributor: child, round: 99, ..bench.draft(Kind::Goodbye) };
        let outcome = bench.feed(address(child), &draft.datagram(&bench.words(INCARNATION)));
        assert_eq!(outcome, Outcome::silent(Verdict::BadContributor));
    }
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First);
}

#[test]
fn answers_of_the_parent_are_believed_with_proof_and_to_a_hello_of_this_incarnation() {
    let mut bench = Bench::new(1);
    bench.hello(0, INCARNATION);
    let draft = Draft { node: NodeId(0), contributor: 1, round: 1, ..bench.draft(Kind::Welcome) };
    let unproven = draft.datagram(&bench.words(INCARNATION));
    let recorded = Draft { round: 0, ..draft.clone() };
    let recorded = joining(&bench.plan, &recorded, bench.words(INCARNATION));
    for welcome in [unproven, recorded] {
        let outcome = bench.feed(parent_address(), &welcome);
        assert_eq!(outcome, Outcome::silent(Verdict::BadContributor));
    }
    let welcome = joining(&bench.plan, &draft, bench.words(INCARNATION));
    assert_eq!(bench.feed(parent_address(), &welcome).recipients, Recipients::Children);
}

#[test]
fn hellos_of_an_inner_node_are_newer_than_those_before_it_began() {
    let minute = 60_000_000;
    let number = |bench: &mut Bench| {
        let outcome = bench.hello(0, INCARNATION);
        let recipients = outcome.recipients;
        (recipients != Recipients::None).then(|| bench.reply(outcome).0.round.get())
    };
    let mut bench = Bench::new(1);
    bench.aggregator.set_clock(minute);
    let first = number(&mut bench).expect("a hello");
    assert_eq!(number(&mut bench), None, "one for each tick");
    let mut restarted = Bench::new(1);
    restarted.aggregator.set_clock(2 * minute);
    assert!(number(&mut restarted).expect("a hello") > first);
}

#[test]
fn a_hello_under_another_key_than_its_incarnations_is_foreign() {
    let mut bench = Bench::new(0);
    let draft = Draft { key: JobKey(5), ..bench.draft(Kind::Hello) };
    let hello = joining(&bench.plan, &draft, bench.words(INCARNATION));
    assert_eq!(bench.feed(address(0), &hello).verdict, Verdict::Foreign);
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
    let (first, last) = (goodbye(&mut bench, 0), goodbye(&mut bench, 1));
    assert_eq!(bench.feed(address(0), &first), Outcome::silent(Verdict::Control));
    assert_eq!(bench.contribute(1, 0, 1).verdict, Verdict::First, "the other child goes on");
    let outcome = bench.feed(address(1), &last);
    assert_eq!(outcome.recipients, Recipients::One(parent_address()));
    assert_eq!(bench.reply(outcome).0.contributor, 1);
    assert_eq!(bench.contribute(1, 1, 1).verdict, Verdict::Foreign);
    assert_eq!(bench.hello(0, INCARNATION), Outcome::silent(Verdict::Control), "a late duplicate");
    assert_eq!(bench.hello(0, INCARNATION + 1).recipients, Recipients::One(parent_address()));
}

fn goodbye(bench: &mut Bench, child: u8) -> Vec<u8> {
    bench.joining_of(Kind::Goodbye, child, Flags(0))
}
