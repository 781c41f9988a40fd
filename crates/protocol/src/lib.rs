//! Sans-IO state machines of Wiresum. `spec/aggregation.md` is the prose of this crate.
//!
//! Nothing here touches a socket, a clock, a thread or a random number: datagrams, the time and commands go in;
//! datagrams, the next deadline and events come out.

pub mod aggregator;
pub mod compose;
pub mod control;
pub mod liveness;
pub mod policy;
pub mod quota;
pub mod rates;
pub mod recovery;
pub mod transmitter;

pub use aggregator::{Aggregator, Outcome, Recipients, Verdict};
pub use compose::Transmit;
pub use control::ControlHalf;
pub use liveness::Liveness;
pub use quota::Quota;
pub use transmitter::Transmitter;
pub use wiresum_keys::association::CLOCK_MARGIN_US;
pub use wiresum_keys::{Association, association};
pub use wiresum_netem::{Time, rng};
pub use wiresum_plan::{self as plan, Plan, ways};
