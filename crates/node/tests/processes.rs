//! `wiresum-node` as a process: options, documents and requests. One executable, as the compiler and the linker take longer than the tests.

mod cluster;
mod control;
mod daemon;
mod documents;
mod service;
mod usage;
