//! The worker of a job, sans-IO: collectives in, datagrams out and back. `spec/session.md` is the prose of `session`;
//! `spec/aggregation.md` and `spec/switch.md` are that of `stream`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`collective`], [`kind`] | what is submitted: a kind, a source and a sink |
//! | [`Members`] | which rank has which seat of the plan |
//! | [`session`] | what happens once for a job: rounds, agreement, forecasts, deadlines, blame |
//! | `stream` | how positions get to nodes and back: by asking servers, or by the answers of switches |
//!
//! Nothing here touches a socket, a clock, a thread or a random number: datagrams, the time and commands go in;
//! datagrams, the next deadline and events come out.

#![forbid(unsafe_code)]

mod backlog;
mod bucket;
pub mod collective;
pub mod kind;
mod members;
pub mod session;
mod stream;

pub use backlog::link_queue_len;
pub use collective::{Collective, Sink, Source};
pub use kind::Kind;
pub use members::Members;
pub use session::format::largest_share;
pub use session::tail::tail;
pub use session::{Departure, Event, Failure, Participation, Session, Shape, Summed, SwitchOver};
