//! Streams to servers, which can be asked what they hold.

pub(crate) mod ceiling;
pub(crate) mod counters;
pub(crate) mod delivery;
pub(crate) mod failover;
pub(crate) mod join;
pub(crate) mod pacing;
mod receive;
mod send;
pub(crate) mod stream;
