//! The kernel's switch against the reference of `crates/switch`: verdicts, bytes and registers for the same packets, through the
//! kernel's test-run.
#![cfg(wiresum_bpf)]

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::switches::{
    MAXIMA_AND_NARROW, Pair, SUMS, SUMS_AND_NARROW_MAXIMA, Wild, clear, compare_judgement,
    install_all, load,
};
use support::{bpf_is_here, bytes, list, replay_traces};
use wiresum_switch::policy::Policy;
use wiresum_switch::{Cohort, Contributors, Egress, Place, PlaceError, Verdict};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{Flags, JobId, NodeId, SubModelId};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::{SwitchProgram, XdpError};

/// Random sequences for each policy, role and pair of lanes; `WIRESUM_SOAK=2000` makes 10⁵ of them.
const SEQUENCES: u64 = 50;
/// Packets of a sequence, which begins with empty slots.
const PACKETS: usize = 100;

/// What a switch of a policy may be; true for the root of its job.
fn roles(policy: Policy) -> &'static [bool] {
    if policy.needs_server() { &[false] } else { &[false, true] }
}

/// Random sequences to both, in every role.
fn compare(policy: Policy) {
    if !bpf_is_here() {
        return;
    }
    // The kernel takes a second to verify a program, and one serves every role and all lanes.
    let mut pair = Pair::of_random_traffic(SUMS, policy, false);
    for is_root in roles(policy) {
        for lanes in [SUMS, MAXIMA_AND_NARROW, SUMS_AND_NARROW_MAXIMA] {
            pair.change_to(&RandomTraffic::of_lanes(lanes, policy, *is_root, 0));
            compare_sequences(&mut pair, lanes, policy, *is_root);
        }
    }
}

fn compare_sequences(pair: &mut Pair, lanes: [Flags; 2], policy: Policy, is_root: bool) {
    for_each_seed("-p wiresum-xdp --test switch", 1, SEQUENCES, |seed| {
        pair.begin_anew();
        for datagram in Wild::new(lanes, policy, is_root, seed).take(PACKETS) {
            pair.feed(&datagram);
        }
        pair.compare_registers();
    });
}

/// Packets of two cohorts, whose sums never meet, under every policy that may have more than one.
#[test]
fn cohorts() {
    if !bpf_is_here() {
        return;
    }
    for policy in Policy::ALL {
        let traffic = |seed| RandomTraffic::of_lanes(SUMS, policy, false, seed).of_cohorts();
        let mut pair = Pair::of(&traffic(0), policy);
        for_each_seed("-p wiresum-xdp --test switch cohorts", 1, SEQUENCES, |seed| {
            pair.begin_anew();
            Wild::of(traffic(seed), seed).take(PACKETS).for_each(|datagram| {
                pair.feed(&datagram);
            });
            pair.compare_registers();
        });
    }
}

/// A test for each policy, by the name of its file.
macro_rules! compare_each {
    ($($(#[$doc:meta])* $variant:ident $name:literal $module:ident, $kernel:literal: $properties:tt;)+) => {$(
        #[test]
        fn $module() {
            compare(Policy::$variant);
        }
    )+};
}

wiresum_wire::policies!(compare_each);

/// The golden traces that every data plane replays.
#[test]
fn golden_traces() {
    if !bpf_is_here() {
        return;
    }
    let mut programs = Programs::new();
    replay_traces("switch", |trace, name| replay(&mut programs, trace, name));
}

/// Loaded switches by policy, node, slots and values, without a job between two traces: each is verified once.
type Programs = BTreeMap<(String, [u64; 3]), SwitchProgram>;

fn replay(programs: &mut Programs, trace: &Value, name: &str) {
    let number = |field: &str| trace[field].as_u64().expect("a number");
    let shape = ["node", "slots", "values_per_packet"].map(number);
    let policy_name = trace["policy"].as_str().expect("a name");
    let policy = Policy::from_name(policy_name).expect("known");
    let program = programs.entry((policy_name.to_owned(), shape)).or_insert_with(|| {
        load(NodeId(shape[0] as u16), policy, shape[1] as u32, shape[2] as usize, &[])
    });
    let places: Vec<_> = list(&trace["places"]).iter().map(place).collect();
    install_all(program, &places);
    for job in trace["forgotten"].as_array().into_iter().flatten() {
        program.bypass(JobId(job.as_u64().expect("a number") as u16)).expect("a job of the trace");
    }
    let (address, source) = support::switches::addresses();
    for (index, step) in list(&trace["steps"]).iter().enumerate() {
        let frame = udp_frame(source, address, &bytes(&step["arrives"]));
        let judged = program.judge(&frame).expect("a test-run").expect("for the switch");
        compare_judgement(&judged, &expectation(step), &format!("{name}, step {index}"));
    }
    let registers = program.registers().expect("slots can be read");
    assert_eq!(serde_json::json!(registers), trace["registers"], "{name}");
    clear(program, &places);
}

fn place(value: &Value) -> Place {
    let number = |field: &str| value[field].as_u64();
    let required = |field: &str| number(field).expect("a number");
    Place {
        job: JobId(required("job") as u16),
        sub_model: SubModelId(required("sub_model") as u16),
        cohort: Cohort(number("cohort").unwrap_or(0) as u8),
        members: Contributors(required("members")),
        parent: number("parent").map(|node| NodeId(node as u16)),
        base: required("base") as u32,
        slots: required("slots") as u32,
        window: required("window") as u32,
        lanes: Flags(number("lanes").unwrap_or(0) as u16),
    }
}

fn expectation(step: &Value) -> (Verdict, Egress, Vec<u8>) {
    let name = step["verdict"].as_str().expect("a name");
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == name).expect("known");
    let egress = match step["egress"].as_str() {
        None => Egress::Absorbed,
        Some("up") => Egress::Up,
        Some(_) => Egress::Down,
    };
    (verdict, egress, bytes(&step["leaves"]))
}

