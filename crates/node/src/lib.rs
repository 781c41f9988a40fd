//! The only sockets, clocks and threads of Wiresum: they move datagrams between the network and the sans-IO state
//! machines of `wiresum-protocol`.

pub mod abi;
pub mod aggregators;
mod aside;
pub mod bytes;
mod carriers;
pub mod clock;
mod defect;
pub mod engine;
pub mod exact;
pub mod node;
pub mod pairs;
pub mod service;
pub mod station;
pub mod tables;
pub mod takeover;
pub mod tensor;

pub use carriers::{frames, tcp, udp};
