//! The worker of a job, sans-IO: collectives in, datagrams out and back. `spec/aggregation.md` and `spec/switch.md` are its prose.
//!
//! Nothing here touches a socket, a clock, a thread or a random number: datagrams, the time and commands go in;
//! datagrams, the next deadline and events come out.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod session;
pub mod stream;

pub use buffer::Buffer;
pub use session::{Event, Failure, Participation, Worker};
