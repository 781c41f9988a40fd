//! Measurements by short runs. One executable, as the compiler and the linker take longer than the tests.

mod codec;
mod seal;
mod tracking;
