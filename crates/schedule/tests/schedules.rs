//! Schedulers against their judge and their bound. One executable, as the compiler and the linker take longer than the tests.

mod common;
mod dialogue;
mod oracles;
mod petersen;
mod rules;
mod schedulers;
