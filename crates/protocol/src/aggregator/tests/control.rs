//! What goes to a node's control half, and what of it does not get through the gate.

use wiresum_wire::control::rate;

use super::*;

/// A ready or a probe from child `child`, or, as the parent's, a rate or a status.
fn rate_draft(bench: &Bench, kind: Kind, child: u8) -> (SocketAddr, Draft) {
    match kind {
        Kind::Ready | Kind::Probe => {
            (address(child), Draft { contributor: child, ..bench.draft(kind) })
        }
        _ => (parent_address(), Draft { node: NodeId(0), contributor: child, ..bench.draft(kind) }),
    }
}

fn payload_len(kind: Kind) -> usize {
    4 * kind.control_words().expect("a control kind")
}

#[test]
fn readies_of_children_and_rates_and_statuses_of_the_parent_go_to_the_control_half_as_they_are() {
    for kind in [Kind::Ready, Kind::Rate, Kind::Status] {
        let mut bench = Bench::joined(1);
        let (source, draft) = rate_draft(&bench, kind, 1);
        let datagram = bench.proven(&draft, &vec![7; payload_len(kind)]);
        let outcome = bench.feed(source, &datagram);
        assert_eq!(
            (outcome.verdict, outcome.recipients),
            (Verdict::Control, Recipients::ControlHalf)
        );
        assert_eq!(bench.buffer[..outcome.len], datagram);
    }
}

#[test]
fn control_packets_pass_every_test_of_the_gate() {
    type Change = fn(&mut Draft, &mut SocketAddr);
    let cases: [(Verdict, Change); 6] = [
        (Verdict::Foreign, |draft, _| draft.key.0 ^= 1),
        (Verdict::Foreign, |draft, _| draft.job.0 ^= 1),
        (Verdict::Foreign, |draft, _| draft.node.0 ^= 4),
        (Verdict::Foreign, |draft, _| draft.sub_model.0 ^= 4),
        (Verdict::BadContributor, |draft, _| draft.contributor = 9),
        (Verdict::BadContributor, |_, source| source.set_port(1234)),
    ];
    for kind in [Kind::Probe, Kind::Ready, Kind::Rate, Kind::Status] {
        let mut bench = Bench::joined(1);
        for (verdict, change) in cases {
            let (mut source, mut draft) = rate_draft(&bench, kind, 1);
            change(&mut draft, &mut source);
            let datagram = bench.proven(&draft, &vec![0; payload_len(kind)]);
            let outcome = bench.feed(source, &datagram);
            assert_eq!(outcome, Outcome::silent(verdict), "{kind:?}");
        }
        let (source, draft) = rate_draft(&bench, kind, 1);
        let unproven = draft.datagram(&vec![0; payload_len(kind)]);
        assert_eq!(bench.feed(source, &unproven).verdict, Verdict::BadContributor, "{kind:?}");
        let mut damaged = bench.proven(&draft, &vec![0; payload_len(kind)]);
        damaged[HEADER_LEN] ^= 1;
        assert_eq!(bench.feed(source, &damaged).verdict, Verdict::Damaged, "{kind:?}");
    }
    let mut root = Bench::joined(0);
    let (source, rate) = rate_draft(&root, Kind::Rate, 1);
    let outcome = root.feed(source, &rate.datagram(&[0; 4 * rate::WORDS]));
    assert_eq!(outcome.verdict, Verdict::Foreign, "a root has no parent");
}
