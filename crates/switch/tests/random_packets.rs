//! Any sequence of packets, sensible or not: what leaves a switch is the sum of those whose names it bears, and no program breaks a
//! rule of the pipeline.

use wiresum_switch::policy::Policy;
use wiresum_switch::{Contributors, Egress, Packet, Values, Verdict};
use wiresum_testkit::seeds::times_soak;
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{Flags, Kind};

/// Random packets for each policy and role.
fn packets() -> u64 {
    times_soak(10_000)
}

/// Every exact policy, as an inner switch and, where there is such a thing, as the root.
fn roles() -> Vec<(Policy, bool)> {
    let exact = Policy::ALL.into_iter().filter(|policy| policy.is_exact());
    exact
        .flat_map(|policy| roles_of(policy).iter().map(move |&is_root| (policy, is_root)))
        .collect()
}

fn roles_of(policy: Policy) -> &'static [bool] {
    if policy.needs_server() { &[false] } else { &[false, true] }
}

/// The workers whose values have to be in what leaves.
fn summed(packet: &Packet<Values>, arrived: &Packet<Values>, verdict: Verdict) -> Contributors {
    match (packet.kind, verdict) {
        (Kind::Contribution, _) => packet.contributors,
        // A result from above that was sent or kept: of all four workers.
        (Kind::Result, _) if arrived.kind == Kind::Result => Contributors::first(4),
        (Kind::Result, _) => Contributors::first(packet.expected),
        _ => unreachable!("{:?}", packet.kind),
    }
}

#[test]
fn what_leaves_is_the_sum_of_those_whose_names_it_bears() {
    check_what_leaves([Flags(0); 2]);
}

#[test]
fn or_their_maximum_or_their_sum_of_16_bits() {
    check_what_leaves([Flags::MAXIMUM, Flags::LANES16]);
    check_what_leaves([Flags(0), Flags::LANES]);
}

fn check_what_leaves(lanes: [Flags; 2]) {
    for (policy, is_root) in roles() {
        let mut traffic = RandomTraffic::of_lanes(lanes, policy, is_root, 11);
        let mut switch = traffic.switch();
        for step in 0..packets() {
            let arrived = traffic.next_packet();
            let mut packet = arrived.clone();
            let outcome = switch.handle(&mut packet);
            // An inner switch that has stored a result answers with it.
            let is_stored = outcome.verdict == Verdict::Answered && !is_root;
            let is_refused = packet.flags.contains(Flags::REFUSED);
            if outcome.egress == Egress::Absorbed || is_refused || arrived.job.0 == 9 {
                continue;
            }
            let whose = if is_stored {
                Contributors::first(4)
            } else {
                summed(&packet, &arrived, outcome.verdict)
            };
            let right = RandomTraffic::sum(&packet, whose);
            let name = policy.name();
            assert_eq!(packet.values, right, "{name}, root {is_root}, step {step}: {outcome:?}");
        }
        assert_eq!(switch.counters().total(), packets());
    }
}

#[test]
fn every_verdict_of_a_switch_is_met() {
    let mut unmet = Verdict::SWITCH.to_vec();
    for (policy, is_root) in roles() {
        let mut traffic = RandomTraffic::new(policy, is_root, 12);
        let mut switch = traffic.switch();
        for _ in 0..packets() {
            switch.handle(&mut traffic.next_packet());
        }
        unmet.retain(|&verdict| switch.counters().get(verdict) == 0);
    }
    assert_eq!(unmet, []);
}
