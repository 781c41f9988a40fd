//! What the daemon is told when something cannot be done.
#![cfg(wiresum_bpf)]

mod support;

use std::net::SocketAddr;

use support::bpf_is_here;
use wiresum_protocol::Plan;
use wiresum_wire::{Contributor, JobId, JobKey, NodeId, SubModelId};
use wiresum_xdp::{Options, XdpAggregator, XdpError, attach_pass_program};

const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");
const JOB: JobId = JobId(7);

fn plan() -> Plan {
    Plan::from_json(TREE).expect("a valid plan")
}

fn load(plans: &[(Plan, NodeId)]) -> Result<XdpAggregator, XdpError> {
    XdpAggregator::load(plans, &Options::default())
}

fn somewhere() -> SocketAddr {
    SocketAddr::from(([10, 9, 9, 9], 9))
}

#[test]
fn plans_that_one_program_cannot_carry() {
    if !bpf_is_here() {
        return;
    }
    let with_id = |id: u16| {
        let mut plan = plan();
        plan.job.id = id;
        (plan, NodeId(0))
    };
    let seventeen: Vec<_> = (0..17).map(with_id).collect();
    assert!(matches!(load(&seventeen), Err(XdpError::TooMany { have: 17, most: 16, .. })));
    let twins = [with_id(1), with_id(1)];
    assert!(matches!(load(&twins), Err(XdpError::Plan { job: JobId(1), .. })));
    assert!(matches!(load(&[(plan(), NodeId(9))]), Err(XdpError::Plan { node: NodeId(9), .. })));
}

#[test]
fn packets_longer_than_a_page() {
    if !bpf_is_here() {
        return;
    }
    let mut long = plan();
    long.job.values_per_packet = 744;
    let is_refused = |error| matches!(error, XdpError::LongPackets { job: JOB, values: 744 });
    assert!(load(&[(long.clone(), NodeId(0))]).is_err_and(is_refused));
    let roomy = Options { memory: Some(1 << 24), ..Options::default() };
    let mut xdp = XdpAggregator::load(&[], &roomy).expect("the program loads");
    assert!(xdp.add_job(&long, NodeId(0)).is_err_and(is_refused));
}

#[test]
fn jobs_and_peers_that_no_plan_knows() {
    if !bpf_is_here() {
        return;
    }
    let mut xdp = load(&[(plan(), NodeId(0))]).expect("the program loads");
    let unknown = xdp.start_incarnation(JobId(8), JobKey(1));
    assert!(matches!(unknown, Err(XdpError::UnknownJob(JobId(8)))));
    xdp.start_incarnation(JOB, JobKey(1)).expect("the job is known");
    for (sub_model, child) in [(0, 9), (77, 0)] {
        let admitted = xdp.admit_child(JOB, SubModelId(sub_model), Contributor(child), somewhere());
        assert!(matches!(admitted, Err(XdpError::UnknownPeer { .. })), "{admitted:?}");
    }
}

#[test]
fn peers_that_the_program_has_not_heard() {
    if !bpf_is_here() {
        return;
    }
    let mut xdp = load(&[(plan(), NodeId(1))]).expect("the program loads");
    xdp.start_incarnation(JOB, JobKey(1)).expect("the job is known");
    let child = xdp.admit_child(JOB, SubModelId(0), Contributor(0), somewhere());
    assert!(matches!(child, Err(XdpError::NotHeard(_))), "{child:?}");
    let parent = xdp.set_parent(JOB, SubModelId(0), somewhere());
    assert!(matches!(parent, Err(XdpError::NotHeard(_))), "{parent:?}");
}

#[test]
fn interfaces_that_are_not_there_or_cannot() {
    if !bpf_is_here() {
        return;
    }
    let mut xdp = load(&[(plan(), NodeId(0))]).expect("the program loads");
    assert!(matches!(xdp.attach("nonesuch"), Err(XdpError::NoInterface(_))));
    assert!(matches!(attach_pass_program("nonesuch"), Err(XdpError::NoInterface(_))));
    // The loopback driver has no native mode.
    let refused = xdp.attach("lo").expect_err("loopback has no native XDP").to_string();
    assert!(refused.contains("generic"), "{refused}");
}

#[test]
fn memory_is_that_of_the_plans() {
    if !bpf_is_here() {
        return;
    }
    let xdp = load(&[(plan(), NodeId(0))]).expect("the program loads");
    // Two versions of 8 + 16 + 64 slots, of 256 bytes of values and an entry of 64 each.
    assert_eq!(xdp.memory_bytes(), 2 * 88 * (256 + 64));
}
