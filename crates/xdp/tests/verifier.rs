//! How far the kernel's verifier walks through the aggregator and the switches. A program grows by an inlined loop unnoticed, until a daemon takes half
//! a second to start, or the kernel refuses it.
#![cfg(wiresum_bpf)]

mod support;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use support::{bpf_is_here, rows, switches};
use wiresum_protocol::Plan;
use wiresum_switch::policy::Policy;
use wiresum_wire::NodeId;
use wiresum_xdp::{Options, XdpAggregator};

/// Two fifths of the million at which the kernel gives up, and twice what Linux 6.18 walks: others count otherwise.
const MOST_STEPS: u32 = 400_000;

/// The largest packets there are, which make the longest loops.
fn largest() -> Plan {
    let text = include_str!("../../protocol/tests/plans/tree.json");
    let mut plan = Plan::from_json(text).expect("a valid plan");
    plan.job.values_per_packet = wiresum_wire::PAGE_VALUES as u16;
    plan
}

/// Instructions that the verifier has looked at, each as often as it came by.
fn steps(descriptor: BorrowedFd<'_>, program: &str) -> u32 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the descriptor is open; the kernel writes at most `len` bytes of `info`, which outlives the call.
    let status = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(descriptor.as_raw_fd(), &raw mut info, &raw mut len)
    };
    assert_eq!(status, 0, "the kernel tells about `{program}`");
    info.verified_insns
}

#[test]
fn it_goes_through_each_loop_a_few_times_at_most() {
    if !bpf_is_here() {
        return;
    }
    let xdp = XdpAggregator::load(&[(largest(), NodeId(0))], &Options::default()).expect("loads");
    for program in ["aggregate", "survey"] {
        let descriptor = xdp.program(program).expect("the program is loaded");
        check_steps(descriptor.as_fd(), program);
    }
}

#[test]
fn no_more_in_a_switch_of_any_policy() {
    if !bpf_is_here() {
        return;
    }
    for policy in Policy::ALL {
        let switch = switches::load(NodeId(1), policy, 8, wiresum_wire::PAGE_VALUES, &[]);
        let descriptor = switch.program("forward_packet").expect("the program is loaded");
        check_steps(descriptor.as_fd(), policy.name());
    }
}

#[test]
fn no_more_in_the_switch_for_hot_rows() {
    if !bpf_is_here() {
        return;
    }
    let program = rows::load(rows::OVER_IPV4);
    check_steps(program.kernel().program("sum_rows").as_fd(), "sum_rows");
}

fn check_steps(descriptor: BorrowedFd<'_>, program: &str) {
    let steps = steps(descriptor, program);
    println!("{program}: {steps} steps");
    assert!((1..=MOST_STEPS).contains(&steps), "`{program}` takes the verifier {steps} steps");
}
