//! A node of sparse jobs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use wiresum_node::node::{Node, Plane};
use wiresum_node::service::JobQuota;
use wiresum_node::tables::{DEFAULT_SNAPSHOT_INTERVAL, KernelRows, SnapshotSettings, Tables};
use wiresum_sparse::live::{HostError, Job};
use wiresum_wire::NodeId;

use crate::arguments::{Arguments, EngineChoice};
use crate::exit::{Failure, bind_failure, kernel_failure};
use crate::files;
use crate::options::{self, Kind};
use crate::{log, open_service};

/// Everything that can fail at the start, fails here.
pub fn start(arguments: &Arguments) -> Result<Node, Failure> {
    let number = arguments.node;
    let refused = |path: &Path, problem: String| files::SPARSE_JOB.failure(path, problem);
    let jobs: Vec<Arc<Job>> =
        arguments.tables.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let ids: Vec<_> = jobs.iter().map(|job| job.job_id()).collect();
    arguments.require_jobs_of_quotas(&ids)?;
    let first = jobs[0].address(number);
    let address =
        first.ok_or_else(|| refused(&arguments.tables[0], HostError::Node(number).to_string()))?;
    let interval = arguments.snapshot_interval.unwrap_or(DEFAULT_SNAPSHOT_INTERVAL);
    let snapshots = arguments.snapshots.clone().map(|folder| SnapshotSettings { folder, interval });
    let workers = jobs.iter().map(|job| job.workers as usize).sum();
    let kernel = load_kernel(arguments, &jobs, address)?;
    let plane = Tables::bind(address, number, workers, snapshots)
        .map_err(|error| bind_failure(address, &error))?;
    let plane = match kernel {
        Some(kernel) => plane.over(kernel),
        None => plane,
    };
    options::check(arguments, Kind { is_station: true, engine: plane.engine() })?;
    if let Some(remark) = plane.remark() {
        log(&remark);
    }
    let mut node = Node::new(NodeId(number), plane);
    node.limit(arguments.limits(), []).map_err(Failure::Usage)?;
    for (job, path) in jobs.iter().zip(&arguments.tables) {
        let quota = arguments.quotas.iter().find(|(of, _)| *of == job.job_id());
        let quota = quota.map_or(JobQuota::default(), |(_, quota)| *quota);
        node.add_tables(job, quota).map_err(|problem| refused(path, problem))?;
    }
    open_service(arguments, address, &mut node)?;
    Ok(node)
}

/// The switch in the kernel, if it is asked for and, with `auto`, if it can be had. Job files name no engine.
fn load_kernel(
    arguments: &Arguments,
    jobs: &[Arc<Job>],
    address: SocketAddr,
) -> Result<Option<KernelRows>, Failure> {
    let is_switch = |job: &Arc<Job>| arguments.node >= job.shards().0;
    let load = || {
        let options = arguments.xdp_options();
        let jobs: Vec<&Job> = jobs.iter().map(Arc::as_ref).collect();
        let (interfaces, memory) = (&arguments.interfaces, options.memory);
        KernelRows::load(&jobs, arguments.node, address, interfaces, options.mode, memory)
    };
    match arguments.engine {
        EngineChoice::Plan | EngineChoice::Udp => Ok(None),
        EngineChoice::AfXdp | EngineChoice::Tcp => Err(Failure::Usage(
            "hot rows are summed in the kernel or in user space: choose --engine xdp or udp"
                .to_owned(),
        )),
        EngineChoice::Xdp if !jobs.iter().all(is_switch) => {
            Err(Failure::Usage(HostError::Server(arguments.node).to_string()))
        }
        EngineChoice::Xdp => {
            arguments.require_interfaces("xdp")?;
            load().map(Some).map_err(kernel_failure)
        }
        EngineChoice::Auto if arguments.interfaces.is_empty() || !jobs.iter().all(is_switch) => {
            Ok(None)
        }
        EngineChoice::Auto => Ok(load()
            .inspect_err(|error| log(&format!("engine udp, because xdp cannot be had: {error}")))
            .ok()),
    }
}

fn read(path: &Path) -> Result<Arc<Job>, Failure> {
    let text = files::SPARSE_JOB.read(path)?;
    let job = Job::from_json(&text).map(Arc::new);
    job.map_err(|error| files::SPARSE_JOB.refused(path, &text, error))
}
