//! Aggregators: nodes of trees, which sum what their children send.

mod adder;
pub mod control;
pub mod jobs;
pub mod kernel;
mod over_tcp;
mod over_udp;
pub mod transmitters;

pub(crate) use adder::datagrams_under_way;
pub use over_tcp::{ConnectionCounters, TcpServer};
pub use over_udp::{Counters, Server};
