//! The programs of `bpf/` in the kernel, run by its test call. One executable, as the compiler and the linker take longer than the tests.
#![cfg(wiresum_bpf)]

mod differential;
mod errors;
mod forged;
mod jobs;
mod keyed;
mod renewal;
mod rows;
mod support;
mod switch;
mod verifier;
