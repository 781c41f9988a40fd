//! The running daemon's side.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::descriptors::send;
use super::{Head, JobState, KernelState, READY, SUCCESSOR_PATIENCE, Versions, YOURS};
use crate::aggregators::Server;

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

    /// Offers everything that a server has. `Ok` when the successor has taken it: then the server is not to touch it any more.
    ///
    /// # Errors
    /// Why the server goes on.
    pub fn offer(&mut self, server: &Server) -> Result<(), Failed> {
        if self.versions != Versions::OURS {
            return Err(Failed::Refused(format!(
                "the new daemon has state version {} and map layout {}, this one {} and {}: restart it instead, between two jobs",
                self.versions.state,
                self.versions.layout,
                Versions::OURS.state,
                Versions::OURS.layout
            )));
        }
        let (descriptors, head) = estate_of(server).map_err(Failed::Refused)?;
        let handed = self.hand_over(&descriptors, &head);
        handed.map_err(|error| {
            server.reclaim();
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

/// Why a server goes on.
pub enum Failed {
    /// Nothing was offered, and the successor is to be told why.
    Refused(String),
    /// The successor has failed in the middle.
    Broken(String),
}

/// What is handed over, and in which order: [`super::client`] reads it in the same.
fn estate_of(server: &Server) -> Result<(Vec<BorrowedFd<'_>>, Vec<u8>), String> {
    let orders = server.orders().ok_or("this daemon takes no orders")?;
    let metrics = orders.metrics_listener();
    let mut descriptors = vec![server.socket().as_fd(), orders.listener().as_fd()];
    descriptors.extend(metrics.map(AsFd::as_fd));
    let kernel = match (server.kernel(), server.engine()) {
        (None, "udp") => None,
        (Some(kernel), _) => {
            let (maps, links) = kernel.descriptors();
            let (names, maps): (Vec<_>, Vec<_>) = maps.into_iter().unzip();
            descriptors.extend(maps.iter().chain(&links));
            Some(KernelState { maps: names, links: links.len(), retired: kernel.retired() })
        }
        (None, engine) => {
            return Err(format!(
                "the engine `{engine}` cannot be handed over: restart the daemon, between two jobs"
            ));
        }
    };
    let slots = kernel.is_none();
    let jobs: Vec<JobState> = server
        .jobs()
        .iter()
        .map(|job| JobState {
            plan: job.aggregator.plan().clone(),
            quota: job.quota,
            memory_bytes: job.memory_bytes,
            bytes: job.bytes,
            snapshot: job.aggregator.snapshot(slots),
        })
        .collect();
    let head = Head {
        node: server.node().0,
        engine: server.engine().to_owned(),
        jobs,
        retired: server.jobs().retired().to_vec(),
        has_metrics: metrics.is_some(),
        kernel,
    };
    let mut bytes = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    head.jobs.iter().for_each(|job| bytes.extend(&job.snapshot.memory));
    Ok((descriptors, bytes))
}
