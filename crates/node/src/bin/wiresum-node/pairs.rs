//! A node of a job of Zebra's program.

use std::path::Path;
use std::sync::Arc;

use wiresum_node::node::{Node, Plane};
use wiresum_node::pairs::{KernelPairs, Pairs};
use wiresum_sparse::live::keyed::{KeyedJob, SWITCH};
use wiresum_wire::NodeId;

use crate::arguments::{Arguments, EngineChoice};
use crate::exit::{Failure, bind_failure, kernel_failure};
use crate::files;
use crate::options::{self, Kind};
use crate::{log, open_service};

/// Everything that can fail at the start, fails here.
pub fn start(arguments: &Arguments, path: &Path) -> Result<Node, Failure> {
    let text = files::JOB_OF_PAIRS.read(path)?;
    let job = KeyedJob::from_json(&text);
    let job = job.map_err(|error| files::JOB_OF_PAIRS.refused(path, &text, error))?;
    let (job, number) = (Arc::new(job), arguments.node);
    let address = job.address(number).ok_or_else(|| {
        let problem = format!("has no node {number}; node 0 is the server, node 1 the switch");
        files::JOB_OF_PAIRS.failure(path, problem)
    })?;
    arguments.require_jobs_of_quotas(&[job.job_id()])?;
    let kernel = load_kernel(arguments, &job)?;
    let plane = Pairs::bind(&job, number, kernel).map_err(|error| bind_failure(address, &error))?;
    options::check(arguments, Kind { is_station: true, engine: plane.engine() })?;
    if let Some(remark) = plane.remark() {
        log(&remark);
    }
    let mut node = Node::new(NodeId(number), plane);
    let quotas = arguments.quotas.iter().copied();
    node.limit(arguments.limits(), quotas).map_err(Failure::Usage)?;
    open_service(arguments, address, &mut node)?;
    Ok(node)
}

/// The program in the kernel, if it is asked for and, with `auto`, if it can be had.
fn load_kernel(arguments: &Arguments, job: &KeyedJob) -> Result<Option<KernelPairs>, Failure> {
    let load = || KernelPairs::load(job, &arguments.interfaces, arguments.xdp_options().mode);
    match arguments.engine {
        EngineChoice::Plan | EngineChoice::Udp => Ok(None),
        EngineChoice::AfXdp | EngineChoice::Tcp => Err(Failure::Usage(
            "pairs are summed in the kernel or in user space: choose --engine xdp or udp"
                .to_owned(),
        )),
        EngineChoice::Xdp if arguments.node != SWITCH => Err(Failure::Usage(
            "the server of pairs sums in user space: leave --engine and --interface out".to_owned(),
        )),
        EngineChoice::Xdp => {
            arguments.require_interfaces("xdp")?;
            load().map(Some).map_err(kernel_failure)
        }
        EngineChoice::Auto if arguments.interfaces.is_empty() || arguments.node != SWITCH => {
            Ok(None)
        }
        EngineChoice::Auto => Ok(load()
            .inspect_err(|error| log(&format!("engine udp, because xdp cannot be had: {error}")))
            .ok()),
    }
}
