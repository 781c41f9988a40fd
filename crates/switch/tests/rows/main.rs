//! Every row of the state tables in `spec/switch.md`, policy by policy.

mod cache;
mod counter;
mod exclusive;
mod forgotten;
mod hash;
mod pool;
mod preempt;
mod register;
mod segment;
mod server;

use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{
    ANY_NODE, Cohort, Contributors, Egress, Outcome, Packet, Place, Switch, Values, Verdict,
};
use wiresum_wire::{Flags, FragmentId, JobId, Kind, NodeId, Round, SubModelId};

const NODE: NodeId = NodeId(3);
const SERVER: NodeId = NodeId(9);
const WORKERS: u8 = 3;

/// A switch that sums one stream of three workers in eight slots.
struct Bench {
    switch: Switch<Values>,
    /// What left last.
    packet: Packet<Values>,
}

fn place() -> Place {
    Place {
        job: JobId(1),
        sub_model: SubModelId(0),
        cohort: Cohort(0),
        members: Contributors::first(WORKERS),
        parent: Some(SERVER),
        base: 0,
        slots: 8,
        window: 8,
        lanes: Flags(0),
    }
}

/// Worker `worker`'s contribution of 10^worker to a fragment, for slot `fragment` modulo 8.
fn contribution(worker: u8, fragment: u32) -> Packet<Values> {
    Packet {
        contributors: Contributors::one(worker),
        fragment: FragmentId(fragment),
        round: Round(0),
        slot: fragment % 8,
        job: JobId(1),
        sub_model: SubModelId(0),
        node: ANY_NODE,
        flags: Flags(0),
        kind: Kind::Contribution,
        worker,
        expected: WORKERS,
        priority: 0,
        exponent: -3,
        values: vec![10i32.pow(worker.into())],
    }
}

fn resent(worker: u8, fragment: u32) -> Packet<Values> {
    Packet { flags: Flags::RETRANSMISSION, ..contribution(worker, fragment) }
}

fn result(fragment: u32) -> Packet<Values> {
    Packet {
        kind: Kind::Result,
        contributors: Contributors::first(WORKERS),
        values: vec![111],
        ..contribution(0, fragment)
    }
}

impl Bench {
    fn new(policy: Policy) -> Self {
        Self::with(policy, &[place()])
    }

    fn with(policy: Policy, places: &[Place]) -> Self {
        Self::with_values(policy, places, 1)
    }

    fn with_values(policy: Policy, places: &[Place], values: u32) -> Self {
        let mut switch = Switch::new(NODE, policy, 16, values, &Profile::TOFINO_1)
            .expect("room for sixteen slots");
        places.iter().for_each(|&place| switch.install(place).expect("a place that fits"));
        Self { switch, packet: contribution(0, 0) }
    }

    fn send(&mut self, packet: Packet<Values>) -> Outcome {
        self.packet = packet;
        self.switch.handle(&mut self.packet)
    }

    /// Workers 0, 1, … contribute to a fragment; what the last one met.
    fn contribute(&mut self, workers: u8, fragment: u32) -> Outcome {
        let outcomes = (0..workers).map(|w| self.send(contribution(w, fragment)));
        outcomes.last().expect("at least one worker")
    }

    /// What left: whose values, and their sum.
    fn left(&self) -> (u64, i32) {
        (self.packet.contributors.0, self.packet.values[0])
    }
}

const fn absorbed(verdict: Verdict) -> Outcome {
    Outcome { verdict, egress: Egress::Absorbed }
}

const fn up(verdict: Verdict) -> Outcome {
    Outcome { verdict, egress: Egress::Up }
}

const fn down(verdict: Verdict) -> Outcome {
    Outcome { verdict, egress: Egress::Down }
}

