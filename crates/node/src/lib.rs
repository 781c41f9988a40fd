//! The only sockets, clocks and threads of Wiresum: they move datagrams between the network and the sans-IO state
//! machines of `wiresum-protocol`.

pub mod abi;
pub mod af_xdp;
pub mod bench;
pub mod clock;
pub mod control;
pub mod daemon;
pub mod engine;
pub mod fabric;
pub mod jobs;
pub mod kernel;
pub mod server;
pub mod service;
pub mod takeover;
pub mod tcp;
pub mod tensor;
pub mod transmitters;
pub mod udp;
