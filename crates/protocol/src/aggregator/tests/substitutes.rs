//! A child that is gone, or taken for gone: its children contribute in its place. At the root, child 1 is a node; its children
//! have the substitutes' seats 2 and 3.

use super::*;

fn root() -> Bench {
    let mut bench = Bench::joined(0);
    bench.hello(2, INCARNATION);
    bench.hello(3, INCARNATION);
    bench
}

fn notice(bench: &mut Bench) -> Option<(SocketAddr, Header, Option<RefusalReason>)> {
    let (to, len) = bench.aggregator.poll_notice(&mut bench.buffer)?;
    let packet = Packet::parse(&bench.buffer[..len]).expect("a valid packet goes out");
    let reason = RefusalReason::from_wire(word(packet.payload, hello::REASON_WORD));
    Some((to, *packet.header, reason))
}

fn goodbye(bench: &mut Bench, contributor: u8, flags: Flags) -> Outcome {
    let goodbye = bench.joining_of(Kind::Goodbye, contributor, flags);
    bench.feed(address(contributor), &goodbye)
}

#[test]
fn all_substitutes_together_are_the_child() {
    let mut bench = root();
    assert_eq!(bench.contribute(2, 0, 5).verdict, Verdict::First);
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::Added);
    let outcome = bench.contribute(3, 0, 7);
    assert_eq!(outcome.verdict, Verdict::Completed);
    assert_eq!(bench.reply(outcome).1, summed(&[5, 1, 7]));
    assert_eq!(bench.contribute(1, 0, 99).verdict, Verdict::Answered, "the child comes too late");
}

#[test]
fn the_childs_sum_keeps_its_substitutes_out() {
    let mut bench = root();
    bench.contribute(1, 0, 12);
    assert_eq!(bench.contribute(2, 0, 5), Outcome::silent(Verdict::Duplicate));
    let outcome = bench.contribute(0, 0, 1);
    assert_eq!(bench.reply(outcome).1, summed(&[12, 1]));
    let outcome = bench.contribute(3, 0, 7);
    assert_eq!((outcome.verdict, bench.reply(outcome).0.contributor), (Verdict::Answered, 3));
}

#[test]
fn one_substitute_keeps_the_childs_sum_out() {
    let mut bench = root();
    bench.contribute(2, 0, 5);
    assert_eq!(bench.contribute(1, 0, 12), Outcome::silent(Verdict::Substituted));
    assert_eq!(bench.contribute(2, 0, 5), Outcome::silent(Verdict::Duplicate));
    bench.contribute(3, 0, 7);
    assert_eq!(bench.contribute(1, 0, 12), Outcome::silent(Verdict::Duplicate), "it is complete");
    let outcome = bench.contribute(0, 0, 1);
    assert_eq!(bench.reply(outcome).1, summed(&[5, 7, 1]));
}

#[test]
fn a_status_counts_the_childs_sum_as_the_substitutes_own() {
    let mut bench = root();
    bench.contribute(1, 0, 12);
    bench.contribute(2, 1, 5);
    let held = |bench: &mut Bench, contributor| {
        let outcome = bench.probe(contributor, 0);
        word(&bench.reply(outcome).1, status::HELD_WORD)
    };
    assert_eq!([1, 2, 3].map(|contributor| held(&mut bench, contributor)), [0b01, 0b11, 0b01]);
}

#[test]
fn a_child_is_told_whenever_one_of_its_children_says_hello_here() {
    let mut bench = Bench::joined(0);
    assert!(notice(&mut bench).is_none(), "children's hellos concern no one else");
    for contributor in [2, 2, 3] {
        let outcome = bench.hello(contributor, INCARNATION);
        assert_eq!(bench.reply(outcome).0.kind, Kind::Welcome as u8);
        let (to, header, reason) = notice(&mut bench).expect("others may be with the child");
        assert_eq!((to, header.contributor), (address(1), 1));
        assert_eq!(reason, Some(RefusalReason::Detached));
        assert!(notice(&mut bench).is_none(), "once for each hello");
    }
}

#[test]
fn a_node_that_is_out_of_the_tree_dismisses_its_children_until_they_come_back() {
    let mut bench = Bench::joined(1);
    let outcome = detach(&mut bench, NodeId(1));
    assert_eq!(outcome.recipients, Recipients::Children);
    let to = bench.aggregator.address_to_child(1, &mut bench.buffer);
    assert_eq!(to, Some(address(1)), "who is dismissed learns it");
    assert!(bench.aggregator.membership().children.is_empty());
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::BadContributor);
    let outcome = bench.hello(0, INCARNATION);
    assert_eq!(bench.reply(outcome).0.kind, Kind::Welcome as u8, "the parent still knows the node");
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First);
    assert_eq!(bench.contribute(1, 0, 1).verdict, Verdict::BadContributor, "it has not come back");
}

