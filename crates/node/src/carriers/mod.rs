//! What carries packets: datagrams, frames past the kernel's network stack, TCP connections.

pub mod frames;
pub(crate) mod poller;
pub mod tcp;
pub mod udp;
