//! A node of sparse jobs.

use std::path::Path;
use std::sync::Arc;

use wiresum_node::node::Node;
use wiresum_node::service::{JobQuota, read_document};
use wiresum_node::tables::{DEFAULT_SNAPSHOT_INTERVAL, SnapshotSettings, Tables};
use wiresum_sparse::live::{HostError, Job};
use wiresum_wire::NodeId;

use crate::arguments::Arguments;
use crate::exit::{Failure, bind_failure};
use crate::{log, open_service};

/// Everything that can fail at the start, fails here.
pub fn start(arguments: &Arguments) -> Result<Node, Failure> {
    let number = arguments.node;
    let jobs: Vec<Arc<Job>> =
        arguments.tables.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let first = jobs[0].address(number);
    let address =
        first.ok_or_else(|| named(&arguments.tables[0], &HostError::Node(number).to_string()))?;
    let interval = arguments.snapshot_interval.unwrap_or(DEFAULT_SNAPSHOT_INTERVAL);
    let snapshots = arguments.snapshots.clone().map(|folder| SnapshotSettings { folder, interval });
    let workers = jobs.iter().map(|job| job.workers as usize).sum();
    let plane = Tables::bind(address, number, workers, snapshots)
        .map_err(|error| bind_failure(address, &error))?;
    if let Some(remark) = wiresum_node::node::Plane::remark(&plane) {
        log(&remark);
    }
    let mut node = Node::new(NodeId(number), plane);
    node.limit(arguments.limits(), []).map_err(Failure::Usage)?;
    for (job, path) in jobs.iter().zip(&arguments.tables) {
        node.add_tables(job, JobQuota::default()).map_err(|problem| named(path, &problem))?;
    }
    open_service(arguments, address, &mut node)?;
    Ok(node)
}

fn read(path: &Path) -> Result<Arc<Job>, Failure> {
    let text = read_document(path).map_err(|error| named(path, &error.to_string()))?;
    Job::from_json(&text).map(Arc::new).map_err(|error| named(path, &error.to_string()))
}

fn named(path: &Path, problem: &str) -> Failure {
    Failure::Usage(format!("{}: {problem}", path.display()))
}
