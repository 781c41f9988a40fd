//! What carries packets: datagrams, frames past the kernel's network stack, TCP connections.

pub mod frames;
pub mod tcp;
pub mod udp;
