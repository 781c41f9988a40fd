//! One network in virtual time, for every test and simulation of Wiresum.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`time`] | microseconds as an argument: what the state machines are told |
//! | [`rng`] | chance that its caller seeds |
//! | [`queue`] | events in order of time, then of arrival |
//! | [`Conditions`] | what a link is and does: rate, queue, delay, and the one model of faults |
//! | [`Links`] | directions with queues and books: the fast core, which the simulator drives with a [`Queue`] of its own events |
//! | [`Network`] | places, links between them and what flies, in a stated order: what tests drive |
//!
//! Nothing here touches a clock, a thread or a source of chance of its own, and nothing here knows what flies.
//!
//! ```
//! use wiresum_netem::{Conditions, Network, Next, Time};
//!
//! let slow = Conditions { rate_bps: Some(1e6), delay_ps: 50_000_000, ..Conditions::PERFECT };
//! let mut network: Network<&str, Vec<u8>> = Network::new(1);
//! network.send(&slow, "left", "right", vec![0; 59]);
//! // 59 bytes and 66 of overhead at 1 Mbit/s take 1 ms, then come 50 µs of delay: a timer at 900 µs is earlier.
//! assert_eq!(network.advance(Some(Time(900))), Some(Next::Timers));
//! assert!(matches!(network.advance(None), Some(Next::Arrival(flight)) if flight.to == "right"));
//! assert_eq!(network.now(), Time(1050));
//! ```

#![forbid(unsafe_code)]

mod conditions;
mod links;
mod network;
pub mod queue;
pub mod rng;
pub mod time;

pub use conditions::Conditions;
pub use links::{Carried, Links, Load, PS_PER_SECOND};
pub use network::{Cargo, Flight, Network, Next, OVERHEAD_BYTES};
pub use queue::Queue;
pub use rng::Rng;
pub use time::{PS_PER_US, Time};
