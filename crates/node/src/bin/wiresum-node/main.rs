//! `wiresum-node`: the aggregator of one node of a plan, in the kernel or in user space.

mod arguments;
mod exit;
mod files;
mod options;
mod pairs;
mod report;
mod signals;
mod successor;
mod tables;
mod usage;

use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use wiresum_node::aggregators::kernel::Kernel;
use wiresum_node::aggregators::{TcpAggregators, ThreadsError, UdpAggregators};
use wiresum_node::clock::unix_time;
use wiresum_node::frames;
use wiresum_node::node::Node;
use wiresum_node::service::{self, Orders};
use wiresum_node::station::{BindError, KernelSwitch, UdpStation};
use wiresum_node::takeover::Upgrade;
use wiresum_protocol::plan::Engine;
use wiresum_protocol::rates::{Bounds, Epoch, Negotiator, Results, usable_bps};
use wiresum_protocol::{ControlHalf, Liveness, Plan};
use wiresum_wire::NodeId;
use wiresum_xdp::AfXdp;

use arguments::{Arguments, EngineChoice};
use exit::Failure;
use options::Kind;

fn main() -> ExitCode {
    match arguments().and_then(|arguments| serve(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log(&service::cut(&failure.to_string()));
            failure.exit_code()
        }
    }
}

/// What is asked for. Help and the version are printed at once.
fn arguments() -> Result<Arguments, Failure> {
    Arguments::try_parse().map_err(|error| match usage::problem(&error) {
        Some(problem) => Failure::Usage(problem),
        None => error.exit(),
    })
}

/// One line for people, on stderr: stdout belongs to machines.
fn log(line: &str) {
    eprintln!("wiresum-node: {line}");
}

/// One answer for machines. A reader that has gone away is no reason to stop summing.
fn print(answer: &str) {
    let _ = writeln!(std::io::stdout(), "{answer}");
}

fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let stop = signals::stop_on_interrupt()?;
    let mut node = if let Some(job) = &arguments.pairs {
        pairs::start(arguments, job)?
    } else if !arguments.tables.is_empty() {
        tables::start(arguments)?
    } else if arguments.take_over {
        successor::start(arguments)?
    } else {
        start(arguments)?
    };
    service::notify_ready();
    print(&report::ready(&node));
    let engine = node.plane().engine();
    let print_counters = |counters: &_| print(&report::counters(arguments, engine, counters));
    let end = node.run(stop, arguments.stats_interval, print_counters);
    if !node.is_handed_over() {
        print_counters(&node.counters());
    }
    end.map_err(|error| {
        Failure::Runtime(format!("the socket failed ({error}): start the daemon again"))
    })
}

/// Everything that can fail at the start, fails here.
fn start(arguments: &Arguments) -> Result<Node, Failure> {
    let plans = arguments.read_plans()?;
    let (id, address) = (NodeId(arguments.node), arguments.address(&plans)?);
    Node::require_memory(&plans, id, arguments.limits()).map_err(Failure::Usage)?;
    let mut node = make(arguments, &plans, id, address)?;
    let is_station = plans.iter().any(|plan| plan.fabric.is_some());
    options::check(arguments, Kind { is_station, engine: node.plane().engine() })?;
    let jobs: Vec<_> = plans.iter().map(Plan::job_id).collect();
    arguments.require_jobs_of_quotas(&jobs)?;
    let quotas = arguments.quotas.iter().copied();
    node.limit(arguments.limits(), quotas).map_err(Failure::Usage)?;
    add_control(arguments, &plans, &mut node);
    open_service(arguments, address, &mut node)?;
    if let Some(remark) = node.plane().remark() {
        log(&remark);
    }
    Ok(node)
}

/// Lets jobs come and go, if the user wants it.
fn open_service(
    arguments: &Arguments,
    address: SocketAddr,
    node: &mut Node,
) -> Result<(), Failure> {
    let Some(path) = arguments.control_path()? else { return Ok(()) };
    let failure = |error: std::io::Error| Failure::Runtime(error.to_string());
    let orders = service::open(&path, arguments.metrics).map_err(failure)?;
    log(&format!("control socket {}", path.display()));
    if let Some(address) = orders.metrics_address() {
        log(&format!("metrics at http://{address}/metrics"));
    }
    serve_orders(arguments, orders, address, node)
}

