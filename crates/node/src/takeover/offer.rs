//! The running daemon's side.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use wiresum_protocol::Plan;

use super::descriptors::send;
use super::{
    Head, Job, KernelLegacy, KernelState, Legacy, READY, SUCCESSOR_PATIENCE, Versions, YOURS,
};
use crate::node::Node;

/// Who has asked to take over.
pub struct Successor {
    connection: UnixStream,
    versions: Versions,
}

impl Successor {
    /// The client on the other end of a connection to the control socket.
    ///
    /// # Errors
    /// What the kernel says to another descriptor of the connection.
    pub fn new(connection: &UnixStream, versions: Versions) -> io::Result<Self> {
        Ok(Self { connection: connection.try_clone()?, versions })
    }

    /// Offers everything that a node has. `Ok` when the successor has taken it: then the node is not to touch it any
    /// more.
    ///
    /// # Errors
    /// Why the node goes on.
    pub fn offer(&mut self, node: &Node) -> Result<(), Failed> {
        if self.versions != Versions::OURS {
            return Err(Failed::Refused(format!(
                "the new daemon has state version {} and map layout {}, this one {} and {}: restart it instead, between two jobs",
                self.versions.state,
                self.versions.layout,
                Versions::OURS.state,
                Versions::OURS.layout
            )));
        }
        let (descriptors, head) = estate_of(node).map_err(Failed::Refused)?;
        let handed = self.hand_over(&descriptors, &head);
        handed.map_err(|error| {
            node.plane().reclaim();
            Failed::Broken(format!("the new daemon did not take over ({error}); this one goes on"))
        })
    }

    fn hand_over(&mut self, descriptors: &[BorrowedFd<'_>], head: &[u8]) -> io::Result<()> {
        self.connection.set_read_timeout(Some(SUCCESSOR_PATIENCE))?;
        self.connection.set_write_timeout(Some(SUCCESSOR_PATIENCE))?;
        send(&self.connection, descriptors, head)?;
        let mut word = [0; READY.len()];
        self.connection.read_exact(&mut word)?;
        if word != READY {
            return Err(io::Error::other("it said something else than that it is ready"));
        }
        self.connection.write_all(YOURS)
    }
}

/// Why a node goes on.
pub enum Failed {
    /// Nothing was offered, and the successor is to be told why.
    Refused(String),
    /// The successor has failed in the middle.
    Broken(String),
}

/// What is handed over, and in which order: [`super::client`] reads it in the same.
fn estate_of(node: &Node) -> Result<(Vec<BorrowedFd<'_>>, Vec<u8>), String> {
    let orders = node.orders().ok_or("this daemon takes no orders")?;
    let Legacy { sockets, kernel, plans, remains } = node.plane().legacy()?;
    let metrics = orders.metrics_listener();
    let count = sockets.len();
    let mut descriptors = sockets;
    descriptors.push(orders.listener().as_fd());
    descriptors.extend(metrics.map(AsFd::as_fd));
    let kernel = kernel.map(|KernelLegacy { maps, links, retired }| {
        let (maps, of_maps): (Vec<_>, Vec<_>) = maps.into_iter().unzip();
        descriptors.extend(of_maps.iter().chain(&links));
        KernelState { maps, links: links.len(), retired }
    });
    let job = |plan: Plan| Job { quota: node.quota(plan.job_id()), plan };
    let head = Head {
        node: node.id().0,
        sockets: count,
        jobs: plans.into_iter().map(job).collect(),
        facts: remains.facts,
        has_metrics: metrics.is_some(),
        kernel,
    };
    let mut bytes = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    bytes.extend(remains.memory);
    Ok((descriptors, bytes))
}