#[test]
fn strangers_pass_untouched() {
    for policy in Policy::ALL {
        let mut bench = Bench::new(policy);
        let stranger = Packet { job: JobId(2), ..contribution(0, 0) };
        assert_eq!(bench.send(stranger.clone()), up(Verdict::Passed));
        assert_eq!(bench.packet, stranger);
        let elsewhere = Packet { node: NodeId(4), ..contribution(0, 0) };
        assert_eq!(bench.send(elsewhere.clone()), up(Verdict::Passed));
        assert_eq!(bench.packet, elsewhere);
        assert_eq!(bench.send(Packet { job: JobId(2), ..result(0) }), down(Verdict::Passed));
        for contributors in [Contributors::NONE, Contributors(0b1001)] {
            let outsider = Packet { contributors, ..contribution(0, 0) };
            assert_eq!(bench.send(outsider), up(Verdict::Passed));
        }
        let refusal = Packet { flags: Flags::REFUSED, ..result(0) };
        assert_eq!(bench.send(refusal), down(Verdict::Passed));
        assert_eq!(bench.switch.counters().get(Verdict::Passed), 6);
        assert_eq!(bench.switch.counters().total(), 6);
    }
}

#[test]
fn lanes_that_are_not_the_streams_pass_untouched() {
    for policy in Policy::ALL {
        let maxima = Place { lanes: Flags::MAXIMUM, ..place() };
        let mut bench = Bench::with(policy, &[maxima]);
        for lanes in [Flags(0), Flags::LANES16, Flags::LANES] {
            let other = Packet { flags: lanes, ..contribution(0, 0) };
            assert_eq!(bench.send(other.clone()), up(Verdict::Passed));
            assert_eq!(bench.packet, other);
        }
        let own = Packet { flags: Flags::MAXIMUM, ..contribution(0, 0) };
        assert_eq!(bench.send(own), absorbed(Verdict::First));
    }
}

#[test]
fn the_larger_lanes_are_kept_and_those_that_are_missing_are_zero() {
    for policy in Policy::ALL {
        let maxima = Place { lanes: Flags::MAXIMUM, members: Contributors::first(2), ..place() };
        for is_turned in [false, true] {
            let mut bench = Bench::with_values(policy, &[maxima], 3);
            let values = [vec![-5, 7, -8], vec![-3, 4]];
            for worker in 0..2 {
                let values = values[usize::from(worker ^ u8::from(is_turned))].clone();
                bench.send(Packet { flags: Flags::MAXIMUM, values, ..contribution(worker, 0) });
            }
            assert_eq!(bench.packet.values, [-3, 7, 0], "{}", policy.name());
        }
    }
}

#[test]
fn sums_of_16_bits_wrap() {
    for policy in Policy::ALL {
        let mut bench = Bench::with(policy, &[Place { lanes: Flags::LANES16, ..place() }]);
        for worker in 0..WORKERS {
            let values = vec![i32::from(i16::MAX), -1];
            bench.send(Packet { flags: Flags::LANES16, values, ..contribution(worker, 0) });
        }
        assert_eq!(bench.packet.values, [i32::from(i16::MAX) - 2, -3], "{}", policy.name());
    }
}

#[test]
fn what_was_addressed_here_leaves_for_the_parent() {
    for policy in Policy::ALL {
        let mut bench = Bench::new(policy);
        for worker in 0..WORKERS {
            bench.send(Packet { node: NODE, ..contribution(worker, 0) });
        }
        assert_eq!(bench.packet.node, SERVER, "{}", policy.name());
        assert_eq!(bench.left(), (0b111, 111), "{}", policy.name());
    }
}

#[test]
fn a_job_that_leaves_frees_its_slots_and_no_others() {
    for policy in Policy::ALL {
        let other = Place { job: JobId(2), base: 8, ..place() };
        let mut bench = Bench::with(policy, &[place(), other]);
        let theirs = |worker| Packet { job: JobId(2), slot: 8, ..contribution(worker, 0) };
        bench.contribute(2, 0);
        bench.send(theirs(0));
        bench.switch.remove(JobId(1));
        assert_eq!(bench.send(contribution(2, 0)), up(Verdict::Passed), "{}", policy.name());
        assert_eq!(bench.send(theirs(1)), absorbed(Verdict::Added), "{}", policy.name());
        bench.switch.install(place()).expect("room that was given back");
        assert_eq!(bench.send(contribution(2, 0)), absorbed(Verdict::First), "{}", policy.name());
    }
}

#[test]
fn policies_have_names_of_their_own() {
    for policy in Policy::ALL {
        assert_eq!(Policy::from_name(policy.name()), Some(policy));
    }
}