/// Has the node answer clients, and start its successor when they or SIGHUP want it.
fn serve_orders(
    arguments: &Arguments,
    orders: Orders,
    address: SocketAddr,
    node: &mut Node,
) -> Result<(), Failure> {
    node.take_orders(orders, arguments.planned_address(address));
    let upgrade = Upgrade::of_this_process()
        .map_err(|error| Failure::Runtime(format!("no upgrades: {error}")))?;
    signals::upgrade_on_hangup(upgrade.clone())?;
    node.allow_upgrades(upgrade);
    Ok(())
}

/// Gives a node what it does by the clock.
fn add_control(arguments: &Arguments, plans: &[Plan], node: &mut Node) {
    node.add_control(Box::new(negotiator(arguments, plans)));
    node.add_control_by_job(&|| {
        let mut liveness = Liveness::new(NodeId(arguments.node));
        plans.iter().for_each(|plan| liveness.handle_job(plan));
        Box::new(liveness)
    });
}

/// Who shares the node's links among the children of all jobs.
fn negotiator(arguments: &Arguments, plans: &[Plan]) -> Negotiator {
    let bounds = Bounds {
        ingress_bps: arguments.ingress_bps.map(usable_bps),
        egress_bps: arguments.egress_bps.map(usable_bps),
        results: Results::Here,
    };
    let negotiator = Negotiator::new(NodeId(arguments.node), bounds);
    let mut negotiator = negotiator.begun_at(Epoch::at(unix_time()));
    plans.iter().for_each(|plan| negotiator.handle_job(plan));
    negotiator
}

/// What sums, and what carries packets, by the plans and options.
fn make(
    arguments: &Arguments,
    plans: &[Plan],
    id: NodeId,
    address: SocketAddr,
) -> Result<Node, Failure> {
    if plans.iter().any(|plan| plan.fabric.is_some()) {
        return Ok(Node::new(id, start_station(arguments, plans, id, address)?));
    }
    if !arguments.is_over_tcp(plans)? {
        return start_over_udp(arguments, plans, id, address);
    }
    let plane = TcpAggregators::bind(address, plans, id);
    Ok(Node::new(id, plane.map_err(|error| exit::bind_failure(address, &error))?))
}

