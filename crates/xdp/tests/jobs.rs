//! Jobs that come and go while the program runs, and strangers.
#![cfg(wiresum_bpf)]

mod support;

use std::net::SocketAddr;

use support::{XDP_DROP, XDP_PASS, bpf_is_here};
use wiresum_protocol::{Plan, Verdict};
use wiresum_testkit::traffic::aggregator::{INCARNATION, RandomTraffic};
use wiresum_wire::{JobId, NodeId};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::{Options, XdpAggregator, XdpError};

const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");
const ROOT: NodeId = NodeId(0);
/// Slot memory of the plan at its root, in entries: two versions of 8 + 16 + 64 slots.
const ENTRIES: usize = 2 * 88;
/// Bytes of an entry in a pool whose slots take any payload.
const ENTRY_BYTES: usize = 2944 + 64;

fn plan(id: u16) -> Plan {
    let mut plan = Plan::from_json(TREE).expect("a valid plan");
    plan.job.id = id;
    plan
}

fn pool_of(jobs: usize) -> Options {
    Options { memory: Some(jobs * ENTRIES * ENTRY_BYTES), ..Options::default() }
}

/// A program in which jobs join and send.
struct Node(XdpAggregator);

impl Node {
    fn new(plans: &[(Plan, NodeId)], options: &Options) -> Self {
        Self(XdpAggregator::load_for_tests(plans, options).expect("the program loads"))
    }

    fn send(&self, source: SocketAddr, datagram: &[u8]) -> u32 {
        let address = plan(1).node(ROOT).expect("in the plan").address;
        let frame = udp_frame(source, address, datagram);
        self.0.test_run("aggregate", &frame, 1).expect("the test-run works").action
    }

    /// Packets by verdict among the next ones of a job whose members the program knows.
    fn run(&mut self, plan: &Plan, packets: usize) -> Vec<u64> {
        let mut traffic = RandomTraffic::new(plan, ROOT, 1);
        let joining = traffic.joining();
        for step in &joining {
            self.send(step.source, &step.datagram);
        }
        let job = plan.job_id();
        self.0.start_incarnation(job, plan.job_key(INCARNATION)).expect("known");
        let mut reference = wiresum_protocol::Aggregator::new(plan, ROOT);
        for step in joining {
            let mut buffer = [0; wiresum_wire::PAGE_PACKET];
            buffer[..step.datagram.len()].copy_from_slice(&step.datagram);
            reference.handle_datagram(step.source, &mut buffer, step.datagram.len());
        }
        for (sub_model, keys) in reference.membership().keys {
            self.0.renew(job, sub_model, keys).expect("the stream is known");
        }
        for ((sub_model, child), address) in reference.membership().children {
            self.0.admit_child(job, sub_model, child, address).expect("heard");
        }
        let before = self.0.counters().expect("counters");
        for step in traffic.take(packets) {
            self.send(step.source, &step.datagram);
        }
        let after = self.0.counters().expect("counters");
        after.iter().zip(before).map(|(after, before)| after.1 - before.1).collect()
    }
}

#[test]
fn a_job_that_comes_later_is_served_as_if_it_had_been_there() {
    if !bpf_is_here() {
        return;
    }
    let (first, second) = (plan(1), plan(2));
    let mut alone = Node::new(&[(second.clone(), ROOT)], &Options::default());
    let expected = alone.run(&second, 400);
    let mut node = Node::new(&[(first.clone(), ROOT)], &pool_of(2));
    node.run(&first, 100);
    node.0.add_job(&second, ROOT).expect("there is room");
    assert_eq!(node.run(&second, 400), expected);
    assert!(expected[Verdict::Completed as usize] > 0);
    let (of_job, bytes) = node.0.job_counters(JobId(2)).expect("known");
    assert_eq!(of_job[Verdict::Completed as usize].1, expected[Verdict::Completed as usize]);
    assert!(bytes > 0);
}

#[test]
fn a_job_that_goes_leaves_its_memory_and_nothing_else() {
    if !bpf_is_here() {
        return;
    }
    let (first, second) = (plan(1), plan(2));
    let mut node = Node::new(&[(first.clone(), ROOT)], &pool_of(1));
    let counted = node.run(&first, 400);
    assert!(matches!(node.0.add_job(&second, ROOT), Err(XdpError::NoMemory { free: 0, .. })));
    node.0.remove_job(JobId(1)).expect("it was there");
    assert!(matches!(node.0.remove_job(JobId(1)), Err(XdpError::UnknownJob(JobId(1)))));
    let total = node.0.counters().expect("counters")[Verdict::Completed as usize].1;
    assert_eq!(total, counted[Verdict::Completed as usize], "what it counted stays counted");
    node.0.add_job(&second, ROOT).expect("there is room again");
    let mut alone = Node::new(&[(second.clone(), ROOT)], &Options::default());
    assert_eq!(node.run(&second, 400), alone.run(&second, 400), "its slots are empty");
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    if !bpf_is_here() {
        return;
    }
    let mut node = Node::new(&[], &Options { memory: Some(1 << 20), ..Options::default() });
    node.0.add_job(&plan(1), ROOT).expect("half of it");
    let refusal = node.0.add_job(&plan(2), ROOT).expect_err("too little is left").to_string();
    assert!(refusal.contains(&(ENTRIES * ENTRY_BYTES).to_string()), "{refusal}");
    assert!(refusal.contains("--memory"), "{refusal}");
    let mut small = Node::new(&[(plan(1), ROOT)], &Options::default());
    let mut large = plan(2);
    large.job.values_per_packet = 736;
    let refusal = small.0.add_job(&large, ROOT).expect_err("its packets are too long").to_string();
    assert!(refusal.contains("longer than the slots"), "{refusal}");
}

/// Strangers reach the daemon at a bounded rate, and members at theirs.
#[test]
fn a_flood_of_hellos_keeps_no_member_out() {
    if !bpf_is_here() {
        return;
    }
    let plan = plan(1);
    let node = Node::new(&[(plan.clone(), ROOT)], &Options::default());
    let mut stranger = plan.clone();
    stranger.job.secret =
        Some("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff".to_owned());
    let flood = RandomTraffic::new(&stranger, ROOT, 1).joining();
    let actions: Vec<u32> = (0..5_000)
        .map(|at| &flood[at % flood.len()])
        .map(|step| node.send(step.source, &step.datagram))
        .collect();
    assert!(actions.contains(&XDP_PASS), "some are let through, to be refused");
    assert!(actions.contains(&XDP_DROP), "most are not");
    for step in RandomTraffic::new(&plan, ROOT, 1).joining() {
        assert_eq!(node.send(step.source, &step.datagram), XDP_PASS, "members still are");
    }
}
