//! Programs of switches without sockets. One executable, as the compiler and the linker take longer than the tests.

mod datagrams;
mod exactness;
mod forwarding;
mod ingress;
mod keyed;
mod keyed_trace;
mod network;
mod oracles;
mod random_packets;
mod resources;
mod traces;
mod worker;
