//! Starting as the successor of a running daemon.

use std::io;

use wiresum_node::aggregators::kernel::Kernel;
use wiresum_node::aggregators::{ThreadedAggregators, UdpAggregators};
use wiresum_node::node::Node;
use wiresum_node::service;
use wiresum_node::station::UdpStation;
use wiresum_node::takeover::{Inheritance, TakeoverError, take_over};
use wiresum_wire::NodeId;

use crate::arguments::Arguments;
use crate::exit::{self, Failure};

/// A daemon that goes on where the running one stops. Whatever fails here, that one goes on.
pub fn start(arguments: &Arguments) -> Result<Node, Failure> {
    let path = arguments.control_path()?.expect("--take-over requires --control");
    let inheritance = take_over(&path, NodeId(arguments.node)).map_err(refused)?;
    let broken = |error: io::Error| Failure::Runtime(format!("no take-over: {error}"));
    let acceptance = inheritance.acceptance().map_err(broken)?;
    let Inheritance { mut sockets, control, metrics, estate, plans, quotas, remains, .. } =
        inheritance;
    let id = NodeId(arguments.node);
    let mut node = if sockets.len() > 1 {
        let plane = ThreadedAggregators::inherit(sockets, &plans, remains, id);
        Node::new(id, plane.map_err(broken)?)
    } else if remains.facts["station"] == true {
        let socket = sockets.remove(0);
        let station = UdpStation::inherit(socket, &plans, &remains, estate, id);
        Node::new(id, station.map_err(|error| broken(io::Error::other(error)))?)
    } else {
        let take_kernel = |estate| Kernel::take_over(&plans, id, estate, arguments.xdp_options());
        let kernel = estate.map(take_kernel).transpose().map_err(exit::kernel_failure)?;
        let socket = sockets.remove(0);
        let plane = UdpAggregators::inherit(socket, &plans, remains, id, kernel);
        Node::new(id, plane.map_err(broken)?)
    };
    node.inherit(quotas, arguments.limits())
        .map_err(|error| Failure::Runtime(format!("no take-over: {error}")))?;
    crate::add_control(arguments, &plans, &mut node);
    let address = node.local_address().map_err(broken)?;
    acceptance.accept().map_err(refused)?;
    // From here on there is nobody else, so nothing below may fail for another reason than a lack of threads.
    let orders = service::serve(control, &path, metrics).map_err(broken)?;
    crate::serve_orders(arguments, orders, address, &mut node)?;
    Ok(node)
}

fn refused(error: TakeoverError) -> Failure {
    Failure::Runtime(error.to_string())
}