/// Else it would stay where nothing can be summed, as the others have left.
#[test]
fn a_dismissed_child_is_not_taken_back_while_its_node_waits_for_a_welcome_itself() {
    let mut bench = Bench::joined(1);
    detach(&mut bench, NodeId(1));
    let sub_model = bench.draft(Kind::Hello).sub_model;
    bench.aggregator.lose_parent(sub_model, &mut bench.buffer);
    let outcome = bench.hello(0, INCARNATION);
    assert_eq!(bench.reply(outcome).0.kind, Kind::Hello as u8, "the parent is asked");
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::BadContributor);
    bench.hear_parent(Kind::Welcome);
    let outcome = bench.hello(0, INCARNATION);
    assert_eq!(bench.reply(outcome).0.kind, Kind::Welcome as u8);
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First);
}

/// The parent says that a node is out of the tree.
fn detach(bench: &mut Bench, removed: NodeId) -> Outcome {
    let mut words = bench.words(INCARNATION);
    set_word(&mut words, hello::REASON_WORD, RefusalReason::Detached as u32);
    set_word(&mut words, hello::REMOVED_NODE_WORD, u32::from(removed.0));
    let draft = Draft { node: NodeId(0), contributor: 1, round: 1, ..bench.draft(Kind::Refusal) };
    let refusal = joining(&bench.plan, &draft, words);
    bench.feed(parent_address(), &refusal)
}

/// The node that the refusal which child 0 is sent names as removed.
fn removed_node(bench: &mut Bench, outcome: Outcome) -> u32 {
    assert_eq!(bench.aggregator.address_to_child(0, &mut bench.buffer), Some(address(0)));
    let packet = Packet::parse(&bench.buffer[..outcome.len]).expect("a valid packet goes out");
    assert_eq!(packet.kind, Kind::Refusal);
    word(packet.payload, hello::REMOVED_NODE_WORD)
}

#[test]
fn children_stay_at_a_node_below_a_root_that_is_gone_and_learn_its_name() {
    let mut bench = Bench::joined(1);
    let sub_model = bench.draft(Kind::Hello).sub_model;
    let outcome = bench.aggregator.lose_parent(sub_model, &mut bench.buffer);
    assert_eq!(outcome.recipients, Recipients::Children);
    assert_eq!(removed_node(&mut bench, outcome), 0);
    assert_eq!(bench.contribute(0, 0, 1).verdict, Verdict::First, "it has nowhere to go");
    let outcome = bench.hello(0, INCARNATION);
    assert_eq!(
        bench.reply(outcome).0.kind,
        Kind::Hello as u8,
        "the parent has to welcome it again"
    );
}

#[test]
fn what_the_parent_says_of_a_node_above_goes_down_as_it_is() {
    let mut bench = Bench::joined(1);
    let outcome = detach(&mut bench, NodeId(0));
    assert_eq!(removed_node(&mut bench, outcome), 0);
}

#[test]
fn a_substitute_that_goes_home_leaves_its_seat_and_not_the_job() {
    let mut bench = root();
    assert_eq!(goodbye(&mut bench, 2, Flags::HOME), Outcome::silent(Verdict::Control));
    assert_eq!(bench.contribute(2, 0, 1).verdict, Verdict::BadContributor);
    assert_eq!(bench.aggregator.address_to_child(2, &mut bench.buffer), None);
    bench.hello(2, INCARNATION);
    assert_eq!(bench.contribute(2, 0, 1).verdict, Verdict::First, "it may come again");
}

#[test]
fn substitutes_that_leave_the_job_leave_for_their_child() {
    let mut bench = Bench::new(0);
    bench.plan.streams.remove(0);
    bench.aggregator = Aggregator::new(&bench.plan, NodeId(0));
    for contributor in [0, 2, 3] {
        bench.hello(contributor, INCARNATION);
    }
    goodbye(&mut bench, 0, Flags(0));
    goodbye(&mut bench, 2, Flags(0));
    assert_eq!(bench.contribute(3, 0, 1).verdict, Verdict::First, "it has not left yet");
    goodbye(&mut bench, 3, Flags(0));
    assert_eq!(bench.contribute(3, 1, 1).verdict, Verdict::Foreign, "the incarnation is over");
}