#[test]
fn every_verdict_is_met_and_counted() {
    if !bpf_is_here() {
        return;
    }
    // No one holds a lock, nothing is forwarded, everyone is admitted, and a server's verdicts are not a switch's.
    let servers = [Verdict::Superseded, Verdict::Foreign];
    let absent = [&servers[..], &[Verdict::Lost, Verdict::Astray, Verdict::Strangers]].concat();
    let mut unmet = Verdict::STATION.to_vec();
    unmet.retain(|verdict| !absent.contains(verdict));
    for (policy, is_root) in [
        (Policy::Preempt, false),
        (Policy::Exclusive, false),
        (Policy::Pool, false),
        (Policy::Segment, true),
    ] {
        let mut pair = Pair::of_random_traffic(SUMS_AND_NARROW_MAXIMA, policy, is_root);
        let all: Vec<_> = Wild::new(SUMS_AND_NARROW_MAXIMA, policy, is_root, 5)
            .take(3_000)
            .map(|datagram| pair.feed(&datagram))
            .collect();
        for verdict in Verdict::STATION {
            let met = all.iter().filter(|met| **met == verdict).count();
            assert_eq!(pair.counter(verdict), met as u64, "{}", verdict.name());
        }
        unmet.retain(|verdict| !all.contains(verdict));
    }
    assert_eq!(unmet, []);
}

/// Streams leave, and others come in their place, while packets of both come, and processes take over from each other.
#[test]
fn jobs_that_come_and_go() {
    if !bpf_is_here() {
        return;
    }
    for policy in Policy::ALL {
        let mut pair = Pair::of_random_traffic(SUMS_AND_NARROW_MAXIMA, policy, false);
        let places = pair.places().to_vec();
        for (round, datagrams) in Wild::new(SUMS_AND_NARROW_MAXIMA, policy, false, 3)
            .take(900)
            .collect::<Vec<_>>()
            .chunks(90)
            .enumerate()
        {
            for datagram in datagrams {
                pair.feed(datagram);
            }
            let place = places[round / 2 % places.len()];
            if round % 2 == 0 {
                pair.remove(place.job)
            } else {
                pair.install(place)
            }
            if round == 5 {
                pair.hand_over();
            }
            pair.compare_registers();
        }
    }
}

/// Both streams are forgotten in turn, and come again.
#[test]
fn jobs_that_are_forgotten() {
    if !bpf_is_here() {
        return;
    }
    let each = |policy| roles(policy).iter().map(move |is_root| (policy, *is_root));
    for (policy, is_root) in Policy::ALL.into_iter().flat_map(each) {
        let mut pair = Pair::of_random_traffic(SUMS_AND_NARROW_MAXIMA, policy, is_root);
        let places = pair.places().to_vec();
        let datagrams: Vec<_> =
            Wild::new(SUMS_AND_NARROW_MAXIMA, policy, is_root, 7).take(900).collect();
        let mut bypassed = 0;
        for (round, datagrams) in datagrams.chunks(90).enumerate() {
            let place = places[round / 2 % places.len()];
            if round % 4 < 2 {
                pair.bypass(place.job)
            } else {
                pair.remove(place.job);
                pair.install(place);
            }
            if round == 1 {
                pair.hand_over();
            }
            let verdicts = datagrams.iter().map(|datagram| pair.feed(datagram));
            bypassed += verdicts.filter(|verdict| *verdict == Verdict::Bypassed).count();
            pair.compare_registers();
        }
        assert!(bypassed > 0, "{policy:?}");
    }
}

#[test]
fn streams_that_cannot_be_summed_here() {
    if !bpf_is_here() {
        return;
    }
    let mut program = load(NodeId(1), Policy::Hash, 8, 32, &[]);
    let place = |job: u16| Place {
        job: JobId(job),
        sub_model: SubModelId(0),
        cohort: Cohort(0),
        members: Contributors::first(2),
        parent: None,
        base: 0,
        slots: 8,
        window: 4,
        lanes: Flags(0),
    };
    let beyond = program.install(&Place { base: 1, ..place(1) });
    assert!(matches!(beyond, Err(XdpError::Place(PlaceError::Memory { end: 9, have: 8, .. }))));
    (1..=64).for_each(|job| program.install(&place(job)).expect("room for 64 streams"));
    let full = program.install(&place(65));
    assert!(matches!(full, Err(XdpError::Place(PlaceError::Full { most: 64 }))), "{full:?}");
}

#[test]
fn memory_is_taken_once() {
    if !bpf_is_here() {
        return;
    }
    let bytes = |policy| load(NodeId(1), policy, 100, 256, &[]).memory_bytes();
    assert_eq!(bytes(Policy::Hash), 100 * (64 + 1024));
    // Two versions of a slot; a sum and a shadow in each.
    assert_eq!(bytes(Policy::Pool), 200 * (64 + 1024));
    assert_eq!(bytes(Policy::Segment), 100 * (64 + 2048));
}

#[test]
fn frames_for_others_are_left_alone() {
    if !bpf_is_here() {
        return;
    }
    let program = load(NodeId(1), Policy::Hash, 8, 32, &[]);
    let (address, source) = support::switches::addresses();
    let datagram = Wild::new(SUMS, Policy::Hash, false, 1).next().expect("packets never end");
    let other_port = std::net::SocketAddr::new(address.ip(), 53);
    let frame = udp_frame(source, other_port, &datagram);
    assert_eq!(program.judge(&frame).expect("a test-run"), None);
}
