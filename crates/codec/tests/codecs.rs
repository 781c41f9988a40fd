//! Codecs by vectors and by bounds. One executable, as the compiler and the linker take longer than the tests.

mod formats;
mod netfc;
mod packed;
mod rounding;
