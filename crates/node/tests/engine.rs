//! Engines on loopback, in one process. One executable, as the compiler and the linker take longer than the tests.

mod abi;
mod all_reduce;
mod aside;
mod cluster;
mod exact;
mod faults;
mod kept;
mod kinds;
mod late;
mod packed;
mod servers_in_threads;
mod tcp;
mod threads;
