//! Datagrams of hosts that the plan has no link to: they end nothing, change no sum, and are answered by nobody.

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_protocol::plan::Policy;
use wiresum_protocol::{CLOCK_MARGIN_US, Plan};
use wiresum_switch::live::notes::Note;
use wiresum_switch::{Cohort, Contributors, Packet, wire};
use wiresum_wire::control::{Absent, KeyAge, RefusalReason, hello_payload};
use wiresum_wire::{JobId, Kind, NodeId, Round};

use crate::bed::{Bed, Ended};
use crate::plans::{Shape, plan};
use crate::{assert_sums, sum_all, values};

const STRANGER: &str = "10.9.9.9:40000";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// What a stranger can know of a refusal: everything but the plan and the incarnation.
fn refusal(worker: u8, node: u16) -> Note {
    Note {
        kind: Kind::Refusal,
        job: JobId(1),
        node: NodeId(node),
        worker,
        attempt: 1,
        sub_model: wiresum_wire::SubModelId(0),
        fragment: wiresum_wire::FragmentId(0),
        is_member: false,
        cohort: Cohort(0),
        payload: hello_payload(0, 0, KeyAge::default(), Absent::default()),
    }
    .refusal(NodeId(node), RefusalReason::OtherPlan)
}

/// A refusal by someone who knows plan and incarnation, but has no key.
fn informed(plan: &Plan, worker: u8, node: u16) -> Note {
    let hello = Note { attempt: 1, ..Note::hello(plan, worker, 1) };
    hello.refusal(NodeId(node), RefusalReason::Superseded)
}

#[test]
fn a_refusal_of_a_stranger_ends_no_job() {
    let plan = plan(Policy::Hash, Shape::Tree);
    for is_joined in [false, true] {
        let mut bed = Bed::new(&plan, 0.0, 1);
        if is_joined {
            bed.join_all();
        } else {
            (0..4).for_each(|rank| bed.join(rank, Duration::from_secs(3)));
        }
        for worker in 0..4 {
            let (own, switch) =
                (format!("10.0.0.{worker}:5748"), format!("10.0.1.{}:5747", worker / 2));
            for node in [0, 1, 2, 3, 77] {
                let (blind, informed) = (refusal(worker, node), informed(&plan, worker, node));
                // From anywhere, to the worker and to the switch that would hand it on.
                for note in [blind, informed] {
                    bed.inject(address(STRANGER), address(&own), &note.emit());
                    bed.inject(address(STRANGER), address(&switch), &note.emit());
                }
                // With the address of a neighbour, but without a proof.
                for note in [blind, informed] {
                    bed.inject(address(&switch), address(&own), &note.emit());
                    bed.inject(address("10.0.1.2:5747"), address(&switch), &note.emit());
                }
            }
        }
        bed.run(Duration::from_secs(2));
        let bed = sum_all(bed, &[1000, 64 * 20]);
        assert!(bed.count("foreign") > 0, "what was not believed is counted");
    }
}

#[test]
fn values_of_a_stranger_with_the_key_change_no_sum() {
    for policy in [Policy::Hash, Policy::Pool, Policy::Exclusive] {
        let mut bed = Bed::new(&plan(policy, Shape::Tree), 0.0, 1);
        bed.join_all();
        // Whatever passes is sent again by a stranger, with other values, before it arrives.
        bed.forge_from(address(STRANGER));
        sum_all(bed, &[1000, 64 * 20]);
    }
}

/// What nothing protects from yet: it shows that the forger of the test above would be heard if it were believed.
#[test]
fn values_with_the_key_and_the_address_of_a_neighbour_are_believed() {
    let mut bed = Bed::new(&plan(Policy::Hash, Shape::Tree), 0.0, 1);
    bed.join_all();
    bed.forge_as_sender();
    (0..4).for_each(|rank| bed.submit(rank, values(rank, 0, 1000), Duration::from_secs(60)));
    bed.run(Duration::from_secs(120));
    let right: Vec<i32> =
        (0..1000).map(|i| (0..4).map(|rank| values(rank, 0, 1000)[i]).sum()).collect();
    let is_right = |ended: &Ended| matches!(ended, Ended::Sum(sum) if *sum == right);
    assert!((0..4).any(|rank| !bed.ended(rank).first().is_some_and(is_right)));
}

/// As at servers: who forges a neighbour's address can have a wrong sum believed, but not end a job by nonsense.
#[test]
fn results_of_a_wrong_length_or_round_are_counted_and_end_nothing() {
    let plan = plan(Policy::Hash, Shape::Tree);
    let mut bed = Bed::new(&plan, 0.0, 1);
    bed.join_all();
    (0..4).for_each(|rank| bed.submit(rank, values(rank, 0, 1000), Duration::from_secs(60)));
    let key = plan.job_key(1);
    let mut forged = 0;
    while bed.ended(0).is_empty() {
        let own = address("10.0.0.0:5748");
        let sent: Vec<_> = bed.under_way().filter(|(from, ..)| *from == own).collect();
        for (from, to, datagram) in sent {
            let Ok((_, packet)) = wire::parse(&datagram) else { continue };
            let result =
                Packet { kind: Kind::Result, contributors: Contributors::first(4), ..packet };
            let mut short = result.clone();
            short.values.truncate(8);
            let other = Packet { round: Round(result.round.0 + 1), ..result };
            for forgery in [short, other] {
                bed.inject(to, from, &wire::emit(&forgery, key));
                forged += 1;
            }
        }
        assert!(bed.step());
    }
    bed.run(Duration::from_secs(1));
    assert_sums(&bed, &[1000]);
    assert!(forged > 32 && bed.count("mismatches") > 16, "{} of {forged}", bed.count("mismatches"));
}

#[test]
fn an_incarnation_of_a_clock_that_is_ahead_locks_nobody_out() {
    let mut bed = Bed::new(&plan(Policy::Hash, Shape::Tree), 0.0, 1);
    bed.set_clocks(1);
    bed.restart_workers_as(2 + CLOCK_MARGIN_US);
    bed.join(0, Duration::from_secs(3));
    bed.run(Duration::from_secs(1));
    let failure = bed.join_failure(0).expect("its clock is ahead").to_string();
    assert!(failure.contains("set the clocks"), "{failure}");
    bed.restart_workers_as(2);
    bed.join_all();
    sum_all(bed, &[100]);
}

#[test]
fn a_hello_of_a_stranger_who_knows_the_plan_is_not_answered() {
    let plan = plan(Policy::Hash, Shape::Star);
    let mut bed = Bed::new(&plan, 0.0, 1);
    bed.join_all();
    let newer = Note { attempt: 1, ..Note::hello(&plan, 0, 99) };
    let other = Note { attempt: u32::MAX / 2, ..Note::hello(&plan, 0, 1) };
    let neighbours = plan.keys().hello(1);
    // From anywhere with the secret, and from a neighbour's address without it, or with another worker's key.
    let proven = newer.proven(&plan.keys().hello(0));
    bed.inject(address(STRANGER), address("10.0.1.2:5747"), &proven.emit());
    for hello in [newer, other, newer.proven(&neighbours), other.proven(&neighbours)] {
        bed.inject(address("10.0.0.0:5748"), address("10.0.1.2:5747"), &hello.emit());
    }
    bed.run(Duration::from_secs(1));
    for rank in 0..4 {
        bed.submit(rank, values(rank, 0, 100), Duration::from_secs(5));
    }
    bed.run(Duration::from_secs(10));
    (0..4).for_each(|rank| assert!(matches!(bed.ended(rank)[0], Ended::Sum(_)), "rank {rank}"));
}