/// A switch or server of a fabric.
fn start_station(
    arguments: &Arguments,
    plans: &[Plan],
    node: NodeId,
    address: SocketAddr,
) -> Result<UdpStation, Failure> {
    if matches!(arguments.engine, EngineChoice::AfXdp | EngineChoice::Tcp) {
        let problem =
            "switches sum in the kernel or in user space: leave --engine out, or choose xdp or udp";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let station = match start_kernel_switch(arguments, plans, address)? {
        Some(switch) => UdpStation::bind_beside(address, plans, node, switch),
        None => UdpStation::bind(address, plans, node),
    };
    station.map_err(|error| match error {
        BindError::Station(error) => Failure::Usage(error.to_string()),
        BindError::Load(error) => exit::switch_failure(error),
        BindError::Socket(error) => exit::bind_failure(address, &error),
    })
}

/// The switch in the kernel, if it is asked for and, with `auto`, if it can be had.
fn start_kernel_switch(
    arguments: &Arguments,
    plans: &[Plan],
    address: SocketAddr,
) -> Result<Option<KernelSwitch>, Failure> {
    let node = NodeId(arguments.node);
    let load = || {
        let mode = arguments.xdp_options().mode;
        KernelSwitch::load(plans, node, address, &arguments.interfaces, mode)
    };
    if_chosen(arguments, plans, load, exit::switch_failure)
}

/// What `load` puts into the kernel, if it is asked for and, with `auto`, if it can be had.
fn if_chosen<T, E: Display>(
    arguments: &Arguments,
    plans: &[Plan],
    load: impl FnOnce() -> Result<T, E>,
    failure: impl FnOnce(E) -> Failure,
) -> Result<Option<T>, Failure> {
    let node = NodeId(arguments.node);
    let planned = plans.first().and_then(|plan| plan.node(node)).map(|node| node.engine);
    match (arguments.engine, planned) {
        (EngineChoice::Udp | EngineChoice::AfXdp | EngineChoice::Tcp, _)
        | (EngineChoice::Plan, Some(Engine::Udp | Engine::AfXdp | Engine::Tcp) | None) => Ok(None),
        (EngineChoice::Xdp | EngineChoice::Plan, _) => {
            arguments.require_interfaces("xdp")?;
            arguments.require_room(plans).map_err(Failure::Usage)?;
            load().map(Some).map_err(failure)
        }
        (EngineChoice::Auto, _) if arguments.interfaces.is_empty() => {
            log("engine udp: the XDP program needs --interface IF, and none is given");
            Ok(None)
        }
        (EngineChoice::Auto, _) => Ok(arguments
            .require_room(plans)
            .and_then(|()| load().map_err(|error| error.to_string()))
            .inspect_err(|error| log(&format!("engine udp, because xdp cannot be had: {error}")))
            .ok()),
    }
}

fn start_over_udp(
    arguments: &Arguments,
    plans: &[Plan],
    node: NodeId,
    address: SocketAddr,
) -> Result<Node, Failure> {
    let kernel = start_kernel(arguments, plans)?;
    let frames = start_af_xdp(arguments, plans, address)?;
    if kernel.is_none()
        && frames.is_none()
        && let Some(node) = start_threads(arguments, plans, node, address)?
    {
        return Ok(node);
    }
    let mut plane = UdpAggregators::bind(address, plans, node, kernel)
        .map_err(|error| exit::bind_failure(address, &error))?;
    if let Some(frames) = frames {
        let (zero_copy, all) = (frames.zero_copy_ports(), frames.port_count());
        log(&format!("engine af_xdp: {zero_copy} of {all} queues have zero copy"));
        plane = plane.with_frames(frames);
    }
    Ok(Node::new(node, plane))
}

/// Several threads in user space, if they are asked for and can be had.
fn start_threads(
    arguments: &Arguments,
    plans: &[Plan],
    node: NodeId,
    address: SocketAddr,
) -> Result<Option<Node>, Failure> {
    let count = arguments.thread_count(plans);
    if count == 1 {
        return Ok(None);
    }
    match Node::bind_threads(address, plans, node, count) {
        Ok(node) => {
            log(&format!("{count} threads share the jobs"));
            Ok(Some(node))
        }
        Err(ThreadsError::Bind(error)) => Err(exit::bind_failure(address, &error)),
        Err(error @ ThreadsError::Share(_)) => {
            log(&format!("one thread serves all jobs instead of {count}: {error}"));
            Ok(None)
        }
    }
}

/// The aggregator in the kernel, if it is asked for and, with `auto`, if it can be had.
fn start_kernel(arguments: &Arguments, plans: &[Plan]) -> Result<Option<Kernel>, Failure> {
    let node = NodeId(arguments.node);
    let load = || Kernel::load(plans, node, &arguments.interfaces, arguments.xdp_options());
    if_chosen(arguments, plans, load, exit::kernel_failure)
}

/// The AF_XDP sockets, if they are asked for.
fn start_af_xdp(
    arguments: &Arguments,
    plans: &[Plan],
    address: SocketAddr,
) -> Result<Option<AfXdp>, Failure> {
    let node = NodeId(arguments.node);
    let planned = plans.first().and_then(|plan| plan.node(node)).map(|node| node.engine);
    match (arguments.engine, planned) {
        (EngineChoice::AfXdp, _) | (EngineChoice::Plan, Some(Engine::AfXdp)) => {
            arguments.require_interfaces("af_xdp")?;
            let mode = arguments.xdp_options().mode;
            let opened = frames::open(plans, node, address, &arguments.interfaces, mode);
            Ok(Some(opened.map_err(exit::kernel_failure)?))
        }
        _ => Ok(None),
    }
}
