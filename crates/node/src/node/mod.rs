//! The aggregators of one node, whatever carries their packets.

mod orders;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use wiresum_protocol::{ControlHalf, Plan};
use wiresum_wire::NodeId;

use crate::aggregators::{Counters, Server, TcpServer};
use crate::station::FabricServer;

/// A node that serves one or more jobs.
pub enum Daemon {
    /// Over UDP: in the kernel, past it, or in user space.
    Datagrams(Box<Server>),
    /// Over TCP, in user space.
    Connections(Box<TcpServer>),
    /// A switch or server of a fabric.
    Fabric(Box<FabricServer>),
}

impl Daemon {
    /// A node in user space: takes `address` and allocates the memory of all jobs. The first plan says what carries packets.
    ///
    /// # Errors
    /// What the kernel says to the address.
    ///
    /// # Panics
    /// If `plans` is empty, or `node` is not in one of them.
    pub fn bind(address: SocketAddr, plans: &[Plan], node: NodeId) -> io::Result<Self> {
        if plans[0].fabric.is_some() {
            FabricServer::bind(address, plans, node).map(Self::from)
        } else if plans[0].is_over_tcp() {
            TcpServer::bind(address, plans, node).map(Self::from)
        } else {
            Server::bind(address, plans, node, None).map(Self::from)
        }
    }

    /// Lets a part that has timers take part in the node's work.
    pub fn add_control(&mut self, half: Box<dyn ControlHalf>) {
        match self {
            Self::Datagrams(server) => server.add_control(half),
            Self::Connections(server) => server.add_control(half),
            // Nothing is negotiated at switches.
            Self::Fabric(_) => {}
        }
    }

    /// Whether another process serves this node now.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        match self {
            Self::Datagrams(server) => server.is_handed_over(),
            Self::Connections(_) | Self::Fabric(_) => false,
        }
    }

    /// What sums here, as in a plan.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Datagrams(server) => server.engine(),
            Self::Connections(_) => "tcp",
            Self::Fabric(server) => server.engine(),
        }
    }

    /// Where children send to.
    ///
    /// # Errors
    /// What the kernel says to `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Datagrams(server) => server.socket().local_address(),
            Self::Connections(server) => Ok(server.local_address()),
            Self::Fabric(server) => server.socket().local_address(),
        }
    }

    /// A remark for the log on what the kernel does not grant.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        match self {
            Self::Datagrams(server) => server.socket().receive_buffer_remark(),
            Self::Connections(_) => None,
            Self::Fabric(server) => server.socket().receive_buffer_remark(),
        }
    }

    /// Jobs served.
    #[must_use]
    pub fn job_count(&self) -> usize {
        match self {
            Self::Datagrams(server) => server.job_count(),
            Self::Connections(server) => server.jobs().count(),
            Self::Fabric(server) => server.station().job_count(),
        }
    }

    /// Bytes of slot memory of all jobs; fixed.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Datagrams(server) => server.memory_bytes(),
            Self::Connections(server) => server.jobs().memory_bytes(),
            Self::Fabric(server) => server.station().memory_bytes(),
        }
    }

    /// What has become of every packet so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match self {
            Self::Datagrams(server) => server.counters(),
            Self::Connections(server) => server.counters(),
            Self::Fabric(server) => server.counters(),
        }
    }

    /// Serves until `stop` becomes readable, and calls `report` at every `interval`.
    ///
    /// # Errors
    /// What the kernel says when it is asked for packets.
    pub fn run(
        &mut self,
        stop: impl AsFd,
        interval: Option<Duration>,
        mut report: impl FnMut(&Counters),
    ) -> io::Result<()> {
        match self {
            Self::Datagrams(server) => server.run(stop, interval, |s| report(&s.counters())),
            Self::Connections(server) => server.run(stop, interval, |s| report(&s.counters())),
            Self::Fabric(server) => server.run(stop, interval, |s| report(&s.counters())),
        }
    }
}

impl From<Server> for Daemon {
    fn from(server: Server) -> Self {
        Self::Datagrams(Box::new(server))
    }
}

impl From<TcpServer> for Daemon {
    fn from(server: TcpServer) -> Self {
        Self::Connections(Box::new(server))
    }
}

impl From<FabricServer> for Daemon {
    fn from(server: FabricServer) -> Self {
        Self::Fabric(Box::new(server))
    }
}
