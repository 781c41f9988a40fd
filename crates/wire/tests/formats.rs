//! Formats, definitions and vectors. One executable, as the compiler and the linker take longer than the tests.

mod definitions;
mod generated;
mod rows;
mod sizes;
mod switch;
mod vectors;
