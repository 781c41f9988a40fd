//! One network in virtual time, for every test and simulation of Wiresum.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`time`] | microseconds as an argument: what the state machines are told |
//! | [`rng`] | chance that its caller seeds |
//! | [`queue`] | events in order of time, then of arrival |
//!
//! Nothing here touches a clock, a thread or a source of chance of its own, and nothing here knows what flies.

#![forbid(unsafe_code)]

pub mod queue;
pub mod rng;
pub mod time;

pub use queue::Queue;
pub use rng::Rng;
pub use time::Time;
