//! What the tests of several crates share. Products never depend on it, only their tests do.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`traffic`] | endless random packets for one aggregator or one switch, with what the reference makes of each |
//! | [`seeds`] | how many seeds a random test takes, and how a failure is replayed |
//! | [`capability`] | what a test needs of the machine, and skips or fails without |
//! | [`cluster`] | whole jobs of servers in virtual time: real workers and aggregators, an emulated network, the checks |

#![forbid(unsafe_code)]

pub mod capability;
pub mod cluster;
pub mod seeds;
pub mod traffic;
