//! Values of a job that asks for their proofs.

use zerocopy::FromBytes;

use super::*;

fn proven(node: u16) -> Bench {
    let mut bench = Bench::new(node);
    bench.plan.job.proven = true;
    bench.aggregator = Aggregator::new(&bench.plan, bench.node);
    bench.hello(0, INCARNATION);
    bench.hello(1, INCARNATION);
    if node == 1 {
        bench.hear_parent(Kind::Welcome);
    }
    bench
}

/// The values with the proof of the seat that they name.
fn emit(bench: &Bench, draft: &Draft, value: i32) -> Vec<u8> {
    let hash = bench.plan.value_hash().expect("values are proven");
    draft.proven_values(&lanes(value), &hash, &bench.seat_key(draft))
}

fn contribution(bench: &Bench, child: u8, value: i32) -> Vec<u8> {
    emit(bench, &Draft { contributor: child, ..bench.draft(Kind::Contribution) }, value)
}

fn result(bench: &Bench, value: i32) -> Vec<u8> {
    let draft = Draft { node: NodeId(0), contributor: 1, ..bench.draft(Kind::Result) };
    emit(bench, &draft, value)
}

/// Whether what was left in the buffer is proven, by the seat that it names.
fn is_proven(bench: &Bench, outcome: Outcome) -> bool {
    let packet = Packet::parse(&bench.buffer[..outcome.len]).expect("a packet");
    let header = packet.header;
    let seat = wiresum_keys::Seat {
        node: header.node.get(),
        stream: header.sub_model.get(),
        contributor: header.contributor,
    };
    let (key, hash) = (bench.plan.keys().seat(seat), bench.plan.value_hash());
    let proof = key.zip(hash).map(|(key, hash)| key.value_proof(&hash, header, packet.payload));
    proof.is_some() && proof == packet.proof
}

#[test]
fn values_without_their_proof_are_forged_and_leave_no_trace() {
    let mut bench = proven(0);
    let sound = contribution(&bench, 0, 5);
    let (mut changed, mut wrong) = (sound.clone(), sound.clone());
    // Two lanes that cancel in the check.
    (changed[HEADER_LEN], changed[HEADER_LEN + 4]) = (sound[HEADER_LEN + 4], sound[HEADER_LEN]);
    *wrong.last_mut().expect("a proof") ^= 1;
    let other_seat = Draft { contributor: 1, ..bench.draft(Kind::Contribution) };
    let mut of_another = emit(&bench, &other_seat, 5);
    let (header, _) = Header::mut_from_prefix(&mut of_another).expect("a header");
    header.contributor = 0;
    header.check.set(header.check.get().wrapping_sub(1 << 24));
    let bare = bench.draft(Kind::Contribution).datagram(&lanes(5));
    for forged in [changed, wrong, of_another, bare] {
        assert_eq!(bench.feed(address(0), &forged), Outcome::silent(Verdict::Forged));
    }
    assert_eq!(bench.feed(address(0), &sound).verdict, Verdict::First, "as if none had come");
}

#[test]
fn a_proof_that_nobody_asks_for_is_forged() {
    let mut bench = Bench::joined(0);
    let sound = contribution(&proven(0), 0, 5);
    assert_eq!(bench.feed(address(0), &sound), Outcome::silent(Verdict::Forged));
    assert_eq!(bench.contribute(0, 0, 5).verdict, Verdict::First);
}

#[test]
fn a_sum_goes_to_each_child_with_its_own_proof() {
    let mut bench = proven(0);
    let last = [contribution(&bench, 0, 10), contribution(&bench, 1, 20)];
    bench.feed(address(0), &last[0]);
    let outcome = bench.feed(address(1), &last[1]);
    let len = HEADER_LEN + PAYLOAD + wiresum_wire::PROOF_LEN;
    assert_eq!(outcome, Outcome::to_children(Verdict::Completed, len));
    for child in [1, 0] {
        bench.aggregator.address_to_child(child, &mut bench.buffer).expect("it is here");
        assert!(is_proven(&bench, outcome), "child {child}");
        assert_eq!(bench.reply(outcome).1, summed(&[10, 20]));
    }
    let again = bench.feed(address(1), &last[1]);
    assert_eq!((again.verdict, again.len), (Verdict::Answered, len));
    assert!(is_proven(&bench, again));
}

#[test]
fn a_sum_goes_up_and_its_result_comes_down_with_proofs() {
    let mut bench = proven(1);
    let last = [contribution(&bench, 0, 10), contribution(&bench, 1, 20)];
    bench.feed(address(0), &last[0]);
    for verdict in [Verdict::Forwarded, Verdict::Reforwarded] {
        let outcome = bench.feed(address(1), &last[1]);
        assert_eq!(outcome.verdict, verdict);
        assert!(is_proven(&bench, outcome), "by the node's seat at its parent");
    }
    let mut forged = result(&bench, 30);
    *forged.last_mut().expect("a proof") ^= 1;
    assert_eq!(bench.feed(parent_address(), &forged).verdict, Verdict::Forged);
    let sound = result(&bench, 30);
    let outcome = bench.feed(parent_address(), &sound);
    assert_eq!(outcome.verdict, Verdict::ResultStored);
    bench.aggregator.address_to_child(0, &mut bench.buffer).expect("it is here");
    assert!(is_proven(&bench, outcome));
}
