//! Prints how fast the switch programs are on one core: `cargo run --release -p wiresum-switch --example switch_speed [rounds]`.
//!
//! Sixteen workers in step, 256 slots, results passing back; packets without values, as simulations have them, and with 64.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the clock that the measurement takes"
)]

use std::time::Instant;

use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{
    Addressing, Cohort, Contributors, Egress, Packet, Payload, Place, Sending, Switch, Values,
    Worker,
};
use wiresum_wire::{Flags, JobId, Kind, NodeId, SubModelId};

const ROUNDS: u32 = 400;
const SLOTS: u32 = 256;
const WORKERS: u8 = 16;
const NODE: NodeId = NodeId(0);

fn main() {
    let rounds =
        std::env::args().nth(1).map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
    println!(
        "{:<18}{:>16}{:>16}   ns per packet through a switch",
        "policy", "no values", "64 values"
    );
    for policy in Policy::ALL {
        let without = nanoseconds(policy, (), rounds);
        let with: f64 = nanoseconds::<Values>(policy, vec![1; 64], rounds);
        println!("{:<18}{without:>16.1}{with:>16.1}", policy.name());
    }
}

/// Mean over all packets, contributions and results.
fn nanoseconds<V: Payload>(policy: Policy, values: V, rounds: u32) -> f64 {
    let mut switch = switch::<V>(policy);
    let template = template(policy);
    let addressing = addressing(policy);
    let mut packets = 0u64;
    let start = Instant::now();
    for position in 0..rounds * SLOTS {
        let mut packet = template.clone().carrying(values.clone());
        packet.fragment.0 = position;
        packet.slot = addressing.slot(packet.fragment);
        packets += sum(&mut switch, &packet);
    }
    start.elapsed().as_nanos() as f64 / packets as f64
}

/// One fragment, from all workers, and its result back. The number of packets.
fn sum<V: Payload>(switch: &mut Switch<V>, packet: &Packet<V>) -> u64 {
    let mut last = packet.clone();
    for worker in 0..WORKERS {
        let mut contribution = packet.clone();
        contribution.worker = worker;
        contribution.contributors = Contributors::one(worker);
        let outcome = switch.handle(&mut contribution);
        assert_eq!(outcome.egress == Egress::Absorbed, worker + 1 < WORKERS, "{outcome:?}");
        last = contribution;
    }
    last.kind = Kind::Result;
    last.fragment = packet.fragment;
    switch.handle(&mut last);
    u64::from(WORKERS) + 1
}

fn sending(policy: Policy) -> Sending {
    let window = SLOTS;
    Sending { policy, window, slots: SLOTS, workers: WORKERS, ..Sending::default() }
}

fn template(policy: Policy) -> Packet<()> {
    let mut worker = Worker::new(sending(policy));
    worker.begin(1);
    worker.poll_transmit(wiresum_protocol::Time(0)).expect("a first packet")
}

fn addressing(policy: Policy) -> Addressing {
    wiresum_switch::policy::sender(policy, &sending(policy)).addressing
}

fn switch<V: Payload>(policy: Policy) -> Switch<V> {
    let mut switch = Switch::new(NODE, policy, SLOTS, 64, &Profile::UNLIMITED)
        .expect("an unlimited switch has room");
    let place = Place {
        job: JobId(0),
        sub_model: SubModelId(0),
        cohort: Cohort(0),
        members: Contributors::first(WORKERS),
        parent: policy.needs_server().then_some(NodeId(1)),
        base: 0,
        slots: SLOTS,
        window: SLOTS,
        lanes: Flags(0),
    };
    switch.install(place).expect("the only stream");
    switch
}
