//! Servers with several threads: packets find the thread of their job, whoever sends them, and links are shared by the jobs
//! of all threads.

mod cluster;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::{Cluster, PATIENCE, RunningNode, Shape, plan, start_nodes};
use wiresum_codec::Operation;
use wiresum_node::node::{Counters, Node};
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_protocol::rates::{Bounds, Negotiator};
use wiresum_protocol::{ControlHalf, Plan};
use wiresum_wire::{HEADER_LEN, JobId, NodeId};

/// Elements of a tensor that is cut for both threads of a rank.
const LARGE: usize = 2 * 32 * 2 * 256 + 77;

fn threaded(shape: Shape) -> Plan {
    let mut plan = plan(shape, 4, Lanes::Int32Le, Policy::Pool);
    plan.job.threads = 2;
    plan.validate().expect("a valid plan");
    plan
}

fn total(counters: &Counters, name: &str) -> u64 {
    counters.totals().find(|(other, _)| *other == name).map_or(0, |(_, count)| count)
}

fn sums_are_exact(cluster: &Cluster, rounds: usize) {
    for round in 0..rounds {
        let value = |rank: usize, index: usize| ((index + round) % 97 + rank) as f32;
        let values = |rank| (0..LARGE).map(|index| value(rank, index)).collect();
        for (sums, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
            outcome.expect("a sum");
            for (index, sum) in sums.into_iter().enumerate() {
                let expected: f32 = (0..4).map(|rank| value(rank, index)).sum();
                assert_eq!(sum, expected, "round {round}, element {index}");
            }
        }
    }
}

/// A node with one thread sends the sums of all its jobs from one socket, so the kernel may join them on their way.
#[test]
fn nodes_may_have_different_numbers_of_threads() {
    let mut plan = threaded(Shape::TwoLevels);
    let (root, address) = RunningNode::start_with(2, &plan, NodeId(0));
    plan.nodes[0].address = address;
    let mut nodes = vec![root];
    for (id, threads) in [(1, 1), (2, 2)] {
        let (node, address) = RunningNode::start_with(threads, &plan, NodeId(id));
        plan.nodes[usize::from(id)].address = address;
        nodes.push(node);
    }
    let cluster = Cluster::join(plan, nodes);
    sums_are_exact(&cluster, 10);
    let counters = cluster.stop();
    for counters in &counters {
        let foreign = counters.verdicts.iter().find(|(name, _)| *name == "foreign");
        assert_eq!(foreign, Some(&("foreign", 0)), "{counters:?}");
    }
    assert!(total(&counters[0], "datagrams_passed_on") > 0, "{:?}", counters[0]);
}

/// Datagrams of one sender that the kernel joins, and so puts into the socket of the first one's job.
struct Joined(UdpSocket);

impl Joined {
    fn send(&self, datagrams: &[u8], len: usize, to: SocketAddr) {
        let segment = len as libc::c_int;
        // SAFETY: the descriptor is open, and the option's value is an integer that outlives the call.
        let answer = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const segment).cast(),
                size_of_val(&segment) as libc::socklen_t,
            )
        };
        assert_eq!(answer, 0, "segmentation offload");
        self.0.send_to(datagrams, to).expect("sent");
    }
}

/// What names another thread's job, behind a packet of this thread's, is judged by that other thread.
#[test]
fn packets_behind_those_of_another_job_are_judged_by_their_own_threads() {
    let cluster = Cluster::start(threaded(Shape::Star));
    let (stop, to) = (AtomicBool::new(false), cluster.plan.nodes[0].address);
    let forged = |job: JobId| {
        let mut bytes = [0u8; HEADER_LEN];
        bytes[..6].copy_from_slice(&[0x57, 0x53, 1, 1, 0, job.0 as u8]);
        bytes
    };
    let joined = [7, 8, 7, 9, 8].map(|job| forged(JobId(job))).concat();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = Joined(UdpSocket::bind("127.0.0.1:0").expect("a port"));
            while !stop.load(Ordering::Relaxed) {
                sender.send(&joined, HEADER_LEN, to);
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        sums_are_exact(&cluster, 20);
        stop.store(true, Ordering::Relaxed);
    });
    let counters = cluster.stop().remove(0);
    let passed_on = total(&counters, "datagrams_passed_on");
    let verdicts: BTreeMap<_, _> = counters.verdicts.iter().copied().collect();
    let refused = verdicts["malformed"] + verdicts["foreign"] + verdicts["damaged"];
    assert!(0 < passed_on && passed_on < refused, "{counters:?}");
}

/// Who shares the node's links hears of the jobs of all threads.
#[test]
fn links_are_shared_by_the_jobs_of_all_threads() {
    let mut plan = threaded(Shape::Star);
    plan.nodes[0].ingress_bps = Some(4_000_000_000);
    plan.validate().expect("a valid plan");
    let jobs = plan.clone().with_groups_at(NodeId(0)).expect("jobs of the plan");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut node = Node::bind_threads(any, &jobs, NodeId(0), 2).expect("a port");
    let mut negotiator = Negotiator::new(NodeId(0), Bounds::default());
    jobs.iter().for_each(|job| negotiator.handle_job(job));
    node.add_control(Box::new(negotiator));
    let (node, address) = RunningNode::run(node);
    plan.nodes[0].address = address;
    let cluster = Cluster::join(plan, vec![node]);
    sums_are_exact(&cluster, 5);
    let control: BTreeMap<_, _> = cluster.stop().remove(0).control.into_iter().collect();
    assert!(control["readies"] >= 8 && control["rates_sent"] >= 8, "{control:?}");
}

/// An address that is shared by threads is not shared with anybody else.
#[test]
fn another_daemon_does_not_get_a_part_of_the_packets() {
    let (plan, _nodes) = start_nodes(threaded(Shape::Star));
    let address = plan.nodes[0].address;
    for threads in [1, 2] {
        let refused = Node::bind_threads(address, std::slice::from_ref(&plan), NodeId(0), threads);
        let error = refused.err().expect("the address is in use").to_string();
        assert!(error.contains("in use"), "{threads}: {error}");
    }
}
