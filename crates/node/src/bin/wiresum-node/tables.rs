//! A node of a sparse job.

use std::path::Path;
use std::sync::Arc;

use wiresum_node::node::Node;
use wiresum_node::service::read_document;
use wiresum_node::tables::{DEFAULT_SNAPSHOT_INTERVAL, Snapshots, Tables, TablesError};
use wiresum_sparse::live::Job;
use wiresum_wire::NodeId;

use crate::arguments::Arguments;
use crate::exit::{Failure, bind_failure};
use crate::{log, open_service};

/// Everything that can fail at the start, fails here.
pub fn start(arguments: &Arguments, path: &Path) -> Result<Node, Failure> {
    let failure = |problem: String| Failure::Usage(format!("{}: {problem}", path.display()));
    let text = read_document(path).map_err(|error| failure(error.to_string()))?;
    let job = Arc::new(Job::from_json(&text).map_err(|error| failure(error.to_string()))?);
    let interval = arguments.snapshot_interval.unwrap_or(DEFAULT_SNAPSHOT_INTERVAL);
    let snapshots = arguments.snapshots.as_deref();
    let snapshots = snapshots.map(|folder| Snapshots::new(folder, arguments.node, interval));
    let snapshots =
        snapshots.transpose().map_err(|error| failure(format!("snapshots: {error}")))?;
    let plane = Tables::bind(&job, arguments.node, snapshots).map_err(|error| match error {
        TablesError::Socket(error) => {
            bind_failure(job.address(arguments.node).expect("a node of the job"), &error)
        }
        other => failure(other.to_string()),
    })?;
    if let Some(remark) = wiresum_node::node::Plane::remark(&plane) {
        log(&remark);
    }
    let mut node = Node::new(NodeId(arguments.node), plane);
    let address = job.address(arguments.node).expect("it was bound");
    open_service(arguments, address, &mut node)?;
    Ok(node)
}
