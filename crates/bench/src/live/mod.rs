//! What one packet costs the user-space aggregator, sockets and system calls included; and load for any aggregator.

mod load;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use thiserror::Error;
use wiresum_codec::Operation;
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{
    Child, Engine as NodeEngine, Exponents, FORMAT, Job, Lanes, Node as PlanNode, PlanStream,
    Policy, Role, StreamLeg, StreamPlace, Worker,
};
use wiresum_wire::NodeId;

pub use load::{Load, Served, generate};
use wiresum_node::clock::thread_cpu_time;
use wiresum_node::engine::{CollectiveError, Engine, JoinError, Options};
use wiresum_node::node::Node;

/// Fragments of one run: some tens of windows, so that the first and the last one hardly count.
const FRAGMENTS: usize = 8192;
/// A run takes a fraction of a second; a machine that needs this long measures something else.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no measurement.
#[derive(Debug, Error)]
pub enum BenchError {
    /// No socket, or no thread.
    #[error("the aggregator cannot run on loopback: {0}")]
    Node(#[from] io::Error),
    /// An aggregator did not answer the generator's hellos.
    #[error("{0} has not welcomed the generator: is the aggregator running, with the same plan?")]
    Silent(SocketAddr),
    /// A worker did not join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The sum failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}

/// Runs one job over loopback and returns the aggregator's CPU time for each datagram that it received, in nanoseconds.
/// Receiving, adding, and sending a result to every child for each fragment are in it; the kernel's part too.
///
/// # Errors
/// [`BenchError`].
///
/// # Panics
/// If no plan can have so many values in a packet, or so many children.
pub fn udp_aggregator(values: u16, children: u32) -> Result<f64, BenchError> {
    let mut plan = star(values, children);
    plan.validate().expect("sizes that a plan can have");
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut server = Node::bind(loopback, std::slice::from_ref(&plan), NodeId(0))?;
    plan.nodes[0].address = server.local_address()?;
    let (stop, stopped) = UnixStream::pair()?;
    std::thread::scope(|scope| {
        let node = scope.spawn(move || {
            let served = server.run(stopped, None, |_| {});
            let datagrams = server.counters().datagrams_received;
            served.map(|()| thread_cpu_time().as_nanos() as f64 / datagrams.max(1) as f64)
        });
        let reduced = reduce_everywhere(&plan);
        drop(stop);
        let nanoseconds = node.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reduced?;
        Ok(nanoseconds?)
    })
}

fn reduce_everywhere(plan: &Plan) -> Result<(), BenchError> {
    std::thread::scope(|scope| {
        let ranks = 0..plan.workers.len() as u32;
        let workers: Vec<_> = ranks.map(|rank| scope.spawn(move || reduce(plan, rank))).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn reduce(plan: &Plan, rank: u32) -> Result<(), BenchError> {
    let engine = Engine::join(plan, rank, 1, Options { timeout: TIMEOUT, ..Options::default() })?;
    let mut values = vec![1f32; FRAGMENTS * usize::from(plan.job.values_per_packet)];
    engine.all_reduce(&mut values, Operation::Sum, TIMEOUT)?;
    Ok(())
}

fn star(values_per_packet: u16, workers: u32) -> Plan {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let leg = |rank| StreamLeg { child: Child::Worker(rank), parent: 0, links: Vec::new() };
    let stream = |id, name: &str, role, share| PlanStream {
        id,
        name: name.to_owned(),
        role,
        share,
        policy: Policy::Pool,
        window: 192,
        priority: 0,
        places: vec![StreamPlace { node: 0, base: 0, slots: Some(512) }],
        legs: (0..workers).map(leg).collect(),
    };
    Plan {
        format: FORMAT.to_owned(),
        planner: "bench".to_owned(),
        solution: None,
        job: Job {
            id: 1,
            secret: Some(format!("{:064x}", 1)),
            values_per_packet,
            lanes: Lanes::Int32Le,
            codec: "block".to_owned(),
            exponents: Exponents::Agreed,
            rounds: None,
            sealed: false,
            proven: false,
            groups: Vec::new(),
            threads: 1,
        },
        nodes: vec![PlanNode {
            id: 0,
            name: "node".to_owned(),
            address,
            engine: NodeEngine::Udp,
            ingress_bps: None,
            egress_bps: None,
        }],
        workers: (0..workers)
            .map(|rank| Worker {
                rank,
                name: format!("w{rank}"),
                address: Some(address.ip()),
                egress_bps: None,
            })
            .collect(),
        streams: vec![
            stream(0, "exponents", Role::Exponents, 0.0),
            stream(1, "values", Role::Values, 1.0),
        ],
        fabric: None,
        sparse: None,
    }
}
