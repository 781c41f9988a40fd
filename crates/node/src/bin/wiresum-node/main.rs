//! `wiresum-node`: the aggregator of one node of a plan, in the kernel or in user space.

mod arguments;
mod exit;
mod report;
mod signals;
mod successor;

use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use wiresum_node::aggregators::Server;
use wiresum_node::aggregators::TcpServer;
use wiresum_node::aggregators::kernel::Kernel;
use wiresum_node::clock::unix_time;
use wiresum_node::frames;
use wiresum_node::node::Daemon;
use wiresum_node::service::{self, Orders};
use wiresum_node::station::{BindError, FabricServer, KernelSwitch};
use wiresum_node::takeover::Upgrade;
use wiresum_protocol::plan::Engine;
use wiresum_protocol::rates::{Bounds, Epoch, Negotiator, Results, usable_bps};
use wiresum_protocol::{ControlHalf, Plan};
use wiresum_switch::live::Station;
use wiresum_wire::NodeId;
use wiresum_xdp::AfXdp;

use arguments::{Arguments, EngineChoice};
use exit::Failure;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log(&failure.to_string());
            failure.exit_code()
        }
    }
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
    let mut daemon = if arguments.take_over {
        successor::start(arguments)?
    } else {
        let plans = arguments.read_plans()?;
        let mut daemon = start(arguments, &plans)?;
        daemon.add_control(Box::new(negotiator(arguments, &plans)));
        daemon
    };
    service::notify_ready();
    print(&report::ready(arguments.node, &daemon));
    let engine = daemon.engine();
    let print_counters = |counters: &_| print(&report::counters(arguments, engine, counters));
    let end = daemon.run(stop, arguments.stats_interval, print_counters);
    if !daemon.is_handed_over() {
        print_counters(&daemon.counters());
    }
    end.map_err(|error| Failure::Runtime(format!("the socket failed: {error}")))
}

/// Lets jobs come and go, if the user wants it.
fn open_service(
    arguments: &Arguments,
    address: SocketAddr,
    server: &mut Server,
) -> Result<(), Failure> {
    let Some(path) = arguments.control_path()? else { return Ok(()) };
    let failure = |error: std::io::Error| {
        let metrics = arguments.metrics.map_or(String::new(), |at| format!(", or metrics at {at}"));
        Failure::Runtime(format!("no control socket {}{metrics}: {error}", path.display()))
    };
    let orders = service::open(&path, arguments.metrics).map_err(failure)?;
    log(&format!("control socket {}", path.display()));
    if let Some(address) = orders.metrics_address() {
        log(&format!("metrics at http://{address}/metrics"));
    }
    serve_orders(arguments, orders, address, server)
}

/// Has the server answer clients, and start its successor when they or SIGHUP want it.
fn serve_orders(
    arguments: &Arguments,
    orders: Orders,
    address: SocketAddr,
    server: &mut Server,
) -> Result<(), Failure> {
    server.take_orders(orders, arguments.limits(), arguments.planned_address(address));
    let upgrade = Upgrade::of_this_process()
        .map_err(|error| Failure::Runtime(format!("no upgrades: {error}")))?;
    signals::upgrade_on_hangup(upgrade.clone())?;
    server.allow_upgrades(upgrade);
    Ok(())
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

/// Everything that can fail at the start, fails here.
fn start(arguments: &Arguments, plans: &[Plan]) -> Result<Daemon, Failure> {
    let node = NodeId(arguments.node);
    let address = arguments.address(plans)?;
    if plans.iter().any(|plan| plan.fabric.is_some()) {
        return Ok(start_fabric(arguments, plans, node, address)?.into());
    }
    if !arguments.is_over_tcp(plans)? {
        return Ok(start_over_udp(arguments, plans, node, address)?.into());
    }
    if arguments.control_path()?.is_some() {
        let problem =
            "the engine `tcp` serves the jobs that it is started with: leave --control out";
        return Err(Failure::Usage(problem.to_owned()));
    }
    if !arguments.quotas.is_empty() {
        let problem = "the engine `tcp` has no quotas: connections are slowed down by who reads them; leave --quota out";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let server = TcpServer::bind(address, plans, node);
    Ok(server.map_err(|error| exit::bind_failure(address, &error))?.into())
}

/// A switch or server of a fabric.
fn start_fabric(
    arguments: &Arguments,
    plans: &[Plan],
    node: NodeId,
    address: SocketAddr,
) -> Result<FabricServer, Failure> {
    if arguments.control_path()?.is_some() || !arguments.quotas.is_empty() {
        let problem = "a node of a fabric serves the jobs that it is started with, and has no quotas: leave --control and --quota out";
        return Err(Failure::Usage(problem.to_owned()));
    }
    if matches!(arguments.engine, EngineChoice::AfXdp | EngineChoice::Tcp) {
        let problem =
            "switches sum in the kernel or in user space: leave --engine out, or choose xdp or udp";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let switch = start_kernel_switch(arguments, plans, address)?;
    let server = match switch {
        Some(switch) => FabricServer::bind_beside(address, plans, node, switch),
        // The socket and the program may both be what is wrong; errors of the program are the plan's.
        None => Station::new(plans, node)
            .map_err(BindError::from)
            .and_then(|_| Ok(FabricServer::bind(address, plans, node)?)),
    };
    server.map_err(|error| match error {
        BindError::Station(error) => Failure::Usage(error.to_string()),
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
            load().map(Some).map_err(failure)
        }
        (EngineChoice::Auto, _) if arguments.interfaces.is_empty() => {
            log("engine udp: no --interface is named that the XDP program could run on");
            Ok(None)
        }
        (EngineChoice::Auto, _) => Ok(load()
            .inspect_err(|error| log(&format!("engine udp, because xdp cannot be had: {error}")))
            .ok()),
    }
}

fn start_over_udp(
    arguments: &Arguments,
    plans: &[Plan],
    node: NodeId,
    address: SocketAddr,
) -> Result<Server, Failure> {
    let kernel = start_kernel(arguments, plans)?;
    let frames = start_af_xdp(arguments, plans, address)?;
    let mut server = Server::bind(address, plans, node, kernel)
        .map_err(|error| exit::bind_failure(address, &error))?;
    if let Some(frames) = frames {
        log(&format!(
            "{} of {} queues without copying",
            frames.zero_copy_ports(),
            frames.port_count()
        ));
        server = server.with_frames(frames);
    }
    open_service(arguments, address, &mut server)?;
    for (job, quota) in &arguments.quotas {
        let set = server.change_quota(*job, *quota);
        set.map_err(|error| Failure::Usage(format!("--quota {job}: {error}")))?;
    }
    if let Some(remark) = server.socket().receive_buffer_remark() {
        log(&remark);
    }
    Ok(server)
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
